"""Samples given by the Gram matrix of a kernel: one coefficient per sample.

With w = sum_i theta_i phi_i the coefficients are theta, and phi itself is never needed: the
decision values are K theta and |w|^2 = theta' K theta.
"""

from functools import cached_property

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import safe_sparse_dot

from optimargin._core._rows import GramRows
from optimargin._linalg import solve_spd
from optimargin._threads import FACTORISE_ALONE_UP_TO, for_each, n_threads_for
from optimargin.certificates import RoundingProbe
from optimargin.designs.base import SampleSpaceDesign
from optimargin.designs.features import FeatureDesign, double_blocks
from optimargin.kernels import pivoted_cholesky
from optimargin.kernels.prepared import rows_product

_BLOCK_ELEMENTS = 1 << 19
_PARTIAL_ELEMENTS = 1 << 24  # 128 MB for sums that threads make for themselves
_LOW_RANK_FROM = 256  # samples from which looking for a low-rank factor pays off
_LOW_RANK_SHARE = 8


class GramDesign(SampleSpaceDesign):
    """Samples given by the Gram matrix of their inner products.

    Parameters
    ----------
    K : ndarray of shape (n_samples, n_samples), C-contiguous
        Symmetric positive semi-definite, float32 or float64.
    precise_kernel : callable, default=None
        Makes the kernel on the samples in double precision, where `K` was rounded.
    scale : ndarray of shape (n_samples,), default=None
        See `RoundingProbe`.
    """

    def __init__(self, K, *, precise_kernel=None, scale=None):
        self.K = K
        self.n_samples = self.n_coef = K.shape[0]
        if precise_kernel is not None:
            self.account = RoundingProbe(precise_kernel, lambda rows: K[rows], scale)

    def _in_double(self, kernel):
        return GramDesign(kernel.block())

    def product(self, V):
        """Return ``V @ K`` for vectors in the rows of `V`."""
        if self.is_rounded:  # a matrix that stays in a cache is not converted
            return np.stack([rows_product(self.K, v) for v in V])
        out = np.empty_like(V)
        for part, rows in double_blocks(self.K):
            out[:, part] = V @ rows.T
        return out

    def columns(self, columns, rows=slice(None)):
        """Return ``K[rows][:, columns]`` as float64."""
        return self.K[columns].T[rows].astype(np.float64)

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

    def gram(self):
        """Return the whole of K as a new float64 array."""
        return self.K.astype(np.float64)

    @cached_property
    def low_rank_factor(self):
        """B of shape (n_samples, rank) with B B' = K to rounding, or None if rank is high."""
        if self.n_samples < _LOW_RANK_FROM:
            return None
        max_rank = self.n_samples // _LOW_RANK_SHARE
        return pivoted_cholesky(self.K, rtol=1e-12, max_rank=max_rank)


def centred_products(X, Y, center):
    """Return the inner products of rows, less a center or None, float64."""
    products = safe_sparse_dot(X, Y.T, dense_output=True).astype(np.float64, copy=False)
    if center is None:
        return products
    return products - (X @ center)[:, None] - Y @ center + center @ center


class LinearGramDesign(GramDesign):
    """Linear data with more features than samples, handled through their Gram matrix.

    Parameters
    ----------
    X : ndarray (C-contiguous) or CSR of shape (n_samples, n_features)
    center : ndarray of shape (n_features,), default=None
        As for `FeatureDesign`.
    """

    def __init__(self, X, center=None):
        self.features = FeatureDesign(X, center)  # of the same rows
        super().__init__(_linear_gram(X, center))
        self.own_threads = self.n_samples <= FACTORISE_ALONE_UP_TO

    @property
    def center(self):
        """Subtracted from every row."""
        return self.features.center

    def to_features(self, v):
        """Return w and the shift of the intercept that undoes the centring."""
        return self.features.to_features(self.features.represent(v))

    def from_features(self, w, intercept, problem):
        """Return the sample coefficients, and the intercept, that a Newton step from w leads to.

        At an optimum they are the pulls, but pulls at a w that was rounded are mostly rounding
        where penalties are large: the step makes up for what they lack.
        """
        w, intercept = self.features.from_features(w, intercept, problem)
        decision = self.features.decision(w)
        _, coef, curvature = problem.loss.evaluate(decision, problem.target, intercept)
        active = np.flatnonzero(curvature)
        if active.size == 0:
            return coef, intercept
        root = np.sqrt(curvature[active])
        A = root * self.block(active) * root[:, None]
        A[np.diag_indices_from(A)] += 1.0
        lacking = (decision - self.decision(coef))[active]
        step, ones = root * solve_spd(A, np.column_stack([root * lacking, root])).T
        if problem.fit_intercept:
            shift = (coef.sum() + step.sum()) / ones.sum()
            step, intercept = step - shift * ones, intercept + shift
        coef[active] += step
        return coef, intercept


def _linear_gram(X, center):
    if sp.issparse(X):
        X = X.astype(np.float64)
        return (X @ X.T).toarray()
    n_samples, n_features = X.shape
    n_block = max(_BLOCK_ELEMENTS // n_samples, 1)
    work = n_samples**2 * n_features
    n_parts = max(min(n_threads_for(work), _PARTIAL_ELEMENTS // n_samples**2), 1)
    blocks = np.array_split(np.arange(0, n_features, n_block), n_parts)
    partial = np.zeros((len(blocks), n_samples, n_samples))

    def add(k):
        for first in blocks[k]:
            block = X[:, first : first + n_block].astype(np.float64)
            if center is not None:
                block -= center[first : first + n_block]
            partial[k] += block @ block.T

    for_each(add, range(len(blocks)), work)
    return partial.sum(axis=0) if n_parts > 1 else partial[0]
