"""Checks of data that cost one pass, and errors that name the fix."""

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import _check_sample_weight, assert_all_finite

from optimargin._core import _dense_products
from optimargin._threads import n_threads_for


def check_sparse(X):
    """Return `X`; raise a clear error for a sparse matrix whose inner arrays do not fit together.

    Compiled loops, of this library and of SciPy, trust these arrays. They are checked before
    anything else is done with a matrix, in one pass.
    """
    if not issparse(X) or X.format not in ("csr", "csc", "bsr", "coo"):
        return X
    n_rows, n_columns = X.shape
    if X.format == "coo":
        places = {"rows": (n_rows, X.row), "columns": (n_columns, X.col)}
    else:
        height, width = X.data.shape[1:] if X.format == "bsr" else (1, 1)
        n_rows, n_columns = n_rows // height, n_columns // width
        name, n_major, n_minor = "columns", n_rows, n_columns
        if X.format == "csc":
            name, n_major, n_minor = "rows", n_columns, n_rows
        _check_pointers(X.indptr, n_major, len(X.indices))
        places = {name: (n_minor, X.indices[: X.indptr[-1]])}
    for name, (size, indices) in places.items():
        if len(indices) > len(X.data):
            raise ValueError(
                f"X is a sparse matrix of {len(X.data)} values with {len(indices)} indices: build "
                "it again, with one index per value."
            )
        if len(indices) and (indices.min() < 0 or indices.max() >= size):
            raise ValueError(
                f"X is a sparse matrix of {size} {name} with indices from {indices.min()} to "
                f"{indices.max()}: build it again, from correct indices."
            )
    return X


def _check_pointers(indptr, n_major, n_indices):
    """Raise unless the rows (columns) of a compressed matrix lie one after the other."""
    if (
        len(indptr) != n_major + 1
        or indptr[0] != 0
        or indptr[-1] > n_indices
        or (indptr[1:] < indptr[:-1]).any()
    ):
        raise ValueError(
            "X is a sparse matrix whose indptr does not rise from 0 to the number of its values, "
            "row by row: build it again."
        )


def check_weights(sample_weight, X):
    """Return `sample_weight` as a non-negative float64 array, or None."""
    if sample_weight is None:
        return None
    try:
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be a number per sample: {error}") from None
    if (weight < 0).any():
        raise ValueError("sample_weight has negative values: weights must be at least zero.")
    return weight


def checked_splits(splits, n_samples):
    """Return the splits of a splitter as a list of (train, test), arrays of indices.

    Masks become indices. Everything else that could not be one is named.
    """
    return [
        (
            _checked_rows(train, n_samples, f"training samples of split {s}"),
            _checked_rows(test, n_samples, f"test samples of split {s}"),
        )
        for s, (train, test) in enumerate(splits)
    ]


def _checked_rows(rows, n_samples, what):
    rows = np.asarray(rows)
    if rows.dtype == bool and rows.shape == (n_samples,):
        return np.flatnonzero(rows)
    if rows.size == 0:
        raise ValueError(f"cv has no {what}: leave it out, or use fewer folds.")
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError(
            f"cv has {what} that are no list of indices of samples: it must yield pairs of them, "
            "(train, test), as scikit-learn's splitters do."
        )
    if rows.min() < 0 or rows.max() >= n_samples:
        raise ValueError(
            f"cv has {what} from {rows.min()} to {rows.max()}, and X has {n_samples} samples: "
            f"indices are from 0 to {n_samples - 1}."
        )
    return rows


def check_finite(X, estimator_name=""):
    """Return the sum of all squares; raise scikit-learn's error for NaN and infinity.

    One pass, on all cores.
    """
    total = sum_of_squares(X)
    if not np.isfinite(total):
        assert_all_finite(X, estimator_name=estimator_name, input_name="X")
    return total


def check_scale(X, estimator_name=""):
    """Return the sum of all squares; raise a clear error for values whose products overflow.

    And for NaN and infinity. One pass, on all cores.
    """
    total = sum_of_squares(X)
    if total <= float(np.finfo(X.dtype).max) ** 0.9:
        return total
    assert_all_finite(X, estimator_name=estimator_name, input_name="X")
    values = X.data if issparse(X) else X
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    if largest > float(np.finfo(X.dtype).max) ** 0.45:
        raise ValueError(
            f"X has values as large as {largest:.3g}, whose products overflow: scale the "
            "features, for example with StandardScaler."
        )
    return total


def sum_of_squares(X):
    """Return the sum of the squares of all values, without waking the threads of BLAS."""
    values = (X.data if issparse(X) else X).ravel()
    n_threads = n_threads_for(values.size)
    return _dense_products.sum_of_squares(values, np.zeros(n_threads), n_threads)


def looks_like_measurements(y, max_each=np.inf):
    """Return whether y holds measurements rather than classes.

    These are numbers that are not whole, or more than 20 different ones.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Text is no measurement.
    max_each : float, default=inf
        The different numbers count only where each has fewer samples than that on average.
    """
    if y.dtype.kind not in "iuf":
        return False
    n_different = np.unique(y).size
    is_whole = y.dtype.kind != "f" or bool((y == np.rint(y)).all())
    return not is_whole or (n_different > 20 and len(y) < max_each * n_different)
