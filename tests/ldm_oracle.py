"""An independent solver of the LDM primal, and an independent objective to judge both by.

Nothing here uses optimargin: the problem goes to a conic solver as

    min  1/2 |w|^2 + l1 sum_i s_i (g_i - mean)^2 - l2 mean + C sum_i s_i xi_i    (s sums to one)
    s.t. g_i = y_i (phi_i' w + b) >= 1 - xi_i,   xi >= 0,   mean = sum_i s_i g_i.
"""

import cvxpy as cp
import numpy as np


def objective(norm_squared, decision, y, weight, C, lambda1, lambda2):
    """Return the LDM objective of a model with these decision values and norm."""
    share = weight / weight.sum()
    margin = y * decision
    mean = share @ margin
    variance = share @ (margin - mean) ** 2
    hinge = share @ np.maximum(0.0, 1 - margin)
    return norm_squared / 2 + lambda1 * variance - lambda2 * mean + C * hinge


def solve(features, y, weight, C, lambda1, lambda2, *, fit_intercept):
    """Return w and b of the conic solver for samples with explicit features."""
    n_samples, n_features = features.shape
    share = weight / weight.sum()
    w, b, mean = cp.Variable(n_features), cp.Variable(), cp.Variable()
    margin = cp.multiply(y, features @ w + b)
    root = np.sqrt(2 * lambda1 * share)
    cost = 0.5 * cp.sum_squares(w) - lambda2 * mean
    constraints = [mean == share @ margin]
    if lambda1 > 0:
        cost += 0.5 * cp.sum_squares(cp.multiply(root, margin - mean))
    if np.isinf(C):
        constraints.append(margin >= 1)
    else:
        # Slacks times their penalty: the solver sees numbers of similar size.
        slack = cp.Variable(n_samples, nonneg=True)
        cost += cp.sum(slack)
        constraints.append(margin + cp.multiply(slack, 1 / (C * share)) >= 1)
    if not fit_intercept:
        constraints.append(b == 0)
    problem = cp.Problem(cp.Minimize(cost), constraints)
    for tol in (1e-12, 1e-10, 1e-8):
        try:
            problem.solve(cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
            break
        except cp.SolverError:
            continue
    else:
        raise RuntimeError("the conic solver found no solution")
    return np.asarray(w.value), float(b.value) if fit_intercept else 0.0
