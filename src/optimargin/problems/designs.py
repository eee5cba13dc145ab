"""Design matrices: the linear map from coefficients to decision values.

`FeatureDesign` has one coefficient a feature, w itself. `KernelDesign` has one coefficient a
sample, theta with w = sum_i theta_i phi_i, and never needs phi. Both offer the same methods:

    decision(v)     the values phi_i' w of all samples
    represent(r)    the coefficients of sum_i r_i phi_i
    metric(v)       M v with |w|^2 = v' M v (the identity, or the Gram matrix)
"""

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from sklearn.utils.extmath import row_norms

from optimargin._core import _products
from optimargin._core._coordinate_descent import CSRRows, DenseRows, GramRows
from optimargin._threads import n_threads_for
from optimargin.kernels import pivoted_cholesky

_BLOCK_ELEMENTS = 1 << 19  # 4 MB of float64: a block of packed rows stays in cache
_LOW_RANK_FROM = 256  # samples from which looking for a low-rank factor is worth its price
_LOW_RANK_SHARE = 8


class FeatureDesign:
    """Samples given by their features.

    Parameters
    ----------
    X : ndarray (C-contiguous) or CSR of shape (n_samples, n_features)
        float32 or float64; never copied.
    center : ndarray of shape (n_features,), default=None
        Subtracted from every row on the fly. With an unpenalised intercept this changes the
        intercept only, and keeps features of large mean from spoiling the curvature.
    """

    space = "feature"

    def __init__(self, X, center=None):
        self.X = X
        self.center = center
        self.n_samples, self.n_coef = X.shape
        self.is_sparse = sp.issparse(X)
        self._size = X.nnz if self.is_sparse else X.size

    def decision(self, v):
        """Return ``(X - center) @ v``."""
        out = np.empty(self.n_samples)
        n_threads = n_threads_for(self._size)
        if self.is_sparse:
            X = self.X
            _products.csr_matvec(X.data, X.indices, X.indptr, v, out, n_threads)
        else:
            _products.dense_matvec(self.X, v, out, n_threads)
        if self.center is not None:
            out -= self.center @ v
        return out

    def represent(self, r):
        """Return ``(X - center).T @ r``."""
        n_threads = n_threads_for(self._size)
        partial = np.zeros((n_threads, self.n_coef))
        if self.is_sparse:
            X = self.X
            _products.csr_rmatvec(X.data, X.indices, X.indptr, r, partial, n_threads)
        else:
            _products.dense_rmatvec(self.X, r, partial, n_threads)
        out = partial.sum(axis=0) if n_threads > 1 else partial[0]
        if self.center is not None:
            out -= self.center * r.sum()
        return out

    def metric(self, v, decision=None):
        """Return `v`: the features are their own coordinates."""
        return v

    def features(self, v):
        """Return w and the shift of the intercept that undoes the centring."""
        return v, 0.0 if self.center is None else -self.center @ v

    def coefficients(self, w, intercept, problem):
        """Return the coefficients of w and its intercept for centred rows."""
        return w, intercept if self.center is None else intercept + self.center @ w

    @cached_property
    def squared_norms(self):
        """Squared norms of the (centred) rows, of shape (n_samples,)."""
        norms = row_norms(self.X, squared=True).astype(np.float64)
        if self.center is not None:
            norms += self.center @ self.center - 2 * self.X @ self.center
            np.maximum(norms, 0.0, out=norms)
        return norms

    def rows(self, r):
        """Return the rows for coordinate descent and the coefficients they will update.

        Parameters
        ----------
        r : ndarray of shape (n_samples,)
            The descent starts at ``represent(r)``.
        """
        w = np.ascontiguousarray(self.represent(r))
        if not self.is_sparse:
            return DenseRows(self.X, self.center, w, self.squared_norms), w
        X = self.X
        indices = X.indices.astype(np.int32, copy=False)
        indptr = X.indptr.astype(np.intp, copy=False)
        return CSRRows(X.data, indices, indptr, w, self.squared_norms), w

    def weighted_gram(self, weight):
        """Return ``Z.T @ diag(weight) @ Z`` with ``Z = [X - center, 1]``, lower triangle.

        Rows of zero weight are skipped; dense rows are packed block by block, so that no
        temporary grows with the number of samples.
        """
        size = self.n_coef + 1
        if self.is_sparse:
            n_threads = n_threads_for(self._size)
            partial = np.zeros((n_threads, size, size))
            X = self.X
            _products.csr_weighted_gram(X.data, X.indices, X.indptr, weight, partial, n_threads)
            return partial.sum(axis=0)
        center = np.zeros(self.n_coef) if self.center is None else self.center
        rows = np.flatnonzero(weight)
        scale = np.sqrt(weight[rows])
        n_block = max(_BLOCK_ELEMENTS // size, 1)
        block = np.empty((min(n_block, rows.size), size))
        gram = np.zeros((size, size))
        for first in range(0, rows.size, n_block):
            part = slice(first, first + n_block)
            packed = block[: rows[part].size]
            _products.dense_pack(
                self.X, center, rows[part], scale[part], packed, n_threads_for(packed.size)
            )
            gram += packed.T @ packed
        return gram


class KernelDesign:
    """Samples given by the Gram matrix of their inner products.

    Parameters
    ----------
    K : ndarray of shape (n_samples, n_samples), C-contiguous
        Symmetric positive semi-definite, float32 or float64.
    """

    space = "sample"

    def __init__(self, K):
        self.K = K
        self.n_samples = self.n_coef = K.shape[0]

    def decision(self, v):
        """Return ``K @ v``."""
        if self.K.dtype == np.float64:
            return self.K @ v
        out = np.empty(self.n_samples)
        _products.dense_matvec(self.K, v, out, n_threads_for(self.K.size))
        return out

    def represent(self, r):
        """Return `r`: coefficients belong to samples."""
        return r

    def metric(self, v, decision=None):
        """Return ``K @ v``, taken from `decision` where the caller has it."""
        return self.decision(v) if decision is None else decision

    @cached_property
    def squared_norms(self):
        """The diagonal of K as float64."""
        return np.diagonal(self.K).astype(np.float64)

    def rows(self, r):
        """Return the rows for coordinate descent and the decision values they will update."""
        decision = self.decision(r)
        return GramRows(self.K, None, decision, self.squared_norms), decision

    def block(self, rows):
        """Return ``K[rows][:, rows]`` as a new float64 array."""
        return self.K[np.ix_(rows, rows)].astype(np.float64, copy=False)

    @cached_property
    def low_rank_factor(self):
        """B of shape (n_samples, rank) with B B' = K to rounding, or None if rank is high."""
        if self.n_samples < _LOW_RANK_FROM:
            return None
        max_rank = self.n_samples // _LOW_RANK_SHARE
        return pivoted_cholesky(self.K, rtol=1e-12, max_rank=max_rank)


class LinearGramDesign(KernelDesign):
    """Linear data with more features than samples, handled through their Gram matrix.

    Parameters
    ----------
    X : ndarray (C-contiguous) or CSR of shape (n_samples, n_features)
    center : ndarray of shape (n_features,), default=None
        As for `FeatureDesign`.
    """

    def __init__(self, X, center=None):
        self._feature_design = FeatureDesign(X, center)
        super().__init__(_linear_gram(X, center))

    def features(self, v):
        """Return w and the shift of the intercept that undoes the centring."""
        return self._feature_design.features(self._feature_design.represent(v))

    def coefficients(self, w, intercept, problem):
        """Return sample coefficients close to w, by one evaluation of the loss at w."""
        w, intercept = self._feature_design.coefficients(w, intercept, problem)
        margin = problem.y * (self._feature_design.decision(w) + intercept)
        return problem.y * problem.loss.evaluate(margin, problem.weight)[1], intercept


def _linear_gram(X, center):
    if sp.issparse(X):
        return np.ascontiguousarray((X @ X.T).toarray(), dtype=np.float64)
    n_samples, n_features = X.shape
    gram = np.zeros((n_samples, n_samples))
    n_block = max(_BLOCK_ELEMENTS // n_samples, 1)
    for first in range(0, n_features, n_block):
        block = X[:, first : first + n_block].astype(np.float64)
        if center is not None:
            block -= center[first : first + n_block]
        gram += block @ block.T
    return gram
