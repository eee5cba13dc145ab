"""Kernel functions, Gram matrices and what is done to them before a solver sees them."""

from collections import OrderedDict
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from math import fsum

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh
from scipy.sparse import csr_array, issparse
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from optimargin._core._gram import rows_product
from optimargin._core._kernels import rbf_in_place, weighted_distances
from optimargin._threads import for_each

_BLOCK_ELEMENTS = 1 << 18  # 2 MB of float64: a block of kernel rows stays in cache


@dataclass(frozen=True)
class Kernel:
    """A kernel function with all its parameters fixed.

    Parameters
    ----------
    name : {"linear", "rbf", "poly", "sigmoid", "precomputed"} or callable
    gamma : float
    degree : float
    coef0 : float
    """

    name: str | Callable
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 0.0

    def __call__(self, X, Y=None):
        """Return the matrix of kernel values between the rows of `X` and of `Y`.

        Parameters
        ----------
        X : {ndarray, CSR} of shape (n_samples_X, n_features)
        Y : {ndarray, CSR} of shape (n_samples_Y, n_features), default=None
            `X` itself when not given.

        Returns
        -------
        K : ndarray of shape (n_samples_X, n_samples_Y)
            In the precision of `X`.

        Examples
        --------
        >>> import numpy as np
        >>> from optimargin.kernels import Kernel
        >>> Kernel("poly", gamma=1.0, degree=2, coef0=1.0)(np.array([[1.0], [2.0]]))
        array([[ 4.,  9.],
               [ 9., 25.]])
        """
        if self.name == "precomputed":
            return X
        if callable(self.name):
            return _checked_callable(self.name, X, X if Y is None else Y)
        prepared = PreparedKernel(self, X if Y is None else Y)
        return prepared.block() if Y is None else prepared.against(X)

    @property
    def is_positive_semidefinite(self):
        """Whether every Gram matrix of this kernel is known to be positive semi-definite."""
        if self.name == "poly":
            return self.coef0 >= 0 and float(self.degree).is_integer()
        return self.name in ("linear", "rbf")


def _checked_callable(function, X, Y):
    K = function(X, Y)
    K = K.toarray() if issparse(K) else np.asarray(K)
    if K.shape != (X.shape[0], Y.shape[0]):
        raise ValueError(
            f"The kernel callable returned an array of shape {K.shape} for inputs of "
            f"{X.shape[0]} and {Y.shape[0]} rows; it must return {(X.shape[0], Y.shape[0])}."
        )
    if np.iscomplexobj(K):
        raise ValueError("The kernel callable returned complex values; it must return real ones.")
    if np.isnan(K).any():
        raise ValueError("The kernel callable returned NaN; all kernel values must be finite.")
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
    return np.ascontiguousarray(K, dtype=dtype)


def squared_distances(X, Y=None):
    """Return the squared Euclidean distances between rows, in the precision of the data.

    Dense data are centred first: distances do not change, and rounding errors, which are
    relative to the norms, become small.
    """
    if not issparse(X):
        center = (X if Y is None else Y).mean(axis=0)
        X = X - center
        Y = None if Y is None else Y - center
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


