"""Design matrices of samples given by a kernel: one coefficient a sample.

With w = sum_i theta_i phi_i the coefficients are theta, and phi itself is never needed: the
decision values are K theta and |w|^2 = theta' K theta.
"""

from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from optimargin._core import _gram
from optimargin._core._rows import GramRows
from optimargin._threads import for_each, n_threads_for
from optimargin.kernels import PreparedKernel, RowCache, pivoted_cholesky
from optimargin.problems.feature_design import FeatureDesign, double_blocks

_BLOCK_ELEMENTS = 1 << 19
_LOW_RANK_FROM = 256  # samples from which looking for a low-rank factor is worth its price
_LOW_RANK_SHARE = 8
_PANEL_ROWS = 128


class KernelDesign:
    """Samples given by the Gram matrix of their inner products.

    Parameters
    ----------
    K : ndarray of shape (n_samples, n_samples), C-contiguous
        Symmetric positive semi-definite, float32 or float64.
    """

    space = "sample"
    own_threads = False  # products are left to the threads of BLAS

    def __init__(self, K):
        self.K = K
        self.n_samples = self.n_coef = K.shape[0]

    def decision(self, v):
        """Return ``K @ v``."""
        return self.product(v[None])[0]

    def product(self, V):
        """Return ``V @ K`` for vectors in the rows of `V`."""
        out = np.empty_like(V)
        for part, rows in double_blocks(self.K):
            out[:, part] = V @ rows.T
        return out

    def columns(self, rows):
        """Return ``K[:, rows]`` as float64."""
        return self.K[rows].T.astype(np.float64)

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


class PanelDesign(KernelDesign):
    """A kernel matrix kept as panels of its lower triangle, within a memory limit.

    Panels that do not fit are computed anew for every product.

    Parameters
    ----------
    kernel : Kernel
    X : {ndarray, CSR} of shape (n_samples, n_features)
    dtype : numpy dtype
        The precision of the kernel values.
    max_bytes : float
    """

    own_threads = True

    def __init__(self, kernel, X, *, dtype, max_bytes):
        self.n_samples = self.n_coef = X.shape[0]
        self._rows = PreparedKernel(kernel, X, dtype)
        self._max_bytes = max_bytes
        bounds = np.append(np.arange(0, self.n_samples, _PANEL_ROWS), self.n_samples)
        offsets = np.append(0, np.cumsum(np.diff(bounds) * bounds[1:]))
        itemsize = np.dtype(dtype).itemsize
        n_kept = int(np.searchsorted(offsets * itemsize, max_bytes, side="right")) - 1
        self._kept_bounds = bounds[: n_kept + 1].astype(np.intp)
        self._kept_offsets = offsets[: n_kept + 1].astype(np.intp)
        self._other_bounds = bounds[n_kept:].astype(np.intp)
        self._buffer = np.empty(offsets[n_kept], dtype=dtype)
        for_each(self._fill_panel, range(n_kept), work=10 * self._buffer.size)

    def _fill_panel(self, k):
        first, last = self._kept_bounds[k : k + 2]
        panel = self._buffer[self._kept_offsets[k] : self._kept_offsets[k + 1]]
        self._rows.block(slice(first, last), slice(0, last), out=panel.reshape(-1, last))

    def product(self, V):
        """Return ``V @ K`` for vectors in the rows of `V`."""
        V = np.ascontiguousarray(V)
        n_threads = n_threads_for(self._buffer.size)
        partial = np.zeros((n_threads, *V.shape))
        _gram.panel_product(
            self._buffer, self._kept_bounds, self._kept_offsets, V, partial, n_threads
        )
        for first, last in pairwise(self._other_bounds):
            panel = self._rows.block(slice(first, last), slice(0, last)).ravel()
            bounds, offsets = np.array([first, last]), np.array([0, panel.size])
            _gram.panel_product(panel, bounds, offsets, V, partial[:1], 1)
        return partial.sum(axis=0)

    def columns(self, rows):
        """Return ``K[:, rows]`` as float64."""
        return self._rows.block(slice(None), rows).astype(np.float64)

    def block(self, rows):
        """Return ``K[rows][:, rows]`` as a new float64 array."""
        return self._rows.block(rows, rows).astype(np.float64)

    @cached_property
    def squared_norms(self):
        """The diagonal of K as float64."""
        return self._rows.diagonal().astype(np.float64)

    def rows(self, r):
        """Return the rows for coordinate descent and the decision values they will update."""
        decision = self.decision(r)
        cache = RowCache(self._rows, self._max_bytes)
        return GramRows(None, cache.row, decision, self.squared_norms), decision

    @property
    def low_rank_factor(self):
        """None: the whole matrix may not be in memory."""
        return None


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
        X = X.astype(np.float64)
        return (X @ X.T).toarray()
    n_samples, n_features = X.shape
    gram = np.zeros((n_samples, n_samples))
    n_block = max(_BLOCK_ELEMENTS // n_samples, 1)
    for first in range(0, n_features, n_block):
        block = X[:, first : first + n_block].astype(np.float64)
        if center is not None:
            block -= center[first : first + n_block]
        gram += block @ block.T
    return gram
