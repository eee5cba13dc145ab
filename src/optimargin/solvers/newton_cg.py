"""Truncated Newton: the Newton step by preconditioned conjugate gradients.

Problem    min over w, b   1/2 |w|^2 + sum_i w_i l(y_i (phi_i' w + b))

The linear system is that of `newton`, with c_i = w_i l''(g_i) and the intercept eliminated.

Feature space   (I + Phi' (C - C 1 1' C / 1'C1) Phi) dw = -grad: one product reads every
    active row once. Preconditioned by the diagonal; ended when the quadratic model no longer
    improves, because a better step on a model that the next active set will change is wasted,
    or when the residual r is small enough: 1/2 |r|^2 is the duality gap after the step if the
    active set stays.
Sample space    M = I + C^1/2 K C^1/2 for the two right-hand sides of `newton` at once, so
    that the intercept costs no further pass over K. Preconditioned with a Nystrom
    approximation K ~ B B' from a few landmark columns, by Woodbury's identity
    (I + A A')^-1 = I - A (I + A'A)^-1 A',  A = C^1/2 B.

References: S. G. Nash and A. Sofer, Assessing a search direction within a truncated Newton
method, Oper. Res. Lett. 9 (1990). C.-Y. Hsia et al., Preconditioned conjugate gradient methods
in truncated Newton frameworks for large-scale linear classification, ACML 2018. Z. Frangella
et al., Randomized Nystrom preconditioning, SIAM J. Matrix Anal. Appl. 44 (2023).
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from optimargin.problems import FeatureDesign, MarginProblem
from optimargin.solvers.base import Solution, Solver
from optimargin.solvers.newton import Newton

_MAX_CG = 200
_FINEST = 1e-13  # no system is solved more precisely than this
_N_LANDMARKS = 100
_MODEL_STOP = 0.5  # relative improvement of the quadratic model a CG step must bring
_GAP_SHARE = 0.5  # of the allowed gap that a step may leave
_RESIDUAL_STOP = 0.05  # residual of the sample-space system, relative to its right-hand side


class NewtonCG(Solver):
    """Semismooth Newton by conjugate gradients, in feature space or in sample space."""

    def solve(self, problem, coef=None, intercept=0.0):
        space = self._make_space(problem)
        if coef is None:
            coef, intercept = space.start()
        point = problem.point(coef, intercept)
        n_iter = 1
        if point.relative_gap <= self.tol:
            return Solution.from_point(point, n_iter)
        for n_iter in self.iterations():  # noqa: B007
            moved, length = problem.step(point, *space.direction(point))
            if length == 0 and space.accuracy <= _FINEST:
                break
            # A direction too rough to follow far: the next system is solved more precisely.
            rough = length < 0.1 or moved.gap > 0.5 * point.gap
            factor = 0.05 if rough else 2.0 if length > 0.5 else 1.0
            space.accuracy = min(max(factor * space.accuracy, _FINEST), space.roughest)
            point = moved
            if point.relative_gap <= self.tol:
                break
        return Solution.from_point(point, n_iter)

    def _make_space(self, problem):
        return _SPACES[problem.design.space](problem, self)


class _FeatureSpace:
    roughest = _MODEL_STOP

    def __init__(self, problem, solver):
        self.problem = problem
        self.accuracy = self.roughest
        self.tol = solver.tol

    def start(self):
        return None, 0.0

    def direction(self, point):
        problem, design = self.problem, self.problem.design
        rows = np.flatnonzero(point.curvature)
        weight = point.curvature[rows]
        total = weight.sum()
        has_intercept = problem.fit_intercept and total > 0
        weighted_sum = design.represent(point.curvature) if has_intercept else None

        def product(v):
            out, moment = design.hessian_product(rows, weight, v)
            if has_intercept:
                out -= moment / total * weighted_sum
            return out + v, moment

        diagonal = design.diagonal(rows, weight)
        enough = small_residual(self.tol, point)
        step, moment = _model_cg(product, -point.residual, diagonal, self.accuracy, enough)
        intercept_step = -moment / total if has_intercept else 0.0
        return step, intercept_step


def small_residual(tol, point):
    """Return the norm of a residual that leaves a part of the allowed gap only."""
    return np.sqrt(_GAP_SHARE * tol * point.value)


def _model_cg(product, right, diagonal, accuracy, enough):
    """Solve approximately; return the solution and its moment (see `hessian_product`)."""
    solution = np.zeros_like(right)
    residual = right.copy()
    z = residual / diagonal
    direction = z.copy()
    rho = residual @ z
    moment = model = 0.0
    for k in range(1, _MAX_CG + 1):
        if rho == 0:  # solved exactly, by as many steps as there are features
            break
        image, image_moment = product(direction)
        alpha = rho / (direction @ image)
        solution += alpha * direction
        residual -= alpha * image
        moment += alpha * image_moment
        new_model = -0.5 * solution @ (right + residual)
        if k * (1 - model / new_model) <= accuracy or np.linalg.norm(residual) <= enough:
            break
        model = new_model
        z = residual / diagonal
        rho, old_rho = residual @ z, rho
        direction = z + (rho / old_rho) * direction
    return solution, moment


class _SampleSpace:
    roughest = _RESIDUAL_STOP

    def __init__(self, problem, solver):
        self.problem = problem
        self.accuracy = self.roughest
        n_samples = problem.design.n_samples
        n_landmarks = min(_N_LANDMARKS, n_samples)
        landmarks = np.random.default_rng(solver.seed).choice(n_samples, n_landmarks, replace=False)
        columns = problem.design.columns(np.sort(landmarks))
        core = columns[np.sort(landmarks)]
        core[np.diag_indices_from(core)] += 1e-6 * np.trace(core) / n_landmarks or 1.0
        self.factor = np.ascontiguousarray(
            solve_triangular(cholesky(core, lower=True), columns.T, lower=True).T
        )

    def start(self):
        """Solve with the Nystrom factor instead of the kernel matrix."""
        problem = self.problem
        rough = MarginProblem(
            problem.loss,
            FeatureDesign(self.factor),
            problem.y,
            problem.weight,
            fit_intercept=problem.fit_intercept,
        )
        solution = Newton(tol=1e-3, max_iter=20, exact_up_to=0).solve(rough)
        return problem.y * solution.dual, solution.intercept

    def direction(self, point):
        problem = self.problem
        active = np.flatnonzero(point.curvature)
        step = -point.residual
        if active.size == 0:
            return step, 0.0
        root = np.sqrt(point.curvature[active])
        right = root * point.residual_image[active]
        right = np.vstack([right, root]) if problem.fit_intercept else right[None]
        p, *q = root * self._solve(active, root, right)
        if not problem.fit_intercept:
            step[active] += p
            return step, 0.0
        intercept_step = (p.sum() + problem.y @ point.dual) / q[0].sum()
        step[active] += p - intercept_step * q[0]
        return step, intercept_step

    def _solve(self, active, root, right):
        """Solve ``(I + diag(root) K[active, active] diag(root)) x = right`` for each row."""
        low_rank = FeatureDesign(root[:, None] * self.factor[active])
        core = low_rank.weighted_gram(np.ones(active.size))[:-1, :-1]
        core[np.diag_indices_from(core)] += 1.0
        core = cho_factor(core, lower=True)

        def precondition(R):
            inner = cho_solve(core, np.column_stack([low_rank.represent(r) for r in R]))
            return R - np.array([low_rank.decision(v) for v in np.ascontiguousarray(inner.T)])

        padded = np.zeros((right.shape[0], self.problem.design.n_samples))

        def product(V):
            padded[:, active] = root * V
            return V + root * self.problem.design.product(padded)[:, active]

        solution = precondition(right)
        residual = right - product(solution)
        z = precondition(residual)
        direction = z.copy()
        rho = np.einsum("ij,ij->i", residual, z)
        target = self.accuracy * np.linalg.norm(right, axis=1)
        for _ in range(_MAX_CG):
            if (np.linalg.norm(residual, axis=1) <= target).all():
                break
            image = product(direction)
            curvature = np.einsum("ij,ij->i", direction, image)
            alpha = np.divide(rho, curvature, out=np.zeros_like(rho), where=curvature > 0)
            solution += alpha[:, None] * direction
            residual -= alpha[:, None] * image
            z = precondition(residual)
            new_rho = np.einsum("ij,ij->i", residual, z)
            beta = np.divide(new_rho, rho, out=np.zeros_like(rho), where=rho > 0)
            direction = z + beta[:, None] * direction
            rho = new_rho
        return solution


_SPACES: dict[str, type[_FeatureSpace] | type[_SampleSpace]] = {
    "feature": _FeatureSpace,
    "sample": _SampleSpace,
}
