"""Dual coordinate descent with one signed variable per sample.

Dual   min over p   1/2 |sum_i p_i phi_i|^2 + sum_i [w_i l*(s_i p_i / w_i) - t_i p_i]
       subject to sum_i p_i = 0 when the intercept is fitted.

The two non-negative variables that the paper keeps for each sample are never both positive at
the optimum, so their difference is all that is needed: half the memory and half the work of the
printed algorithm, and the same optimum. Minimising over one p_i is closed-form; it costs
O(nnz_i) for linear data, where w is maintained, and O(n_samples) for a kernel, where the
decision values are. The intercept follows by the method of multipliers.

The variables certify themselves: scaled to satisfy the constraint they are dual feasible, and with
large C their gap is far smaller than that of the pulls at the decision values. Over a small Gram
matrix in single precision, Newton steps on precise values go on where rounding limits the
certificate, or where convergence is slow.

Reference: T. Zhang and Z.-H. Zhou, Optimal Margin Distribution Machine, TKDE 2020, Algorithm 1.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from optimargin._core._coordinate_descent import Descent
from optimargin.certificates import Certificate, balanced, coefficient_gap, relative_gap
from optimargin.designs.base import by_space
from optimargin.solvers.base import Solution, Solver, certified_solution

_FIRST_CHECK = 3  # epochs before the first certificate
_DRIFT = 1e-9  # relative gap below which rounding in the maintained w may show
# Of the mean squared norm of the samples, for the intercept: more makes all samples alike, less
# makes the intercept slow.
_INTERCEPT_SHARE = 0.1
_GAP_SHARE = 0.7  # of the tolerance, where values are rounded: the rest is for rounding
_MOST_ROUNDED_EPOCHS = 300  # which take longer than the Newton steps that do the rest


class DualCD(Solver):
    """Dual coordinate descent."""

    def _solve(self, problem, coef, intercept):
        if not problem.design.is_rounded:
            return self._descend(problem, coef, intercept)
        return self._descend_rounded(problem, coef, intercept)

    def _descend(self, problem, coef, intercept):
        """Descend, and return the best point at which the gap was asked for."""
        design = problem.design
        best: Any = None  # until the first certificate
        pull = np.zeros(design.n_samples)
        if coef is not None or problem.fit_intercept:
            point = problem.point(coef, intercept)
            best = Solution.from_point(point, 0)
            pull = pull if coef is None else point.pull.copy()
        start = intercept if best is None else best.intercept
        descent, image = self._descent(problem, pull, start)

        def gap():
            nonlocal best
            best = self._better(problem, best, descent.intercept, image, pull)
            return best.dual_gap

        # At zero the gap is the whole objective.
        first = 1.0 if best is None else best.dual_gap
        n_iter = self._epochs(problem, descent, gap, first, self.tol, self.max_iter)
        return replace(best, n_iter=n_iter)

    def _descend_rounded(self, problem, coef, intercept):
        """Descend over rounded kernel values, whose part in the gap is found at the end."""
        pull = np.zeros(problem.design.n_samples) if coef is None else coef.copy()
        descent, decision = self._descent(problem, pull, intercept)

        def gap():
            loss, _, _ = problem.loss.evaluate(decision, problem.target, descent.intercept)
            value = loss + 0.5 * (pull @ decision)
            gap = coefficient_gap(problem, pull, decision, value)
            return relative_gap(value, gap, problem.gap_floor)

        most = min(self.max_iter, _MOST_ROUNDED_EPOCHS)
        n_iter = self._epochs(problem, descent, gap, 1.0, _GAP_SHARE * self.tol, most)
        found, _ = certified_solution(problem, pull, descent.intercept, decision)
        return replace(found, n_iter=n_iter)

    def _descent(self, problem, pull, intercept):
        """Return a descent that starts at `pull`, and the vector that it updates."""
        rows, image = problem.design.rows(pull)
        step = problem.loss.coordinate_step(problem.target)
        scale = _intercept_scale(problem) if problem.fit_intercept else 0.0
        descent = Descent(
            rows, step, pull, intercept=intercept, intercept_scale=scale, seed=self.seed
        )
        return descent, image

    def _epochs(self, problem, descent, gap_now, gap, tol, max_iter):
        """Descend until the gap is small, asking for it when it is expected to be.

        Parameters
        ----------
        problem : AdditiveProblem
        descent : Descent
        gap_now : callable
            Returns the relative gap.
        gap, tol : float
            At the start and at the end.
        max_iter : int

        Returns
        -------
        n_iter : int
        """
        last_check, next_check = 0, _FIRST_CHECK
        for n_iter in self.iterations():
            violation = descent.epoch()
            if problem.fit_intercept:
                descent.recentre()
            if n_iter < next_check and violation > 0 and n_iter < max_iter:
                continue
            old_gap, gap = gap, gap_now()
            if gap <= tol or n_iter == max_iter:
                return n_iter
            wait = _epochs_to_go(n_iter - last_check, old_gap, gap, tol)
            last_check, next_check = n_iter, n_iter + min(max(wait, n_iter // 5, 1), n_iter)
            descent.unshrink()
        if n_iter > last_check:  # stopped from outside
            gap_now()
        return n_iter

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
        certificate = Certificate(relative_gap(value, gap, problem.gap_floor))
        new = Solution(coef, intercept, pull, value, certificate, 0)
        if new.dual_gap < _DRIFT:
            sharp = Solution.from_point(problem.point(coef, intercept, decision), 0)
            new = (
                sharp if sharp.dual_gap < _DRIFT else replace(new, certificate=Certificate(_DRIFT))
            )
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
