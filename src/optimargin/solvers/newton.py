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
The same formulas give the step for sparse rows with more features than active samples:
dw = -grad_w + Phi_S' (p - db q). When S no longer changes the step is exact, so the method ends
after a few steps; Phi' C Phi is then brought up to date from the rows that joined or left S.

Reference: S. S. Keerthi and D. DeCoste, A modified finite Newton method for fast solution of
large scale linear SVMs, JMLR 6 (2005).
"""

from functools import partial

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from optimargin.problems import FeatureDesign, MarginProblem
from optimargin.problems.kernel_design import FACTORISE_ALONE_UP_TO
from optimargin.solvers.base import Solution, Solver
from optimargin.solvers.dcd import DualCD

_EXACT_GAP = 1e-24
_SHORT_STEP = 0.5
_SUBSAMPLE_FROM = 20_000  # rows from which a solve on a subsample is worth its price
_SUBSAMPLE_SHARE = 8
_SUBSAMPLE_FEATURES = 32  # with fewer a step on all rows hardly costs more than a look at them
_STARTING_EPOCHS = 12  # of coordinate descent, for sparse rows


class Newton(Solver):
    """Semismooth Newton by factorisation, in feature space or in sample space.

    Parameters
    ----------
    tol, max_iter, seed
        See `Solver`.
    exact_up_to : float, default=2e8
        Go on past `tol` until the active set is final where a step takes at most that many
        operations.
    """

    def __init__(self, *, tol, max_iter, seed=0, exact_up_to=2e8):
        super().__init__(tol=tol, max_iter=max_iter, seed=seed)
        self.exact_up_to = exact_up_to

    def own_threads(self, design):
        # Wide sparse data are solved in sample space; large factorisations are left to BLAS.
        in_features = design.space == "feature" and design.n_samples >= design.n_coef
        return design.own_threads and (in_features or design.n_samples <= FACTORISE_ALONE_UP_TO)

    def solve(self, problem, coef=None, intercept=0.0):
        system = _choose_system(problem)
        if coef is None:
            coef, intercept = system.start(self)
        point = problem.point(coef, intercept)
        done = _EXACT_GAP if system.operations <= self.exact_up_to else self.tol
        n_iter = 1
        if point.relative_gap <= done:
            return Solution.from_point(point, n_iter)
        curvature = point.curvature
        for n_iter in self.iterations():  # noqa: B007
            direction = system.direction(point, curvature)
            moved, length = problem.step(point, *direction)
            # The gap may rise on the way; where the objective makes no progress either,
            # rounding has the last word.
            descended = moved.value < point.value - 1e-14 * abs(point.value)
            progress = length > 0 and (descended or moved.gap < 0.5 * point.gap)
            # The length of a step that brings nothing is a matter of rounding, too.
            is_final = length == 1 or not descended
            same_active_set = is_final and np.array_equal(moved.curvature, point.curvature)
            start = point
            if moved.value <= point.value or moved.gap < point.gap:
                point = moved
            # Samples that stop a step short sit at a kink of the loss, beyond which their
            # curvature is larger: it is kept until a long step is possible again.
            stiffer = moved.curvature
            if length <= _SHORT_STEP:
                stiffer = np.maximum(curvature, stiffer)
                if np.array_equal(stiffer, curvature):
                    beyond = problem.curvature_after(start, *direction)
                    stiffer = np.maximum(stiffer, beyond)
                progress = progress or not np.array_equal(stiffer, curvature)
            curvature = stiffer
            settled = same_active_set and point.relative_gap <= self.tol
            if settled or not progress or point.relative_gap <= done:
                break
        return Solution.from_point(point, n_iter)


def _choose_system(problem):
    design = problem.design
    if design.space == "sample":
        return _SampleSystem(problem)
    if design.is_sparse and design.n_coef > design.n_samples:
        return _SparseSystem(problem)
    return _FeatureSystem(problem)


class _FeatureSystem:
    """The Newton system in the coordinates of w."""

    def __init__(self, problem):
        self.problem = problem
        self.operations = problem.design.n_samples * float(problem.design.n_coef) ** 2
        self.weight = np.zeros(problem.design.n_samples)
        self.gram = np.zeros(())  # of `weight`

    def start(self, solver):
        """Solve a subsample, where the data are large enough for that to pay."""
        problem = self.problem
        n_samples, n_features = problem.design.X.shape
        size = n_samples // _SUBSAMPLE_SHARE
        if n_samples < _SUBSAMPLE_FROM or not _SUBSAMPLE_FEATURES <= n_features <= size / 10:
            return None, 0.0
        # The certificate does not depend on the start, so a fixed seed is as good as any.
        rows = np.sort(np.random.default_rng(0).choice(n_samples, size, replace=False))
        weight = problem.weight[rows]
        if np.ptp(problem.y[rows]) == 0:
            return None, 0.0
        sub = MarginProblem(
            problem.loss,
            FeatureDesign(problem.design.X[rows], problem.design.center),
            problem.y[rows],
            weight / weight.sum(),
            fit_intercept=problem.fit_intercept,
        )
        rough: Solver
        if problem.design.is_sparse and _has_coordinate_step(problem):
            rough = DualCD(tol=1e-2, max_iter=_STARTING_EPOCHS, seed=solver.seed)
        else:
            rough = Newton(tol=1e-3, max_iter=solver.max_iter, exact_up_to=0)
        start = rough.solve(sub)
        return start.coef, start.intercept

    def direction(self, point, curvature):
        problem, n_coef = self.problem, self.problem.design.n_coef
        change = curvature - self.weight
        if 2 * np.count_nonzero(change) > np.count_nonzero(curvature):
            self.gram, change = np.zeros(()), curvature
        self.gram = self.gram + problem.design.weighted_gram(change)
        if self.gram.diagonal().min() < 0:  # rounding of rows that differ much in length
            self.gram = problem.design.weighted_gram(curvature)
        self.weight = curvature
        hessian = self.gram.copy()
        hessian[np.arange(n_coef), np.arange(n_coef)] += 1.0
        gradient = point.residual
        if problem.fit_intercept and hessian[-1, -1] > 0:
            gradient = np.append(gradient, -problem.y @ point.dual)
        else:
            hessian = hessian[:n_coef, :n_coef]
        step = _solve_spd(hessian, -gradient)
        return step[:n_coef], step[n_coef] if step.size > n_coef else 0.0


class _SampleSystem:
    """The Newton system in the coordinates of the active samples of a kernel."""

    def __init__(self, problem):
        self.problem = problem
        self.operations = float(problem.design.n_samples) ** 3

    def start(self, solver):
        """Solve with a low-rank factor of the kernel matrix, if there is one."""
        problem = self.problem
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
        start = Newton(tol=solver.tol, max_iter=solver.max_iter).solve(sub)
        return problem.y * start.dual, start.intercept

    def direction(self, point, curvature):
        design = self.problem.design
        active = np.flatnonzero(curvature)
        step = -point.residual

        def scaled_block(scale):
            block = design.block(active)
            block *= scale
            block *= scale[:, None]
            return block

        image = point.residual_image[active]
        if not (design.complete or point.curvature[active].all()):
            # A kink that is held on to adds samples where such a design left the image out.
            image = design.decision(point.residual)[active]
        moved, intercept_step = _active_step(
            self.problem, point, active, curvature, scaled_block, image
        )
        step[active] += moved
        return step, intercept_step


class _SparseSystem:
    """The Newton system in the coordinates of the active samples, for sparse linear data."""

    def __init__(self, problem):
        self.problem = problem
        self.operations = float(problem.design.n_samples) ** 3

    def start(self, solver):
        """Find most of the active set by a few epochs of coordinate descent."""
        if not _has_coordinate_step(self.problem):
            return None, 0.0
        epochs = DualCD(tol=solver.tol, max_iter=_STARTING_EPOCHS, seed=solver.seed)
        start = epochs.solve(self.problem)
        return start.coef, start.intercept

    def direction(self, point, curvature):
        design = self.problem.design
        active = np.flatnonzero(curvature)
        image = design.decision(point.residual)[active]
        moved, intercept_step = _active_step(
            self.problem, point, active, curvature, partial(design.scaled_gram, active), image
        )
        coefficients = np.zeros(design.n_samples)
        coefficients[active] = moved
        return design.represent(coefficients) - point.residual, intercept_step


def _has_coordinate_step(problem):
    """Whether the loss has what coordinate descent needs, which a new loss may lack."""
    return hasattr(problem.loss, "coordinate_step")


def _active_step(problem, point, active, curvature, scaled_block, image):
    """Return p - db q on the active samples, and db.

    Parameters
    ----------
    active : ndarray of shape (n_active,)
        The active samples.
    curvature : ndarray of shape (n_samples,)
    scaled_block : callable
        Given a vector s of shape (n_active,) it returns diag(s) K diag(s) for the inner products
        K of the active samples; the lower triangle is enough.
    image : ndarray of shape (n_active,)
        Decision values of the gradient at the active samples.
    """
    if active.size == 0:
        return np.empty(0), 0.0
    root = np.sqrt(curvature[active])
    # A unit diagonal costs nothing here and keeps rounding small.
    scale = 1.0 / np.sqrt(1.0 + curvature[active] * problem.design.squared_norms[active])
    M = scaled_block(scale * root)
    M[np.diag_indices_from(M)] += scale**2
    right = scale[:, None] * np.column_stack([root * image, root])
    p, q = ((scale * root)[:, None] * _solve_spd(M, right)).T
    if not problem.fit_intercept:
        return p, 0.0
    intercept_step = (p.sum() + problem.y @ point.dual) / q.sum()
    return p - intercept_step * q, intercept_step


def _solve_spd(A, b):
    """Solve with a symmetric positive definite matrix (lower triangle).

    If rounding has made it singular, the small eigenvalues of the matrix scaled to a unit
    diagonal are raised: a step need not be exact, only downhill. Cholesky's method has no use
    for the scaling.
    """
    try:
        # The lower triangle by rows is the upper one by columns, which LAPACK reads as it is.
        factor = cho_factor(A.T, lower=False, check_finite=False)
        solution = cho_solve(factor, b, check_finite=False)
        if not np.isfinite(solution).all():
            raise LinAlgError
    except LinAlgError:
        scale = 1.0 / np.sqrt(np.diagonal(A))
        values, vectors = eigh(A * scale * scale[:, None], lower=True, check_finite=False)
        values = np.maximum(values, A.shape[0] * np.finfo(float).eps * values[-1])
        solution = vectors @ ((vectors.T @ (b.T * scale).T).T / values).T
        solution = (solution.T * scale).T
    return solution
