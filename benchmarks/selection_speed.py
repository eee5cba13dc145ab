"""The time to choose parameters on one set: the paper's grid, the search, and grid searches.

    python benchmarks/selection_speed.py --set german

Half of the rows are for training. scikit-learn's grid search over the whole grid would take hours,
so it is timed on a random 2 % of the points, and the scores are compared there. The peak memory is
that of the process after the grid and the search of this library, before the others run.
"""

import argparse
import resource
import time

import numpy as np
from data import load, preprocessor
from sklearn.model_selection import GridSearchCV, ParameterGrid, train_test_split
from sklearn.svm import SVC

from optimargin import ODMClassifier, ODMClassifierCV


def timed(model, X, y):
    wall = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - wall


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="german")
    parser.add_argument("--share", type=float, default=0.02)
    arguments = parser.parse_args()
    X, y = load(arguments.set)
    X, _, y, _ = train_test_split(X, y, train_size=0.5, stratify=y, random_state=0)
    X = preprocessor("unit").fit_transform(X)
    print(f"{arguments.set}: {X.shape[0]} training rows, {X.shape[1]} features")
    before = memory()
    timed(ODMClassifierCV(max_evals=2), X[:40], y[:40])  # the first call also loads libraries

    search = min(timed(ODMClassifierCV(), X, y) for _ in range(3))
    leave_one_out = ODMClassifierCV(C1s="paper", n_jobs=2)
    on_grid = timed(leave_one_out, X, y)
    used = memory() - before
    folds = ODMClassifierCV(C1s="paper", cv=5, n_jobs=2)
    on_folds = timed(folds, X, y)

    points = leave_one_out.cv_results_["params"]
    rng = np.random.default_rng(0)
    some = rng.choice(len(points), round(arguments.share * len(points)), replace=False)
    one_each = [{name: [value] for name, value in points[p].items()} for p in some]
    odm = GridSearchCV(ODMClassifier(), one_each, cv=5, n_jobs=2)
    odm_points = timed(odm, X, y) / len(some)
    difference = np.abs(
        odm.cv_results_["mean_test_score"] - folds.cv_results_["mean_test_score"][some]
    ).max()
    gammas = sorted({point["gamma"] for point in points})
    svm_grid = {"C": 2.0 ** np.arange(-5, 16, 5), "gamma": gammas}
    n_svm = len(ParameterGrid(svm_grid))
    svm = timed(GridSearchCV(SVC(), svm_grid, cv=5), X, y)
    svm_jobs = timed(GridSearchCV(SVC(), svm_grid, cv=5, n_jobs=2), X, y)

    whole = odm_points * len(points)
    print("| what | seconds | ratio |")
    print("|---|---|---|")
    print(f"| paper's grid, leave-one-out, {len(points)} points | {on_grid:.1f} | |")
    print(f"| paper's grid, cv=5 | {on_folds:.1f} | |")
    print(f"| default search | {search:.2f} | |")
    print(
        f"| GridSearchCV(ODMClassifier), cv=5, n_jobs=2, from {len(some)} points | {whole:.0f} | |"
    )
    print(f"| ... over leave-one-out on the grid | | {whole / on_grid:.0f} |")
    print(f"| ... over cv=5 on the grid | | {whole / on_folds:.0f} |")
    print(f"| ... over the default search | | {whole / search:.0f} |")
    print(f"| GridSearchCV(SVC), cv=5, {n_svm} points | {svm:.2f} | |")
    print(f"| ... with n_jobs=2 | {svm_jobs:.2f} | |")
    per_point = (svm_jobs / n_svm) / (on_grid / len(points))
    print(f"| ... per point, over leave-one-out per point | | {per_point:.1f} |")
    print(f"| default search over GridSearchCV(SVC), cv=5 | | {search / svm:.2f} |")
    print(f"\nlargest difference of the cv=5 scores: {difference:.1e}")
    print(f"memory of the grid and the search: {used:.0f} MB above {before:.0f} MB")


if __name__ == "__main__":
    main()
