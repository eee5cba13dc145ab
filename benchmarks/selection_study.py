"""What improves the search without a grid: one change at a time, on some of the sets.

    python benchmarks/selection_study.py --sets study --splits 6 --out build/study.jsonl

Every variant differs from the first by the settings shown. Half of the sets are for choosing
("study"), the other half for confirming ("confirm"). Results are appended to a file, and results
in the file are not computed again; ``--report`` prints the table.
"""

import argparse
import json
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np
from data import load, preprocessor, regular_names
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from optimargin.kernels import KernelChoice
from optimargin.objectives import ODM
from optimargin.selection.criteria import Accuracy, SmoothAccuracy
from optimargin.selection.data import SelectionData
from optimargin.selection.loss import WIDTH_BOUNDS, HeldOutLoss
from optimargin.selection.search import stages_of_search
from optimargin.selection.stages import Clock, Findings, work_off

VARIANTS = {
    "base": {},  # 60 evaluations
    "k=1": {"guide": SmoothAccuracy(1.0)},
    "k=3": {"guide": SmoothAccuracy(3.0)},
    "k=4": {"guide": SmoothAccuracy(4.0)},
    "repeats=1": {"n_repeats": 1},
    "repeats=5": {"n_repeats": 5},
    "10 folds": {"n_folds": 10},
    "evals=20": {"max_evals": 20},
    "evals=40": {"max_evals": 40},
    "evals=120": {"max_evals": 120},
    "C2 up to 8 C1": {"bounds": (1, (-10, 3))},
    "C2 from C1/32": {"bounds": (1, (-5, 0))},
    "D to 0.9": {"bounds": (2, (0, 0.9))},
    "C1 to 2^11": {"bounds": (0, (-1, 11))},
    "C1 from 4": {"bounds": (0, (2, 14))},
    "width to 1/4..4": {"bounds": (3, (-2, 2))},
    "width 1/4..6": {"bounds": (3, (-2, 2.5))},
}
LOSS_SETTINGS = ("guide", "n_repeats", "n_folds")


def chosen_sets(which, max_rows):
    names = [name for name in regular_names() if len(load(name)[1]) <= max_rows]
    return names[::2] if which == "study" else names[1::2] if which == "confirm" else names


def split(name, seed):
    X, y = load(name)
    parts = train_test_split(X, y, train_size=0.5, stratify=y, random_state=seed)
    prepare = preprocessor("unit").fit(parts[0])
    return prepare.transform(parts[0]), prepare.transform(parts[1]), parts[2], parts[3]


def selection_data(kernel, X, y):
    return SelectionData(ODM, X, y, None, kernel=KernelChoice(kernel), fit_intercept=True)


def accuracy(kernel, point, X, X_test, y, y_test):
    both = selection_data(kernel, np.vstack([X, X_test]), np.concatenate([y, y_test]))
    train, test = np.split(np.arange(len(both.strata)), [len(y)])
    refitter = both.refitter(point.get("gamma"), train, test)
    decision = refitter.solve(ODM(point["C1"], point["C2"], point["D"])).predict_test().decision
    return float(np.mean((decision[:, 0] > 0) == both.strata[test]))


@contextmanager
def changed_bounds(row, values):
    """Search within other bounds of one coordinate."""
    bounds = np.vstack([ODM.bounds, WIDTH_BOUNDS])
    bounds[row] = values
    with (
        patch.object(ODM, "bounds", bounds[:-1]),
        patch.object(ODM, "spread", None),
        patch("optimargin.selection.loss.WIDTH_BOUNDS", tuple(bounds[-1])),
    ):
        yield


def run(kernel, settings, X, X_test, y, y_test):
    settings = dict(settings)
    start = time.perf_counter()
    data = selection_data(kernel, X, y)
    bounds = settings.pop("bounds", None)
    of_loss = {name: settings.pop(name) for name in LOSS_SETTINGS if name in settings}
    random_state = np.random.RandomState(0)
    with nullcontext() if bounds is None else changed_bounds(*bounds):
        loss = HeldOutLoss(data, None, random_state, **of_loss)
        findings = Findings(loss.guide, Accuracy(), ODM.roughness)
        max_evals = settings.pop("max_evals", 60)
        work_off(stages_of_search(loss, max_evals, random_state, findings, Clock()), max_evals)
    best = findings.chosen
    seconds = time.perf_counter() - start
    return {
        "accuracy": accuracy(kernel, best.point, X, X_test, y, y_test),
        "seconds": seconds,
        "evals": len(findings.all),
        "loss": best.loss,
        "x": best.x.tolist(),
    }


def report(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for kernel in ("rbf", "linear"):
        table = {}
        for row in rows:
            if row["kernel"] == kernel:
                table.setdefault(row["variant"], {})[row["set"], row["seed"]] = row
        base = table.get("base", {})
        print(f"{kernel}: {len(base)} splits of {len({key[0] for key in base})} sets")
        print("| variant | accuracy | difference to base | evaluations | seconds, median |")
        print("|---|---|---|---|---|")
        for variant, results in table.items():
            both = [key for key in base if key in results]
            difference = {}
            for key in both:
                change = results[key]["accuracy"] - base[key]["accuracy"]
                difference.setdefault(key[0], []).append(change)
            by_set = np.array([np.mean(values) for values in difference.values()])
            error = by_set.std(ddof=1) / np.sqrt(by_set.size) if by_set.size > 1 else np.nan
            print(
                f"| {variant} | {np.mean([results[key]['accuracy'] for key in both]):.4f} "
                f"| {by_set.mean():+.4f} ± {error:.4f} "
                f"| {np.mean([results[key]['evals'] for key in both]):.0f} "
                f"| {np.median([results[key]['seconds'] for key in both]):.3f} |"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", choices=["study", "confirm", "all"], default="study")
    parser.add_argument("--max-rows", type=int, default=1000)
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--kernels", nargs="+", default=["rbf"])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    parser.add_argument("--out", type=Path, default=Path("build/selection_study.jsonl"))
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    if not arguments.report:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.touch()
        lines = map(json.loads, arguments.out.read_text().splitlines())
        done = {(r["kernel"], r["variant"], r["set"], r["seed"]) for r in lines}
        with threadpool_limits(1), arguments.out.open("a") as file:
            for seed in range(arguments.splits):
                for name in chosen_sets(arguments.sets, arguments.max_rows):
                    parts = split(name, seed)
                    for kernel in arguments.kernels:
                        for variant in arguments.variants:
                            if (kernel, variant, name, seed) in done:
                                continue
                            result = run(kernel, VARIANTS[variant], *parts)
                            key = {"kernel": kernel, "variant": variant, "set": name, "seed": seed}
                            print(json.dumps(key | result), file=file, flush=True)
    report(arguments.out)


if __name__ == "__main__":
    main()
