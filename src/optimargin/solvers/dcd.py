"""Dual coordinate descent with one signed variable a sample.

Dual   min over d   1/2 |sum_i y_i d_i phi_i|^2 + sum_i w_i l*(-d_i / w_i)
       subject to sum_i y_i d_i = 0 when the intercept is fitted.

The two non-negative variables that the paper keeps for each sample are never both positive at
the optimum, so their difference d_i is all that is needed: half the memory and half the work
of the printed algorithm, and the same optimum. Minimising over one d_i is closed-form; it costs
O(nnz_i) for linear data, where w is maintained, and O(n_samples) for a kernel, where the
decision values are. The intercept follows by the method of multipliers.

Without an intercept the variables themselves are dual feasible, and with large C they give a
smaller gap than the dual point that belongs to the margins.

Reference: T. Zhang and Z.-H. Zhou, Optimal Margin Distribution Machine, TKDE 2020, Algorithm 1.
"""

from dataclasses import replace

import numpy as np

from optimargin._core._coordinate_descent import Descent
from optimargin.solvers.base import Solution, Solver

_FIRST_CHECK = 3  # epochs before the first certificate
_DRIFT = 1e-9  # relative gap below which rounding in the maintained w may show


class DualCD(Solver):
    """Dual coordinate descent; needs a loss with a `coordinate_step`."""

    def solve(self, problem, coef=None, intercept=0.0):
        design, y = problem.design, problem.y
        point, gap, dual = None, 1.0, np.zeros_like(y)  # at zero the gap is the whole objective
        if coef is not None or problem.fit_intercept:
            point = problem.point(coef, intercept)
            gap, intercept = point.relative_gap, point.intercept
            dual = dual if coef is None else point.dual.copy()
        rows, image = design.rows(y * dual)
        scale = float(problem.weight @ design.squared_norms) if problem.fit_intercept else 0.0
        descent = Descent(
            rows,
            problem.loss.coordinate_step(problem.weight),
            y,
            dual,
            intercept=intercept,
            intercept_scale=scale,
            seed=self.seed,
        )
        last_check, next_check = 0, _FIRST_CHECK
        for n_iter in self.iterations():
            violation = descent.epoch()
            if problem.fit_intercept:
                descent.recentre()
            if n_iter < next_check and violation > 0 and n_iter < self.max_iter:
                continue
            point = self._better(problem, point, descent.intercept, image, dual)
            old_gap, gap = gap, point.relative_gap
            if gap <= self.tol:
                break
            wait = _epochs_to_go(n_iter - last_check, old_gap, gap, self.tol)
            last_check, next_check = n_iter, n_iter + min(max(wait, 1), n_iter)
            descent.unshrink()
        if n_iter > last_check and gap > self.tol:  # stopped from outside
            point = self._better(problem, point, descent.intercept, image, dual)
        return Solution.from_point(point, n_iter)

    @staticmethod
    def _better(problem, point, intercept, image, dual):
        """Return the iterate of the descent, or the older one where its gap is smaller."""
        if problem.design.space == "feature":
            new = problem.point(image.copy(), intercept)
            square = image @ image
        else:
            theta = problem.y * dual
            new = problem.point(theta, intercept, image.copy())
            square = theta @ image
        if not problem.fit_intercept:
            gap = new.value + 0.5 * square + problem.loss.conjugate(dual, problem.weight)
            if _DRIFT * abs(new.value) < gap < new.gap:
                new = replace(new, gap=gap, dual=dual.copy())
        return new if point is None or new.gap <= point.gap else point


def _epochs_to_go(n_epochs, old_gap, gap, tol):
    """Expect the gap to fall on as it did in the last `n_epochs`: a certificate costs an epoch."""
    if not gap < old_gap < np.inf:
        return 1
    return int(n_epochs * np.log(gap / tol) / np.log(old_gap / gap))
