"""How wide a kernel is: distances between samples, and what the names of gamma stand for."""

from math import fsum

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from optimargin._core._kernels import weighted_distances
from optimargin._threads import for_each
from optimargin.kernels.prepared import Center, row_blocks

OF_VARIANCE = {"rms_distance": float(np.sqrt(2.0)), "local": 0.25}
"""Widths, in root mean square distances of the samples from their mean."""


def squared_distances(X, Y=None):
    """Return the squared Euclidean distances between rows, in the precision of the data.

    Data are centred first: distances do not change, and rounding errors, which are relative to
    the norms, become small.
    """
    center = Center(X if Y is None else Y)
    X = center.subtracted_from(X)
    Y = None if Y is None else center.subtracted_from(Y)
    X_norms = row_norms(X, squared=True)
    Y_norms = X_norms if Y is None else row_norms(Y, squared=True)
    distances = safe_sparse_dot(X, (X if Y is None else Y).T, dense_output=True)
    distances *= -2
    distances += X_norms[:, None]
    distances += Y_norms
    np.maximum(distances, 0, out=distances)
    if Y is None:
        np.fill_diagonal(distances, 0)
    return distances


def mean_distance(X, sample_weight):
    """Return the weighted mean Euclidean distance ``sum_ij s_i s_j d_ij / (sum s)**2``.

    Repeating a sample and doubling its weight give the same number, which is why the zero
    distances of samples to themselves are counted.
    """
    X = Center(X).subtracted_from(X)
    norms = row_norms(X, squared=True)
    totals = []

    def add(rows):
        # Distances are symmetric: each block looks only at the samples up to its own end and
        # counts the earlier ones twice.
        weight = np.full(rows.stop, 2.0)
        weight[rows] = 1.0
        weight *= sample_weight[: rows.stop]
        products = safe_sparse_dot(X[rows], X[: rows.stop].T, dense_output=True)
        totals.append(
            weighted_distances(
                np.ascontiguousarray(products),
                norms[rows],
                norms[: rows.stop],
                sample_weight[rows],
                weight,
            )
        )

    # Products that overflow make the mean infinite, and kernel values of it are an error in words.
    with np.errstate(over="ignore", invalid="ignore"):
        for_each(add, row_blocks(X.shape[0], X.shape[0]), work=10 * X.shape[0] ** 2)
    return fsum(totals) / sample_weight.sum() ** 2


def resolve_gamma(gamma, X, sample_weight):
    """Return the number that `gamma` stands for on this training set.

    Parameters
    ----------
    gamma : {"scale", "auto", "mean_distance", "rms_distance", "local"}, float or array-like
        One value per feature is returned as it is, in a tuple.
    X : {ndarray, CSR} of shape (n_samples, n_features)
    sample_weight : ndarray of shape (n_samples,)

    Returns
    -------
    gamma : float or tuple of float

    Examples
    --------
    >>> import numpy as np
    >>> from optimargin.kernels import resolve_gamma
    >>> X = np.array([[0.0, 0.0], [2.0, 0.0]])
    >>> float(resolve_gamma("mean_distance", X, np.ones(2)))
    0.5
    """
    if not isinstance(gamma, str):
        return one_or_each(gamma)
    if gamma == "auto":
        return 1.0 / X.shape[1]
    sample_weight = sample_weight / sample_weight.max()  # whose sum and square are in range
    if gamma == "scale":
        weight = sample_weight / (sample_weight.sum() * X.shape[1])
        mean = (weight * X.sum(axis=1, dtype=np.float64)).sum()
        variance = (weight * _squares_around(X, mean)).sum()
        is_constant = variance <= (1e-14 * mean) ** 2  # to rounding
        return 1.0 if is_constant else 1.0 / (X.shape[1] * variance)
    if gamma in OF_VARIANCE:
        from optimargin.designs.features import total_variance  # which needs kernels itself

        variance = total_variance(X, sample_weight / sample_weight.sum())
        return gamma_of_variance(variance, gamma)
    if gamma == "mean_distance":
        width = mean_distance(X, sample_weight)
        return gamma_of_width(width) if width > 0 else 1.0
    raise ValueError(f"gamma={gamma!r} is unknown.")


def one_or_each(gamma):
    """Return gamma as a number, or as a tuple of one number per feature; names as they are."""
    if gamma is None or isinstance(gamma, str):  # kernels without a gamma have None
        return gamma
    return float(gamma) if np.ndim(gamma) == 0 else tuple(np.ravel(gamma).astype(float).tolist())


def check_gammas(gammas, n_features, *, has_width):
    """Raise ValueError unless one gamma per feature suits the kernel and the data.

    Parameters
    ----------
    gammas : tuple of float
    n_features : int
    has_width : bool
        Whether the kernel is one of distances.
    """
    if not has_width:
        raise ValueError(
            "gamma has one value per feature, which is for kernel='rbf': give a number, or scale "
            "the features."
        )
    if len(gammas) != n_features:
        raise ValueError(
            f"gamma has {len(gammas)} values and X has {n_features} features: give one number, or "
            "one value per feature."
        )
    values = np.asarray(gammas)
    if not (np.isfinite(values).all() and (values >= 0).all() and values.any()):
        raise ValueError(
            "gamma must be finite and at least zero for every feature, and positive for one: a "
            "feature of gamma 0 does not count."
        )


def gamma_of_width(width):
    """Return gamma of ``exp(-|x - z|^2 / (2 width^2))``."""
    return 1.0 / (2 * width**2)


def gamma_of_variance(variance, rule):
    """Return gamma of a width that follows from the spread of the samples.

    Parameters
    ----------
    variance : float
        Of all features together: the mean squared distance of the samples from their mean, and
        half that of two samples.
    rule : str
        A key of `OF_VARIANCE`.
    """
    return float(gamma_of_width(OF_VARIANCE[rule] * np.sqrt(variance))) if variance > 0 else 1.0


def _squares_around(X, center):
    """Return the sums over features of ``(x - center)**2``, one per row."""
    if not issparse(X):
        return row_norms(X - center, squared=True)
    squares = csr_array((np.square(X.data - center), X.indices, X.indptr), shape=X.shape)
    absent = X.shape[1] - np.diff(X.indptr)
    return squares.sum(axis=1) + absent * center**2
