"""Kernel values between fixed samples, in blocks, and products with them."""

from collections import OrderedDict
from copy import copy
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from optimargin._core._dense_products import dense_matvec
from optimargin._threads import for_each
from optimargin.kernels.base import RowKernel

_BLOCK_ELEMENTS = 1 << 18  # 2 MB of float64: a block of kernel rows stays in cache
_LONG = 1e3  # squared norm, in units of the kernel's width, past which distances lose digits
_NEAR = 70.0  # squared distance past which values are negligible
_NEAR_LONG = (_LONG**0.5 - _NEAR**0.5) ** 2  # shorter rows are not near to long ones
_FEW = 0.2  # share of long rows up to which only their values are computed in float64
_TOO_LONG = 1e30  # for float32
_CANCELS = 1e-10  # squared distance, relative to squared norms, with too few digits
_DENSE_UP_TO = 512  # features of sparse rows, whose inner products are faster when filled up
_FULL = 2 / 3  # share of columns that all rows fill, past which sparse rows save no memory
_BY_VECTOR = 4  # vectors, past which products of matrices are faster, and
_SHORT_SUM = 512  # products that they add up in float32
_FILLED = 4  # of so many rows one must have a feature for its mean to be subtracted
FILLED_ELEMENTS = 1 << 22
"""Of sparse rows filled up at a time, and of kernel rows not kept: 32 MB of float64."""


