"""Default parameters, chosen and judged on the regular data sets.

    python benchmarks/defaults.py            the defaults, and those of SVC and LinearSVC
    python benchmarks/defaults.py --search   the same, after trying every candidate

Candidates are chosen on one half of the data sets and evaluated on the other, and vice versa.
Sets of the same origin stay together. Five random half splits per set, each half training once;
features scaled to [0, 1] and standardised, as users do either. Always with an intercept.
Writes defaults.json, .md and .rst (for the documentation) to results/ beside this file.
"""

import argparse
import json
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from data import regular_names
from defaults_report import markdown, restructured
from defaults_search import KERNELS, PENALTY, RATIO, SCALINGS, SEEDS, D, prepared, search
from joblib import Parallel, delayed
from scipy.stats import rankdata, wilcoxon
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

from optimargin import LinearODMClassifier, ODMClassifier

RESULTS = Path(__file__).parent / "results"
CLASSIFIERS = {
    "ODMClassifier": ODMClassifier,
    "SVC": SVC,
    "LinearODMClassifier": LinearODMClassifier,
    "LinearSVC": LinearSVC,
}
PEER = {"ODMClassifier": "SVC", "LinearODMClassifier": "LinearSVC"}
FAMILIES = [  # variants of the same data: a choice on one is not independent of the other
    {"austra", "australian", "credit-a"},
    {"colic", "colic.ORIG"},
    {"credit-g", "german"},
    {"heart", "heart-c", "heart-h", "heart-statlog"},
    {"house", "house-votes", "vote"},
]


def set_halves(names):
    """Assign each family, in the order of first names, to the half that has fewer sets."""
    halves = [[], []]
    for name in names:
        family = next((f for f in FAMILIES if name in f), {name})
        if name == min(family & set(names), key=names.index):
            min(halves, key=len).extend(sorted(family & set(names)))
    return halves


def _compare_one(name, scaling, seed):
    rows = []
    for X, y, X_test, y_test in prepared(name, scaling, seed):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            rows.append([make().fit(X, y).score(X_test, y_test) for make in CLASSIFIERS.values()])
    return np.mean(rows, axis=0)


def compare(names, n_jobs):
    """Return default-parameter accuracies of shape (scaling, set, classifier)."""
    tasks = product(SCALINGS, names, SEEDS)
    results = Parallel(n_jobs=n_jobs)(
        delayed(_compare_one)(name, scaling, seed) for scaling, name, seed in tasks
    )
    return np.reshape(results, (len(SCALINGS), len(names), len(SEEDS), -1)).mean(axis=2)


def package_defaults(classifier):
    """Return the default parameters as a candidate."""
    signs = np.array([-1, 1])
    model = CLASSIFIERS[classifier]().fit(np.eye(2), signs)
    gamma = {"gamma": model.gamma} if hasattr(model, "gamma") else {}
    return {
        **gamma,
        "C1 / m": model.C1_ / signs.size,
        "C2 / C1": model.C2_ / model.C1_,
        "D": model.D,
    }


def _candidate(index):
    kernel, c, ratio, d = index
    gamma = {} if KERNELS[kernel] == "linear" else {"gamma": KERNELS[kernel]}
    return {**gamma, "C1 / m": PENALTY[c], "C2 / C1": RATIO[ratio], "D": D[d]}


def summarise_search(accuracy, names):
    """Return the best candidates of each half of the sets and of all, with their accuracies."""
    first, second = ([names.index(name) for name in half] for half in set_halves(names))
    parts = {"half A": first, "half B": second, "all": first + second}
    by_part = {part: accuracy[:, rows].mean(axis=(0, 1)) for part, rows in parts.items()}
    summary = []
    kernels = {"ODMClassifier": range(1, len(KERNELS)), "LinearODMClassifier": [0]}
    for classifier, rows in kernels.items():
        grid = list(product(rows, range(len(PENALTY)), range(len(RATIO)), range(len(D))))
        chosen = {
            f"best on {part}": max(grid, key=lambda i, a=table: a[i])
            for part, table in by_part.items()
        }
        for index in grid:
            if _candidate(index) == package_defaults(classifier):
                chosen["package default"] = index
        summary += [
            {
                "classifier": classifier,
                "choice": choice,
                **_candidate(index),
                **{part: float(table[index]) for part, table in by_part.items()},
            }
            for choice, index in chosen.items()
        ]
    return summary


def summarise_comparison(accuracy, names):
    """Return accuracies per set, averages, ranks and paired tests as plain data."""
    n_sets = len(names)
    labels = list(CLASSIFIERS)
    first, second = ([names.index(name) for name in half] for half in set_halves(names))
    tables = dict(zip(SCALINGS, accuracy, strict=True))
    tables["both"] = accuracy.mean(axis=0)
    averages, pairs = [], []
    for scaling, table in tables.items():
        ranks = rankdata(-np.round(table, 6), axis=1).mean(axis=0)
        for k, label in enumerate(labels):
            averages.append(
                {
                    "scaling": scaling,
                    "classifier": label,
                    "accuracy": float(table[:, k].mean()),
                    "half A": float(table[first, k].mean()),
                    "half B": float(table[second, k].mean()),
                    "mean rank": float(ranks[k]),
                }
            )
        for ours, theirs in PEER.items():
            difference = table[:, labels.index(ours)] - table[:, labels.index(theirs)]
            pairs.append(
                {
                    "scaling": scaling,
                    "classifier": ours,
                    "peer": theirs,
                    "difference": float(difference.mean()),
                    "standard error": float(difference.std(ddof=1) / np.sqrt(n_sets)),
                    "higher": int((difference > 1e-9).sum()),
                    "equal": int((np.abs(difference) <= 1e-9).sum()),
                    "lower": int((difference < -1e-9).sum()),
                    "Wilcoxon p": float(wilcoxon(difference).pvalue),
                }
            )
    sets = {
        name: {s: dict(zip(labels, map(float, t[i]), strict=True)) for s, t in tables.items()}
        for i, name in enumerate(names)
    }
    return {"averages": averages, "pairs": pairs, "sets": sets}


def main():
    """Run and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--search", action="store_true", help="try every candidate (long)")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    names = regular_names()
    path = RESULTS / "defaults.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    if args.search:
        results["search"] = summarise_search(search(names, SEEDS, args.jobs), names)
    results["halves"] = set_halves(names)
    results["defaults"] = {name: package_defaults(name) for name in PEER}
    results["comparison"] = summarise_comparison(compare(names, args.jobs), names)
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "defaults.md").write_text(markdown(results))
    (RESULTS / "defaults.rst").write_text(restructured(results))
    print(markdown(results))


if __name__ == "__main__":
    main()
