"""Test accuracy on tabular data beside a grid-searched SVM, a random forest and linear models.

    python benchmarks/tabular.py                      run what is missing
    python benchmarks/tabular.py --report             write results/tabular.json and .md

Half splits of at most 500 training samples (text 2000), standardised, sets of `sets.py`. The report
shows one half of the sets, variants of the same data kept together, by itself. Rows are kept in
build/tabular.jsonl.
"""

import argparse
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from report import write
from rows import Rows, paired
from sets import halves_of_sets, names, split
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from optimargin import LinearODMClassifier, LinearODMClassifierCV, ODMClassifier, ODMClassifierCV

STORE = Path(__file__).parents[1] / "build" / "tabular.jsonl"
KINDS = ("binary", "several", "generated", "generated several", "text")


def svc_grid(X, seed):
    """Return an SVM with a grid of 32 points around the default width."""
    gamma = 1 / (X.shape[1] * X.var())
    grid = {"C": 2.0 ** np.arange(-1, 14, 2), "gamma": gamma * 4.0 ** np.arange(-2, 2)}
    return GridSearchCV(SVC(), grid)


def linear_svc_grid(X, seed):
    """Return a linear SVM with a grid of 8 penalties."""
    return GridSearchCV(LinearSVC(max_iter=10_000), {"C": 4.0 ** np.arange(-5, 3)})


def logistic(X, seed):
    """Return multinomial logistic regression, its penalty chosen from ten."""
    return LogisticRegressionCV(
        max_iter=1000, use_legacy_attributes=False, scoring="accuracy", l1_ratios=(0.0,)
    )


def tuned(made, **settings):
    """Return what makes a tuned classifier."""
    return lambda X, seed: made(random_state=seed, **settings)


METHODS = {
    "common width": tuned(ODMClassifierCV, relevance=False, multi_class="ovr"),
    "widths": tuned(ODMClassifierCV, relevance=True, multi_class="ovr"),
    "pairs": tuned(ODMClassifierCV, relevance=False, multi_class="ovo"),
    "widths and pairs": tuned(ODMClassifierCV, relevance=True, multi_class="ovo"),
    "linear odm tuned": tuned(LinearODMClassifierCV, multi_class="ovr"),
    "linear odm tuned, pairs": tuned(LinearODMClassifierCV, multi_class="ovo"),
    "linear odm, pairs": lambda X, seed: LinearODMClassifier(multi_class="ovo"),
    "odm, pairs": lambda X, seed: ODMClassifier(multi_class="ovo"),
    "svc grid": svc_grid,
    "forest": lambda X, seed: RandomForestClassifier(500, random_state=seed),
    "svc": lambda X, seed: SVC(),
    "odm": lambda X, seed: ODMClassifier(multi_class="ovr"),
    "logistic": logistic,
    "linear svc grid": linear_svc_grid,
    "linear svc": lambda X, seed: LinearSVC(),
    "linear odm": lambda X, seed: LinearODMClassifier(multi_class="ovr"),
}
LINEAR = {name for name in METHODS if "linear" in name} | {"logistic"}


def run(rows, methods, n_splits, kinds):
    """Fit all that is missing."""
    for seed, kind, method in product(range(n_splits), kinds, methods):
        for name in names(kind):
            is_binary = "several" not in kind
            if name == "farm-ads" or (kind == "text" and method not in LINEAR):
                continue
            if is_binary and "pairs" in method:
                continue  # two classes are one pair
            key = {"method": method, "set": name, "seed": seed}
            if not rows.missing(**key):
                continue
            X, y, X_test, y_test = split(name, seed)
            start = time.process_time()
            model = METHODS[method](X, seed).fit(X, y)
            row = {**key, "kind": kind, "cpu": time.process_time() - start, "samples": y.size}
            rows.add({**row, "tests": y_test.size, "accuracy": float(model.score(X_test, y_test))})


COMPARED = [  # what is compared, and with what
    ("common width", "svc grid"),
    ("widths", "svc grid"),
    ("widths", "forest"),
    ("widths", "common width"),
    ("pairs", "common width"),
    ("widths and pairs", "widths"),
    ("widths and pairs", "svc grid"),
    ("odm", "svc"),
    ("odm, pairs", "odm"),
    ("linear odm tuned", "logistic"),
    ("linear odm tuned, pairs", "logistic"),
    ("linear odm tuned", "linear svc grid"),
    ("linear odm, pairs", "linear odm"),
    ("linear odm", "linear svc"),
]


def table(rows):
    """Return the differences of all pairs of methods, on all sets and on one half of them."""
    out = []
    for kind, (method, other) in product(KINDS, COMPARED):
        for half in ("all", "second half"):
            some = set(names(kind) if half == "all" else halves_of_sets(kind)[1])
            values = {
                name: {
                    (row["set"], row["seed"]): 100 * row["accuracy"]
                    for row in rows
                    if row["kind"] == kind and row["method"] == name and row["set"] in some
                }
                for name in (method, other)
            }
            common = values[method].keys() & values[other].keys()
            if len({name for name, _ in common}) < 2:
                continue
            found = paired(values[method], values[other])
            out.append(
                {
                    "sets": f"{found['sets']} {kind}, {half}",
                    "fits": len(common),
                    "method": method,
                    "beside": other,
                    "accuracy": round(float(np.mean([values[method][k] for k in common])), 2),
                    "of the other": round(float(np.mean([values[other][k] for k in common])), 2),
                    "difference": f"{found['difference']:+.2f} ± {found['standard error']:.2f}",
                    "sets better : worse": f"{found['better']} : {found['worse']}",
                }
            )
    return out


def main():
    """Run or report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", default=KINDS)
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    rows = Rows(STORE, ("method", "set", "seed"))
    if not arguments.report:
        warnings.simplefilter("ignore")
        with threadpool_limits(1):
            run(rows, arguments.methods, arguments.splits, arguments.kinds)
        return
    notes = [
        "Means over sets of the differences on the same splits, in points of test accuracy, ± the "
        "standard error over sets. Widths: `relevance=True`; pairs: `multi_class='ovo'`. The "
        "penalty of the widths and the margin that confirms them were chosen on the first split of "
        "all public sets, so that neither half of these is untouched by that choice.",
    ]
    write(
        "tabular",
        "Accuracy on tabular data",
        table(rows.all),
        "two cores, one thread per fit",
        notes,
        command="python benchmarks/tabular.py --report",
    )


if __name__ == "__main__":
    main()
