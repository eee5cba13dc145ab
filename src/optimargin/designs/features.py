"""Samples given by their features: one coefficient per feature."""

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from optimargin._core import _dense_products, _sparse_products
from optimargin._core._rows import CSRRows, DenseRows
from optimargin._threads import n_threads_for, one_blas_thread
from optimargin.designs.base import FeatureSpaceDesign

_BLOCK_ELEMENTS = 1 << 15  # 256 kB of float64: a block of packed rows stays in a core's cache
_CONVERTED_ELEMENTS = 1 << 17
_ROWS_OF_DIAGONAL = 4000
_ENTRIES_WORTH_A_SUM = 8  # entries per feature from which threads may sum for themselves


def canonical(X):
    """Return `X`, or a copy with sorted and unique indices where a sparse `X` has others.

    With indices of one type: rows begin and end where arrays of the same kind say.
    """
    if not sp.issparse(X):
        return X
    if X.indptr.dtype != X.indices.dtype or X.indices.dtype not in (np.int32, np.int64):
        wide = max(X.indptr[-1], X.shape[1]) > np.iinfo(np.int32).max
        kind = np.int64 if wide or X.indices.dtype == np.int64 else np.int32
        parts = X.data, X.indices.astype(kind, copy=False), X.indptr.astype(kind)
        X = type(X)(parts, shape=X.shape)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def moments(X, weight, pivot):
    """Return ``weight @ (X - pivot)`` and ``sum_i weight_i |x_i - pivot|^2`` in one pass.

    Parameters
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
    weight : ndarray of shape (n_samples,)
    pivot : ndarray of shape (n_features,)
    """
    design = FeatureDesign(X)
    if design.is_sparse:
        first, total = design.represent(weight), weight.sum()
        second = weight @ design.squared_norms - 2 * (first @ pivot) + total * (pivot @ pivot)
        return first - total * pivot, float(second)
    n_threads = n_threads_for(X.size)
    partial, squares = np.zeros((n_threads, X.shape[1])), np.zeros(n_threads)
    _dense_products.dense_moments(X, pivot, weight, partial, squares, n_threads)
    return _total(partial), float(squares.sum())


def total_variance(X, weight):
    """Return the weighted sum of the variances of all features, zero where they are constant.

    Parameters
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
    weight : ndarray of shape (n_samples,)
        Summing to one.
    """
    pivot = np.zeros(X.shape[1])
    if not sp.issparse(X):
        # No row of this weight is further from the mean than the variance tells: around it,
        # nothing cancels however far all rows are from zero.
        pivot = X[np.argmax(weight)].astype(np.float64)
    return variance_of_moments(*moments(X, weight, pivot))


def variance_of_moments(first, second):
    """Return the total variance, given the sums of `moments` of weights that sum to one."""
    variance = second - first @ first
    return variance if variance > 1e-14 * second else 0.0


