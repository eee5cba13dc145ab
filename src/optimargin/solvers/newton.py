"""Semismooth Newton with an exact line search.

Problem    min over w, b   1/2 |w|^2 + sum_i w_i l(y_i (phi_i' w + b))

The gradient of a piecewise quadratic loss is piecewise linear: with c_i = w_i l''(g_i), zero
off the active set S, one step solves

    [ I + Phi' C Phi   Phi' C 1 ] [dw]     [ grad_w ]
    [ 1' C Phi         1' C 1   ] [db] = - [ grad_b ],        C = diag(c).

Feature space: that system, of the size of the features. Sample space: with w = Phi' theta,
rho = theta - y d the coefficients of grad_w, and M = I + C^1/2 K C^1/2 on S (its eigenvalues
are at least one, whatever the weights),

    p = C^1/2 M^-1 C^1/2 (K rho),  q = C^1/2 M^-1 C^1/2 1,
    db = (1'p - grad_b) / 1'q,     dtheta = -rho + p - db q,

which sets theta to zero off S and to the ridge solution (K_SS + C_S^-1)^-1 (t_S - b) on it.
When S no longer changes the step is exact, so the method ends after a few steps.

Reference: S. S. Keerthi and D. DeCoste, A modified finite Newton method for fast solution of
large scale linear SVMs, JMLR 6 (2005).
"""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from optimargin.problems import FeatureDesign, MarginProblem
from optimargin.solvers.base import Solution, Solver

_EXACT_FINISH = 2e9  # up to this many operations a step, go on past tol to an exact end
_EXACT_GAP = 1e-15
_SUBSAMPLE_FROM = 20_000  # rows from which a solve on a subsample is worth its price
_SUBSAMPLE_SHARE = 20


class Newton(Solver):
    """Semismooth Newton by factorisation, in feature space or in sample space.

    Parameters
    ----------
    tol, max_iter, seed
        See `Solver`.
    exact_finish : bool, default=True
        Go on past `tol` until the active set is final, where a step is cheap.
    """

    def __init__(self, *, tol, max_iter, seed=0, exact_finish=True):
        super().__init__(tol=tol, max_iter=max_iter, seed=seed)
        self.exact_finish = exact_finish

    def solve(self, problem, coef=None, intercept=0.0):
        if coef is None:
            coef, intercept = self._cheap_start(problem)
        direction = _DIRECTIONS[problem.design.space]
        point = problem.point(coef, intercept)
        exact_finish = self.exact_finish and _operations(problem) <= _EXACT_FINISH
        n_iter = 0
        while n_iter < self.max_iter:
            done = _EXACT_GAP if exact_finish else self.tol
            if n_iter and point.relative_gap <= done:
                break
            moved, length = problem.step(point, *direction(problem, point))
            n_iter += 1
            stalled = length == 0 or (length == 1 and moved.gap > 0.5 * point.gap)
            same_active_set = length == 1 and np.array_equal(moved.curvature, point.curvature)
            if moved.value <= point.value or moved.gap < point.gap:
                point = moved
            if stalled or (same_active_set and point.relative_gap <= self.tol):
                break
        return Solution.from_point(point, n_iter)

    def _cheap_start(self, problem):
        """Return a starting point from a smaller problem, where that pays."""
        if problem.design.space == "feature":
            return self._subsample_start(problem)
        return self._low_rank_start(problem)

    def _subsample_start(self, problem):
        n_samples, n_features = problem.design.X.shape
        size = n_samples // _SUBSAMPLE_SHARE
        if n_samples < _SUBSAMPLE_FROM or size < 10 * n_features:
            return None, 0.0
        # The certificate does not depend on the start, so a fixed seed is as good as any.
        rows = np.sort(np.random.default_rng(0).choice(n_samples, size, replace=False))
        weight = problem.weight[rows]
        y = problem.y[rows]
        if np.ptp(y) == 0:
            return None, 0.0
        sub = MarginProblem(
            problem.loss,
            FeatureDesign(problem.design.X[rows], problem.design.center),
            y,
            weight / weight.sum(),
            fit_intercept=problem.fit_intercept,
        )
        start = Newton(tol=1e-3, max_iter=self.max_iter, exact_finish=False).solve(sub)
        return start.coef, start.intercept

    def _low_rank_start(self, problem):
        factor = problem.design.low_rank_factor
        if factor is None:
            return None, 0.0
        sub = MarginProblem(
            problem.loss,
            FeatureDesign(factor),
            problem.y,
            problem.weight,
            fit_intercept=problem.fit_intercept,
        )
        start = Newton(tol=self.tol, max_iter=self.max_iter).solve(sub)
        return problem.y * start.dual, start.intercept


def _operations(problem):
    design = problem.design
    return design.n_samples * float(min(design.n_coef, design.n_samples)) ** 2


def _feature_direction(problem, point):
    gram = problem.design.weighted_gram(point.curvature)
    n_coef = problem.design.n_coef
    gradient = point.residual
    if problem.fit_intercept and gram[-1, -1] > 0:
        gradient = np.append(gradient, -problem.y @ point.dual)
    else:
        gram = gram[:n_coef, :n_coef]
    gram[np.arange(n_coef), np.arange(n_coef)] += 1.0
    step = _solve_spd(gram, -gradient)
    return step[:n_coef], step[n_coef] if step.size > n_coef else 0.0


def _sample_direction(problem, point):
    active = np.flatnonzero(point.curvature)
    step = -point.residual
    if active.size == 0:
        return step, 0.0
    root = np.sqrt(point.curvature[active])
    M = problem.design.block(active)
    M *= root
    M *= root[:, None]
    M[np.arange(active.size), np.arange(active.size)] += 1.0
    right = np.column_stack([root * point.residual_image[active], root])
    p, q = (root[:, None] * _solve_spd(M, right)).T
    if not problem.fit_intercept:
        step[active] += p
        return step, 0.0
    intercept_step = (p.sum() + problem.y @ point.dual) / q.sum()
    step[active] += p - intercept_step * q
    return step, intercept_step


_DIRECTIONS = {"feature": _feature_direction, "sample": _sample_direction}


def _solve_spd(A, b):
    """Solve with a symmetric positive definite matrix (lower triangle; overwritten).

    `A` is scaled to unit diagonal first. If rounding has made it singular, its small
    eigenvalues are raised instead: a step need not be exact, only downhill.
    """
    scale = 1.0 / np.sqrt(np.diagonal(A))
    b = (b.T * scale).T
    try:
        A *= scale
        A *= scale[:, None]
        solution = cho_solve(cho_factor(A, lower=True, check_finite=False), b, check_finite=False)
        if not np.isfinite(solution).all():
            raise LinAlgError
    except LinAlgError:
        values, vectors = eigh(A, lower=True, check_finite=False)
        values = np.maximum(values, A.shape[0] * np.finfo(float).eps * values[-1])
        solution = vectors @ ((vectors.T @ b).T / values).T
    return (solution.T * scale).T