class PreparedKernel:
    """A kernel on a fixed set of samples, with what all its values share computed once.

    Samples may be sparse and new rows dense, or the reverse: the same values come of both. Sparse
    rows of few features are filled up, for there are far more kernel values than zeros; so are
    those whose columns are nearly all filled once they are centred. Other sparse rows stay as
    they are.

    Distances are small differences of large inner products. So rows are centred, and where they
    are sparse, or many of them long, distances are computed in float64 whatever the precision of
    the values. If few are long, those between long rows are. Those between rows that are close to
    each other, but far from the centre, are computed from differences.

    Parameters
    ----------
    kernel : Kernel
        One that `is_prepared`.
    X : {ndarray, CSR} of shape (n_samples, n_features)
    dtype : numpy dtype, default=None
        The precision of the kernel values; that of `X` when not given.

    Attributes
    ----------
    dtype : numpy dtype
        The precision of the kernel values.
    """

    def __init__(self, kernel, X, dtype=None):
        self.kernel = kernel
        self.dtype = np.dtype(X.dtype if dtype is None else dtype)
        self._center = Center(X) if kernel.has_width else None
        is_full = self._center is not None and self._center.filled_share > _FULL
        self._by_rows = isinstance(kernel, RowKernel)
        self._fills_up = X.shape[1] <= _DENSE_UP_TO or is_full or self._by_rows
        X = self._filled_up(X)
        precision = np.dtype(np.float64) if kernel.has_width and issparse(X) else self.dtype
        self._X, self._norms = self._convert(X, precision)
        self._long: Any = None  # which rows, where only these need more precision, and
        self._precise: Any = None  # all rows with it
        self._has_long_rows = kernel.has_width and self._norms.max(initial=0.0) > _LONG
        if self._has_long_rows and precision != np.float64:
            precise, norms = self._convert(X, np.dtype(np.float64))
            long = norms > _NEAR_LONG
            if long.mean() <= _FEW and norms.max() < _TOO_LONG:
                self._long, self._precise = long, precise
            else:
                self._X, self._norms = precise, norms

    def _convert(self, X, precision):
        """Return centred and scaled rows, and their squared norms for kernels of distances."""
        X = self._filled_up(X).astype(np.promote_types(X.dtype, precision), copy=False)
        if self._center is not None:
            X = self._center.subtracted_from(X)
        X = _scaled(X, self.kernel.row_scale)
        X = X.astype(precision, copy=False)
        return X, row_norms(X, squared=True) if self.kernel.has_width else None

    def _filled_up(self, X):
        return X.toarray() if issparse(X) and self._fills_up else X

    @property
    def n_samples(self):
        """The number of samples."""
        return self._X.shape[0]

    def take(self, rows):
        """Return the kernel on the samples `rows` alone."""
        part = copy(self)
        part._X = self._X[rows]
        part._norms = None if self._norms is None else self._norms[rows]
        if self._long is not None:
            part._long, part._precise = self._long[rows], self._precise[rows]
        return part

    def product(self, rows, columns, v):
        """Return ``block(rows, columns) @ v``, summed in float64, without holding the block."""
        A, B, out = self.take(rows), self.take(columns), np.empty(len(rows))

        def fill(part):
            rows_product(A.take(part)._values(B, None), v, out[part])

        for_each(fill, row_blocks(len(rows), len(columns)), work=10 * len(rows) * len(columns))
        return out

    def block(self, rows=slice(None), columns=slice(None), out=None):
        """Return the kernel values between two selections of the samples."""
        return self.take(rows)._values(self.take(columns), out)

    def against(self, X):
        """Return the kernel values between the rows of `X` and all samples."""
        out = np.empty((X.shape[0], self.n_samples), dtype=self.dtype)
        blocks = iter([slice(None)])
        if issparse(X) and self._fills_up:
            blocks = row_blocks(*X.shape, n_elements=FILLED_ELEMENTS)
        for rows in blocks:
            self._write_against(X[rows], out[rows])
        return out

    def _write_against(self, X, out):
        new, samples = copy(self), self
        new._X, new._norms = self._convert(X, self._X.dtype)
        if self._long is not None:
            new._precise, norms = self._convert(X, np.dtype(np.float64))
            new._long = norms > _NEAR_LONG
            if norms.max(initial=0.0) >= _TOO_LONG:
                new, samples = new._all_precise(), self._all_precise()
        new._values(samples, out)

    def _all_precise(self):
        """Return the same rows without a copy of lower precision."""
        same = copy(self)
        same._X, same._long, same._precise = self._precise, None, None
        same._norms = row_norms(self._precise, squared=True)
        return same

    def rounding_scale(self):
        """Return s of shape (n_samples,): value (i, j) is rounded by a multiple of ``s_i s_j``."""
        return np.sqrt(np.abs(self.diagonal())) if self._norms is None else 1.0 + self._norms

    def diagonal(self):
        """Return the kernel value of every sample with itself."""
        norms = self._norms
        if self._by_rows:
            return self.kernel.with_themselves(self._X)
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

    def _values(self, other, out):
        """Return the kernel values between these rows and those of another one."""
        A, B = self._X, other._X
        if out is None:
            out = np.empty((A.shape[0], B.shape[0]), dtype=self.dtype)
        by_products = self._long is None and self._has_long_rows

        def fill(rows):
            part, norms = out[rows], None if self._norms is None else self._norms[rows]
            if self._by_rows:
                part[...] = self.kernel.between(A[rows], B)
                return
            if issparse(A) or issparse(B):
                values = np.ascontiguousarray(safe_sparse_dot(A[rows], B.T, dense_output=True))
            else:
                values = part if part.dtype == A.dtype else np.empty(part.shape, dtype=A.dtype)
                np.dot(A[rows], B.T, out=values)
            close = _close(values, norms, other._norms) if by_products else None
            values = self.kernel.values(values, norms, other._norms)
            if close is not None:
                self._sharpen(values, A[rows], B, close)
            if values is not part:
                part[...] = values

        # Values too large for the precision are reported once, by `gram_matrix`.
        with np.errstate(over="ignore", invalid="ignore"):
            if issparse(A) or issparse(B):
                fill(slice(None))
            else:
                for_each(fill, row_blocks(*out.shape), work=10 * out.size)
        if self._long is not None and self._long.any() and other._long.any():
            long = self.take(self._long)._all_precise()
            out[np.ix_(self._long, other._long)] = long._values(
                other.take(other._long)._all_precise(), None
            )
        return out

    def _sharpen(self, values, A, B, close):
        """Compute the values of close rows again, from their differences."""
        for i in np.flatnonzero(close.any(axis=1)):
            columns = np.flatnonzero(close[i])
            row = A[i : i + 1].toarray()[0] if issparse(A) else A[i]
            squares = row_norms(_less(B[columns], row), squared=True)
            values[i, columns] = self.kernel.profile(squares)


