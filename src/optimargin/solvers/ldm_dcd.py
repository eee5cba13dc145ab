"""Dual coordinate descent for the large margin distribution machine, with an exact end.

Dual   min over d   1/2 s' H s + (1's)^2 / (2 kappa) - sum_i d_i,   s = y d,   in a box

(`problems.ldm_dual` has H.) Coordinate descent finds out cheaply which variables end at a
bound; Newton steps on the others are exact as soon as it is right. The two alternate.

Reference: T. Zhang and Z.-H. Zhou, Optimal Margin Distribution Machine, TKDE 2020, Algorithm 1.
"""

import numpy as np

from optimargin._core._coordinate_descent import BoxStep, Descent
from optimargin._core._rows import GramRows
from optimargin.problems.ldm_dual import LDMDual
from optimargin.solvers.base import Solution, Solver
from optimargin.solvers.box_newton import BoxQP

_EPOCHS = 10  # of coordinate descent between two attempts with Newton steps
_NEWTON_STEPS = 8
_EXACT_GAP = 1e-14


class LDMDualCD(Solver):
    """Coordinate descent and projected Newton in sample space."""

    def solve(self, problem, coef=None, intercept=0.0):
        return self.solve_dual(LDMDual.of(problem))

    def solve_dual(self, dual, d=None, c=0.0):
        """Solve with the matrix of the dual in memory, from variables `d` and intercept `c`."""
        problem = dual.problem
        qp = BoxQP(dual)
        d = problem.lower.copy() if d is None else np.clip(d, problem.lower, problem.upper)
        state = qp.state(d, c)
        n_iter, best = 0, None
        while n_iter < self.max_iter:
            epochs = min(_EPOCHS, self.max_iter - n_iter)
            state = self._descend(qp, state, epochs)
            n_iter += epochs
            for _ in range(_NEWTON_STEPS):
                stepped = qp.newton_step(state)
                if stepped is None:
                    break
                before = qp.gap(state)
                state, length = stepped
                if length == 1.0 and not qp.gap(state) < 0.5 * before:
                    break
            point, state = self._certify(qp, state)
            if best is None or point.gap <= best.gap:
                best = point
            if best.relative_gap <= self.tol:
                break
        return Solution.from_point(best, n_iter)

    @staticmethod
    def _certify(qp, state):
        """Return the point of the iterate, and the iterate freed of rounding errors."""
        dual = qp.dual
        point = dual.point(state.d, state.c)
        if dual.kappa is not None and qp.anchor(1.0)[1] > 0:
            # An anchored intercept is slow where few variables are free.
            c, _ = dual.problem.best_intercept(state.f)
            other = dual.point(state.d, c)
            if other.gap < point.gap:
                return other, qp.state(state.d, c)
        return point, qp.state(state.d, state.c)

    def _descend(self, qp, state, epochs):
        """Run some epochs of coordinate descent."""
        y, d = qp.y, state.d.copy()
        f = state.f.copy()
        has_intercept = qp.dual.kappa is not None
        kappa, pull = qp.anchor(1.0) if has_intercept else (1.0, 0.0)
        descent = Descent(
            GramRows(qp.H, None, f, qp.diagonal),
            BoxStep(qp.lower, qp.upper, 1.0),
            y,
            d,
            intercept=(y @ d + pull * state.c) / kappa if has_intercept else 0.0,
            intercept_scale=1.0 / kappa if has_intercept else 0.0,
            seed=self.seed,
        )
        for _ in range(epochs):
            if descent.epoch() == 0 and not descent.is_shrunk:
                break
            if pull:
                descent.intercept = (y @ d + pull * descent.intercept) / kappa
        return qp.state(d, descent.intercept)
