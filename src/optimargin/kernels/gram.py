"""Gram matrices, and what is done to them before a solver sees them."""

from dataclasses import dataclass
from math import ceil

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh

from optimargin.kernels.prepared import PreparedKernel, raise_overflow, row_blocks

_TO_FACTORISE, _TO_DECOMPOSE = 2, 4  # matrices of the size of the Gram matrix, with itself


@dataclass(frozen=True)
class GramMatrix:
    """A positive semi-definite Gram matrix ready for a solver.

    Attributes
    ----------
    K : ndarray of shape (n_samples, n_samples)
    projector : ndarray of shape (n_samples, n_samples) or None
        For a kernel that is not positive semi-definite: the projector onto the positive part
        of its spectrum. `K` is then that part, and ``projector @ theta`` are coefficients
        that give the same decision values with the kernel itself.
    negative_share : float
        The share of negative eigenvalues in the sum of all absolute eigenvalues.
    """

    K: np.ndarray
    projector: np.ndarray | None = None
    negative_share: float = 0.0


def gram_matrix(kernel, X, sample_weight, max_bytes=np.inf):
    """Compute the Gram matrix of the training data and make it safe to solve with.

    Parameters
    ----------
    kernel : Kernel
    X : {ndarray, CSR} of shape (n_samples, n_features)
    sample_weight : ndarray of shape (n_samples,)
        Positive; matters only where a negative part of the spectrum is removed.
    max_bytes : float
        What the matrix of a kernel that is not known to be positive semi-definite, and what is
        made of it here, may take.

    Raises
    ------
    ValueError
        If the matrix is not square, not symmetric, not finite or too large.
    """
    if not kernel.is_positive_semidefinite:
        _check_size(kernel, X.shape[0], _TO_FACTORISE, max_bytes)
    # In double precision whatever that of the data: what is certified is the kernel of the data.
    given = PreparedKernel(kernel, X, np.float64).block() if kernel.is_prepared else kernel(X)
    rounding = 100 * np.finfo(given.dtype).eps
    K = np.ascontiguousarray(given, dtype=np.float64)
    largest = max(K.max(initial=0.0), -K.min(initial=0.0))
    # A matrix that is given may be finite and still too large to be squared.
    if not largest < float(np.finfo(np.float64).max) ** 0.45:
        raise_overflow(kernel, X)
    if kernel.is_positive_semidefinite:
        return GramMatrix(K)
    scale = np.abs(np.diagonal(K)).max(initial=0.0) or 1.0
    asymmetry = max(np.abs(K[rows] - K[:, rows].T).max() for rows in row_blocks(*K.shape))
    if asymmetry > max(rounding, 1e-8) * max(scale, largest):
        raise ValueError(
            f"The kernel matrix is not symmetric (largest difference {asymmetry:.3g}): a "
            "kernel must satisfy k(x, z) = k(z, x). Pass (K + K.T) / 2 if that is intended."
        )
    shift = scale * K.shape[0] * rounding
    if _has_factor(K, shift):
        return GramMatrix(K)
    _check_size(kernel, X.shape[0], _TO_DECOMPOSE, max_bytes)
    return _positive_part(K, sample_weight, shift)


def is_decomposable(kernel, n_samples, max_bytes):
    """Return whether a kernel matrix may be indefinite, and there is room to make it definite."""
    if kernel.is_positive_semidefinite:
        return False
    return _bytes_of(kernel, n_samples, _TO_DECOMPOSE) <= max_bytes


def _bytes_of(kernel, n_samples, n_matrices):
    """Return what so many matrices take besides the one that the user has in memory anyway."""
    return 8.0 * n_samples**2 * (n_matrices - kernel.is_precomputed)


def _check_size(kernel, n_samples, n_matrices, max_bytes):
    """Raise ValueError where so many matrices of kernel values do not fit into memory."""
    if _bytes_of(kernel, n_samples, n_matrices) > max_bytes:
        megabytes = ceil(_bytes_of(kernel, n_samples, _TO_DECOMPOSE) / 1e6)
        raise ValueError(
            f"The {kernel.name} kernel may not be positive semi-definite. To find out, and to make "
            f"its matrix of {n_samples} samples so, takes up to "
            f"{megabytes} MB, more than cache_size: set "
            "cache_size to that, or use kernel='rbf', which needs less."
        )


def _has_factor(K, shift):
    """Return whether a matrix plus a multiple of the identity is positive definite."""
    shifted = K.copy()
    shifted[np.diag_indices_from(shifted)] += shift
    try:
        # The transpose, which is the same matrix, is in the order that LAPACK overwrites.
        cholesky(shifted.T, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return False
    return True


def _positive_part(K, sample_weight, shift):
    # The spectrum under the weighted measure: repeating a sample and doubling its weight leave
    # the same part out.
    root = np.sqrt(sample_weight / sample_weight.mean())
    weighted = K * root
    weighted *= root[:, None]
    values, vectors = eigh(weighted.T, overwrite_a=True, check_finite=False)
    if values[0] >= -shift:
        return GramMatrix(K)
    del weighted  # as large as the matrices that follow
    first = np.searchsorted(values, 0.0, side="right")
    positive = vectors[:, first:]
    part, projector = (positive * values[first:]) @ positive.T, positive @ positive.T
    part /= root
    part /= root[:, None]
    projector *= root[:, None]
    projector /= root
    share = -values[values < 0].sum() / np.abs(values).sum()
    return GramMatrix(part, projector, float(share))


def pivoted_cholesky(K, *, rtol, max_rank):
    """Return B of shape (n_samples, rank) with ``B @ B.T`` close to K, or None.

    The largest diagonal entry of the remainder ``K - B @ B.T``, which is positive
    semi-definite, falls below `rtol` times that of `K`. None means that this takes more than
    `max_rank` columns.
    """
    diagonal = np.diagonal(K).astype(np.float64)
    threshold = rtol * diagonal.max(initial=0.0)
    factor = np.empty((max_rank, K.shape[0]))
    for rank in range(max_rank + 1):
        pivot = int(np.argmax(diagonal))
        if diagonal[pivot] <= threshold:
            return np.ascontiguousarray(factor[:rank].T)
        if rank == max_rank:
            return None
        column = K[pivot] - factor[:rank, pivot] @ factor[:rank]
        factor[rank] = column / np.sqrt(diagonal[pivot])
        diagonal -= factor[rank] ** 2
        diagonal[pivot] = 0.0
    return None
