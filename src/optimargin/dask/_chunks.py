"""Blocks of a Dask collection as chunks: one round is one graph, reduced in a tree."""

import time

import dask
from dask.delayed import delayed

from optimargin.chunks import Chunks
from optimargin.problems.chunk_tasks import add

_FAN_IN = 8  # results added per task
_CHECK_SECONDS = 1.0  # between checks of the cluster while it works
_LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"


class DaskChunks(Chunks):
    """Blocks of rows on a cluster.

    Parameters
    ----------
    client : distributed.Client
    blocks : list of tuple
        Delayed X, y and sample_weight (or None) of each block.
    feature_names : ndarray of shape (n_features,) or None
    timeout : float
        Seconds to wait for a worker when the cluster has none.
    """

    def __init__(self, client, blocks, *, feature_names=None, timeout=60.0):
        self.feature_names = feature_names
        self.n_rounds = 0
        self._client = client
        self._blocks = blocks
        self._timeout = timeout

    def __len__(self):
        return len(self._blocks)

    def load(self, k):
        """Fetch block `k`."""
        return self._result(delayed(_as_chunk)(*self._blocks[k]))

    def gather(self, task, *arguments):
        """Return ``task(k, chunk, *arguments)`` of all chunks, in order."""
        shared = _shared(arguments)
        parts = [
            delayed(_run_numbered)(task, k, shared, *block) for k, block in enumerate(self._blocks)
        ]
        return self._result(delayed(list)(parts))

    def reduce(self, task, *arguments):
        """Return the sum of ``task(chunk, *arguments)`` over all chunks."""
        shared = _shared(arguments)
        parts = [delayed(_run)(task, shared, *block) for block in self._blocks]
        while len(parts) > 1:
            parts = [
                delayed(add)(parts[first : first + _FAN_IN])
                for first in range(0, len(parts), _FAN_IN)
            ]
        return self._result(parts[0])

    def _result(self, node):
        """Compute a node; raise an error instead of waiting for a cluster that is gone."""
        self.n_rounds += 1
        with dask.config.set({_LARGE_GRAPH: "1GiB"}):
            future = self._client.compute(node)
        alone_since = None
        try:
            while not future.done():
                if _done_within(future, _CHECK_SECONDS):
                    break
                alone_since = None if self._workers() else alone_since or time.monotonic()
                if alone_since and time.monotonic() - alone_since >= self._timeout:
                    raise RuntimeError(
                        "The Dask cluster has had no worker for "
                        f"{self._timeout:g} seconds: add workers and fit again. (The "
                        "parameter worker_timeout says how long to wait.)"
                    )
            if future.status in ("cancelled", "lost"):
                raise RuntimeError(
                    "The Dask cluster has lost data of this fit that it cannot compute again "
                    "(scattered data, or futures of a closed client), or its scheduler: load the "
                    "data again and refit."
                )
            return future.result()
        finally:
            future.release()

    def _workers(self):
        try:
            return len(self._client.nthreads())
        except (OSError, TimeoutError):
            return 0


def _done_within(future, seconds):
    # Not distributed.wait: it uses the default client, even for futures of another client.
    try:
        future.exception(timeout=seconds)
    except TimeoutError:
        return False
    return True


def _shared(arguments):
    """Return one node for the arguments, so that each worker receives them once."""
    return delayed(_Arguments(arguments), traverse=False, pure=False)


class _Arguments:
    """Arguments of a task that dask does not look into."""

    def __init__(self, arguments):
        self.arguments = arguments


def _as_chunk(X, y, weight):
    return X, y, weight


def _run(task, shared, *chunk):
    return task(chunk, *shared.arguments)


def _run_numbered(task, k, shared, *chunk):
    return task(k, chunk, *shared.arguments)
