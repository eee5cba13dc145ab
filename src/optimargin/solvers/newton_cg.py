"""Truncated Newton: the Newton step by preconditioned conjugate gradients.

Problem    min over w, b   1/2 |w|^2 + sum_i w_i l(s_i (t_i - phi_i' w - b))

The linear system is that of `optimargin.systems`, with c_i = w_i l''(r_i) and the intercept
eliminated.

Feature space   (I + Phi' (C - C 1 1' C / 1'C1) Phi) dw = -grad: one product reads every
    active row once. Preconditioned by the diagonal; ended when the quadratic model no longer
    improves, because a better step on a model that the next active set will change is wasted,
    or when the residual r is small enough: 1/2 |r|^2 is the duality gap after the step if the
    active set stays.
Sample space    M = I + C^1/2 K C^1/2 for the two right-hand sides of `systems.samples` at once, so
    that the intercept costs no further pass over K. Preconditioned with a Nystrom
    approximation K ~ B B' from a few landmark columns, by Woodbury's identity
    (I + A A')^-1 = I - A (I + A'A)^-1 A',  A = C^1/2 B. More landmarks where CG is slow. The
    start is the solution with B instead of K where that is close, else that of a part of the
    samples, found in the same way; where not all of K is in memory, only products with the
    active samples ask for kernel values many times.

References: S. G. Nash and A. Sofer, Assessing a search direction within a truncated Newton
method, Oper. Res. Lett. 9 (1990). C.-Y. Hsia et al., Preconditioned conjugate gradient methods
in truncated Newton frameworks for large-scale linear classification, ACML 2018. Z. Frangella
et al., Randomized Nystrom preconditioning, SIAM J. Matrix Anal. Appl. 44 (2023).
"""

from abc import abstractmethod
from dataclasses import replace

import numpy as np
from scipy.linalg import solve_triangular

from optimargin._linalg import Factor
from optimargin.certificates import ESTIMATED, Certificate, coefficient_gap, point_gap, relative_gap
from optimargin.designs.base import by_space
from optimargin.designs.features import FeatureDesign
from optimargin.designs.gram import GramDesign
from optimargin.solvers.base import Solution, Solver
from optimargin.solvers.newton import Newton, Steps, descend
from optimargin.systems.samples import SampleSystem, eliminate_intercept

FINEST = 512 * float(np.finfo(np.float64).eps)  # no system is solved more precisely than this
_PATIENCE = 40  # CG steps before the preconditioner is made of more landmarks
_MAX_CG = 5 * _PATIENCE
_LANDMARKS_PER_ROOT = 3  # of the number of samples
_PART_SHARE = 4  # of the samples of a kernel, one is in the part that is solved first
_DIRECT_UP_TO = 1500  # samples of a hard system, which is solved by factorisation
_FINISHING_STEPS = 8  # until no sample keeps a coefficient that is not active; most need one
_SHORTEST = 0.01  # length of a step, below which its direction was too rough
_MODEL_STOP = 0.5  # relative improvement of the quadratic model that a CG step must bring
_ENERGY_STOP = 0.05  # error of a step in sample space, in the norm of its system
_ROUGH = _ENERGY_STOP / 5  # where kernel values are computed for it, and gap of problems that start


class NewtonCG(Solver):
    """Semismooth Newton by conjugate gradients, in feature space or in sample space."""

    def _solve(self, problem, coef, intercept):
        space = self._make_space(problem)
        point = space.start() if coef is None else problem.point(coef, intercept)
        point, n_iter = descend(self, space, point)
        found = Solution.from_point(point, n_iter)
        if not getattr(problem.design, "is_rounded", False):  # chunks have no design
            return replace(found, certificate=Certificate(space.gap(point)))
        return replace(found, certificate=Certificate(point_gap(problem, point), ESTIMATED))

    def _make_space(self, problem):
        return by_space(problem.design, _FeatureSpace, _SampleSpace)(problem, self)


