"""Closed-form and exact leave-one-out, and the bounds, against brute-force refits.

    python benchmarks/selection_leave_one_out.py

Half splits of the regular sets, the 8 corners of the paper's grid, linear kernel and RBF at the
mean distance, with and without intercept. A refit solves the problem without one sample from
scratch, with the weights of the others kept. Run it again to continue where it stopped.
"""

import argparse
import json
import time
from itertools import product
from pathlib import Path

import numpy as np
from data import load, preprocessor, regular_names
from optimargin._core._gram_newton import GramNewton
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from optimargin import LinearODMClassifier, ODMClassifier

CORNERS = list(product((1.0, 1024.0), (1.0, 1024.0), (0.0, 0.5)))


def refits(K, y, point, fit_intercept):
    """Return the decision value of every sample for a model fitted without it."""
    n_samples = y.size
    decision = np.empty(n_samples)
    for i in range(n_samples):
        kept = np.delete(np.arange(n_samples), i)
        weight = np.full(n_samples - 1, 1 / n_samples)
        solver = GramNewton(K[np.ix_(kept, kept)], y[kept], y[kept], weight, fit_intercept)
        solver.solve(*point)
        decision[i] = K[i, kept] @ solver.theta + solver.intercept
    return decision


def timed(function):
    """Return the shortest time of three calls, and the result."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


def case(kernel, point, fit_intercept, X, y):
    C1, C2, D = point
    common = {"C1": C1, "C2": C2, "D": D, "fit_intercept": fit_intercept, "tol": 1e-12}
    if kernel == "rbf":
        model = ODMClassifier(gamma="mean_distance", **common)
    else:
        model = LinearODMClassifier(**common)
    fit_seconds, _ = timed(lambda: model.fit(X, y))
    seconds, closed = timed(model.loo_decision_function)
    exact = model.loo_decision_function(exact=True)
    K = model._kernel(X) if kernel == "rbf" else (X - X.mean(axis=0)) @ (X - X.mean(axis=0)).T
    if kernel == "linear" and not fit_intercept:
        K = X @ X.T
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    true = refits(K, signs, point, fit_intercept)

    def error(decision):
        return float(np.mean(signs * decision <= 0))

    row = {
        "closed": error(closed),
        "exact": error(exact),
        "true": error(true),
        "exact_difference": float(np.abs(exact - true).max()),
        "cost": seconds / fit_seconds,
    }
    if not fit_intercept:
        for kind in ("printed", "valid", "count"):
            row[kind] = model.loo_error_bound(kind=kind)
    return row


def report(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    print(f"{len(rows)} cases of {len({row['set'] for row in rows})} sets\n")
    print("| C1 | C2 | D | cases | identical | within 2 points | worst, points |")
    print("|---|---|---|---|---|---|---|")
    groups = [(corner, [r for r in rows if r["point"] == list(corner)]) for corner in CORNERS]
    for corner, group in [*groups, (("all", "", ""), rows)]:
        if group:
            difference = np.abs([r["closed"] - r["true"] for r in group])
            print(
                f"| {' | '.join(map(str, corner))} | {len(group)} "
                f"| {np.mean(difference < 1e-9):.1%} | {np.mean(difference <= 0.02):.1%} "
                f"| {100 * difference.max():.1f} |"
            )
    worst = max(rows, key=lambda r: r["exact_difference"])
    print(f"\nexact: largest difference {worst['exact_difference']:.1e}")
    print(f"closed form, in fits: median {np.median([r['cost'] for r in rows]):.2f}")
    report_bounds([r for r in rows if "valid" in r])


def report_bounds(rows):
    """Print the means of the errors and, capped at one, of the bounds."""
    columns = ("true", "closed", "count", "valid", "printed")
    print(f"\n| kernel | C1 | C2 | D | {' | '.join(columns)} |")
    print("|---" * (4 + len(columns)) + "|")
    for kernel, corner in product(("rbf", "linear"), CORNERS):
        group = [r for r in rows if r["kernel"] == kernel and r["point"] == list(corner)]
        if group:
            means = (f"{np.mean([min(r[c], 1.0) for r in group]):.3f}" for c in columns)
            print(f"| {kernel} | {' | '.join(map(str, corner))} | {' | '.join(means)} |")
    for kind in ("count", "valid", "printed"):
        violated = sum(r[kind] < r["true"] - 1e-9 for r in rows)
        print(f"\n{kind} bound: below the error in {violated} of {len(rows)} cases")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-rows", type=int, default=1000)
    parser.add_argument(
        "--out", type=Path, default=Path("benchmarks/results/selection_leave_one_out.jsonl")
    )
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    if not arguments.report:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.touch()
        lines = map(json.loads, arguments.out.read_text().splitlines())
        done = {(r["set"], r["kernel"], r["intercept"], *r["point"]) for r in lines}
        names = sorted(regular_names(), key=lambda name: len(load(name)[1]))
        with threadpool_limits(1), arguments.out.open("a") as file:
            for name in names:
                X, y = load(name)
                if len(y) > arguments.max_rows:
                    continue
                X, _, y, _ = train_test_split(X, y, train_size=0.5, stratify=y, random_state=0)
                X = preprocessor("unit").fit_transform(X)
                for kernel, intercept, point in product(("rbf", "linear"), (0, 1), CORNERS):
                    if (name, kernel, intercept, *point) not in done:
                        key = {"set": name, "kernel": kernel, "intercept": intercept}
                        row = key | {"point": point} | case(kernel, point, bool(intercept), X, y)
                        print(json.dumps(row), file=file, flush=True)
    report(arguments.out)


if __name__ == "__main__":
    main()
