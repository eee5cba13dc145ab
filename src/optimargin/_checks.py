"""Checks of data that cost one pass, and errors that name the fix."""

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import _check_sample_weight, assert_all_finite

from optimargin._core import _dense_products
from optimargin._threads import n_threads_for


def check_columns(X):
    """Return `X`; raise a clear error for a sparse matrix with columns it does not have.

    Of sorted rows the first and the last entry tell.
    """
    if issparse(X) and X.nnz:
        begins, ends = X.indptr[:-1], X.indptr[1:]
        filled = ends > begins
        first, last = X.indices[begins[filled]], X.indices[ends[filled] - 1]
        if first.min() < 0 or last.max() >= X.shape[1]:
            raise ValueError(
                f"X is a sparse matrix of {X.shape[1]} columns with indices from {first.min()} to "
                f"{last.max()}: build it again, from correct indices."
            )
    return X


def check_weights(sample_weight, X):
    """Return `sample_weight` as a non-negative float64 array, or None."""
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weight < 0).any():
        raise ValueError("sample_weight has negative values: weights must be at least zero.")
    return weight


def check_finite(X, estimator_name=""):
    """Raise scikit-learn's error for NaN and infinity, found in one pass on all cores."""
    if not np.isfinite(sum_of_squares(X)):
        assert_all_finite(X, estimator_name=estimator_name, input_name="X")


def check_scale(X, estimator_name=""):
    """Raise a clear error for NaN, infinity and features whose products would overflow."""
    if sum_of_squares(X) <= float(np.finfo(X.dtype).max) ** 0.9:  # one pass on all cores
        return
    assert_all_finite(X, estimator_name=estimator_name, input_name="X")
    values = X.data if issparse(X) else X
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    if largest > float(np.finfo(X.dtype).max) ** 0.45:
        raise ValueError(
            f"X has values as large as {largest:.3g}, whose products overflow: scale the "
            "features, for example with StandardScaler."
        )


def sum_of_squares(X):
    """Return the sum of the squares of all values, without waking the threads of BLAS."""
    values = (X.data if issparse(X) else X).ravel()
    n_threads = n_threads_for(values.size)
    return _dense_products.sum_of_squares(values, np.zeros(n_threads), n_threads)
