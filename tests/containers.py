"""The same numbers in containers of every kind."""

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp


def names(n_features):
    """Return the names of the columns of a table."""
    return [f"x{j}" for j in range(n_features)]


def _pandas(X):
    return pd.DataFrame(X, columns=names(X.shape[1]))


def _polars(X):
    return pl.DataFrame(X, schema=names(X.shape[1]))


KINDS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "CSR": sp.csr_array,
    "CSC": sp.csc_array,
    "pandas": _pandas,
    "polars": _polars,
}
SPARSE = ("CSR", "CSC")
PRECISIONS = {"64": np.float64, "32": np.float32}
CONTAINERS = [f"{kind}-{bits}" for kind in KINDS for bits in PRECISIONS]
DENSE = [name for name in CONTAINERS if not name.startswith(SPARSE)]


def into(container, X):
    """Return rows of float64 in a container of `CONTAINERS`."""
    kind, bits = container.split("-")
    return KINDS[kind](X.astype(PRECISIONS[bits]))


def in_single_precision(X):
    """Return rows of float64 whose numbers float32 has, too: both hold the same data."""
    return X.astype(np.float32).astype(np.float64)
