"""The defaults of the regressors: test errors over a grid of C1 and of the width.

Sets of `sets.py`, 5 half splits each, at most 500 training samples, features of variance one. C1
is in units of the data (`optimargin.training.prepare`), gamma in units of "scale". One half of the
sets chooses, the other confirms. Writes results/regression_defaults.json and prints, per setting,
the mean logarithm of the RMSE and of the MAE relative to the best setting of each split.
"""

import json
from itertools import chain, product
from pathlib import Path

import numpy as np
from sets import halves_of_sets, split
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from optimargin import LinearODMRegressor, ODMRegressor
from optimargin.designs import total_variance

PENALTIES = 2.0 ** np.arange(-5, 11)
WIDTHS = 2.0 ** np.arange(-3, 2)  # of gamma, in units of "scale"
SPLITS = 5
RESULTS = Path(__file__).parent / "results" / "regression_defaults.json"


def errors(model, data):
    """Return the RMSE and the MAE of a test part."""
    X, y, X_test, y_test = data
    predicted = model.fit(X, y).predict(X_test)
    return root_mean_squared_error(y_test, predicted), mean_absolute_error(y_test, predicted)


def run():
    """Return errors by set and split: of kernels by penalty and gamma, and of linear models."""
    found = {}
    for name in chain(*halves_of_sets("regression")):
        for seed in range(SPLITS):
            data = split(name, seed)
            X = data[0]
            scale = 1.0 / (X.shape[1] * X.var())
            weight = np.full(len(X), 1 / len(X))
            unit = len(X) / total_variance(X, weight)
            found[f"{name}/{seed}"] = {
                "kernel": [
                    [errors(ODMRegressor(C1=len(X) * c, gamma=g * scale), data) for g in WIDTHS]
                    for c in PENALTIES
                ],
                "linear": [errors(LinearODMRegressor(C1=unit * c), data) for c in PENALTIES],
            }
            print(name, seed, flush=True)
    return found


def report(found):
    """Print mean log ratios to the best setting, per half of the sets."""
    halves = halves_of_sets("regression")
    for half, names in zip(("chosen on", "confirmed on"), halves, strict=True):
        for kind in ("kernel", "linear"):
            table = [
                np.log(np.array(value[kind]))
                for key, value in found.items()
                if key.split("/")[0] in names
            ]
            axes = tuple(range(table[0].ndim - 1))
            excess = np.mean([t - t.min(axis=axes) for t in table], axis=0)
            print(half, kind, names)
            places = product(*map(range, excess.shape[:-1]))
            for place in sorted(places, key=lambda place: excess[place].sum())[:12]:
                gamma = f" gamma {WIDTHS[place[1]]:g} scale" if kind == "kernel" else ""
                rmse, mae = excess[place]
                print(f"  C1 {PENALTIES[place[0]]:g}{gamma}: RMSE +{rmse:.3f}, MAE +{mae:.3f}")


if __name__ == "__main__":
    if not RESULTS.exists():
        RESULTS.write_text(json.dumps(run()))
    report(json.loads(RESULTS.read_text()))
