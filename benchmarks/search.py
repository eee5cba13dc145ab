"""Test accuracy of the search without a grid, on the sets of `sets.py`, version by version.

    python benchmarks/search.py --label after                    run what is missing
    python benchmarks/search.py --report --against before after  compare versions

Binary sets, sets of several classes and text, half splits of at most 500 training samples (text
2000), standardised. The search is random: which points it looks at first, and how it deals samples
out to folds, moves the mean accuracy over all sets by up to 0.25 points. Splits are searched with
several random states. Rows are kept in build/search.jsonl; to measure another version, run its
build with a label of its own. The report is written to results/search.json and .md.
"""

import argparse
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from report import write
from rows import Rows, paired
from sets import names, split
from threadpoolctl import threadpool_limits

from optimargin import LinearODMClassifierCV, ODMClassifierCV
from optimargin.designs import total_variance
from optimargin.objectives import ODM

STORE = Path(__file__).parents[1] / "build" / "search.jsonl"
ESTIMATORS = {"rbf": ODMClassifierCV, "linear": LinearODMClassifierCV}
KINDS = ("binary", "several", "text")


def largest_penalty(X, kernel):
    """Return the bound of the search on C1."""
    unit = X.shape[0]
    if kernel == "linear":
        unit /= total_variance(X, np.full(X.shape[0], 1 / X.shape[0]))
    return unit * 2.0 ** ODM.bounds[0, 1]


def run(rows, label, n_splits, states, kinds):
    """Search all that is missing."""
    for seed, state, kind in product(range(n_splits), states, kinds):
        for name, kernel in product(names(kind), ESTIMATORS):
            if name == "farm-ads" or (kind == "text" and kernel == "rbf"):
                continue  # one search takes minutes
            key = {"label": label, "set": name, "seed": seed, "state": state, "kernel": kernel}
            if not rows.missing(**key):
                continue
            X, y, X_test, y_test = split(name, seed)
            start = time.process_time()
            model = ESTIMATORS[kernel](random_state=seed + state).fit(X, y)
            row = {**key, "kind": kind, "cpu": time.process_time() - start, "samples": y.size}
            row["accuracy"] = float(model.score(X_test, y_test))
            row["at_bound"] = bool(0.98 * largest_penalty(X, kernel) <= model.C1_)
            rows.add(row)


def compare(rows, before, after):
    """Return a table: one row per kind and kernel."""
    table = []
    for kind, kernel in product(KINDS, ESTIMATORS):
        found = {}
        for label in (before, after):
            some = [
                r
                for r in rows
                if r["label"] == label and r["kind"] == kind and r["kernel"] == kernel
            ]
            found[label] = {(r["set"], r["seed"], r["state"]): r for r in some}
        common = found[before].keys() & found[after].keys()
        if not common:
            continue
        values = {
            label: {
                (s, (seed, state)): 100 * found[label][s, seed, state]["accuracy"]
                for s, seed, state in common
            }
            for label in found
        }
        gain = paired(values[after], values[before])
        cpu = {label: sum(found[label][key]["cpu"] for key in common) for label in found}
        table.append(
            {
                "sets": f"{gain['sets']} {kind}",
                "kernel": kernel,
                "searches": len(common),
                f"accuracy {before}": round(float(np.mean(list(values[before].values()))), 2),
                f"accuracy {after}": round(float(np.mean(list(values[after].values()))), 2),
                "difference": f"{gain['difference']:+.2f} ± {gain['standard error']:.2f}",
                "sets better : worse": f"{gain['better']} : {gain['worse']}",
                "time ratio": round(cpu[after] / cpu[before], 2),
                **{
                    f"at the bound {x}": sum(found[x][k]["at_bound"] for k in common) for x in found
                },
            }
        )
    return table


def main():
    """Run or report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--label")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--states", type=int, nargs="+", default=[0])
    parser.add_argument("--kinds", nargs="+", default=KINDS)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--against", nargs=2, default=["before", "after"])
    arguments = parser.parse_args()
    rows = Rows(STORE, ("label", "set", "seed", "state", "kernel"))
    if arguments.label:
        warnings.simplefilter("ignore")
        with threadpool_limits(1):
            run(rows, arguments.label, arguments.splits, arguments.states, arguments.kinds)
    if arguments.report:
        before, after = arguments.against
        notes = [
            "Means over sets of the differences on the same splits, ± the standard error over "
            "sets; accuracies in per cent. At the bound: searches that end at the largest penalty "
            "they may look at.",
        ]
        write(
            "search",
            "The search without a grid, two versions on the same splits",
            compare(rows.all, before, after),
            "two cores, one thread per search",
            notes,
            command=f"python benchmarks/search.py --report --against {before} {after}",
        )


if __name__ == "__main__":
    main()
