"""Test accuracy and time of four ways to choose the parameters, over half splits.

    python benchmarks/selection_accuracy.py --splits 10

Run it again to continue where it stopped; ``--report`` prints the tables. The paper's protocol has
no intercept and takes the 5-fold error on the whole grid. The SVM, for the RBF kernel only, has C
in 2^-5..2^15 and the same five widths.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from data import load, preprocessor, regular_names
from scipy.stats import ttest_rel
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from optimargin import (
    LDMClassifierCV,
    LinearLDMClassifierCV,
    LinearODMClassifierCV,
    ODMClassifierCV,
)
from optimargin.kernels import mean_distance

ODM_METHODS = ["default search", "leave-one-out grid", "paper's protocol"]
METHODS = [*ODM_METHODS, "SVC grid", "LDM search", "LDM paper's grid"]
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


def methods(kernel, X):
    odm = ODMClassifierCV if kernel == "rbf" else LinearODMClassifierCV
    ldm = LDMClassifierCV if kernel == "rbf" else LinearLDMClassifierCV
    chosen = {
        "default search": odm(),
        "leave-one-out grid": odm(C1s="paper"),
        "paper's protocol": odm(C1s="paper", cv=FOLDS, fit_intercept=False),
        "LDM search": ldm(),
        "LDM paper's grid": ldm(Cs="paper", cv=FOLDS),
    }
    if kernel == "rbf":
        width = mean_distance(X, np.ones(len(X)))
        gammas = 1 / (2 * (width * 2.0 ** np.arange(-2, 3)) ** 2)
        svm_grid = {"C": 2.0 ** np.arange(-5, 16, 5), "gamma": gammas}
        chosen["SVC grid"] = GridSearchCV(SVC(), svm_grid, cv=FOLDS)
    return chosen


def run(name, seed, kernel, chosen, done, file):
    X, y = load(name)
    X, X_test, y, y_test = train_test_split(X, y, train_size=0.5, stratify=y, random_state=seed)
    prepare = preprocessor("unit").fit(X)
    X, X_test = prepare.transform(X), prepare.transform(X_test)
    for method, model in methods(kernel, X).items():
        if method not in chosen or (kernel, method, name, seed) in done:
            continue
        wall, cpu = time.perf_counter(), time.process_time()
        model.fit(X, y)
        row = {"kernel": kernel, "method": method, "set": name, "seed": seed}
        row["seconds"] = time.perf_counter() - wall
        row["cpu"] = time.process_time() - cpu
        row["accuracy"] = model.score(X_test, y_test)
        print(json.dumps(row), file=file, flush=True)


def report(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for kernel in ("rbf", "linear"):
        table = {}
        for row in rows:
            if row["kernel"] == kernel:
                key = (row["set"], row["seed"])
                table.setdefault(row["method"], {})[key] = row
        if not table:
            continue
        print(f"\n{kernel}\n")
        print("| method | splits | sets | accuracy | minus protocol | CPU seconds, median | mean |")
        print("|---|---|---|---|---|---|---|")
        protocol = table.get("paper's protocol", {})
        for method, results in table.items():
            keys = sorted(results.keys() & protocol.keys()) if protocol else sorted(results)
            names = sorted({name for name, _ in keys})
            scores = np.array([results[key]["accuracy"] for key in keys])
            text = ""
            if protocol and results is not protocol:
                gain = scores - [protocol[key]["accuracy"] for key in keys]
                by_set = np.array([gain[[n == s for n, _ in keys]].mean() for s in names])
                error = by_set.std(ddof=1) / np.sqrt(len(names))
                text = f"{by_set.mean():+.4f} ± {error:.4f}"
            cpu = [results[key]["cpu"] for key in keys]
            print(
                f"| {method} | {len(keys)} | {len(names)} | {scores.mean():.4f} | {text} "
                f"| {np.median(cpu):.3f} | {np.mean(cpu):.3f} |"
            )
        if protocol:
            worse = significantly_below(table["default search"], protocol)
            print(f"\nSets where the default is significantly below (95 %): {worse or 'none'}")


def significantly_below(default, protocol):
    worse = []
    common = sorted(default.keys() & protocol.keys())
    for name in sorted({name for name, _ in common}):
        keys = [key for key in common if key[0] == name]
        a = [default[key]["accuracy"] for key in keys]
        b = [protocol[key]["accuracy"] for key in keys]
        if len(keys) > 2 and np.mean(a) < np.mean(b) and ttest_rel(a, b).pvalue < 0.05:
            worse.append(f"{name} ({np.mean(a) - np.mean(b):+.3f})")
    return worse


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--kernels", nargs="+", default=["rbf", "linear"])
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument(
        "--out", type=Path, default=Path("benchmarks/results/selection_accuracy.jsonl")
    )
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    if not arguments.report:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.touch()
        lines = map(json.loads, arguments.out.read_text().splitlines())
        done = {(r["kernel"], r["method"], r["set"], r["seed"]) for r in lines}
        names = sorted(regular_names(), key=lambda name: len(load(name)[1]))
        with threadpool_limits(1), arguments.out.open("a") as file:
            for seed in range(arguments.splits):
                for name in names:
                    for kernel in arguments.kernels:
                        run(name, seed, kernel, arguments.methods, done, file)
    report(arguments.out)


if __name__ == "__main__":
    main()
