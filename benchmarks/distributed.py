"""Linear ODM on a local Dask cluster: rounds, bytes a round, and two workers against one.

python benchmarks/distributed.py [--rows N] [--features D]
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
from optimargin.problems import chunk_tasks


def block(seed, n_rows, n_features):
    """Return features and, in the last column, a label."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features + 1))
    X[:, -1] = np.sign(X[:, :8].sum(axis=1) + 2 * rng.normal(size=n_rows))
    return X


def data(n_rows, n_features, n_blocks):
    """Return X and y as Dask arrays that the workers generate."""
    size = n_rows // n_blocks
    whole = da.map_blocks(
        lambda block_info=None: block(block_info[None]["chunk-location"][0], size, n_features),
        chunks=((size,) * n_blocks, (n_features + 1,)),
        dtype=float,
        meta=np.empty((0, 0)),
    ).persist()
    wait(whole)
    X, y = whole[:, :-1].persist(), whole[:, -1].persist()
    wait([X, y])
    return X, y


def row(n_workers, args):
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
            model = DaskLinearODMClassifier().fit(X, y)
            seconds.append(time.perf_counter() - begin)
    size = args.features + 1
    up = len(pickle.dumps((0.0, np.zeros(size), np.zeros((size, size)))))
    plan = chunk_tasks.ChunkPlan(np.zeros(2), np.zeros(2), 1, None, np.zeros(args.features))
    down = len(pickle.dumps((plan, np.zeros(args.features), 0.0)))
    return {
        "workers": n_workers,
        "rows": args.rows,
        "features": args.features,
        "fit [s]": float(np.median(seconds)),
        "rounds": model.n_rounds_,
        "gap": model.dual_gap_,
        "bytes up a block and round": up,
        "bytes down a worker and round": down,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    rows = [row(n_workers, args) for n_workers in (1, 2)]
    speed_up = rows[0]["fit [s]"] / rows[1]["fit [s]"]
    write(
        "distributed",
        "Linear ODM on a local Dask cluster",
        rows,
        machine(),
        [f"Two worker processes are {speed_up:.2f} times as fast as one."],
        command="OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/distributed.py",
    )


if __name__ == "__main__":
    main()
