"""Landmarks of a kernel: few samples whose feature vectors span most of all others.

Randomly pivoted Cholesky: with the residual kernel R = K - F F' of the landmarks so far, the
next one is sample i with probability R_ii / tr R, and F gains the column R_i / R_ii^(1/2). Only
the columns of landmarks are ever computed. Samples are proposed in blocks and each is then
accepted with the share of R_ii that the landmarks accepted since have left, which makes the
same choice in matrix products instead of vector operations.

References: Y. Chen, E. N. Epperly, J. A. Tropp and R. J. Webber, Randomly pivoted Cholesky,
Comm. Pure Appl. Math. 78 (2025). E. N. Epperly, J. A. Tropp and R. J. Webber, Embrace
rejection: kernel matrix approximation by accelerated randomly pivoted Cholesky, 2024.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from optimargin.kernels import PreparedKernel

_PROPOSALS = 128
_CANDIDATES = 4  # per landmark
_MIN_CANDIDATES = 2000
# Share of the kernel's diagonal below which a sample counts as spanned by the landmarks. Sums
# of products of features, in double precision, lose as many digits as this has.
_SPANNED = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-9}


@dataclass(frozen=True)
class Landmarks:
    """The samples chosen, in the order of choice.

    Attributes
    ----------
    rows : ndarray of shape (n_landmarks,)
        Their indices among the samples.
    factor : ndarray of shape (n_landmarks, n_landmarks)
        The lower Cholesky factor of their kernel matrix; its leading blocks are the factors of
        the first landmarks alone.
    complete : bool
        Whether they span all candidates to rounding, so that more of them would be useless.
    """

    rows: np.ndarray
    factor: np.ndarray
    complete: bool


class RandomPivots:
    """Landmarks by randomly pivoted Cholesky, as many as are asked for.

    Parameters
    ----------
    kernel : Kernel
        Positive semi-definite.
    X : {ndarray, CSR} of shape (n_samples, n_features)
    weight : ndarray of shape (n_samples,)
        Positive sample weights: a sample of weight two is chosen as often as two copies.
    max_landmarks : int
        The most that will be asked for: landmarks are chosen among four times as many
        candidates.
    dtype : numpy dtype
        The precision in which kernel values will be used.
    seed : int

    Examples
    --------
    >>> import numpy as np
    >>> from optimargin.kernels import Kernel
    >>> from optimargin.designs import RandomPivots
    >>> X = np.repeat([[0.0], [1.0], [2.0]], 5, axis=0)
    >>> pivots = RandomPivots(Kernel("rbf"), X, np.ones(15), 10, dtype=np.float64, seed=0)
    >>> found = pivots.first(10)
    >>> found.rows.size, found.complete
    (3, True)
    """

    def __init__(self, kernel, X, weight, max_landmarks, *, dtype, seed):
        self._rng = np.random.default_rng(seed)
        n_samples = X.shape[0]
        n_candidates = max(_CANDIDATES * max_landmarks, _MIN_CANDIDATES)
        self._candidates = np.arange(n_samples)
        if n_candidates < n_samples:
            # Candidates are drawn with probability proportional to weight.
            odds = weight / weight.sum()
            rows = self._rng.choice(n_samples, n_candidates, replace=False, p=odds)
            self._candidates, weight = np.sort(rows), np.ones(n_samples)
        self._weight = weight[self._candidates]
        self._kernel = PreparedKernel(kernel, X[self._candidates], np.float64)
        self._residual = self._kernel.diagonal().astype(np.float64)
        self._threshold = _SPANNED[np.dtype(dtype)] * self._residual.max(initial=0.0)
        self._factor = np.empty((self._candidates.size, 0))
        self._chosen = np.empty(0, dtype=np.intp)

    def first(self, n_landmarks):
        """Return the first landmarks, choosing more where there are not enough yet.

        Parameters
        ----------
        n_landmarks : int

        Returns
        -------
        landmarks : Landmarks
            Fewer than asked for where they span all candidates.
        """
        limit = min(n_landmarks, self._candidates.size)
        while self._chosen.size < limit and (self._residual > self._threshold).any():
            self._add(min(_PROPOSALS, limit - self._chosen.size))
        chosen = self._chosen[:limit]
        complete = not (self._residual > self._threshold).any()
        return Landmarks(
            self._candidates[chosen],
            np.tril(self._factor[chosen, : chosen.size]),
            complete and chosen.size == self._chosen.size,
        )

    def _add(self, n_proposals):
        """Propose samples and add those that are accepted."""
        odds = np.where(self._residual > self._threshold, self._weight * self._residual, 0.0)
        drawn = self._rng.choice(odds.size, n_proposals, p=odds / odds.sum())
        proposed = np.array(list(dict.fromkeys(drawn.tolist())))  # once each, in order
        known = self._factor[proposed]
        block = self._kernel.block(proposed, proposed) - known @ known.T
        # Computed anew, a residual can turn out to be rounding alone: not to be proposed again.
        self._residual[proposed] = np.minimum(self._residual[proposed], np.diagonal(block))
        accepted, triangle = _accept(block, self._threshold, self._rng)
        new, known = proposed[accepted], known[accepted]
        columns = self._kernel.block(slice(None), new) - self._factor @ known.T
        columns = solve_triangular(triangle, columns.T, lower=True, check_finite=False).T
        self._residual -= np.einsum("ij,ij->i", columns, columns)
        self._residual[new] = 0.0
        self._factor = np.hstack([self._factor, columns])
        self._chosen = np.append(self._chosen, new)


def _accept(block, threshold, rng):
    """Return which proposals are accepted, and the Cholesky factor of their residual kernel."""
    n_proposals = block.shape[0]
    start = np.diagonal(block).copy()
    left = start.copy()
    factor = np.zeros((n_proposals, n_proposals))
    accepted: list[int] = []
    for i, u in enumerate(rng.random(n_proposals)):
        # The first proposal always stands: that is what makes every block advance.
        if left[i] <= threshold or (accepted and u * start[i] > left[i]):
            continue
        rank = len(accepted)
        column = block[:, i] - factor[:, :rank] @ factor[i, :rank]
        factor[:, rank] = column / np.sqrt(left[i])
        left -= factor[:, rank] ** 2
        accepted.append(i)
    rank = len(accepted)
    return np.array(accepted, dtype=np.intp), factor[np.ix_(accepted, range(rank))]
