"""Dual coordinate descent for the large margin distribution machine, with an exact end.

Dual   min over d   1/2 s' H s + (1's)^2 / (2 kappa) - sum_i d_i,   s = y d,   in a box

(`problems.ldm_dual` has H; data given by features go to `ldm_linear_dcd` first.) Coordinate descent
finds out cheaply which variables end at a bound; the equations of that face, solved exactly, give
the rest. Where many variables are inside the box and strongly coupled (large C, few features)
descent is slow to find the face; an interior point method then takes over.

An intercept without curvature of its own (kappa = 0) follows by the method of multipliers: it is
anchored at its last value c_k with strength 1/sigma, so that c = (1's + c_k / sigma) / (kappa +
1/sigma) within an epoch.

Reference: T. Zhang and Z.-H. Zhou, Optimal Margin Distribution Machine, TKDE 2020, Algorithm 1.
"""

import numpy as np

from optimargin._core._coordinate_descent import Descent
from optimargin._core._ldm import BoxStep
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.problems.ldm import LDMProblem
from optimargin.solvers.base import Solution, Solver
from optimargin.solvers.interior_point import InteriorPoint, finish_on_face
from optimargin.solvers.ldm_linear_dcd import LDMLinearCD
from optimargin.solvers.ldm_systems import SampleSystem

FIRST_EPOCHS = 10  # of descent before the bounds of a face are tried, doubled each time
_LAST_EPOCH = 310  # at which the last attempt is made
_FACE_ROUNDS = 6
_GAIN = 0.1  # of the gap, by an attempt, for descent to go on
_EXACT_GAP = 4096 * float(np.finfo(np.float64).eps)
LINEAR_EPOCHS = 50  # over features, before an interior point method takes over
INTERIOR_UP_TO = 1000  # features up to which a matrix of their size is no burden


class LDMDualCD(Solver):
    """Coordinate descent and exact faces, in sample space."""

    problem_type = LDMProblem

    def _solve(self, problem, coef, intercept):
        if isinstance(problem.design, FeatureSpaceDesign):
            return self._solve_linear(problem)
        return Solution.from_point(*self.solve_system(SampleSystem.of(problem)))

    def _solve_linear(self, problem):
        small = problem.design.n_coef <= INTERIOR_UP_TO
        best = None
        if not problem.is_hard:
            epochs = min(self.max_iter, LINEAR_EPOCHS) if small else self.max_iter
            descent = self._helper(LDMLinearCD, max_iter=epochs)
            best = descent.solve(problem)
            if best.dual_gap <= self.tol or not small or descent.stopped:
                return best
        solution = self._helper(InteriorPoint).solve(problem)
        return solution if best is None or solution.dual_gap < best.dual_gap else best

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def solve_system(self, system, start=None):
        """Return the last point and the number of iterations.

        Parameters
        ----------
        system : SampleSystem
        start : tuple of ndarray of shape (n_samples,) and float, default=None
            Dual variables and intercept, as `Descent` has them.
        """
        problem = system.problem
        if problem.is_hard:
            return self._helper(InteriorPoint).solve_system(system)
        d, c = (problem.lower, 0.0) if start is None else start
        d = np.clip(d, problem.lower, problem.upper)
        descent, pulls, scale, anchor = self._descent(system, d, c)
        best, total, n_iter, is_tried, attempt = None, 0, 0, False, FIRST_EPOCHS
        for n_iter in self.iterations():
            is_still = descent.epoch() == 0
            is_tried &= is_still  # while nothing moves, the face stays the same
            if anchor:
                descent.intercept = scale * (pulls.sum() + anchor * descent.intercept)
            is_idle = is_still and not descent.is_shrunk
            is_due = n_iter == attempt
            attempt += is_due * (attempt + FIRST_EPOCHS)
            if not is_tried and (is_due or is_idle or n_iter == self.max_iter):
                before = np.inf if best is None else best.relative_gap
                best, total = self._better(best, system, problem.y * pulls), n_iter
                if best.relative_gap <= min(self.tol, _EXACT_GAP):
                    return best, n_iter
                if not best.relative_gap < _GAIN * before:
                    break
                is_tried = True
                descent.unshrink()
            if n_iter >= _LAST_EPOCH:
                break
        if self.stopped:
            return self._better(best, system, problem.y * pulls), n_iter
        if best is not None and best.relative_gap <= self.tol:
            return best, total
        interior = self._helper(InteriorPoint, max_iter=max(self.max_iter - total, 1))
        point, n_iter = interior.solve_system(system)
        return (point if best is None or point.gap < best.gap else best), total + n_iter

    @staticmethod
    def _better(best, system, d):
        """Return the end of the face that `d` is on, or the older point if its gap is smaller."""
        problem = system.problem
        free = (d > problem.lower) & (d < problem.upper)
        point = finish_on_face(problem, system, d, free, _FACE_ROUNDS)
        return point if best is None or point.gap < best.gap else best

    def _helper(self, solver, **changes):
        """Return another solver with the same settings, heard by the same listener."""
        settings = {"tol": self.tol, "max_iter": self.max_iter, "seed": self.seed, **changes}
        return solver(**settings, on_iteration=self.on_iteration)

    def _descent(self, system, d, c):
        """Return a descent from `d` and `c`, its variables, and how its intercept is anchored."""
        problem = system.problem
        kappa = system.dual.kappa
        pulls = problem.y * d
        rows, norms = system.rows(pulls)
        scale = anchor = 0.0
        if kappa is not None:
            typical = float(problem.weight @ norms) or 1.0
            anchor = 0.0 if kappa * typical >= 1.0 else 1.0 / typical
            scale = 1.0 / (kappa + anchor)
        descent = Descent(
            rows,
            BoxStep(problem.y, problem.lower, problem.upper, 1.0),
            pulls,
            intercept=scale * (pulls.sum() + anchor * c),
            intercept_scale=scale,
            seed=self.seed,
        )
        return descent, pulls, scale, anchor
