"""Dual coordinate descent with one signed variable per sample.

Dual   min over p   1/2 |sum_i p_i phi_i|^2 + sum_i [w_i l*(s_i p_i / w_i) - t_i p_i]
       subject to sum_i p_i = 0 when the intercept is fitted.

The two non-negative variables that the paper keeps for each sample are never both positive at
the optimum, so their difference is all that is needed: half the memory and half the work of the
printed algorithm, and the same optimum. Minimising over one p_i is closed-form; it costs
O(nnz_i) for linear data, where w is maintained, and O(n_samples) for a kernel, where the
decision values are. The intercept follows by the method of multipliers.

The variables certify themselves: scaled to satisfy the constraint they are dual feasible, and with
large C their gap is far smaller than that of the pulls at the decision values.

Reference: T. Zhang and Z.-H. Zhou, Optimal Margin Distribution Machine, TKDE 2020, Algorithm 1.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from optimargin._core._coordinate_descent import Descent
from optimargin.certificates import balanced, relative_gap
from optimargin.designs.base import by_space
from optimargin.solvers._small_cd import is_small, solve_small
from optimargin.solvers.base import Solution, Solver

_FIRST_CHECK = 3  # epochs before the first certificate
_DRIFT = 1e-9  # relative gap below which rounding in the maintained w may show
# Of the mean squared norm of the samples, for the intercept: more makes all samples alike, less
# makes the intercept slow.
_INTERCEPT_SHARE = 0.1


class DualCD(Solver):
    """Dual coordinate descent."""

    def _solve(self, problem, coef, intercept):
        if is_small(problem):
            return solve_small(self, problem, coef, intercept)
        design = problem.design
        best: Any = None  # until the first certificate
        gap, pull = 1.0, np.zeros(design.n_samples)  # at zero the gap is the whole objective
        if coef is not None or problem.fit_intercept:
            point = problem.point(coef, intercept)
            best = Solution.from_point(point, 0)
            gap, intercept = best.dual_gap, best.intercept
            pull = pull if coef is None else point.pull.copy()
        rows, image = design.rows(pull)
        descent = Descent(
            rows,
            problem.loss.coordinate_step(problem.target),
            pull,
            intercept=intercept,
            intercept_scale=_intercept_scale(problem) if problem.fit_intercept else 0.0,
            seed=self.seed,
        )
        last_check, next_check = 0, _FIRST_CHECK
        for n_iter in self.iterations():
            violation = descent.epoch()
            if problem.fit_intercept:
                descent.recentre()
            if n_iter < next_check and violation > 0 and n_iter < self.max_iter:
                continue
            best = self._better(problem, best, descent.intercept, image, pull)
            old_gap, gap = gap, best.dual_gap
            if gap <= self.tol:
                break
            wait = _epochs_to_go(n_iter - last_check, old_gap, gap, self.tol)
            last_check, next_check = n_iter, n_iter + min(max(wait, n_iter // 5, 1), n_iter)
            descent.unshrink()
        if best is None or (n_iter > last_check and gap > self.tol):  # stopped from outside
            best = self._better(problem, best, descent.intercept, image, pull)
        return replace(best, n_iter=n_iter)

    @staticmethod
    def _better(problem, best, intercept, image, pull):
        """Return the iterate of the descent, or the older one where its gap is smaller."""
        design = problem.design
        pull = pull.copy()
        if problem.fit_intercept:
            pull = balanced(pull)
        in_features = by_space(design, True, False)
        coef = pull
        if in_features:
            coef = design.represent(pull) if problem.fit_intercept else image.copy()
        moved = in_features or problem.fit_intercept  # since `image` was maintained
        decision = design.decision(coef) if moved else image.copy()
        value, intercept, _, _ = problem.evaluate(coef, intercept, decision)
        square = coef @ design.metric(coef, decision)
        gap = max(value + 0.5 * square + problem.loss.conjugate(pull, problem.target), 0.0)
        new = Solution(coef, intercept, pull, value, relative_gap(value, gap, problem.gap_floor), 0)
        if new.dual_gap < _DRIFT:
            sharp = Solution.from_point(problem.point(coef, intercept, decision), 0)
            new = sharp if sharp.dual_gap < _DRIFT else replace(new, dual_gap=_DRIFT)
        return new if best is None or new.dual_gap <= best.dual_gap else best


def _intercept_scale(problem):
    """Return the square of the constant feature that stands for the intercept.

    With penalties so small that the samples hardly matter, it is what makes the intercept as
    stiff as the loss.
    """
    mean_square = float(problem.target.weight @ problem.design.squared_norms)
    return max(_INTERCEPT_SHARE * mean_square, 1.0 / problem.loss.smoothness)


def _epochs_to_go(n_epochs, old_gap, gap, tol):
    """Expect the gap to fall on as it did in the last `n_epochs`: a certificate costs an epoch."""
    if not gap < old_gap < np.inf:
        return 1
    return int(n_epochs * np.log(gap / tol) / np.log(old_gap / gap))
