"""RBF kernels without a full Gram matrix: ODMClassifier, exact and on landmarks, and SVC.

    python benchmarks/large_kernel.py ijcnn1
    python benchmarks/large_kernel.py adult-a
    python benchmarks/large_kernel.py generated [--rows N] [--svc-limit SECONDS]

ijcnn1: half of all rows for training, the other half for testing, features as in the file. Both
have gamma = 2, SVC has C = 10; C1 of ODM is the best of four on a third of the training half.
adult-a: the width is the mean distance. generated: 20 features; SVC is stopped after a time.
Every model is fitted in its own process; its peak memory is that above the data.
"""

import argparse
import multiprocessing
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from large_data import halves, load_large
from report import write
from sklearn.svm import SVC
from timing import machine

from optimargin import ODMClassifier
from optimargin.kernels import resolve_gamma

# A wide band leaves few samples outside: only these have coefficients.
SPARSE = {"C2": 1024.0, "D": 0.8}


def generated(n_samples, seed=0):
    """Return rows whose label is the sign of a smooth nonlinear function."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 20)).astype(np.float32)
    score = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n_samples)
    return X, np.where(score > 0, 1, -1)


def _megabytes(field):
    """Return memory of this process: "VmRSS" now, "VmHWM" at its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise OSError(f"/proc/self/status has no {field}")


def _run(queue, model, X, y, X_test, y_test):
    warnings.simplefilter("ignore")
    before = _megabytes("VmRSS")
    begin = time.perf_counter()
    model.fit(X, y)
    fitted = time.perf_counter()
    used = _megabytes("VmHWM") - before
    accuracy = model.score(X_test, y_test)
    queue.put(
        {
            "fit [s]": fitted - begin,
            "accuracy": f"{accuracy:.4f}",
            "predict [s]": time.perf_counter() - fitted,
            "support vectors": int(model.support_.size),
            "gap": getattr(model, "dual_gap_", "-"),
            "memory of the fit [MB]": round(used),
        }
    )


def measure(name, model, data, limit=None):
    """Fit and predict in a separate process; stop it after `limit` seconds."""
    context = multiprocessing.get_context("spawn")  # a forked process gets one thread
    queue = context.Queue()
    process = context.Process(target=_run, args=(queue, model, *data))
    process.start()
    try:
        row = queue.get(timeout=limit)
    except Exception:
        process.kill()
        row = {"fit [s]": f"stopped at {limit:.0f}", "accuracy": "-", "predict [s]": "-"}
        row |= {"support vectors": "-", "gap": "-", "memory of the fit [MB]": "-"}
    process.join()
    print(name, row, flush=True)
    return {"model": name, **row}


def best_penalty(X, y, model, penalties):
    """Return the C1 with the best accuracy on a third of the training data."""
    held_out = np.random.default_rng(1).random(y.size) < 1 / 3
    scores = []
    for penalty in penalties:
        model.set_params(C1=penalty).fit(X[~held_out], y[~held_out])
        scores.append(model.score(X[held_out], y[held_out]))
        print(f"C1 = {penalty:g}: {scores[-1]:.4f} of the held-out third", flush=True)
    return penalties[int(np.argmax(scores))]


def ijcnn1(args):
    X, X_test, y, y_test = halves("ijcnn1", scaled=False)
    data = X, y, X_test, y_test
    low_rank = partial(ODMClassifier, gamma=2.0, approximation="nystrom", random_state=0)
    penalties = [2.0**k for k in (16, 18, 20, 22)]
    C1 = best_penalty(X, y, low_rank(n_components=1000, **SPARSE), penalties)
    rows = [
        measure(f"ODM, {n} landmarks", low_rank(C1, n_components=n, **SPARSE), data)
        for n in (1000, 1500, 2000)
    ]
    exact = ODMClassifier(C1, gamma=2.0, cache_size=1000, **SPARSE)
    rows.append(measure("ODM, exact, cache_size=1000", exact, data))
    rows.append(measure("SVC", SVC(C=10, gamma=2.0, cache_size=1000), data))
    notes = [f"C1 = {C1:g}, C2 = {SPARSE['C2']:g}, D = {SPARSE['D']}."]
    return f"ijcnn1, {y.size} rows", rows, notes


def adult(args):
    X, y = load_large("adult-a")
    order = np.random.default_rng(0).permutation(y.size)
    X, y = X[order].toarray(), y[order]
    gamma = resolve_gamma("mean_distance", X[:5000], np.ones(5000))
    data = X, y, X[:2000], y[:2000]
    C1 = float(y.size)  # the penalty per sample is SVC's, 1
    rows = [
        measure(name, model, data)
        for name, model in {
            "ODM, exact, cache_size=2000": ODMClassifier(C1, C1 / 4, 0.2, gamma=gamma),
            "ODM, exact, cache_size=500, C2=0": ODMClassifier(
                C1, 0.0, 0.2, gamma=gamma, cache_size=500
            ),
            "SVC": SVC(gamma=gamma, cache_size=2000),
        }.items()
    ]
    return f"adult-a, {y.size} rows", rows, ["Accuracy on 2000 training rows."]


def many_generated(args):
    X, y = generated(args.rows + 20_000)
    data = X[: args.rows], y[: args.rows], X[args.rows :], y[args.rows :]
    low_rank = ODMClassifier(
        2.0**14, 256, 0.2, gamma=0.05, approximation="nystrom", n_components=1000, random_state=0
    )
    rows = [measure("ODM, 1000 landmarks", low_rank, data)]
    limit = args.svc_limit or 10 * rows[0]["fit [s]"]
    rows.append(measure("SVC", SVC(gamma=0.05, cache_size=2000), data, limit=limit))
    return f"{args.rows} generated rows", rows, []


PARTS = {"ijcnn1": ijcnn1, "adult-a": adult, "generated": many_generated}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--svc-limit", type=float, default=None)
    args = parser.parse_args()
    title, rows, notes = PARTS[args.part](args)
    write(
        f"large_kernel_{args.part}",
        f"RBF kernels: {title}",
        rows,
        machine(),
        notes,
        command=f"python benchmarks/large_kernel.py {args.part}",
    )


if __name__ == "__main__":
    main()
