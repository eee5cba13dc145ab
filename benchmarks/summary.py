"""The results in one small table, computed from their data files, for README and documentation.

    python benchmarks/summary.py

Each row counts data sets, or timings, in which this library is better than a peer, the same, and
worse. Accuracies are the same if a paired t-test over random half splits finds no difference
(95 %), times if they differ by at most 10 %.
"""

import json
from pathlib import Path

import numpy as np

from optimargin_study import read_export
from optimargin_study.statistics import make_comparison

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SAME = 1.1
HEADER = ("what", "compared with", "better", "same", "worse")


def accuracy(study, table):
    """Count sets of the study: ODM as this library tunes it, and the SVM with a wide grid."""
    return make_comparison(study, table).win_tie_loss("odm_default", "svm_wide")


def tabular(beside):
    """Count sets on which nothing was chosen: the default search, and a peer."""
    better = worse = n_sets = 0
    for row in rows_of("tabular"):
        if row["method"] == "default" and row["beside"] == beside and " kept" in row["sets"]:
            won, lost = map(int, row["significantly"].split(" : "))
            better, worse = better + won, worse + lost
            n_sets += int(row["sets"].split()[0])
    return better, n_sets - better - worse, worse


def speed(ratios):
    """Count ratios of the peer's time to ours."""
    ratios = np.array(list(ratios))
    better, worse = int(np.sum(ratios > SAME)), int(np.sum(ratios < 1 / SAME))
    return better, ratios.size - better - worse, worse


def rows_of(name):
    """Return the rows of a benchmark."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"]


def make_rows():
    """Return the cells of the table, row by row."""
    study = read_export(ROOT / "docs" / "study" / "results.csv")
    linear = (row["speed-up"] for row in rows_of("linear"))
    kernel = (row["times as fast as SVC"] for row in rows_of("kernel_defaults"))
    tuning = rows_of("tuning_speed")
    counts = {
        ("accuracy, tuned, RBF kernel", "SVM, wide grid"): accuracy(study, 3),
        ("accuracy, tuned, linear", "SVM, wide grid"): accuracy(study, 2),
        ("accuracy, tuned, RBF kernel, other sets", "`GridSearchCV(SVC())`"): tabular("svc grid"),
        ("accuracy, tuned, RBF kernel, other sets", "random forest"): tabular("forest"),
        ("time to tune, RBF kernel", "`GridSearchCV(SVC())`"): speed(
            row["grid, s"] / row["default, s"] for row in tuning
        ),
        ("time of a fit, linear", "fastest LIBLINEAR"): speed(linear),
        ("time of a fit, RBF kernel, defaults", "`SVC()`"): speed(kernel),
    }
    return [(*names, *map(str, numbers)) for names, numbers in counts.items()]


def markdown():
    """Return the table as Markdown."""
    rows = [HEADER, *make_rows()]
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEADER))]
    lines = [
        "| " + " | ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (n + 2) for n in widths) + "|")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
