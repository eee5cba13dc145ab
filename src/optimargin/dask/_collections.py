"""Dask arrays and dataframes as aligned blocks of rows."""

import dask.array as da
import numpy as np


def is_frame(collection):
    """Whether a collection is a Dask dataframe or series."""
    return hasattr(collection, "to_dask_array") and hasattr(collection, "npartitions")


def as_array(collection, name, *allowed):
    """Return a collection as a Dask array with all columns in one chunk.

    Parameters
    ----------
    collection : dask array, dataframe or series
    name : str
        Of the argument.
    *allowed : int
        How many dimensions it may have.
    """
    if is_frame(collection):
        collection = collection.to_dask_array()
    if not isinstance(collection, da.Array):
        raise TypeError(
            f"{name} must be a Dask array or dataframe; got {type(collection).__name__}. For data "
            "in memory use the estimator of the same name without Dask."
        )
    if collection.ndim not in allowed:
        wanted = " or ".join(map(str, allowed))
        raise ValueError(
            f"{name} must have {wanted} dimension{'s' * (max(allowed) > 1)}; it has "
            f"{collection.ndim}."
        )
    if collection.ndim == 2 and collection.numblocks[1] > 1:
        collection = collection.rechunk({1: -1})
    return collection


def aligned_blocks(X, y, sample_weight, *, y_dimensions=(1,)):
    """Return a list of delayed (X, y, sample_weight), one per block of rows of `X`."""
    X = as_array(X, "X", 2)
    columns = [X.to_delayed().ravel().tolist()]
    given = (("y", y, y_dimensions), ("sample_weight", sample_weight, (1,)))
    for name, vector, dimensions in given:
        if vector is None:
            columns.append([None] * X.numblocks[0])
            continue
        vector = as_array(vector, name, *dimensions)
        columns.append(_align(X, vector, name).to_delayed().ravel().tolist())
    return list(zip(*columns, strict=True))


def _align(X, vector, name):
    """Return `vector` in the same blocks of rows as `X`."""
    rows, given = X.chunks[0], vector.chunks[0]
    if rows == given:
        return vector
    if not np.isnan(rows + given).any():
        if sum(rows) != sum(given):
            raise ValueError(f"X has {sum(rows)} rows and {name} has {sum(given)}.")
        return vector.rechunk({0: rows})
    if len(rows) != len(given):
        raise ValueError(
            f"X has {len(rows)} blocks of rows and {name} has {len(given)}, of unknown sizes: "
            "call compute_chunk_sizes() on both, or use the same blocks for both."
        )
    return vector  # unknown sizes: each block is checked on its worker


def feature_names(X):
    """Return the names of the columns of a dataframe, if they are all strings."""
    if not is_frame(X):
        return None
    names = np.asarray(X.columns, dtype=object)
    return names if all(isinstance(name, str) for name in names) else None
