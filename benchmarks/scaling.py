"""How time grows with rows and nonzero values, the memory, and the gain from a second core.

python benchmarks/scaling.py
"""

import tracemalloc
import warnings
from functools import partial

import numpy as np
from large_data import load_large, text_like
from report import RESULTS, write
from threadpoolctl import threadpool_limits
from timing import interleaved_medians, keep_memory, machine

from optimargin import LinearODMClassifier, ODMClassifier

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
LENGTHS = (10, 30, 100, 300)  # nonzero values per text-like row


def size_of(X):
    return (
        X.nbytes
        if isinstance(X, np.ndarray)
        else sum(part.nbytes for part in (X.data, X.indices, X.indptr))
    )


def dense(n_rows, n_features=54):
    rng = np.random.default_rng(0)
    X = rng.random((n_rows, n_features))
    score = (X - 0.5) @ rng.standard_normal(n_features) + 0.3 * rng.standard_normal(n_rows)
    return X, np.where(score > 0, 1.0, -1.0)


def n_values(X):
    return X.size if isinstance(X, np.ndarray) else X.nnz


def growth(kind, make, sizes=SIZES):
    """Yield one row of the table per size."""
    for size in sizes:
        X, y = make(size)
        fit = partial(LinearODMClassifier().fit, X, y)
        seconds = interleaved_medians({"fit": fit})["fit"]
        tracemalloc.start()
        model = LinearODMClassifier().fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        yield {
            "data": kind,
            "rows": X.shape[0],
            "values": n_values(X),
            "solver": model.solver_,
            "steps": int(model.n_iter_),
            "seconds": seconds,
            "extra memory / data": peak / size_of(X),
        }


def exponent(rows, kind, size):
    chosen = [(row[size], row["seconds"]) for row in rows if row["data"] == kind]
    return float(np.polyfit(*np.log(np.transpose(chosen)), 1)[0])


def second_core():
    """Return, for each kind of fit, the speed-up of two threads over one and the difference."""
    dense_data, wide, text = dense(200_000), dense(50_000, 300), text_like(200_000)
    X, y = load_large("adult-a")
    kernel = ODMClassifier(64, 16, 0.2, gamma="mean_distance", random_state=0)
    fits = {
        "newton, dense 200,000 x 54": (LinearODMClassifier(solver="newton"), dense_data),
        "newton, dense 50,000 x 300": (LinearODMClassifier(solver="newton"), wide),
        "newton_cg, text-like": (LinearODMClassifier(solver="newton_cg"), text),
        "kernel, adult-a 5000": (kernel, (X[:5000].toarray(), y[:5000])),
        "kernel, adult-a 10,000": (kernel, (X[:10_000].toarray(), y[:10_000])),
    }
    notes = []
    for name, (model, data) in fits.items():
        objective = {}

        def fit(n_threads, model=model, data=data, objective=objective):
            with threadpool_limits(n_threads):
                objective[n_threads] = model.fit(*data).objective_

        medians = interleaved_medians({1: lambda fit=fit: fit(1), 2: lambda fit=fit: fit(2)}, 7)
        difference = abs(objective[1] - objective[2]) / abs(objective[1])
        notes.append(
            f"- {name}: two threads {medians[1] / medians[2]:.2f} times as fast as one, "
            f"objectives equal to {difference:.0e}."
        )
    return notes


def plot(rows):
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for axis, size in zip(axes, ("rows", "values"), strict=True):
        for kind in dict.fromkeys(row["data"] for row in rows):
            points = [(row[size], row["seconds"]) for row in rows if row["data"] == kind]
            if np.ptp(points, axis=0)[0] > 0:
                axis.loglog(*np.transpose(points), marker="o", label=kind)
        axis.grid(alpha=0.3)
        axis.legend()
    axes[0].set(xlabel="rows", ylabel="seconds")
    axes[1].set(xlabel="nonzero values")
    figure.suptitle("LinearODMClassifier, defaults")
    figure.savefig(RESULTS / "scaling.png", dpi=120)


def main():
    warnings.simplefilter("ignore")
    keep_memory()
    by_rows = ["dense, 54 features", "text-like, 47,000 features"]
    by_values = "text-like, 100,000 rows"
    rows = [
        *growth(by_rows[0], dense),
        *growth(by_rows[1], text_like),
        *growth(by_values, lambda length: text_like(100_000, mean_length=length), LENGTHS),
    ]
    notes = [
        f"- {kind}: time grows as rows^{exponent(rows, kind, 'rows'):.2f}." for kind in by_rows
    ]
    notes.append(f"- {by_values}: time grows as values^{exponent(rows, by_values, 'values'):.2f}.")
    plot(rows)
    write(
        "scaling",
        "Growth, memory and threads",
        rows,
        machine(),
        notes + second_core(),
        command="python benchmarks/scaling.py",
    )


if __name__ == "__main__":
    main()
