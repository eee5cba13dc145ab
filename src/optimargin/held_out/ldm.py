"""Refitters of the large margin distribution machine.

The hinge loss has no closed form for samples left out, so that these predict test samples only.
In sample space one eigendecomposition of the Gram matrix serves every `lambda1`, `lambda2` only
moves the box of the dual variables, and each solve starts at the last one's solution. In
feature space a solve is a dozen small factorisations by the interior point method, which cannot
use a start: it pays off where samples are many.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from optimargin._core._box_qp import BoxQP
from optimargin.certificates import Certificate
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.held_out.refitter import Refitter, Solved
from optimargin.problems.ldm_dual import LDMDual, Shrinkage, scaled_gram
from optimargin.solvers import LDMDualCD, Solution
from optimargin.solvers.ldm_dcd import FIRST_EPOCHS
from optimargin.solvers.ldm_systems import SampleSystem

TOL = 1e-9
MAX_ITER = 1000


class LDMRefitter(Refitter):
    """Problems over any design; in sample space each is solved from the last one's solution.

    Parameters
    ----------
    design : Design
    targets : list of Target
    fit_intercept : bool
    test : GramTest or FeatureSpaceDesign, default=None
    solver : Solver, default=None
        Coordinate descent over the dual when not given, as it has to be in sample space.
    """

    def __init__(self, design, targets, fit_intercept, test=None, solver=None):
        self.targets, self.fit_intercept = targets, fit_intercept
        self._solver = solver or LDMDualCD(tol=TOL, max_iter=MAX_ITER)
        self._starts: list = [None] * len(targets)
        self._is_lasting = True
        self._use(design, test)

    def change_kernel(self, K, test=None):
        """Go on with another kernel; one that is used once is not worth decomposing."""
        self._is_lasting = False
        self._use(type(self.design)(K), None if test is None else type(self.test)(test))

    def _use(self, design, test):
        self.design, self.test, self._shrinkage = design, test, None
        self._duals: list = [None] * len(self.targets)

    def solve(self, objective):
        """Solve the problem of every output.

        Where its class does not occur, the decision value is that of the other everywhere.
        """
        solutions = []
        for k, target in enumerate(self.targets):
            if np.ptp(target.value) > 0:
                given = self.design, target
                problem = objective.problem(*given, fit_intercept=self.fit_intercept)
                in_features = isinstance(self.design, FeatureSpaceDesign)
                solve = self._solver.solve if in_features else partial(self._solve, k)
                solutions.append(solve(problem))
            else:
                coef, pull = np.zeros(self.design.n_coef), np.zeros(self.design.n_samples)
                solutions.append(
                    Solution(coef, float(target.value[0]), pull, 0.0, Certificate(0.0), 0)
                )
        names = "coef", "intercept", "objective", "dual_gap"
        coef, intercept, objective, dual_gap = (
            np.array([getattr(solution, name) for solution in solutions]) for name in names
        )
        return Solved(coef.T, intercept, objective, dual_gap, self.test)

    def _dual(self, k, problem):
        """Return the dual of a problem; its matrix changes with lambda1 only."""
        if self._shrinkage is None:
            self._shrinkage = Shrinkage(scaled_gram(problem), for_all=self._is_lasting)
        dual = self._duals[k]
        if dual is None or dual.problem.lambda1 != problem.lambda1:
            dual = LDMDual.of(problem, self._shrinkage)
        self._duals[k] = dual = replace(dual, problem=problem)
        return dual

    def _solve(self, k, problem):
        """Return the `Solution` of problem number `k` in sample space."""
        dual = self._dual(k, problem)
        point, n_iter = self._solver.solve_system(SampleSystem(dual), self._starts[k])
        center = 0.0
        if problem.fit_intercept:
            center = point.intercept + float(problem.balanced @ point.decision)
        self._starts[k] = point.box_dual, center
        return Solution.from_point(point, n_iter)


class LDMBoxRefitter(LDMRefitter):
    """Problems without an intercept, by a compiled active set method.

    In variables that count from their lower bounds neighbouring points of a grid have nearly the
    same active bounds: each solve starts at the last one of the same C.

    Parameters
    ----------
    design, targets, test
        As in `LDMRefitter`.
    margin_tol : float
        How far margins may be from optimal.
    """

    def __init__(self, design, targets, test=None, *, margin_tol):
        super().__init__(design, targets, False, test)
        self._margin_tol = margin_tol
        self._boxes: dict = {}
        self._box_starts: dict = {}

    def _solve(self, k, problem):
        dual = self._dual(k, problem)
        lambda1, box, row_sums = self._boxes.get(k, (None, None, None))
        if lambda1 != problem.lambda1:
            box = BoxQP(dual.H * np.outer(problem.y, problem.y))
            row_sums = problem.y * (dual.H @ (problem.y * problem.weight))
            self._boxes[k] = problem.lambda1, box, row_sums
        known = self._box_starts.get((k, problem.C))
        a = np.zeros(problem.y.size) if known is None else known.copy()
        n_sweeps = FIRST_EPOCHS if known is None else 0
        width = problem.C * problem.weight
        linear = 1.0 - problem.lambda2 * row_sums
        if not box.solve(linear, width, a, self._margin_tol, n_sweeps):
            raise ArithmeticError(
                f"No solution at C={problem.C:g}, lambda1={problem.lambda1:g}, "
                f"lambda2={problem.lambda2:g}."
            )
        self._box_starts[k, problem.C] = a
        return Solution.from_point(dual.point(problem.lower + a, 0.0), box.n_steps)
