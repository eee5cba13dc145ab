"""An independent judge of fits: objectives in extended precision, and lower objectives, if any.

Nothing here uses optimargin. A fit is judged by its own numbers: the objective of its
coefficients is evaluated in extended precision, and Newton steps of another formulation try to
lower it. What they gain is a lower bound on the distance from the optimum, which a certified gap
must not be below.
"""

import numpy as np
from scipy.linalg import lstsq, solve
from scipy.spatial.distance import cdist

_LONG = np.longdouble
_LENGTHS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 1e-3, 1e-4)
_FLOOR = 1e-3  # relative gaps are relative to the objective, or to this
_SETTLED = 1e-12  # of the objective: a Newton step that gains less is the last


def kernel_matrix(name, X, gamma, degree, coef0):
    """Return kernel values of dense rows, from differences or in extended precision."""
    X = np.asarray(X, dtype=np.float64)
    if name == "rbf":
        return np.exp(-_LONG(gamma) * cdist(X, X, "sqeuclidean"))
    products = X.astype(_LONG) @ X.T.astype(_LONG)
    if name == "linear":
        return products
    return (_LONG(gamma) * products + _LONG(coef0)) ** degree


class Band:
    """The loss of margins, and the sample weights.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Labels, -1 or +1.
    weight : ndarray of shape (n_samples,)
    C1, C2, D : float
    """

    def __init__(self, y, weight, C1, C2, D):
        self.y, self.weight = y, weight / weight.sum()
        self.C1, self.C2, self.D = C1, C2, D

    def value(self, decision):
        """Return the loss in extended precision."""
        margin = self.y * decision
        below, above = np.maximum(1 - self.D - margin, 0), np.maximum(margin - 1 - self.D, 0)
        return self.weight.astype(_LONG) @ (self.C1 * below**2 + self.C2 * above**2)

    def quadratic(self, decision):
        """Return active samples, their curvatures and the decision values they aim at."""
        margin = np.asarray(self.y * decision, dtype=np.float64)
        below = margin < 1 - self.D
        above = (margin > 1 + self.D) & (self.C2 > 0)
        active = np.flatnonzero((below | above) & (self.weight > 0))
        curvature = 2 * self.weight * np.where(below, self.C1, self.C2)
        aim = self.y * np.where(below, 1 - self.D, 1 + self.D)
        return active, curvature[active], aim[active]


class KernelProblem:
    """Coefficients of samples and an intercept, in one vector."""

    def __init__(self, K, band, fit_intercept):
        self.K, self.band, self.fit_intercept = K.astype(_LONG), band, fit_intercept
        self.rounded = K.astype(np.float64)

    def image(self, z):
        """Return decision values without the intercept, and what the norm is the product with."""
        decision = self.K @ z[:-1].astype(_LONG)
        return decision, decision

    def rounding(self, z):
        """Return what objectives are known to, at best: the sizes of what cancels in them."""
        size = np.abs(z[:-1])
        return float(np.finfo(_LONG).eps) * float(size @ np.abs(self.rounded) @ size)

    def newton(self, decision):
        """Return the solution of the quadratic piece at decision values."""
        active, curvature, aim = self.band.quadratic(decision)
        new = np.zeros(self.rounded.shape[0] + 1)
        if not active.size:
            return new
        scale = np.sqrt(1.0 / (1.0 / curvature + np.diagonal(self.rounded)[active]))
        M = self.rounded[np.ix_(active, active)] * scale * scale[:, None]
        M[np.diag_indices_from(M)] += scale**2 / curvature
        x = solve(M, scale[:, None] * np.column_stack([aim, np.ones(active.size)]), assume_a="sym")
        if self.fit_intercept:
            new[-1] = (scale @ x[:, 0]) / (scale @ x[:, 1])
        new[active] = scale * (x[:, 0] - new[-1] * x[:, 1])
        return new


class LinearProblem:
    """Coefficients of features and an intercept, in one vector."""

    def __init__(self, X, band, fit_intercept):
        self.X, self.band, self.fit_intercept = X.astype(_LONG), band, fit_intercept

    def image(self, z):
        """Return decision values without the intercept, and what the norm is the product with."""
        w = z[:-1].astype(_LONG)
        return self.X @ w, w

    def rounding(self, z):
        """Return what objectives are known to, at best."""
        return 0.0

    def newton(self, decision):
        """Return the solution of the quadratic piece at decision values, by least squares."""
        active, curvature, aim = self.band.quadratic(decision)
        n_features, root = self.X.shape[1], np.sqrt(curvature)
        ones = np.full((active.size, 1), float(self.fit_intercept))
        rows = root[:, None] * np.column_stack([self.X[active].astype(np.float64), ones])
        rows = np.vstack([rows, np.eye(n_features, n_features + 1)])
        length = np.sqrt(np.square(rows).sum(axis=0))
        length[length == 0] = 1.0
        right = np.append(root * aim, np.zeros(n_features))
        return lstsq(rows / length, right, lapack_driver="gelsy", cond=1e-300)[0] / length


def gain(problem, z, n_steps):
    """Return the objective at `z`, by how much of itself it can be lowered, and if that is all.

    It is all where a last full Newton step gains nothing: the optimum of a convex problem. Steps
    can also end before, where rounding hides which way is down.
    """
    z = np.asarray(z, dtype=np.float64)
    decision, dual = problem.image(z)
    first = best = 0.5 * z[:-1] @ dual + problem.band.value(decision + z[-1])
    is_optimum = False
    for _ in range(n_steps):
        try:
            with np.errstate(all="ignore"):
                step = problem.newton(decision + z[-1]) - z
        except (np.linalg.LinAlgError, ValueError):
            break
        if not np.isfinite(step).all():
            break
        moved, dual_step = problem.image(step)
        found = best
        for t in _LENGTHS:
            norm = (z[:-1] + t * step[:-1]).astype(_LONG) @ (dual + t * dual_step)
            value = 0.5 * norm + problem.band.value(decision + t * moved + z[-1] + t * step[-1])
            if value < found:
                found, length = value, t
        gained = best - found
        if gained > 0:
            z, best = z + length * step, found
            decision, dual = problem.image(z)
        is_optimum = gained <= _SETTLED * max(abs(best), _FLOOR)
        if is_optimum:
            break
    return float(first), float((first - best) / max(abs(first), _FLOOR)), bool(is_optimum)
