"""Linear models at equal suboptimality: the squared-hinge SVM, no intercept, on large data.

    python benchmarks/linear.py [--sets NAME ...] [--repeats N]

Every competitor minimises the same objective. For each target (relative suboptimality against
the best known objective) it gets the loosest of its stopping tolerances that reaches it; then all
are timed in turn. The last column is full ODM (C2 = C1 / 4, D = 0.2) at the same tolerance. Rows of
sets that are not named stay as they were.
"""

import argparse
import functools
import warnings

import numpy as np
from competitors import LINEAR, TOLERANCES, optimargin_linear
from large_data import LARGE_NAMES, halves, text_like
from report import other_rows, write
from timing import interleaved_medians, keep_memory, machine

from optimargin import LinearODMClassifier

SUBOPTIMALITIES = (1e-3, 1e-6)
ALL_SETS = (*LARGE_NAMES, "text-like")
PEERS = [name for name in LINEAR if name != "optimargin"]


def objective(X, y, w, C1):
    shortfall = np.maximum(0.0, 1.0 - y * (X @ w))
    return 0.5 * w @ w + C1 / y.size * (shortfall @ shortfall)


def loosest(fit, X, y, C1, best, target):
    """Return the loosest tolerance of a competitor that reaches `target`, or None."""
    for tol in TOLERANCES:
        value = objective(X, y, fit(X, y, C1, tol), C1)
        if value - best <= target * best:
            return tol
    return None


def cells(name, X, y, repeats):
    for C1 in (1.0, 32.0, 1024.0):
        reference = LinearODMClassifier(C1, 0, 0, fit_intercept=False, tol=1e-11, max_iter=5000)
        best = objective(X, y, reference.fit(X, y).coef_[0], C1)
        for target in SUBOPTIMALITIES:
            tols = {k: loosest(fit, X, y, C1, best, target) for k, fit in LINEAR.items()}
            runs = {
                k: functools.partial(LINEAR[k], X, y, C1, tol)
                for k, tol in tols.items()
                if tol is not None
            }
            ours = tols["optimargin"]
            runs["full ODM"] = functools.partial(
                optimargin_linear.fit, X, y, C1, ours, C2=C1 / 4, D=0.2
            )
            medians = interleaved_medians(runs, repeats)
            peer = min((medians[k] for k in PEERS if k in medians), default=None)
            yield {
                "set": name,
                "rows": X.shape[0],
                "features": X.shape[1],
                "C1": C1,
                "suboptimality": target,
                "speed-up": None if peer is None else peer / medians["optimargin"],
                **{f"{k} [ms]": 1e3 * medians[k] if k in medians else None for k in LINEAR},
                "full ODM / C2=0": medians["full ODM"] / medians["optimargin"],
            }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=ALL_SETS, choices=ALL_SETS)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    keep_memory()
    rows = other_rows("linear", args.sets)
    for name in args.sets:
        if name == "text-like":
            X, y = text_like(200_000)
        else:
            X, _, y, _ = halves(name)
        for row in cells(name, X, y, args.repeats):
            rows.append(row)
            print(
                {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, flush=True
            )
    rows.sort(key=lambda row: ALL_SETS.index(row["set"]))
    ratios = [row["speed-up"] for row in rows if row["speed-up"]]
    mean = float(np.exp(np.mean(np.log(ratios))))
    write(
        "linear",
        "Linear models at equal suboptimality",
        rows,
        machine(),
        [f"Geometric mean of the speed-up over the fastest LIBLINEAR: {mean:.2f}."],
        command="python benchmarks/linear.py",
    )


if __name__ == "__main__":
    main()
