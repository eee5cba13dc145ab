"""Time to suboptimality: every linear competitor at every tolerance, as a plot and a table.

    python benchmarks/suboptimality.py

The squared-hinge SVM (C2 = 0, D = 0) without an intercept at C1 = 32. A point is one tolerance of
one competitor: median seconds of a fit, and the objective above the best known, relative to it.
"""

import warnings
from functools import partial

import numpy as np
from competitors import LINEAR, TOLERANCES
from large_data import halves, text_like
from linear import objective
from report import RESULTS, write
from timing import interleaved_medians, keep_memory, machine

from optimargin import LinearODMClassifier

C1, SETS, SMALLEST = 32.0, ("adult-a", "ijcnn1", "farm-ads", "text-like"), 1e-9


def points(name):
    """Yield one row per competitor and tolerance, until suboptimality is below `SMALLEST`."""
    X, y = text_like(100_000) if name == "text-like" else halves(name)[::2]
    reference = LinearODMClassifier(C1, 0, 0, fit_intercept=False, tol=1e-13, max_iter=5000)
    best = objective(X, y, reference.fit(X, y).coef_[0], C1)
    for competitor, fit in LINEAR.items():
        for tol in TOLERANCES:
            excess = objective(X, y, fit(X, y, C1, tol), C1) / best - 1
            seconds = interleaved_medians({"fit": partial(fit, X, y, C1, tol)}, 3)["fit"]
            yield {
                "set": name,
                "competitor": competitor,
                "tol": tol,
                "milliseconds": 1e3 * seconds,
                "suboptimality": float(max(excess, 0.0)),
            }
            if excess < SMALLEST:
                break


def plot(rows):
    from matplotlib import pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    figure, axes = plt.subplots(2, 2, figsize=(9, 6.5), layout="constrained")
    for axis, name in zip(axes.flat, SETS, strict=True):
        for competitor in LINEAR:
            curve = [
                (row["milliseconds"], max(row["suboptimality"], SMALLEST))
                for row in rows
                if row["set"] == name and row["competitor"] == competitor
            ]
            axis.loglog(*np.transpose(curve), marker="o", markersize=4, label=competitor)
        axis.set(title=name, xlabel="milliseconds", ylabel="relative suboptimality")
        axis.grid(alpha=0.3)
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.xaxis.set_minor_formatter(NullFormatter())
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(RESULTS / "suboptimality.png", dpi=110)


def main():
    warnings.simplefilter("ignore")
    keep_memory()
    rows = [row for name in SETS for row in points(name)]
    plot(rows)
    write(
        "suboptimality",
        f"Time to suboptimality, C1 = {C1:g}",
        rows,
        machine(),
        [],
        command="python benchmarks/suboptimality.py",
    )


if __name__ == "__main__":
    main()