class PreparedKernel:
    """A kernel on a fixed set of samples, with what all its values share computed once.

    Parameters
    ----------
    kernel : Kernel
        Any but "precomputed".
    X : {ndarray, CSR} of shape (n_samples, n_features)
    dtype : numpy dtype, default=None
        The precision of the kernel values; that of `X` when not given.
    """

    def __init__(self, kernel, X, dtype=None):
        self.kernel = kernel
        self._center = None
        if kernel.name == "rbf" and not issparse(X) and X.shape[0]:
            # Distances do not change, and rounding errors, relative to norms, become small.
            self._center = X.mean(axis=0)
        self._X = self._convert(X, X.dtype if dtype is None else dtype)
        self._norms = row_norms(self._X, squared=True) if kernel.name == "rbf" else None

    def _convert(self, X, dtype):
        if self._center is not None:
            X = X - self._center
        if self.kernel.name == "rbf":
            # Distances in units of the width: neither they nor gamma leave the range of dtype.
            X = X * np.sqrt(self.kernel.gamma).astype(X.dtype)
        return X.astype(dtype, copy=False)

    @property
    def n_samples(self):
        """The number of samples."""
        return self._X.shape[0]

    @property
    def dtype(self):
        """The precision of the kernel values."""
        return self._X.dtype

    def take(self, rows):
        """Return the kernel on the samples `rows` alone."""
        part = copy(self)
        part._X = self._X[rows]
        part._norms = None if self._norms is None else self._norms[rows]
        return part

    def product(self, rows, columns, v):
        """Return ``block(rows, columns) @ v``, summed in float64, without holding the block."""
        A, B, out = self.take(rows), self.take(columns), np.empty(len(rows))

        def fill(part):
            norms = None if self._norms is None else (A._norms[part], B._norms)
            rows_product(self._values(A._X[part], B._X, norms, None), v, out[part])

        for_each(fill, _row_blocks(len(rows), len(columns)), work=10 * len(rows) * len(columns))
        return out

    def block(self, rows=slice(None), columns=slice(None), out=None):
        """Return the kernel values between two selections of the samples."""
        norms = None if self._norms is None else (self._norms[rows], self._norms[columns])
        return self._values(self._X[rows], self._X[columns], norms, out)

    def against(self, X):
        """Return the kernel values between the rows of `X` and all samples."""
        X = self._convert(X, self._X.dtype)
        norms = None if self._norms is None else (row_norms(X, squared=True), self._norms)
        return self._values(X, self._X, norms, None)

    def diagonal(self):
        """Return the kernel value of every sample with itself."""
        if self.kernel.name == "rbf":
            return np.ones(self._X.shape[0], dtype=self._X.dtype)
        squares = row_norms(self._X, squared=True)
        return self._transform(squares)

    def is_finite(self):
        """Return whether no kernel value overflows.

        For a positive semi-definite kernel none exceeds the largest on the diagonal.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return bool(np.isfinite(self.diagonal()).all())

    def check_finite(self):
        """Raise ValueError where kernel values overflow."""
        if not self.is_finite():
            raise_overflow(self.kernel, self._X)

    def _values(self, A, B, norms, out):
        # Values too large for the precision are reported once, by `gram_matrix`.
        with np.errstate(over="ignore", invalid="ignore"):
            if issparse(A) or issparse(B):
                K = np.ascontiguousarray(safe_sparse_dot(A, B.T, dense_output=True))
                if norms is not None:
                    rbf_in_place(K, norms[0], norms[1], 1.0)
                else:
                    K = self._transform(K)
                if out is not None:
                    out[...] = K
                return K
            if out is None:
                out = np.empty((A.shape[0], B.shape[0]), dtype=B.dtype)

            def fill(rows):
                np.dot(A[rows], B.T, out=out[rows])
                if norms is not None:
                    rbf_in_place(out[rows], norms[0][rows], norms[1], 1.0)
                else:
                    out[rows] = self._transform(out[rows])

            for_each(fill, _row_blocks(*out.shape), work=10 * out.size)
        return out

    def _transform(self, K):
        """Turn inner products into kernel values, in place."""
        kernel = self.kernel
        if kernel.name == "linear":
            return K
        K *= kernel.gamma
        K += kernel.coef0
        if kernel.name == "poly":
            return np.power(K, kernel.degree, out=K)
        return np.tanh(K, out=K)


class RowCache:
    """Rows of a kernel matrix, the most recently used kept within a memory limit.

    Parameters
    ----------
    prepared : PreparedKernel
    max_bytes : float
    """

    def __init__(self, prepared, max_bytes):
        self._prepared = prepared
        self._bytes_left = max_bytes
        self._rows = OrderedDict()

    def row(self, i):
        """Return row `i` of the kernel matrix."""
        if i in self._rows:
            self._rows.move_to_end(i)
            return self._rows[i]
        row = self._prepared.block(slice(i, i + 1))[0]
        self._bytes_left -= row.nbytes
        while self._bytes_left < 0 and self._rows:
            self._bytes_left += self._rows.popitem(last=False)[1].nbytes
        self._rows[i] = row
        return row


def kernel_product(kernel, X, Y, V):
    """Return ``kernel(X, Y) @ V`` without ever holding the whole kernel matrix.

    Parameters
    ----------
    kernel : Kernel
    X : {ndarray, CSR} of shape (n_samples_X, n_features)
    Y : {ndarray, CSR} of shape (n_samples_Y, n_features)
    V : ndarray of shape (n_samples_Y, n_vectors)

    Returns
    -------
    product : ndarray of shape (n_samples_X, n_vectors)
        In the precision of `X`.
    """
    out = np.empty((X.shape[0], V.shape[1]), dtype=X.dtype)
    blocks = _row_blocks(X.shape[0], Y.shape[0])
    if callable(kernel.name):  # may be written for one thread
        for rows in blocks:
            out[rows] = kernel(X[rows], Y) @ V
        return out
    prepared = PreparedKernel(kernel, Y)

    def fill(rows):
        out[rows] = prepared.against(X[rows]) @ V

    for_each(fill, blocks, work=10 * X.shape[0] * Y.shape[0])
    return out


def _row_blocks(n_rows, n_columns):
    """Yield slices of the rows, each of bounded size times `n_columns`."""
    n_block = max(_BLOCK_ELEMENTS // max(n_columns, 1), 1)
    for first in range(0, n_rows, n_block):
        yield slice(first, min(first + n_block, n_rows))


def mean_distance(X, sample_weight):
    """Return the weighted mean Euclidean distance ``sum_ij s_i s_j d_ij / (sum s)**2``.

    Repeating a sample and doubling its weight give the same number, which is why the zero
    distances of samples to themselves are counted.
    """
    X = X if issparse(X) else X - X.mean(axis=0)
    norms = row_norms(X, squared=True)
    totals = []

    def add(rows):
        # Distances are symmetric: each block meets only the samples up to its own end, and
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

    for_each(add, _row_blocks(X.shape[0], X.shape[0]), work=10 * X.shape[0] ** 2)
    return fsum(totals) / sample_weight.sum() ** 2


def resolve_gamma(gamma, X, sample_weight):
    """Return the number that `gamma` stands for on this training set.

    Parameters
    ----------
    gamma : {"scale", "auto", "mean_distance"} or float
    X : {ndarray, CSR} of shape (n_samples, n_features)
    sample_weight : ndarray of shape (n_samples,)

    Returns
    -------
    gamma : float

    Examples
    --------
    >>> import numpy as np
    >>> from optimargin.kernels import resolve_gamma
    >>> X = np.array([[0.0, 0.0], [2.0, 0.0]])
    >>> float(resolve_gamma("mean_distance", X, np.ones(2)))
    0.5
    """
    if gamma == "auto":
        return 1.0 / X.shape[1]
    sample_weight = sample_weight / sample_weight.max()  # whose sum and square are in range
    if gamma == "scale":
        weight = sample_weight / (sample_weight.sum() * X.shape[1])
        mean = (weight * X.sum(axis=1, dtype=np.float64)).sum()
        variance = (weight * _squares_around(X, mean)).sum()
        is_constant = variance <= (1e-14 * mean) ** 2  # to rounding
        return 1.0 if is_constant else 1.0 / (X.shape[1] * variance)
    if gamma == "mean_distance":
        width = mean_distance(X, sample_weight)
        return 1.0 / (2 * width**2) if width > 0 else 1.0
    return float(gamma)


def _squares_around(X, center):
    """Return the sums over features of ``(x - center)**2``, one a row."""
    if not issparse(X):
        return row_norms(X - center, squared=True)
    squares = csr_array((np.square(X.data - center), X.indices, X.indptr), shape=X.shape)
    absent = X.shape[1] - np.diff(X.indptr)
    return squares.sum(axis=1) + absent * center**2


def raise_overflow(kernel, X):
    """Raise the error for kernel values that are not finite."""
    if kernel.name == "poly" and not float(kernel.degree).is_integer():
        raise ValueError(
            f"A 'poly' kernel of degree {kernel.degree:g} has no value for negative inner "
            "products: use an integer degree, or non-negative features and coef0."
        )
    raise ValueError(
        f"Kernel {kernel.name!r} overflows on X (largest absolute value "
        f"{abs(X).max():.3g}): scale the features, for example with StandardScaler."
    )


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
    K = np.ascontiguousarray(kernel(X))
    # A matrix that is given may be finite and still too large to be squared.
    if not np.abs(K).max(initial=0.0) < float(np.finfo(K.dtype).max) ** 0.45:
        raise_overflow(kernel, X)
    if kernel.is_positive_semidefinite:
        return GramMatrix(K)
    scale = np.abs(np.diagonal(K)).max(initial=0.0) or 1.0
    rounding = 100 * np.finfo(K.dtype).eps
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
