"""Gram matrices, and what is done to them before a solver sees them."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh

from optimargin.kernels.prepared import PreparedKernel, raise_overflow


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


def gram_matrix(kernel, X, sample_weight):
    """Compute the Gram matrix of the training data and make it safe to solve with.

    Parameters
    ----------
    kernel : Kernel
    X : {ndarray, CSR} of shape (n_samples, n_features)
    sample_weight : ndarray of shape (n_samples,)
        Positive; matters only where a negative part of the spectrum is removed.

    Raises
    ------
    ValueError
        If the matrix is not square, not symmetric or not finite.
    """
    # In double precision whatever that of the data: what is certified is the kernel of the data.
    given = PreparedKernel(kernel, X, np.float64).block() if kernel.is_prepared else kernel(X)
    rounding = 100 * np.finfo(given.dtype).eps
    K = np.ascontiguousarray(given, dtype=np.float64)
    # A matrix that is given may be finite and still too large to be squared.
    if not np.abs(K).max(initial=0.0) < float(np.finfo(np.float64).max) ** 0.45:
        raise_overflow(kernel, X)
    if kernel.is_positive_semidefinite:
        return GramMatrix(K)
    scale = np.abs(np.diagonal(K)).max(initial=0.0) or 1.0
    asymmetry = np.abs(K - K.T).max()
    if asymmetry > max(rounding, 1e-8) * max(scale, np.abs(K).max()):
        raise ValueError(
            f"The kernel matrix is not symmetric (largest difference {asymmetry:.3g}): a "
            "kernel must satisfy k(x, z) = k(z, x). Pass (K + K.T) / 2 if that is intended."
        )
    return _positive_part(GramMatrix(K), sample_weight, scale * K.shape[0] * rounding)


def _positive_part(gram, sample_weight, shift):
    shifted = gram.K.astype(np.float64)
    shifted[np.diag_indices_from(shifted)] += shift
    try:
        cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
        return gram
    except LinAlgError:
        # The spectrum under the weighted measure: repeating a sample and doubling its weight
        # leave the same part out.
        root = np.sqrt(sample_weight / sample_weight.mean())
        values, vectors = eigh(root[:, None] * gram.K * root, check_finite=False)
    if values[0] >= -shift:
        return gram
    positive = vectors[:, values > 0]
    K = (positive * values[values > 0]) @ positive.T / root / root[:, None]
    share = -values[values < 0].sum() / np.abs(values).sum()
    return replace(
        gram,
        K=np.ascontiguousarray(K, dtype=gram.K.dtype),
        projector=root[:, None] * (positive @ positive.T) / root,
        negative_share=float(share),
    )


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
