"""Kernel models: ODMClassifier against SVC on subsets of adult-a, RBF kernel.

    python benchmarks/kernel.py [--sizes M ...]

The width is the mean distance; SVC has C = 1. ODM has a certified relative gap of 1e-6. It is
timed with C1 = 64, C2 = 16, D = 0.2, and with its defaults, whose penalty per sample is larger.
That is the harder problem, and the one that corresponds to the C of SVC. The column of accuracies
lists C1 = 64, the defaults and SVC, on 2000 other rows. Prediction times are of these rows, per
support vector.
"""

import argparse
import warnings

import numpy as np
from competitors import intelex_svc, svc
from large_data import load_large
from report import write
from timing import interleaved_medians, keep_memory, machine

from optimargin import ODMClassifier
from optimargin.kernels import resolve_gamma


def row(m, A, b, test, labels):
    """Time the competitors on one subset."""
    gamma = resolve_gamma("mean_distance", A, np.ones(m))
    fits = {
        "optimargin": lambda: ODMClassifier(64, 16, 0.2, gamma=gamma).fit(A, b),
        "default": lambda: ODMClassifier(gamma=gamma).fit(A, b),
        "SVC": lambda: svc.fit(A, b, gamma),
    }
    if intelex_svc.SVC is not None:
        fits["intelex SVC"] = lambda: intelex_svc.fit(A, b, gamma)
    models = {name: fit() for name, fit in fits.items()}
    medians = interleaved_medians(fits, repeats=5, budget=90)
    predictions = interleaved_medians(
        {name: lambda model=model: model.predict(test) for name, model in models.items()}
    )
    per_vector = {name: predictions[name] / models[name].support_.size for name in predictions}
    return {
        "m": m,
        "optimargin [s]": medians["optimargin"],
        "optimargin, defaults [s]": medians["default"],
        "SVC [s]": medians["SVC"],
        "intelex SVC [s]": medians.get("intelex SVC"),
        "speed-up over SVC": medians["SVC"] / medians["optimargin"],
        "speed-up, defaults": medians["SVC"] / medians["default"],
        "accuracies": " / ".join(
            f"{models[name].score(test, labels):.3f}" for name in ("optimargin", "default", "SVC")
        ),
        "gap": models["optimargin"].dual_gap_,
        "steps": models["optimargin"].n_iter_,
        "prediction speed-up per support vector": per_vector["SVC"] / per_vector["optimargin"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 2000, 5000, 10_000, 20_000])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    keep_memory()
    X, y = load_large("adult-a")
    order = np.random.default_rng(0).permutation(y.size)
    X, y = X[order].toarray(), y[order]
    rows = []
    for m in args.sizes:
        rows.append(row(m, X[:m], y[:m], X[-2000:], y[-2000:]))
        print(rows[-1], flush=True)
    write(
        "kernel",
        "RBF kernel on subsets of adult-a",
        rows,
        machine(),
        [],
        command="python benchmarks/kernel.py",
    )


if __name__ == "__main__":
    main()