def _scaled(X, scale):
    """Return rows times a number, or times one number per feature."""
    if np.ndim(scale) == 0:
        return X if scale == 1.0 else X * X.dtype.type(scale)
    scale = scale.astype(X.dtype)
    if not issparse(X):
        return X * scale
    return csr_array((X.data * scale[X.indices], X.indices, X.indptr), shape=X.shape)


def _close(products, row_norms, column_norms):
    """Return which of long rows are so close that their distance, a difference, has few digits."""
    norms = row_norms[:, None] + column_norms
    return (norms > _LONG) & (norms - 2 * products < _NEAR + _CANCELS * norms)


class Center:
    """The centre of rows: distances from it are small, and so are their rounding errors.

    It is zero but for features that few rows lack, whether rows are dense or sparse.

    Parameters
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
    """

    def __init__(self, X):
        if issparse(X):
            counts = np.bincount(X.indices, minlength=X.shape[1])
            sums = np.bincount(X.indices, X.data, minlength=X.shape[1])
        else:
            counts, sums = np.count_nonzero(X, axis=0), X.sum(axis=0, dtype=np.float64)
        n_samples = max(X.shape[0], 1)
        self._mean = np.where(_FILLED * counts >= n_samples, sums / n_samples, 0.0)

    @property
    def filled_share(self):
        """The share of features that are filled in sparse rows around the centre."""
        return np.count_nonzero(self._mean) / self._mean.size

    def subtracted_from(self, X):
        """Return the rows of `X` around the centre."""
        return _less(X, self._mean)


def _less(X, row):
    """Return rows, dense or sparse, minus a dense one whose zeros cost sparse rows nothing."""
    row = row.astype(X.dtype)
    if not issparse(X):
        return X - row
    filled, n_rows = np.flatnonzero(row), X.shape[0]
    if not filled.size:
        return X
    indptr = np.arange(n_rows + 1) * filled.size
    subtracted = (np.tile(row[filled], n_rows), np.tile(filled, n_rows), indptr)
    return X - csr_array(subtracted, shape=X.shape)


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


def kernel_product(kernel, X, Y, V, dtype=np.float64):
    """Return ``kernel(X, Y) @ V`` without ever holding the whole kernel matrix.

    Parameters
    ----------
    kernel : Kernel
    X : {ndarray, CSR} of shape (n_samples_X, n_features)
    Y : {ndarray, CSR} of shape (n_samples_Y, n_features)
    V : ndarray of shape (n_samples_Y, n_vectors)
    dtype : numpy dtype
        The precision of the kernel values; sums of many are in float64.

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
    prepared = PreparedKernel(kernel, Y, dtype)
    vectors = np.ascontiguousarray(V.T, dtype=np.float64)

    def fill(rows):
        values = prepared.against(X[rows])
        if values.dtype == np.float64:
            out[rows] = values @ V
            return
        out[rows] = _sums(values, vectors)

    for_each(fill, blocks, work=10 * X.shape[0] * Y.shape[0])
    return out


def _sums(values, vectors):
    """Return ``values @ vectors.T``: single precision for short sums, double for sums of these."""
    if len(vectors) <= _BY_VECTOR:
        return np.stack([rows_product(values, v) for v in vectors], axis=1)
    total = np.zeros((values.shape[0], len(vectors)))
    single = vectors.astype(np.float32)
    for first in range(0, values.shape[1], _SHORT_SUM):
        part = slice(first, first + _SHORT_SUM)
        total += values[:, part] @ single[:, part].T
    return total


def rows_product(K, v, out=None):
    """Return ``K @ v`` of rows in float32 or float64, summed in float64, in one thread."""
    out = np.empty(K.shape[0]) if out is None else out
    dense_matvec(K, None, v, 0.0, out, 1)
    return out


def row_blocks(n_rows, n_columns, *, n_elements=None):
    """Yield slices of the rows: of at most `n_elements`, or of a size that stays in cache."""
    n_block = max((n_elements or _BLOCK_ELEMENTS) // max(n_columns, 1), 1)
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
