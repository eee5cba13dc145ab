"""Margin distribution by a game.

    min over g   (1 - r) g'YKYg + r g'g,    g >= 0,  sum of g over each class = 1

The opponent chooses weights g of the samples that make the margin of the best direction small. The
parameter r, from 0 (the hard-margin SVM) to 1 (the centroids of the classes), spreads the weights.
Solved by accelerated projected gradients with a certified gap.

Reference: F. Aiolli, G. Da San Martino and A. Sperduti, A kernel method for the optimization of
the margin distribution, ICANN 2008.
"""

import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from optimargin_study.baselines._base import KERNEL_CONSTRAINTS, KernelBaseline


class MarginDistributionGame(KernelBaseline):
    """Kernel method for the optimisation of the margin distribution (KM-OMD).

    Margins are hard, so outliers have full influence. Memory grows with the square of the number
    of samples.

    Parameters
    ----------
    reg : float, default=0.1
        How evenly the weights are spread, in [0, 1].
    kernel : {"linear", "rbf"}, default="rbf"
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"
    tol : float, default=1e-5
        Relative gap at which to stop.
    max_iter : int, default=5000

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    dual_coef_ : ndarray of shape (n_samples,)
        The weights times the labels.
    intercept_ : float
        Puts the boundary in the middle between the two weighted centroids.
    dual_gap_ : float
        Certified relative gap.

    Examples
    --------
    >>> from optimargin_study.baselines import MarginDistributionGame
    >>> X, y = [[-2.0], [-1.0], [3.0], [4.0]], [0, 0, 1, 1]
    >>> model = MarginDistributionGame(0.0, kernel="linear").fit(X, y)
    >>> print(f"{abs(model.decision_function([[1.0]])[0]):.1f}")
    0.0
    """

    _parameter_constraints: dict = {
        **KERNEL_CONSTRAINTS,
        "reg": [Interval(Real, 0, 1, closed="both")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, reg=0.1, *, kernel="rbf", gamma="scale", tol=1e-5, max_iter=5000):
        self.reg = reg
        self.kernel = kernel
        self.gamma = gamma
        self.tol = tol
        self.max_iter = max_iter

    def _fit_gram(self, K, y):
        A = (1 - self.reg) * K * np.outer(y, y)
        A[np.diag_indices_from(A)] += self.reg
        classes = [np.flatnonzero(y > 0), np.flatnonzero(y < 0)]
        weights, gap, n_iter = _minimise(A, classes, self.tol, self.max_iter)
        if gap > self.tol:
            warnings.warn(
                f"MarginDistributionGame stopped at a relative gap of {gap:.1e}: raise "
                "max_iter or reg.",
                ConvergenceWarning,
                stacklevel=5,  # the line that calls `fit`
            )
        coef = weights * y
        decision = K @ coef
        middle = sum(0.5 * weights[rows] @ decision[rows] for rows in classes)
        return {
            "dual_coef_": coef,
            "intercept_": -float(middle),
            "dual_gap_": gap,
            "n_iter_": n_iter,
        }


def _minimise(A, classes, tol, max_iter):
    """Minimise ``g'Ag`` over a product of two simplices.

    Returns
    -------
    g : ndarray of shape (n_samples,)
    gap : float
        Relative duality gap.
    n_iter : int
    """
    g = np.zeros(A.shape[0])
    for rows in classes:
        g[rows] = 1.0 / rows.size
    step = 1.0 / max(np.linalg.norm(A, 2), np.finfo(float).tiny)
    point, momentum, gap = g, 1.0, np.inf
    for n_iter in range(1, max_iter + 1):
        new = point - step * (A @ point)
        for rows in classes:
            new[rows] = _onto_simplex(new[rows])
        # Reset momentum that points uphill, so that the iteration reaches machine precision.
        if (point - new) @ (new - g) > 0:
            momentum = 1.0
        following = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        point = new + (momentum - 1) / following * (new - g)
        g, momentum = new, following
        if n_iter % 10 == 0 or n_iter == max_iter:
            gradient = A @ g
            value = g @ gradient
            lowest = sum(gradient[rows].min() for rows in classes)
            gap = (value - lowest) / max(value, 1e-12)
            if gap <= tol:
                break
    return g, float(gap), n_iter


def _onto_simplex(v):
    """Return the closest point with non-negative entries that sum to one."""
    ordered = np.sort(v)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, v.size + 1)
    return np.maximum(v - excess[np.flatnonzero(ordered > excess)[-1]], 0.0)
