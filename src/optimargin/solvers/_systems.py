"""The Newton systems of an additive problem, in feature space and in sample space.

With c_i = w_i l''(r_i), zero off the active set S, one Newton step solves

    [ I + Phi' C Phi   Phi' C 1 ] [dw]     [ grad_w ]
    [ 1' C Phi         1' C 1   ] [db] = - [ grad_b ],        C = diag(c).

Feature space: that system, of the size of the features. Sample space: with w = Phi' theta,
rho = theta - p the coefficients of grad_w for the pulls p, and M = I + C^1/2 K C^1/2 on S (its
eigenvalues are at least one, whatever the weights),

    x = C^1/2 M^-1 C^1/2 (K rho),  q = C^1/2 M^-1 C^1/2 1,
    db = (1'x - grad_b) / 1'q,     dtheta = -rho + x - db q,

which sets theta to zero off S and to the ridge solution (K_SS + C_S^-1)^-1 (t_S - b) on it.
The same formulas give the step for sparse rows with more features than active samples:
dw = -grad_w + Phi_S' (x - db q).
"""

from functools import partial

import numpy as np

from optimargin._linalg import solve_spd
from optimargin.designs.base import by_space
from optimargin.designs.features import FeatureDesign
from optimargin.solvers.dcd import DualCD

# Crossovers of the start, read off benchmarks/dense.py and benchmarks/linear.py.
_SUBSAMPLE_FROM = 20_000  # rows from which a solve on a subsample pays off
_SUBSAMPLE_SHARE = 8
_SUBSAMPLE_FEATURES = 32  # with fewer, a step on all rows hardly costs more than looking at them
_STARTING_EPOCHS = 12  # of coordinate descent, for sparse rows


def newton_system(problem):
    """Return the Newton system of a problem."""
    design = problem.design
    if isinstance(design, FeatureDesign) and design.is_wide_and_sparse:
        return SparseSystem(problem)
    return by_space(design, FeatureSystem, SampleSystem)(problem)


class FeatureSystem:
    """The Newton system in the coordinates of w."""

    def __init__(self, problem):
        self.problem = problem
        self.operations = problem.design.n_samples * float(problem.design.n_coef) ** 2
        self.weight = np.zeros(problem.design.n_samples)
        self.gram = np.zeros(())  # of `weight`

    def start(self, solver):
        """Solve a subsample, where the data are large enough for that to pay off."""
        problem, design = self.problem, self.problem.design
        size = design.n_samples // _SUBSAMPLE_SHARE
        if design.n_samples < _SUBSAMPLE_FROM or not (
            _SUBSAMPLE_FEATURES <= design.n_coef <= size / 10
        ):
            return None, 0.0
        # The certificate does not depend on the start, so a fixed seed is as good as any.
        rows = np.sort(np.random.default_rng(0).choice(design.n_samples, size, replace=False))
        part = problem.over(design.take(rows), rows)
        if isinstance(design, FeatureDesign) and design.is_sparse:
            rough = DualCD(tol=1e-2, max_iter=_STARTING_EPOCHS)
        else:
            rough = type(solver)(tol=1e-3, max_iter=solver.max_iter, exact_up_to=0)
        start = rough.solve(part)
        return start.coef, start.intercept

    def direction(self, point, curvature):
        """Return the Newton step in the coefficients and in the intercept."""
        problem = self.problem
        change = curvature - self.weight
        if 2 * np.count_nonzero(change) > np.count_nonzero(curvature):
            self.gram, change = np.zeros(()), curvature
        self.gram = self.gram + problem.design.weighted_gram(change)
        if self.gram.diagonal().min() < 0:  # rounding of rows that differ much in length
            self.gram = problem.design.weighted_gram(curvature)
        self.weight = curvature
        gradient = np.append(point.residual, -point.pull.sum())
        return feature_step(self.gram, gradient, problem.fit_intercept)


def feature_step(gram, gradient, fit_intercept):
    """Solve the Newton system of w and b.

    Parameters
    ----------
    gram : ndarray of shape (n_coef + 1, n_coef + 1)
        ``[Phi, 1]' C [Phi, 1]``, lower triangle.
    gradient : ndarray of shape (n_coef + 1,)
        In w, then in b.
    fit_intercept : bool

    Returns
    -------
    coef_step : ndarray of shape (n_coef,)
    intercept_step : float
    """
    n_coef = gradient.size - 1
    hessian = gram.copy()
    hessian[np.arange(n_coef), np.arange(n_coef)] += 1.0
    if not (fit_intercept and hessian[-1, -1] > 0):
        hessian, gradient = np.ascontiguousarray(hessian[:n_coef, :n_coef]), gradient[:n_coef]
    step = solve_spd(hessian, -gradient)
    return step[:n_coef], step[n_coef] if step.size > n_coef else 0.0


class SampleSystem:
    """The Newton system in the coordinates of the active samples of a kernel."""

    def __init__(self, problem):
        self.problem = problem
        self.operations = float(problem.design.n_samples) ** 3

    def start(self, solver):
        """Solve with a low-rank factor of the kernel matrix, if there is one."""
        factor = self.problem.design.low_rank_factor
        if factor is None:
            return None, 0.0
        rough = type(solver)(tol=solver.tol, max_iter=solver.max_iter)
        start = rough.solve(self.problem.over(FeatureDesign(factor)))
        return start.pull, start.intercept

    def direction(self, point, curvature):
        """Return the Newton step in the coefficients and in the intercept."""
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


class SparseSystem:
    """The Newton system in the coordinates of the active samples, for sparse linear data."""

    def __init__(self, problem):
        self.problem = problem
        self.operations = float(problem.design.n_samples) ** 3

    def start(self, solver):
        """Find most of the active set by a few epochs of coordinate descent."""
        epochs = DualCD(tol=solver.tol, max_iter=_STARTING_EPOCHS)
        start = epochs.solve(self.problem)
        return start.coef, start.intercept

    def direction(self, point, curvature):
        """Return the Newton step in the coefficients and in the intercept."""
        design = self.problem.design
        active = np.flatnonzero(curvature)
        image = design.decision(point.residual)[active]
        moved, intercept_step = _active_step(
            self.problem, point, active, curvature, partial(design.scaled_gram, active), image
        )
        coefficients = np.zeros(design.n_samples)
        coefficients[active] = moved
        return design.represent(coefficients) - point.residual, intercept_step


def _active_step(problem, point, active, curvature, scaled_block, image):
    """Return x - db q on the active samples, and db.

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
    x, q = ((scale * root)[:, None] * solve_spd(M, right)).T
    if not problem.fit_intercept:
        return x, 0.0
    return eliminate_intercept(x, q, point)


def eliminate_intercept(x, q, point):
    """Return x - db q, and the step db of the intercept.

    Where rounding leaves nothing of q, the intercept waits for its own exact minimisation.
    """
    total = q.sum()
    if not total > 0:
        return x, 0.0
    intercept_step = (x.sum() + point.pull.sum()) / total
    return x - intercept_step * q, intercept_step
