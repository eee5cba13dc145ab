"""Default parameters, chosen on one half of the data sets and confirmed on the other.

    python benchmarks/defaults.py            continue the study, and report
    python benchmarks/defaults.py --report   report what there is

Binary sets, sets of several classes and sparse text (`sets.py`); three half splits each, at most
500 training samples (text 2000); features standardised and scaled to [0, 1], as users do either.
Every candidate is fitted to every split, next to the peers with their own defaults. Variants of the
same data are in the same half. Rows are kept in build/defaults.jsonl; the summary is written to
results/defaults.json, .md and .rst (for the documentation).
"""

import argparse
import json
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from rows import Rows, paired
from scipy.sparse import issparse
from sets import halves_of_sets, names, split
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from optimargin import LinearODMClassifier, ODMClassifier
from optimargin.designs import total_variance

RESULTS = Path(__file__).parent / "results"
STORE = Path(__file__).parents[1] / "build" / "defaults.jsonl"
SEEDS = range(3)
KINDS = {"binary": "two classes", "several": "several classes", "text": "sparse text"}
RATIOS, BANDS = [0.25, 1 / 16, 0.0], [0.2, 0.3, 0.5]
CANDIDATES = {
    "rbf": list(product([1.0, 2.0, 4.0], RATIOS, BANDS)),
    "linear": list(product([0.5, 1.0, 2.0, 4.0, 8.0], RATIOS[:2], BANDS)),
}
CHOSEN = (2.0, 0.25, 0.5)
BEFORE = {"rbf": (1.0, 0.25, 0.2), "linear": "per sample 0.25"}
PEERS = {"rbf": ["SVC()", "SVC(C=4)"], "linear": ["LinearSVC()", "LogisticRegression()"]}
NAMES = {"rbf": "ODMClassifier()", "linear": "LinearODMClassifier()"}


def _machines(kind, X):
    """Yield (kernel, candidate, estimator)."""
    n_samples = X.shape[0]
    if kind != "text":
        for C1, ratio, D in CANDIDATES["rbf"]:
            total = C1 * n_samples
            yield "rbf", (C1, ratio, D), ODMClassifier(total, ratio * total, D)
        yield "rbf", "SVC()", SVC()
        yield "rbf", "SVC(C=4)", SVC(C=4)
    unit = n_samples / total_variance(X, np.full(n_samples, 1 / n_samples))
    for C1, ratio, D in CANDIDATES["linear"]:
        yield "linear", (C1, ratio, D), LinearODMClassifier(C1 * unit, ratio * C1 * unit, D)
    old = 0.25 * n_samples
    yield "linear", BEFORE["linear"], LinearODMClassifier(old, 0.25 * old, 0.2)
    yield "linear", "LinearSVC()", LinearSVC()
    yield "linear", "LogisticRegression()", LogisticRegression(max_iter=1000)


def _label(candidate):
    if isinstance(candidate, str):
        return candidate
    return "C1 = {:g}, C2 / C1 = {:g}, D = {:g}".format(*candidate)


def run(rows):
    """Fit all that is missing."""
    for seed, kind in product(SEEDS, KINDS):
        scalings = ["standard"] if kind == "text" else ["standard", "unit"]
        for name, scaling in product(names(kind), scalings):
            if not rows.missing(set=name, scaling=scaling, seed=seed):
                continue
            X, y, X_test, y_test = split(name, seed, scaling)
            X = X if issparse(X) else np.ascontiguousarray(X)
            row = {"set": name, "kind": kind, "scaling": scaling, "seed": seed, "fits": {}}
            for kernel, candidate, model in _machines(kind, X):
                start = time.perf_counter()
                model.fit(X, y)
                seconds = time.perf_counter() - start
                support = model.support_.size / y.size if hasattr(model, "support_") else None
                accuracy = float(model.score(X_test, y_test))
                row["fits"][f"{kernel} {_label(candidate)}"] = [accuracy, support, seconds]
            rows.add(row)


