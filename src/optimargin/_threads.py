"""The number of threads for compiled loops and for BLAS."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import cache
from threading import Lock, local
from typing import Any

import threadpoolctl
from joblib import cpu_count

from optimargin._core._threads import max_threads

# Elementary operations below which starting threads takes longer than it saves.
_OPERATIONS_WORTH_A_THREAD = 1_000_000

# Samples up to which a factorisation between our own loops is faster in one thread than in those of
# BLAS: two pools of threads that take turns wait for each other.
FACTORISE_ALONE_UP_TO = 3000

# Samples up to which a factorisation takes some milliseconds in one thread.
_BLAS_ALONE_UP_TO = 1000

_forked = False


def _note_fork() -> None:
    global _forked
    _forked = True


# GNU's OpenMP runtime hangs when a forked child starts a parallel region, because its pool threads
# do not exist after the fork. One thread is always safe.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def n_threads_for(work: float) -> int:
    """Return the number of threads for a loop of `work` elementary operations."""
    if _forked or work < _OPERATIONS_WORTH_A_THREAD or getattr(_this_thread, "is_worker", False):
        return 1
    return min(max_threads(), _usable_cores())


@cache
def _usable_cores() -> int:
    """Return how many cores the process may use: by its affinity and the quota of its cgroup.

    OpenMP does not know of quotas. If OMP_NUM_THREADS is set, it decides.
    """
    return max_threads() if "OMP_NUM_THREADS" in os.environ else _cores()


@cache
def _cores() -> int:
    return cpu_count()


_lock = Lock()
_holders = 0
_this_thread = local()
_limit: Any = None


@cache
def _blas_pools() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread while the loops of the compiled core use all of them.

    Two pools of threads that take turns wait for each other: the threads of one spin for
    milliseconds after their last work. The limit holds for the whole process. So, of several fits
    at a time, the first sets it and the last one removes it.
    """
    global _holders, _limit
    with _lock:
        if _holders == 0:
            _limit = _blas_pools().limit(limits=1)
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _let_any_thread_set_limits()
                _limit.restore_original_limits()
                _let_any_thread_set_limits()


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS and, in this thread, the loops of the compiled core to one thread."""
    before = getattr(_this_thread, "is_worker", False)
    _this_thread.is_worker = True
    try:
        with one_blas_thread():
            yield
    finally:
        _this_thread.is_worker = before


def blas_threads_for(n_samples: int) -> AbstractContextManager[None]:
    """Return a context in which BLAS uses one thread where matrices of so many rows are small.

    Threads of BLAS wait for each other in loops. On a busy machine, where one of two has to wait
    for its turn, that takes far longer than the work. The same holds where a quota leaves one
    core, which BLAS does not know of.
    """
    alone = n_samples <= _BLAS_ALONE_UP_TO or _cores() == 1
    return one_blas_thread() if alone else nullcontext()


def _let_any_thread_set_limits() -> None:
    """Take from the thread that set a limit the right to be the only one to change it.

    threadpoolctl (from 3.8 on) gives OpenBLAS that owner, and ignores what other threads ask
    for. The last fit to end need not be the one that began first.
    """
    controller: Any = getattr(threadpoolctl, "OpenBLASController", None)
    if hasattr(controller, "clear_controlling_thread"):
        controller.clear_controlling_thread(force=True)


def for_each(function: Callable[..., None], items: Iterable, work: float) -> None:
    """Call ``function(item)`` for all items, in threads if `work` is large enough.

    Meant for calls that spend their time in BLAS and in single-threaded loops of the compiled
    core. Nested calls use one thread.
    """
    items = list(items)
    n_threads = n_threads_for(work)
    if n_threads == 1 or len(items) < 2:
        for item in items:
            function(item)
        return

    def call(context, item):
        _this_thread.is_worker = True
        context.run(function, item)

    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
        try:
            for _ in pool.map(call, [copy_context() for _ in items], items):
                pass
        except BaseException:  # an interrupt, too, does not wait for all the others
            pool.shutdown(wait=False, cancel_futures=True)
            raise
