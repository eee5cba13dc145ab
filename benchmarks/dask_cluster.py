"""Linear ODM on a local Dask cluster: rounds, bytes per round, and two workers against one.

    python benchmarks/dask_cluster.py [--rows N] [--features D]

Bytes are those of the pickled results and arguments of one round. The model of a round's time in
docs/user_guide/scale.rst is filled in with what is measured on one block, and compared.
"""

import argparse
import pickle
import time

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait
from report import write
from timing import machine

from optimargin.dask import DaskLinearODMClassifier
from optimargin.losses import BandLoss
from optimargin.problems import chunk_tasks
from optimargin.tasks import Classification


def block(seed, n_rows, n_features):
    """Return float32 features and, in the last column, a label."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(size=(n_rows, n_features + 1), dtype=np.float32)
    X[:, -1] = np.sign(X[:, :8].sum(axis=1) + 2 * X[:, -1])
    return X


def data(n_rows, n_features, n_blocks):
    """Return X and y as Dask arrays that the workers generated and hold."""
    size = n_rows // n_blocks
    whole = da.map_blocks(
        lambda block_info=None: block(block_info[None]["chunk-location"][0], size, n_features),
        chunks=((size,) * n_blocks, (n_features + 1,)),
        dtype=np.float32,
        meta=np.empty((0, 0), dtype=np.float32),
    )
    X, y = whole[:, :-1].map_blocks(np.ascontiguousarray).persist(), whole[:, -1].persist()
    wait([X, y])
    return X, y


def fits(n_workers, args):
    """Return the seconds of fits with `n_workers` worker processes, and the last model."""
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            dashboard_address=None,
            memory_limit=None,
        ) as cluster,
        Client(cluster),
    ):
        X, y = data(args.rows, args.features, args.blocks)
        seconds = []
        for _ in range(args.repeats):
            begin = time.perf_counter()
            model = DaskLinearODMClassifier(random_state=0).fit(X, y)
            seconds.append(time.perf_counter() - begin)
    return seconds, model


def row(n_workers, seconds, model, args):
    """Describe the fits with `n_workers` worker processes."""
    size = args.features + 1
    up = len(pickle.dumps((0.0, np.zeros(size), np.zeros((size, size)))))
    down = len(pickle.dumps(round_arguments(args)))
    return {
        "workers": n_workers,
        "fit [s]": float(np.median(seconds)),
        "rounds": model.n_rounds_,
        "seconds per round": float(np.median(seconds)) / model.n_rounds_,
        "gap": model.dual_gap_,
        "bytes up per block and round": up,
        "bytes down per worker and round": down,
    }


def round_arguments(args):
    """Return what a round with a Hessian sends to the workers."""
    size = args.rows // args.blocks
    task = Classification.from_totals(np.array([-1.0, 1.0]), np.full(2, size / 2))
    reader = chunk_tasks.ChunkReader(task, None, np.zeros(args.features))
    at = (np.zeros(args.features), 0.0, True)
    loss = BandLoss(64.0, 16.0, 0.2)
    return reader, [chunk_tasks.Request(chunk_tasks.evaluate, 0, loss, at)]


def block_seconds(args):
    """Return the seconds that one round's work on one block takes in this process."""
    whole = block(0, args.rows // args.blocks, args.features)
    X, y = np.ascontiguousarray(whole[:, :-1]), whole[:, -1]
    arguments, seconds = round_arguments(args), []
    for _ in range(5):
        begin = time.perf_counter()
        chunk_tasks.serve((X, y, None), *arguments)
        seconds.append(time.perf_counter() - begin)
    return float(np.median(seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=2, help="fits per cluster")
    parser.add_argument("--clusters", type=int, default=4, help="clusters of each size, in turn")
    args = parser.parse_args()
    one_block = block_seconds(args)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    models = {}
    for _ in range(args.clusters):
        for n_workers, measured in seconds.items():
            more, models[n_workers] = fits(n_workers, args)
            measured += more
    rows = [row(n_workers, seconds[n_workers], models[n_workers], args) for n_workers in seconds]
    speed_up = rows[0]["fit [s]"] / rows[1]["fit [s]"]
    flops = args.rows / args.blocks * args.features**2 / one_block
    write(
        "dask_cluster",
        f"Linear ODM on a local Dask cluster, {args.rows} x {args.features} in float32, "
        f"{args.blocks} blocks",
        rows,
        machine(),
        [
            f"Two worker processes are {speed_up:.2f} times as fast as one.",
            f"The work of a round on one block, alone in a process, takes {one_block:.3f} s "
            f"({flops:.2g} products per second): {one_block * args.blocks:.2f} s for all blocks on "
            f"one worker, {one_block * args.blocks / 2:.2f} s on two.",
        ],
        command="OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/dask_cluster.py",
    )


if __name__ == "__main__":
    main()