def summarise(rows):
    """Return a table per kind, kernel and scaling: every candidate on both halves of the sets."""
    tables = []
    for kind, scaling, kernel in product(KINDS, ["standard", "unit"], NAMES):
        some = [r for r in rows if r["kind"] == kind and r["scaling"] == scaling]
        labels = [*map(_label, CANDIDATES[kernel]), *PEERS[kernel], _label(BEFORE[kernel])]
        labels = [x for x in dict.fromkeys(labels) if some and f"{kernel} {x}" in some[0]["fits"]]
        if not labels:
            continue
        halves = [set(half) for half in halves_of_sets(kind)]
        table = {"kind": kind, "scaling": scaling, "kernel": kernel, "candidates": []}
        for label in labels:
            entry = {"candidate": label}
            for half, letter in zip(halves, "AB", strict=True):
                fits = _fits(some, half, f"{kernel} {label}")
                before = _fits(some, half, f"{kernel} {_label(BEFORE[kernel])}")
                gain = paired(_values(fits, 0, 100), _values(before, 0, 100))
                entry |= {f"{key} {letter}": value for key, value in gain.items()}
                entry[f"accuracy {letter}"] = 100 * _mean_of_sets(fits, 0)
            fits = _fits(some, set.union(*halves), f"{kernel} {label}")
            entry["milliseconds"] = 1000 * float(np.median([f[2] for f in fits.values()]))
            if kernel == "rbf":
                entry["support vectors"] = _mean_of_sets(fits, 1)
            table["candidates"].append(entry)
        tables.append(table)
    return tables


def _fits(rows, half, label):
    return {(r["set"], r["seed"]): r["fits"][label] for r in rows if r["set"] in half}


def _values(fits, place, factor):
    return {key: factor * fit[place] for key, fit in fits.items()}


def _mean_of_sets(fits, place):
    sets = sorted({name for name, _ in fits})
    return float(
        np.mean([np.mean([f[place] for (s, _), f in fits.items() if s == name]) for name in sets])
    )


def pages(tables):
    """Yield (title, header, cells) of every table of the report."""
    header = ["", "accuracy A", "gain A", "accuracy B", "gain B", "support vectors", "ms per fit"]
    for table in tables:
        kernel = table["kernel"]
        title = f"{KINDS[table['kind']]}, {kernel}, features {table['scaling']}".capitalize()
        chosen, before = _label(CHOSEN), _label(BEFORE[kernel])
        cells = []
        for entry in _in_order(table["candidates"], [chosen, before, *PEERS[kernel]]):
            label = entry["candidate"]
            name = {chosen: f"**{NAMES[kernel]}**", before: "before"}.get(label, label)
            row = [name]
            for half in "AB":
                gain, error = entry[f"difference {half}"], entry[f"standard error {half}"]
                row += [f"{entry[f'accuracy {half}']:.1f}", f"{gain:+.2f} ± {error:.2f}"]
            share = entry.get("support vectors")
            row += ["" if share is None else f"{share:.0%}", f"{entry['milliseconds']:.1f}"]
            cells.append(row)
        yield title, header, cells


def _in_order(candidates, first):
    rest = [e for e in candidates if e["candidate"] not in first]
    named = {e["candidate"]: e for e in candidates}
    best = sorted(rest, key=lambda e: -(e["difference A"] + e["difference B"]))
    return [*(named[label] for label in first if label in named), *best[:6]]


NOTE = (
    "Accuracy in per cent on two halves of the sets, A and B, and the gain over the earlier "
    "default ± the standard error over sets. Below the peers: the six other candidates with the "
    "largest gains."
)


def markdown(tables):
    """Return the report as Markdown."""
    lines = ["# Default parameters", "", "`python benchmarks/defaults.py`", "", NOTE, ""]
    for title, header, cells in pages(tables):
        lines += [f"## {title}", "", "| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in cells] + [""]
    return "\n".join(lines)


def restructured(tables):
    """Return the same tables as reStructuredText, to be included under a title."""
    lines = [NOTE, ""]
    for title, header, cells in pages(tables):
        lines += [title, "-" * len(title), "", ".. csv-table::"]
        lines += ["   :header: " + _quoted(header), ""]
        lines += ["   " + _quoted(row) for row in cells] + [""]
    return "\n".join(lines)


def _quoted(cells):
    return ", ".join(f'"{cell}"' for cell in cells)


def main():
    """Run what is missing and write the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    rows = Rows(STORE, ("set", "scaling", "seed"))
    if not arguments.report:
        warnings.simplefilter("ignore")
        with threadpool_limits(1):
            run(rows)
    tables = summarise(rows.all)
    summary = {"seeds": len(SEEDS), "halves": {k: halves_of_sets(k) for k in KINDS}}
    summary["tables"] = tables
    (RESULTS / "defaults.json").write_text(json.dumps(summary, indent=1) + "\n")
    (RESULTS / "defaults.md").write_text(markdown(tables))
    (RESULTS / "defaults.rst").write_text(restructured(tables))
    print(markdown(tables))


if __name__ == "__main__":
    main()
