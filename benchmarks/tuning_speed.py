"""The time to tune and the accuracy after it, beside a grid search of SVC over 24 points.

    python benchmarks/tuning_speed.py magic:500 magic:2000 satimage:2000 vowel:495
    python benchmarks/tuning_speed.py --large linear 1000000
    python benchmarks/tuning_speed.py --large rbf 100000 --landmarks auto
    python benchmarks/tuning_speed.py --large ijcnn1 0 --landmarks 1000

Each set is cut to as many training rows, standardised; accuracy is that of up to 5000 other rows.
``GridSearchCV(SVC())`` tries six values of C, 1/4 to 256, and four of gamma, 1/16 to 4 times
"scale", with 5 folds and two jobs, after a small search that starts its workers. The search is
that of one common width; the default, which may find widths per feature, is timed beside it.
``--large`` tunes many rows and compares with the time of the final fit: generated ones ("linear",
50 features; "sparse", 47,000 features, 60 values per row; "rbf", 20 features), or all of ijcnn1.
The fit that it is compared with is that of the chosen parameters, without probabilities.
"""

import argparse
import resource
import time

import numpy as np
import pandas as pd
from data import preprocessor
from large_data import load_large
from report import other_rows, write
from scipy.sparse import csr_array
from sets import _whole
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import normalize
from sklearn.svm import SVC

from optimargin import LinearODMClassifierCV, ODMClassifierCV

SETS = (
    *("magic:500", "magic:1000", "magic:2000", "magic:5000", "magic:9500"),
    *("adult-a:2000", "adult-a:10000", "vowel:495", "satimage:2000", "letter:4000"),
)
MAX_TEST = 5000


def halves(name, n_train):
    """Return training rows and up to 5000 test rows."""
    X, y = load_large(name) if name == "adult-a" else _whole(name)
    train, test = train_test_split(
        np.arange(len(y)), train_size=n_train, stratify=y, random_state=0
    )
    test = test[:MAX_TEST]
    if name == "adult-a":
        return X[train].toarray(), y[train], X[test].toarray(), y[test]
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))
    scaler = preprocessor("standard").fit(frame.iloc[train])
    X_train, X_test = (scaler.transform(frame.iloc[rows]) for rows in (train, test))
    return np.ascontiguousarray(X_train), y[train], np.ascontiguousarray(X_test), y[test]


def timed(model, X, y):
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start


def against_grid(spec):
    """Return the row of one set."""
    name, n_train = spec.split(":")
    X, y, X_test, y_test = halves(name, int(n_train))
    scale = 1 / (X.shape[1] * X.var())
    grid = GridSearchCV(
        SVC(),
        {"C": 4.0 ** np.arange(-1, 5), "gamma": scale * 4.0 ** np.arange(-2, 2)},
        cv=5,
        n_jobs=2,
    )
    _, first = np.unique(y, return_inverse=True)
    few = np.concatenate([np.flatnonzero(first == k)[:6] for k in range(2)])
    grid.fit(X[few], y[few])  # starts the workers
    ODMClassifierCV().fit(X[few], y[few])
    common = ODMClassifierCV(relevance=False)
    seconds = {"search": timed(common, X, y), "grid": timed(grid, X, y)}
    default = ODMClassifierCV()
    seconds["default"] = timed(default, X, y)
    return {
        "set": spec,
        "classes": int(first.max()) + 1,
        "one width, s": seconds["search"],
        "default, s": seconds["default"],
        "grid, s": seconds["grid"],
        "grid / default": seconds["grid"] / seconds["default"],
        "accuracy, one width": round(100 * common.score(X_test, y_test), 2),
        "accuracy, default": round(100 * default.score(X_test, y_test), 2),
        "accuracy, grid": round(100 * grid.score(X_test, y_test), 2),
    }


def many(kind, n_samples):
    """Return many rows."""
    if kind == "ijcnn1":
        X, y = load_large(kind)
        return np.ascontiguousarray(X, dtype=np.float32), y
    if kind == "sparse":
        rng = np.random.default_rng(0)
        n_features, n_values = 47_000, 60
        columns = rng.zipf(1.2, size=(n_samples, n_values)) % n_features
        rows = np.repeat(np.arange(n_samples), n_values)
        values = rng.exponential(size=rows.size).astype(np.float32)
        X = csr_array((values, (rows, columns.ravel())), shape=(n_samples, n_features))
        X = normalize(X)
        score = X @ rng.standard_normal(n_features).astype(np.float32)
        return X, (score > rng.normal(scale=score.std() / 2, size=n_samples)).astype(int)
    n_features = 50 if kind == "linear" else 20
    X, y = make_classification(n_samples, n_features, n_informative=10, flip_y=0.1, random_state=0)
    return X.astype(np.float32), y


def large(kind, n_samples, landmarks):
    """Return the row of a search of many generated samples, beside the fit it ends with."""
    X, y = many(kind, n_samples)
    is_kernel = kind in ("rbf", "ijcnn1")
    model = LinearODMClassifierCV()
    if is_kernel:
        approximation = None if landmarks is None else "nystrom"
        model = ODMClassifierCV(approximation=approximation, n_components=landmarks or "auto")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    total = timed(model, X, y)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    fit = timed(model._make_estimator(**model.best_params_).set_params(calibration=None), X, y)
    name = kind if kind == "ijcnn1" else f"generated {kind} {n_samples}"
    return {
        "set": name if landmarks is None else f"{name}, {len(model.support_)} landmarks",
        "samples": X.shape[0],
        "features": X.shape[1],
        "search and fit, s": total,
        "fit, s": fit,
        "ratio": total / fit,
        "memory above data, MB": round(used),
        "held-out accuracy": round(100 * model.held_out_score_, 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--large", nargs=2, metavar=("KIND", "ROWS"))
    parser.add_argument("--landmarks", type=lambda text: text if text == "auto" else int(text))
    arguments = parser.parse_args()
    if arguments.large:
        row = large(arguments.large[0], int(arguments.large[1]), arguments.landmarks)
        name, title, rows = "tuning_large", "Tuning many samples", [row]
    else:
        sets = arguments.sets or SETS
        rows = [against_grid(spec) for spec in sets]
        name, title = "tuning_speed", "Tuning beside a grid search of SVC, 24 points, 5 folds"
    rows = other_rows(name, [row["set"] for row in rows]) + rows
    notes = ["Times of a row were measured in one run, one after the other."]
    if arguments.large:
        notes.append("Memory: beyond the most that making the data took.")
    write(name, title, rows, "two cores", notes, command="python benchmarks/tuning_speed.py")


if __name__ == "__main__":
    main()
