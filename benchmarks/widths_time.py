"""The time of a search with a width per feature, beside one width and a grid search of SVC.

    python benchmarks/widths_time.py

Classes are told by a ball in 5 of 10, 50 or 200 features, a tenth of the labels is wrong; 500 and
2000 training rows, two jobs for the grid of `tabular.py`, 32 points and 5 folds.
"""

import time
import warnings
from itertools import product

import numpy as np
from report import write
from tabular import svc_grid

from optimargin import ODMClassifierCV

N_TEST = 4000


def ball(n_samples, n_features, seed=0):
    """Return features, and whether the first five lie within a ball, some of it wrong."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    y = np.square(X[:, :5]).sum(axis=1) < 4.35  # the median
    return X, np.where(rng.random(n_samples) < 0.1, ~y, y).astype(int)


def row(n_rows, n_features):
    """Return the row of one size."""
    X, y = ball(n_rows + N_TEST, n_features)
    train, test = (X[:n_rows], y[:n_rows]), (X[n_rows:], y[n_rows:])
    models = {
        "one width": ODMClassifierCV(relevance=False),
        "default": ODMClassifierCV(),
        "widths": ODMClassifierCV(relevance=True),
        "grid": svc_grid(train[0], 0).set_params(n_jobs=2),
    }
    found = {"rows": n_rows, "features": n_features}
    for name, model in models.items():
        start = time.perf_counter()
        model.fit(*train)
        found[f"{name}, s"] = round(time.perf_counter() - start, 2)
        found[f"accuracy, {name}"] = round(100 * model.score(*test), 1)
    seconds = [key for key in found if key.endswith(", s")]
    return {key: found[key] for key in ("rows", "features", *seconds)} | found


def main():
    """Measure all sizes."""
    warnings.simplefilter("ignore")
    row(100, 5)  # starts the workers
    write(
        "widths_time",
        "The time of a search with a width per feature",
        [row(*size) for size in product((500, 2000), (10, 50, 200))],
        "two cores",
        ["Default: `relevance='auto'`; widths: `relevance=True`; the grid is that of `SVC`."],
        command="python benchmarks/widths_time.py",
    )


if __name__ == "__main__":
    main()
