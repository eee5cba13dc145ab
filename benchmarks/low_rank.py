"""Low-rank kernels: ODMClassifier(approximation="nystrom") beside SVC, RBF kernel.

    python benchmarks/low_rank.py [--components N|auto ...] [--generated ROWS]

First the ijcnn1 half split: ODM with C1 = 2^22, C2 = 2^8, D = 0.2 beside SVC(C=10), gamma = 2 for
both. Then generated rows in 20 dimensions, where SVC is stopped at ten times our time.
"""

import argparse
import multiprocessing
import resource
import time
import warnings

import numpy as np
from large_data import halves
from report import write
from sklearn.svm import SVC
from timing import machine

from optimargin import ODMClassifier


def generated(n_samples, seed=0):
    """Return rows whose label is the sign of a smooth function that is not linear."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 20)).astype(np.float32)
    score = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n_samples)
    return X, np.where(score > 0, 1, -1)


def timed(function):
    """Return what a function returns, and the seconds it took."""
    begin = time.perf_counter()
    result = function()
    return result, time.perf_counter() - begin


def _run(queue, fit, predict):
    warnings.simplefilter("ignore")
    model, fit_seconds = timed(fit)
    accuracy, predict_seconds = timed(lambda: predict(model))
    queue.put(
        {
            "fit [s]": fit_seconds,
            "accuracy": accuracy,
            "predict [s]": predict_seconds,
            "support vectors": int(model.support_.size),
            "gap": getattr(model, "dual_gap_", None),
            "peak memory [MB]": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
    )


def measure(name, fit, predict, limit=None):
    """Fit and predict in a process of its own, so that peak memory is its own."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_run, args=(queue, fit, predict))
    process.start()
    try:
        row = queue.get(timeout=limit)
    except Exception:
        process.kill()
        row = {"fit [s]": f"stopped at {limit:.0f}", "accuracy": "-", "predict [s]": "-"}
        row |= {"support vectors": "-", "gap": "-", "peak memory [MB]": "-"}
    process.join()
    return {"model": name, **row}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--components", nargs="+", default=["1500", "2000", "auto"])
    parser.add_argument("--generated", type=int, default=500_000)
    args = parser.parse_args()
    rows = []
    X, X_test, y, y_test = halves("ijcnn1")

    def low_rank(C1, gamma, n_components):
        n = n_components if n_components == "auto" else int(n_components)
        return ODMClassifier(
            C1, 256, 0.2, gamma=gamma, approximation="nystrom", n_components=n, random_state=0
        )

    def add(name, model, A, b, A_test, b_test, limit=None):
        row = measure(
            name, lambda: model.fit(A, b), lambda fitted: fitted.score(A_test, b_test), limit
        )
        rows.append(row)
        print(row, flush=True)
        return row["fit [s]"]

    for n in args.components:
        add(f"ijcnn1: ODM, {n} landmarks", low_rank(2**22, 2.0, n), X, y, X_test, y_test)
    add("ijcnn1: SVC", SVC(C=10, gamma=2.0, cache_size=2000), X, y, X_test, y_test)
    A, b = generated(args.generated + 20_000)
    A_test, b_test = A[args.generated :], b[args.generated :]
    A, b = A[: args.generated], b[: args.generated]
    name = f"{args.generated} generated rows"
    ours = add(f"{name}: ODM, 1000 landmarks", low_rank(2**14, 0.05, 1000), A, b, A_test, b_test)
    svc = SVC(gamma=0.05, cache_size=2000)
    add(f"{name}: SVC", svc, A, b, A_test, b_test, limit=10 * ours)
    write(
        "low_rank",
        "Low-rank RBF kernels",
        rows,
        machine(),
        [],
        command="python benchmarks/low_rank.py",
    )


if __name__ == "__main__":
    main()
