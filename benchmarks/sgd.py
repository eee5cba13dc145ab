"""LinearODMClassifier against SGDClassifier with its defaults, on the large sets.

    python benchmarks/sgd.py

ODM has C1 = n_samples / 4, C2 = C1 / 4, and D = 0.2 (the default) or D = 0.5; a smaller tol than
0.1 does not change the accuracy. Half of the rows are for training, half for testing; features are
in [0, 1]. The accuracy of SGDClassifier depends on its seed and is the mean of five. Times are
medians of fits in turn.
"""

import warnings

import numpy as np
from competitors import sgd
from large_data import LARGE_NAMES, halves
from report import write
from timing import interleaved_medians, keep_memory, machine

from optimargin import LinearODMClassifier

HALF_WIDTHS = (0.2, 0.5)


def rows(name):
    """Yield one row of the table per D."""
    X, X_test, y, y_test = halves(name)
    peers = [sgd.fit(X, y, seed).score(X_test, y_test) for seed in range(5)]
    for D in HALF_WIDTHS:
        model = LinearODMClassifier(D=D, tol=0.1, random_state=0).fit(X, y)
        medians = interleaved_medians(
            {
                "optimargin": lambda model=model: model.fit(X, y),
                "SGDClassifier": lambda: sgd.fit(X, y),
            },
            repeats=9,
        )
        yield {
            "set": name,
            "rows": X.shape[0],
            "D": D,
            "optimargin accuracy": f"{model.score(X_test, y_test):.4f}",
            "SGDClassifier accuracy": f"{np.mean(peers):.4f}",
            **{f"{key} [ms]": 1e3 * seconds for key, seconds in medians.items()},
            "time ratio": medians["optimargin"] / medians["SGDClassifier"],
            "solver": model.solver_,
        }


def main():
    warnings.simplefilter("ignore")
    keep_memory()
    write(
        "sgd",
        "LinearODMClassifier against SGDClassifier with its defaults",
        [row for name in LARGE_NAMES for row in rows(name)],
        machine(),
        [],
        command="python benchmarks/sgd.py",
    )


if __name__ == "__main__":
    main()
