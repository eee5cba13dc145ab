"""LinearODMClassifier beside SGDClassifier with its defaults, on the large sets.

    python benchmarks/sgd.py

ODM has C1 = n_samples / 4, C2 = C1 / 4, D = 0.2 and tol = 1e-2, which is still far below what
accuracy can see. Half the rows train and half test, features in [0, 1]. The accuracy of
SGDClassifier depends on its seed and is the mean of five. Times are medians of fits in turn.
"""

import warnings

import numpy as np
from competitors import sgd
from large_data import LARGE_NAMES, halves
from report import write
from timing import interleaved_medians, machine

from optimargin import LinearODMClassifier


def row(name):
    X, X_test, y, y_test = halves(name)
    C1 = y.size / 4
    fits = {
        "optimargin": lambda: LinearODMClassifier(C1, C1 / 4, tol=1e-2, random_state=0).fit(X, y),
        "SGDClassifier": lambda: sgd.fit(X, y),
    }
    model = fits["optimargin"]()
    peers = [sgd.fit(X, y, seed).score(X_test, y_test) for seed in range(5)]
    medians = interleaved_medians(fits, repeats=7)
    return {
        "set": name,
        "rows": X.shape[0],
        "optimargin accuracy": f"{model.score(X_test, y_test):.4f}",
        "SGDClassifier accuracy": f"{np.mean(peers):.4f}",
        **{f"{key} [ms]": 1e3 * seconds for key, seconds in medians.items()},
        "time ratio": medians["optimargin"] / medians["SGDClassifier"],
        "solver": model.solver_,
    }


def main():
    warnings.simplefilter("ignore")
    write(
        "sgd",
        "LinearODMClassifier beside the defaults of SGDClassifier",
        [row(name) for name in LARGE_NAMES],
        machine(),
        [],
        command="python benchmarks/sgd.py",
    )


if __name__ == "__main__":
    main()
