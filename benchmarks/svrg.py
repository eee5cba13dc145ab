"""SVRG: passes to a relative gap of 1e-6, and the time of a pass with many features.

    python benchmarks/svrg.py

A pass computes as many gradients of single rows as there are rows; a snapshot counts as one pass.
"""

import warnings
from functools import partial

import numpy as np
import scipy.sparse as sp
from large_data import LARGE_NAMES, halves, text_like
from report import write
from timing import interleaved_medians, keep_memory, machine

from optimargin import LinearODMClassifier
from optimargin.designs import FeatureDesign

C1, C2, D = 32.0, 8.0, 0.2
N_PASSES = 21  # that are timed


def passes(name):
    X, y = text_like(200_000) if name == "text-like" else halves(name)[::2]
    model = LinearODMClassifier(
        C1, C2, D, solver="svrg", fit_intercept=False, tol=1e-6, max_iter=300, random_state=0
    ).fit(X, y)
    condition = 1 + 2 * C1 * FeatureDesign(X).squared_norms.max()
    return {
        "set": name,
        "rows": X.shape[0],
        "condition number": float(condition),
        "below rows / 4": bool(condition < X.shape[0] / 4),
        "passes": int(model.n_iter_),
        "relative gap": float(model.dual_gap_),
    }


def sparse_rows(n_features, n_rows, length=50):
    """Return rows with `length` entries anywhere among the features."""
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(n_features, size=(n_rows, length)), axis=1).astype(np.int32)
    indptr = np.arange(0, columns.size + 1, length, dtype=np.int32)
    X = sp.csr_array((rng.random(columns.size), columns.ravel(), indptr), (n_rows, n_features))
    X.sum_duplicates()
    return X, np.where(rng.random(n_rows) < 0.5, 1.0, -1.0)


def main():
    warnings.simplefilter("ignore")
    keep_memory()
    rows = [passes(name) for name in (*LARGE_NAMES, "text-like")]

    def fit(data):
        LinearODMClassifier(
            C1, C2, D, solver="svrg", fit_intercept=False, tol=1e-15, max_iter=N_PASSES
        ).fit(*data)

    notes = []
    for n_rows in (20_000, 200_000):
        narrow, wide = sparse_rows(10**4, n_rows), sparse_rows(10**6, n_rows)
        medians = interleaved_medians({"narrow": partial(fit, narrow), "wide": partial(fit, wide)})
        notes.append(
            f"- {n_rows:,} rows of 50 entries, {N_PASSES} passes: {medians['narrow']:.3f} s with "
            f"10^4 features, {medians['wide']:.3f} s with 10^6, a ratio of "
            f"{medians['wide'] / medians['narrow']:.2f}."
        )
    write(
        "svrg",
        "SVRG at C1 = 32, C2 = 8, D = 0.2",
        rows,
        machine(),
        notes,
        command="python benchmarks/svrg.py",
    )


if __name__ == "__main__":
    main()
