"""Solving: with symmetric positive definite matrices, and one equation in one unknown."""

import numpy as np
from scipy.linalg import LinAlgError, cho_solve
from scipy.linalg.lapack import dpotrf, dtrtri

_RAISED_AT_MOST = 1e4  # of the diagonal: by then any matrix of finite values has a factor


class Factor:
    """The Cholesky factor of a matrix that should be positive definite.

    Where rounding has made it indefinite, its diagonal is raised, relative to itself, until it
    is not: what is solved with it need not be exact then.

    Parameters
    ----------
    A : ndarray of shape (n, n), C-contiguous
        Its lower triangle is used.
    shift : float, default=0.0
        Added to the diagonal from the beginning, and raised with it.
    """

    def __init__(self, A, *, shift=0.0):
        self._shift = shift
        self.ridge = 0.0
        shifted = A
        if shift:
            shifted = A.copy()
            shifted[np.diag_indices_from(A)] += shift
        if not self._factorise(shifted, overwrite=bool(shift)):
            self.raise_diagonal(A)

    def _factorise(self, A, *, overwrite):
        """Return whether `A` has a factor, and set it."""
        # The lower triangle by rows is the upper one by columns, which LAPACK reads as it is.
        self.upper, info = dpotrf(A.T, lower=0, overwrite_a=overwrite)
        # Not every LAPACK reports a NaN, which ends up on the diagonal wherever it was.
        return info == 0 and bool(np.isfinite(self.upper.diagonal()).all())

    def raise_diagonal(self, A):
        """Raise the diagonal of `A`, ten times as much at each attempt."""
        n = A.shape[0]
        diagonal = np.abs(np.diagonal(A)) + self._shift
        floor = n * np.finfo(np.float64).eps
        diagonal = diagonal + floor * (diagonal.max(initial=0.0) or 1.0)
        self.ridge = max(10 * self.ridge, floor)
        while self.ridge <= _RAISED_AT_MOST:
            raised = A.copy()
            raised[np.diag_indices_from(raised)] += self._shift + self.ridge * diagonal
            if self._factorise(raised, overwrite=True):
                return
            self.ridge *= 10
        raise LinAlgError("The matrix has no Cholesky factor: its values are not finite.")

    def solve(self, b):
        """Return ``A^-1 b`` for a vector or for the columns of a matrix."""
        return cho_solve((self.upper, False), b, check_finite=False)

    @property
    def lower(self):
        """The lower triangular factor L with ``L L' = A``."""
        return self.upper.T

    def inverse_root(self):
        """Return the upper triangular R with ``R R' = A^-1``."""
        return dtrtri(self.upper, lower=0)[0]


class ThreadsafeFactor(Factor):
    """The same by a routine that lets other threads of the interpreter work meanwhile."""

    def _factorise(self, A, *, overwrite):
        try:
            self.upper = np.linalg.cholesky(A).T
        except np.linalg.LinAlgError:
            return False
        return bool(np.isfinite(self.upper.diagonal()).all())


def solve_spd(A, b):
    """Return ``A^-1 b``, or a finite approximation where rounding made `A` singular."""
    factor = Factor(A)
    while True:
        solution = factor.solve(b)
        if np.isfinite(solution).all():
            return solution
        if not np.isfinite(b).all():
            raise LinAlgError("The right-hand side is not finite.")
        factor.raise_diagonal(A)


def line_search(
    derivatives, *, start, allowed=0.0, low=-np.inf, high=np.inf, settled=0.0, max_steps=100
):
    """Return where a derivative vanishes that increases, is continuous and piecewise linear.

    Newton's method kept inside a bracket ends after a few evaluations.

    Parameters
    ----------
    derivatives : callable
        Given a length it returns the first derivative, the sum of its absolute terms, which is
        the scale of its rounding error, and the second derivative.
    start : float
        The length to try first.
    allowed : float
        The absolute derivative at which to end.
    low, high : float
        What is known to enclose the length.
    settled : float
        The distance from the minimum at which to end.
    max_steps : int
        Evaluations; where the derivative jumps, more bring it no nearer to zero.
    """
    t = start
    for _ in range(max_steps):
        first, magnitude, second = derivatives(t)
        if abs(first) <= max(allowed, 4 * np.finfo(float).eps * magnitude, settled * second):
            break
        low, high = (t, high) if first < 0 else (low, t)
        t = t - first / second if second > 0 else np.inf
        if not low < t < high:
            if np.isfinite(low) and np.isfinite(high):
                t = 0.5 * (low + high)
                if t in (low, high):
                    break
            else:
                # No curvature here and no bracket yet: double outwards.
                t = 2 * low + 1 if np.isfinite(low) else 2 * high - 1
    return t