def double_blocks(X):
    """Yield (slice, dense rows in float64): all at once, or block by block if converted."""
    if X.dtype == np.float64:
        yield slice(None), X
        return
    n_block = max(_CONVERTED_ELEMENTS // max(X.shape[1], 1), 1)
    block = np.empty((min(n_block, X.shape[0]), X.shape[1]))
    for first in range(0, X.shape[0], n_block):
        part = slice(first, first + n_block)
        rows = block[: X[part].shape[0]]
        rows[...] = X[part]
        yield part, rows


class FeatureDesign(FeatureSpaceDesign):
    """Samples given by their features.

    Parameters
    ----------
    X : ndarray (C-contiguous) or CSR of shape (n_samples, n_features)
        float32 or float64; never copied, unless sparse and not canonical.
    center : ndarray of shape (n_features,), default=None
        Subtracted from every row on the fly. With an unpenalised intercept this changes the
        intercept only, and keeps features of large mean from spoiling the curvature.
    """

    own_threads = True

    def __init__(self, X, center=None):
        X = canonical(X)
        self.X = X
        self.center = center
        self.n_samples, self.n_coef = X.shape
        self.is_sparse = sp.issparse(X)
        self._size = X.nnz if self.is_sparse else X.size

    def decision(self, v):
        """Return ``(X - center) @ v``."""
        X, n_threads = self.X, n_threads_for(self._size)
        out = np.empty(self.n_samples)
        if self.is_sparse:
            _sparse_products.csr_matvec(X.data, X.indices, X.indptr, None, v, out, n_threads)
            if self.center is not None:
                out -= self.center @ v
        else:
            shift = 0.0 if self.center is None else self.center @ v
            _dense_products.dense_matvec(X, None, v, shift, out, n_threads)
        return out

    def decision_on(self, rows, v):
        """Return ``(X[rows] - center) @ v``."""
        X, n_threads = self.X, n_threads_for(self._size)
        out, shift = np.empty(rows.size), 0.0 if self.center is None else self.center @ v
        if self.is_sparse:
            _sparse_products.csr_matvec(X.data, X.indices, X.indptr, rows, v, out, n_threads)
            return out - shift if shift else out
        _dense_products.dense_matvec(X, rows, v, shift, out, n_threads)
        return out

    def represent(self, r):
        """Return ``(X - center).T @ r``."""
        X, n_threads = self.X, self._n_summing_threads
        partial = np.zeros((n_threads, self.n_coef))
        if self.is_sparse:
            _sparse_products.csr_rmatvec(X.data, X.indices, X.indptr, r, partial, n_threads)
        else:
            _dense_products.dense_rmatvec(X, r, partial, n_threads)
        out = _total(partial)
        if self.center is not None:
            out -= self.center * r.sum()
        return out

    def take(self, rows):
        return FeatureDesign(self.X[rows], self.center)

    def feature_rows(self, rows):
        X = self.X[rows]
        dense = (X.toarray() if self.is_sparse else X).astype(np.float64)
        return dense if self.center is None else dense - self.center

    def to_features(self, v):
        """Return w and the shift of the intercept that undoes the centring."""
        return v, 0.0 if self.center is None else -self.center @ v

    def from_features(self, w, intercept, problem):
        """Return the coefficients of w and its intercept for centred rows."""
        return w, intercept if self.center is None else intercept + self.center @ w

    @cached_property
    def squared_norms(self):
        """Squared norms of the (centred) rows, of shape (n_samples,)."""
        if not self.is_sparse:  # of differences: norms of rows far from zero would cancel
            return super().squared_norms
        norms, n_threads = np.zeros(self.n_samples), n_threads_for(self._size)
        if self._size:
            _sparse_products.csr_squared_norms(self.X.data, self.X.indptr, norms, n_threads)
        if self.center is not None:
            norms += self.center @ self.center - 2 * self.X @ self.center
            np.maximum(norms, 0.0, out=norms)
        return norms

    def rows_of(self, w):
        """Return row access; moving along a row updates `w`."""
        if not self.is_sparse:
            return DenseRows(self.X, self.center, w, self.squared_norms)
        X = self.X
        indices = X.indices.astype(np.int32, copy=False)
        indptr = X.indptr.astype(np.intp, copy=False)
        return CSRRows(X.data, indices, indptr, w, self.squared_norms)

    def weighted_gram(self, weight):
        """Return ``Z.T @ diag(weight) @ Z`` with ``Z = [X - center, 1]``, lower triangle.

        Rows of zero weight are skipped. Weights may be negative, which makes changes of a known
        matrix cheap: only the rows whose weight changed are read.
        """
        rows = np.flatnonzero(weight != 0)  # of booleans many times faster than of numbers
        size = self.n_coef + 1
        if self.is_sparse:
            X, row_length = self.X, self._size / max(self.n_samples, 1)
            n_threads = n_threads_for(rows.size * row_length**2 / 2)
            partial = np.zeros((n_threads, size, size))
            _sparse_products.csr_weighted_gram(
                X.data, X.indices, X.indptr, rows, weight[rows], partial, n_threads
            )
            return _total(partial)
        n_threads = n_threads_for(rows.size * size * size)
        partial = np.zeros((n_threads, size, size))
        packed = np.empty((n_threads, max(_BLOCK_ELEMENTS // size, 1), size))
        with one_blas_thread():
            for sign in (1.0, -1.0):
                part = np.flatnonzero(sign * weight > 0)
                root = np.sqrt(sign * weight[part])
                _dense_products.dense_weighted_gram(
                    self.X, self._center_or_zero, part, root, sign, packed, partial, n_threads
                )
        return _total(partial)

    @property
    def is_wide_and_sparse(self):
        """Whether rows are sparse and longer than there are samples."""
        return self.is_sparse and self.n_coef > self.n_samples

    def scaled_gram(self, rows, scale):
        """Return ``P @ P.T`` with ``P = scale[:, None] * X[rows]``, lower triangle; sparse only."""
        out = np.empty((rows.size, rows.size))
        n_threads = n_threads_for(out.size)
        _sparse_products.scaled_block(self._gram, rows, scale, out, n_threads)
        return out

    @cached_property
    def _gram(self):
        """Inner products of all sparse rows, lower triangle."""
        X, Y = self.X, self.X.tocsc()
        out = np.zeros((self.n_samples, self.n_samples))
        _sparse_products.csr_gram(
            *(X.data, X.indices, X.indptr, Y.data, Y.indices, Y.indptr),
            out,
            n_threads_for(out.size),
        )
        return out

    def diagonal(self, rows, weight):
        """Estimate ``1 + sum_i weight_i (x_i - center)**2`` over `rows`, of shape (n_coef,).

        Made from some of the rows where there are many: it serves as a preconditioner, which
        need not be exact.
        """
        stride = max(rows.size // _ROWS_OF_DIAGONAL, 1)
        rows, weight = rows[::stride].copy(), weight[::stride] * stride
        out = np.ones(self.n_coef)
        if self.is_sparse:
            X = self.X
            _sparse_products.csr_weighted_squares(X.data, X.indices, X.indptr, rows, weight, out)
        else:
            out += weight @ np.square(self.X[rows] - self._center_or_zero)
        return out

    def hessian_product(self, rows, weight, v):
        """Return ``Z.T @ image`` and ``image = weight * (Z @ v)`` with ``Z = (X - center)[rows]``.

        Parameters
        ----------
        rows : ndarray of shape (n_rows,)
        weight : ndarray of shape (n_rows,)
        v : ndarray of shape (n_coef,)

        Returns
        -------
        product : ndarray of shape (n_coef,)
        image : ndarray of shape (n_rows,)
        """
        X, n_threads, image = self.X, self._n_summing_threads, np.empty(rows.size)
        partial = np.zeros((n_threads, self.n_coef))
        if self.is_sparse:
            _sparse_products.csr_hessian_product(
                X.data, X.indices, X.indptr, rows, weight, v, image, partial, n_threads
            )
        else:
            _dense_products.dense_hessian_product(
                X, self._center_or_zero, rows, weight, v, image, partial, n_threads
            )
        return _total(partial), image

    @property
    def _n_summing_threads(self):
        """Threads for sums of rows: each has sums of its own, which must not cost more."""
        few_entries = self._size < _ENTRIES_WORTH_A_SUM * self.n_coef
        return 1 if few_entries else n_threads_for(self._size)

    @cached_property
    def _center_or_zero(self):
        return np.zeros(self.n_coef) if self.center is None else self.center


def _total(partial):
    """Return the sum over threads of what each of them summed."""
    return partial.sum(axis=0) if partial.shape[0] > 1 else partial[0]
