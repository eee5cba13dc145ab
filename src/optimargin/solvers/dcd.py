"""Dual coordinate descent with one signed variable a sample.

Dual   min over d   1/2 |sum_i y_i d_i phi_i|^2 + sum_i w_i l*(-d_i / w_i)
       subject to sum_i y_i d_i = 0 when the intercept is fitted.

The two non-negative variables that the paper keeps for each sample are never both positive at
the optimum, so their difference d_i is all that is needed: half the memory and half the work
of the printed algorithm, and the same optimum. Minimising over one d_i is closed-form; it costs
O(nnz_i) for linear data, where w is maintained, and O(n_samples) for a kernel, where the
decision values are. The intercept follows by the method of multipliers.

Reference: T. Zhang and Z.-H. Zhou, Optimal Margin Distribution Machine, TKDE 2020, Algorithm 1.
"""

import numpy as np

from optimargin._core._coordinate_descent import Descent
from optimargin.solvers.base import Solution, Solver

_CHECK_GROWTH = 1.3  # epochs between two certificates grow by this factor


class DualCD(Solver):
    """Dual coordinate descent; needs a loss with a `coordinate_step`."""

    def solve(self, problem, coef=None, intercept=0.0):
        design, y = problem.design, problem.y
        point = problem.point(coef, intercept)
        dual = point.dual.copy() if coef is not None else np.zeros_like(y)
        rows, image = design.rows(y * dual)
        scale = float(problem.weight @ design.squared_norms) if problem.fit_intercept else 0.0
        descent = Descent(
            rows,
            problem.loss.coordinate_step(problem.weight),
            y,
            dual,
            intercept=point.intercept,
            intercept_scale=scale,
            seed=self.seed,
        )
        next_check = 1
        for n_iter in self.iterations():
            violation = descent.epoch()
            if problem.fit_intercept:
                descent.recentre()
            if n_iter < next_check and violation > 0 and n_iter < self.max_iter:
                continue
            next_check = int(n_iter * _CHECK_GROWTH) + 1
            point = self._better(problem, point, descent.intercept, image, y * dual)
            if point.relative_gap <= self.tol:
                break
            descent.unshrink()
        return Solution.from_point(point, n_iter)

    @staticmethod
    def _better(problem, point, intercept, image, theta):
        """Return the iterate of the descent, or the older one where its gap is smaller."""
        if problem.design.space == "feature":
            new = problem.point(image.copy(), intercept)
        else:
            new = problem.point(theta, intercept, image.copy())
        return new if new.gap <= point.gap else point