class Space(Steps):
    """Where Newton systems are solved, and how precisely.

    Attributes
    ----------
    accuracy : float
        Of the next system, which is finer where steps were too rough.
    """

    roughest: float = _MODEL_STOP

    def __init__(self, problem, solver):
        self.problem = problem
        self.solver = solver
        self.done = solver.tol
        self.accuracy = self.roughest

    def start(self):
        """Return the first iterate."""
        return self.problem.point()

    def take(self, point):
        """Return the end of the next step, and its length."""
        return self.problem.step(point, *self.direction(point))

    def advance(self, point):
        moved, length = self.take(point)
        if length == 0 and self.accuracy <= FINEST:
            return point, True
        self.learn(point, moved, length)
        return moved, False

    def gap(self, point):
        """Return the relative duality gap of the last iterate, by the best certificate at hand."""
        return point.relative_gap

    @abstractmethod
    def direction(self, point):
        """Return the Newton step in the coefficients and in the intercept.

        And, where that came about on the way, the step in the decision values.
        """

    def learn(self, point, moved, length):
        """Solve the next system more precisely where a direction was too rough to follow far."""
        slow = moved.gap > 0.5 * point.gap and moved.value > 0.999 * point.value
        rough = slow or length < _SHORTEST
        factor = 0.05 if rough else 2.0 if length > 0.5 else 1.0
        self.accuracy = min(max(factor * self.accuracy, FINEST), self.roughest)


class _FeatureSpace(Space):
    def direction(self, point):
        problem, design = self.problem, self.problem.design
        active = point.curvature > 0
        rows, others = np.flatnonzero(active), np.flatnonzero(~active)
        weight = point.curvature[rows]
        gradient, sums = np.append(point.residual, -point.pull.sum()), None
        if problem.fit_intercept and rows.size:
            sums = np.append(design.represent(point.curvature), weight.sum())
        step, intercept_step, image = truncated_step(
            lambda v: design.hessian_product(rows, weight, v),
            gradient,
            sums,
            design.diagonal(rows, weight),
            self.accuracy,
            small_residual(self.solver.tol, point),
        )
        decision_step = np.empty(design.n_samples)
        decision_step[rows] = image / weight
        decision_step[others] = design.decision_on(others, step)
        return step, intercept_step, decision_step


def small_residual(tol, point):
    """Return the norm of a residual that leaves half of the allowed gap only."""
    return np.sqrt(tol * max(point.value, point.gap_floor))


def truncated_step(product, gradient, sums, diagonal, accuracy, enough):
    """Return approximate steps in w and in b, and the image of the first.

    Parameters
    ----------
    product : callable
        Given v it returns ``Phi' C Phi v`` and its image, the sum of which is ``1' C Phi v``.
    gradient : ndarray of shape (n_coef + 1,)
        In w, then in b.
    sums : ndarray of shape (n_coef + 1,) or None
        ``[Phi, 1]' C 1``; None without an intercept.
    diagonal : ndarray of shape (n_coef,)
        Of ``I + Phi' C Phi``.
    accuracy : float
        Relative improvement of the quadratic model, below which to end.
    enough : float
        The norm of the residual at which to end.
    """
    right = -gradient[:-1]
    if sums is not None:  # b is eliminated
        right = right + gradient[-1] / sums[-1] * sums[:-1]
    solution = np.zeros_like(right)
    residual = right.copy()
    z = residual / diagonal
    direction = z.copy()
    rho = residual @ z
    total_image = model = 0.0
    for k in range(1, _MAX_CG + 1):
        if rho == 0:  # solved exactly, by as many steps as there are features
            break
        curved, image = product(direction)
        if sums is not None:
            curved = curved - np.sum(image) / sums[-1] * sums[:-1]
        curved = curved + direction
        curvature = direction @ curved
        if not 0 < curvature < np.inf:  # only rounding is left, or values overflow
            break
        alpha = rho / curvature
        solution += alpha * direction
        residual -= alpha * curved
        total_image = total_image + alpha * image
        new_model = -0.5 * solution @ (right + residual)
        if k * (new_model - model) >= accuracy * new_model or np.linalg.norm(residual) <= enough:
            break
        model = new_model
        z = residual / diagonal
        rho, old_rho = residual @ z, rho
        direction = z + (rho / old_rho) * direction
    if sums is None:
        return solution, 0.0, total_image
    return solution, -(np.sum(total_image) + gradient[-1]) / sums[-1], total_image


