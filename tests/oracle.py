"""An independent solver of the ODM primal, and an independent objective to judge both by.

Nothing here uses optimargin: the problem goes to a conic solver as

    min  1/2 |w|^2 + C1 sum_i s_i xi_i^2 + C2 sum_i s_i eps_i^2      (s sums to one)
    s.t. -D - eps_i <= o_i (t_i - phi_i' w - b) <= D + xi_i,    xi, eps >= 0

with targets t and orientations o: both y for labels, y and 1 for numbers.
"""

import warnings

import cvxpy as cp
import numpy as np


def objective(norm_squared, decision, y, weight, C1, C2, D, orientation=None):
    """Return the ODM objective of a model with these decision values and norm."""
    shortfall = (y if orientation is None else orientation) * (y - decision)
    below = np.maximum(0.0, shortfall - D)
    above = np.maximum(0.0, -shortfall - D)
    return norm_squared / 2 + (weight / weight.sum()) @ (C1 * below**2 + C2 * above**2)


def solve(features, y, weight, C1, C2, D, *, fit_intercept, orientation=None):
    """Return w and b of the conic solver for samples with explicit features.

    Parameters
    ----------
    features : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Labels, -1 or +1, or numbers.
    weight : ndarray of shape (n_samples,)
    orientation : ndarray of shape (n_samples,), default=None
        Ones for numbers; that of labels are the labels.
    """
    orientation = y if orientation is None else orientation
    n_samples, n_features = features.shape
    root = np.sqrt(weight / weight.sum())
    w, b = cp.Variable(n_features), cp.Variable()
    # Slacks times the square root of their penalty: the solver sees numbers of similar size.
    below, above = cp.Variable(n_samples, nonneg=True), cp.Variable(n_samples, nonneg=True)
    shortfall = cp.multiply(orientation, y - features @ w - b)
    cost = 0.5 * cp.sum_squares(w) + cp.sum_squares(below)
    constraints = [shortfall - cp.multiply(below, 1 / (root * np.sqrt(C1))) <= D]
    if C2 > 0:
        cost += cp.sum_squares(above)
        constraints.append(shortfall + cp.multiply(above, 1 / (root * np.sqrt(C2))) >= -D)
    if not fit_intercept:
        constraints.append(b == 0)
    problem = cp.Problem(cp.Minimize(cost), constraints)
    best = None
    for tol in (1e-12, 1e-10, 1e-8):
        status = _attempt(problem, tol)
        if w.value is None:
            continue
        solution = np.asarray(w.value), float(b.value) if fit_intercept else 0.0
        value = objective(
            solution[0] @ solution[0],
            features @ solution[0] + solution[1],
            y,
            weight,
            C1,
            C2,
            D,
            orientation,
        )
        if best is None or value < best[0]:
            best = value, solution
        if status == cp.OPTIMAL:
            break
    if best is None:
        raise RuntimeError("the conic solver found no solution")
    return best[1]


def _attempt(problem, tol):
    """Solve to a tolerance that may be out of reach and return the status."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        try:
            problem.solve(cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
        except cp.SolverError:
            return "failed"
    return problem.status


def features_of_kernel(K):
    """Return F of shape (n_samples, rank) with ``F @ F.T`` the positive part of K."""
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    kept = values > values[-1] * len(K) * np.finfo(float).eps
    if not kept.any():  # the conic solver needs a variable
        return np.zeros((len(K), 1))
    return vectors[:, kept] * np.sqrt(values[kept])
