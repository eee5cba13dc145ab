"""Kernel values between fixed samples, in blocks, and products with them."""

from collections import OrderedDict
from copy import copy

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from optimargin._core._gram import rows_product
from optimargin._threads import for_each

_BLOCK_ELEMENTS = 1 << 18  # 2 MB of float64: a block of kernel rows stays in cache


class PreparedKernel:
    """A kernel on a fixed set of samples, with what all its values share computed once.

    Parameters
    ----------
    kernel : Kernel
        One that `is_prepared`.
    X : {ndarray, CSR} of shape (n_samples, n_features)
    dtype : numpy dtype, default=None
        The precision of the kernel values; that of `X` when not given.
    """

    def __init__(self, kernel, X, dtype=None):
        self.kernel = kernel
        self._center = None
        if kernel.has_width and not issparse(X) and X.shape[0]:
            # Distances do not change, and rounding errors, relative to norms, become small.
            self._center = X.mean(axis=0)
        self._X = self._convert(X, X.dtype if dtype is None else dtype)
        self._norms = row_norms(self._X, squared=True) if kernel.has_width else None

    def _convert(self, X, dtype):
        if self._center is not None:
            X = X - self._center
        scale = self.kernel.row_scale
        if scale != 1.0:
            X = X * X.dtype.type(scale)
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
            row_norms = None if self._norms is None else A._norms[part]
            rows_product(self._values(A._X[part], B._X, row_norms, B._norms, None), v, out[part])

        for_each(fill, row_blocks(len(rows), len(columns)), work=10 * len(rows) * len(columns))
        return out

    def block(self, rows=slice(None), columns=slice(None), out=None):
        """Return the kernel values between two selections of the samples."""
        norms = self._norms
        row_norms, column_norms = (None, None) if norms is None else (norms[rows], norms[columns])
        return self._values(self._X[rows], self._X[columns], row_norms, column_norms, out)

    def against(self, X):
        """Return the kernel values between the rows of `X` and all samples."""
        X = self._convert(X, self._X.dtype)
        norms = None if self._norms is None else row_norms(X, squared=True)
        return self._values(X, self._X, norms, self._norms, None)

    def diagonal(self):
        """Return the kernel value of every sample with itself."""
        norms = self._norms
        return self.kernel.diagonal(row_norms(self._X, squared=True) if norms is None else norms)

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

    def _values(self, A, B, row_norms, column_norms, out):
        kernel = self.kernel
        # Values too large for the precision are reported once, by `gram_matrix`.
        with np.errstate(over="ignore", invalid="ignore"):
            if issparse(A) or issparse(B):
                K = np.ascontiguousarray(safe_sparse_dot(A, B.T, dense_output=True))
                K = kernel.values(K, row_norms, column_norms)
                if out is not None:
                    out[...] = K
                return K
            if out is None:
                out = np.empty((A.shape[0], B.shape[0]), dtype=B.dtype)

            def fill(rows):
                part = out[rows]
                np.dot(A[rows], B.T, out=part)
                norms = None if row_norms is None else row_norms[rows]
                values = kernel.values(part, norms, column_norms)
                if values is not part:
                    part[...] = values

            for_each(fill, row_blocks(*out.shape), work=10 * out.size)
        return out


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
    blocks = row_blocks(X.shape[0], Y.shape[0])
    if not kernel.is_prepared:  # a function of the user may be written for one thread
        for rows in blocks:
            out[rows] = kernel(X[rows], Y) @ V
        return out
    prepared = PreparedKernel(kernel, Y)

    def fill(rows):
        out[rows] = prepared.against(X[rows]) @ V

    for_each(fill, blocks, work=10 * X.shape[0] * Y.shape[0])
    return out


def row_blocks(n_rows, n_columns):
    """Yield slices of the rows, each of bounded size times `n_columns`."""
    n_block = max(_BLOCK_ELEMENTS // max(n_columns, 1), 1)
    for first in range(0, n_rows, n_block):
        yield slice(first, min(first + n_block, n_rows))


def check_values(kernel, X):
    """Raise ValueError where kernel values between rows of `X` overflow; radial ones cannot."""
    if not kernel.has_width:
        PreparedKernel(kernel, X).check_finite()


def raise_overflow(kernel, X):
    """Raise the error for kernel values that are not finite."""
    raise ValueError(
        kernel.why_undefined()
        or f"Kernel {kernel.name!r} overflows on X (largest absolute value {abs(X).max():.3g}): "
        "scale the features, for example with StandardScaler."
    )