class _SampleSpace(Space):
    def __init__(self, problem, solver):
        # Steps that recompute kernel values are expensive: solve them more accurately.
        self.roughest = _ENERGY_STOP if problem.design.complete else _ROUGH
        super().__init__(problem, solver)
        self.n_landmarks = int(_LANDMARKS_PER_ROOT * np.sqrt(problem.design.n_samples))
        self._system = SampleSystem(problem.design, fit_intercept=problem.fit_intercept)
        self.is_direct = False  # whether that solved the last system
        self._known: tuple = (0, None, None)  # the last preconditioner, and what it is of
        # The certificate depends neither on landmarks nor on the start: a fixed seed will do.
        self.random = np.random.default_rng(0)

    def start(self):
        """Solve with a low-rank factor of the kernel matrix, or for a part of the samples."""
        problem = self.problem
        n_samples = problem.design.n_samples
        if problem.design.complete:
            factor = self._factor(np.arange(n_samples), np.ones(n_samples))
            rough = problem.over(FeatureDesign(np.ascontiguousarray(factor)))
            found = Newton(tol=_ROUGH, max_iter=20, exact_up_to=0).solve(rough)
            point = problem.point(found.pull, found.intercept)
            if point.value - found.objective <= found.objective:
                return point
        return problem.point(*self._part_start())

    def _part_start(self):
        problem, solver = self.problem, self.solver
        n_samples = problem.design.n_samples
        coef = np.zeros(n_samples)
        size = n_samples // _PART_SHARE
        rows = np.sort(self.random.choice(n_samples, size, replace=False))
        if size == 0:
            return coef, 0.0
        if size <= _DIRECT_UP_TO:
            part = problem.over(GramDesign(problem.design.block(rows)), rows)
            start = Newton(tol=_ROUGH, max_iter=solver.max_iter).solve(part)
        else:
            part = problem.over(problem.design.take(rows), rows)
            rough = NewtonCG(tol=_ROUGH, max_iter=solver.max_iter)
            space = _SampleSpace(part, rough)
            start, _ = descend(rough, space, space.start())
            # What the part needed, this problem will need too.
            self.accuracy, self.n_landmarks = space.accuracy, space.n_landmarks
        coef[rows] = start.coef
        return coef, start.intercept

    def take(self, point):
        # Accept a full step when possible: it zeroes all inactive coefficients.
        return self.problem.step(point, *self.direction(point), rtol=self.roughest)

    def gap(self, point):
        gap = point.relative_gap
        if gap <= self.solver.tol:
            return gap
        own = coefficient_gap(self.problem, point.coef, point.decision, point.value)
        return min(gap, relative_gap(point.value, own, point.gap_floor))

    def finish(self, point):
        # A step that was cut short leaves coefficients of samples that are no longer active.
        for _ in range(_FINISHING_STEPS):
            inactive = point.curvature == 0
            if point.relative_gap > self.solver.tol or not point.coef[inactive].any():
                break
            trimmed = self.problem.point(np.where(inactive, 0.0, point.coef), point.intercept)
            if trimmed.relative_gap <= self.solver.tol:
                return trimmed
            moved, length = self.take(point)
            if length == 0 or moved.relative_gap > self.solver.tol:
                break
            point = moved
        return point

    def direction(self, point):
        active = np.flatnonzero(point.curvature)
        step = -point.residual
        if active.size == 0:
            return step, 0.0
        if not (self.is_direct and active.size <= _DIRECT_UP_TO):
            found = self._iterate(point, active)
            self.is_direct = found is None
        if self.is_direct:
            return self._system.step(point, point.curvature)
        p, *q = found
        if not self.problem.fit_intercept:
            step[active] += p
            return step, 0.0
        moved, intercept_step = eliminate_intercept(p, q[0], point)
        step[active] += moved
        return step, intercept_step

    def learn(self, point, moved, length):
        if self.is_direct and length > 0:
            return
        super().learn(point, moved, length)
        if length > 0 and np.array_equal(point.curvature, moved.curvature):
            # The objective is quadratic here: one more step can be the last.
            last = np.sqrt(0.5 * self.solver.tol / max(moved.relative_gap, 1e-300))
            self.accuracy = max(min(self.accuracy, last), FINEST)

    def _factor(self, rows, scale):
        """Return A with A A' close to ``diag(scale) K[rows, rows] diag(scale)``."""
        design = self.problem.design
        n_landmarks = max(min(self.n_landmarks, design.max_landmarks(rows.size), rows.size), 1)
        landmarks = np.sort(self.random.choice(rows.size, n_landmarks, replace=False))
        columns = design.columns(rows[landmarks], rows)
        block = columns[landmarks]
        # Rounding of float32 values makes a kernel matrix indefinite.
        shift = 1e-6 * np.sqrt(n_landmarks) * (np.trace(block) / n_landmarks or 1.0)
        triangle = Factor(block, shift=shift).lower
        columns *= scale[:, None]
        return solve_triangular(triangle, columns.T, lower=True, overwrite_b=True).T

    def _preconditioner(self, active, root):
        """Return that of a system; without a band one system follows another of its matrix."""
        scale = np.zeros(self.problem.design.n_samples)
        scale[active] = root
        n_landmarks, known, product = self._known
        if n_landmarks != self.n_landmarks or not np.array_equal(known, scale):
            self._known = (0, None, None)  # frees its memory for the new one
            product = _woodbury(self._factor(active, root))
            self._known = (self.n_landmarks, scale, product)
        return product

    def _iterate(self, point, active):
        """Return ``root * M^-1 right`` for both right-hand sides; None where that is slow.

        That is, where a factorisation of M is not.
        """
        design, root = self.problem.design, np.sqrt(point.curvature[active])
        right = root * point.residual_image[active]
        right = np.vstack([right, root]) if self.problem.fit_intercept else right[None]

        def product(V):
            return V + root * design.product_on(active, root * V)

        solution = np.zeros_like(right)
        for _ in range(0, _MAX_CG, _PATIENCE):
            solution, solved = _block_cg(
                product,
                right,
                self._preconditioner(active, root),
                solution,
                self.accuracy,
                point.value,
            )
            if solved:
                break
            more = min(2 * self.n_landmarks, active.size // 8)
            self.n_landmarks = max(more, self.n_landmarks)
            if active.size <= _DIRECT_UP_TO:
                return None
        return root * solution


def _woodbury(A):
    """Return the product with ``(I + A A')^-1`` of the rows of a matrix."""
    low_rank = FeatureDesign(np.ascontiguousarray(A))  # whose products use our own threads
    core = low_rank.weighted_gram(np.ones(A.shape[0]))[:-1, :-1]
    core[np.diag_indices_from(core)] += 1.0
    core = Factor(np.ascontiguousarray(core))

    def product(R):
        inner = core.solve(np.column_stack([low_rank.represent(r) for r in R]))
        return R - np.array([low_rank.decision(v) for v in np.ascontiguousarray(inner.T)])

    return product


def _block_cg(product, right, precondition, solution, accuracy, value):
    """Solve ``M x = right`` for each row; return the solutions and whether they are precise.

    The preconditioner P is below M, so that the error in the norm of M is at most
    ``(r' P^-1 r)^1/2`` for the residual r. It is compared with the norm of the solution, and
    with the objective `value`: far from the solution the step can be much larger.
    """
    residual = right - product(solution) if solution.any() else right.copy()
    direction, rho = np.zeros_like(right), np.zeros(right.shape[0])
    for _ in range(_PATIENCE):
        z = precondition(residual)
        new_rho = np.einsum("ij,ij->i", residual, z)
        energy = np.einsum("ij,ij->i", right, solution)
        allowed = min(accuracy**2, accuracy * (float(value) / max(float(energy[0]), 1e-300)))
        if (new_rho <= allowed * energy).all():
            return solution, True
        beta = np.divide(new_rho, rho, out=np.zeros_like(rho), where=rho > 0)
        rho = new_rho
        direction = z + beta[:, None] * direction
        image = product(direction)
        curvature = np.einsum("ij,ij->i", direction, image)
        alpha = np.divide(rho, curvature, out=np.zeros_like(rho), where=curvature > 0)
        solution = solution + alpha[:, None] * direction
        residual -= alpha[:, None] * image
    return solution, False
