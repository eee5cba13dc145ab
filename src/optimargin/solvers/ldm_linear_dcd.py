"""Dual coordinate descent on linear data with many features.

Problem   min over w, b, m   1/2 |w|^2 + sum_i w_i [l1 (g_i - m)^2 - l2 g_i + C max(0, 1 - g_i)]

At the best m, the mean margin, the bracket's first term is the variance. For fixed m the loss
is a sum over samples, so coordinate descent on its dual costs O(nnz) per epoch: no matrix of
the size of the features is needed. After each epoch m moves to the mean margin, and the
intercept follows by the method of multipliers.

With d the dual variables for fixed m, d_i + 2 l1 w_i (g_i - mean g), clipped to the box, is
feasible for the dual of the whole problem: that is the certificate.

Reference: C.-J. Hsieh et al., A dual coordinate descent method for large-scale linear SVM,
ICML 2008.
"""

import numpy as np

from optimargin._core._coordinate_descent import Descent
from optimargin._core._ldm import BoxStep, MeanStep
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.problems.ldm import LDMProblem
from optimargin.solvers.base import Solution, Solver

_CHECK_GROWTH = 1.3  # epochs up to a certificate grow by this factor, from two on


class LDMLinearCD(Solver):
    """Coordinate descent in feature space, one variable per sample."""

    problem_type = LDMProblem
    design_type = FeatureSpaceDesign

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def _solve(self, problem, coef, intercept):
        design, y, weight = problem.design, problem.y, problem.weight
        pull = y * problem.lower
        rows, w = design.rows(pull)
        mean_row = design.represent(weight * y)  # its product with w is the mean margin
        mean_step = None
        if problem.lambda1 > 0:
            penalties = problem.C, problem.lambda1, problem.lambda2
            mean_step = MeanStep(y, weight, *penalties, float(mean_row @ w))
        descent = Descent(
            rows,
            mean_step or BoxStep(y, problem.lower, problem.upper, 1.0),
            pull,
            intercept=0.0,
            intercept_scale=float(weight @ design.squared_norms) * problem.fit_intercept,
            seed=self.seed,
        )
        best, next_check, n_iter = None, int(_CHECK_GROWTH) + 1, 0
        for n_iter in self.iterations():
            violation = descent.epoch()
            if problem.fit_intercept:
                descent.recentre()
            if mean_step is not None:
                mean_step.mean = float(mean_row @ w) + descent.intercept * problem.imbalance
            if n_iter < next_check and violation > 0 and n_iter < self.max_iter:
                continue
            next_check = int(n_iter * _CHECK_GROWTH) + 1
            best = self._better(best, problem, w, y * pull, descent.intercept)
            if best.relative_gap <= self.tol:
                break
            descent.unshrink()
        if self.stopped:
            best = self._better(best, problem, w, y * pull, descent.intercept)
        return Solution.from_point(best, n_iter)

    @staticmethod
    def _better(best, problem, w, d, intercept):
        """Return the iterate of the descent, or the older one where its gap is smaller."""
        decision = problem.design.decision(w)
        box_dual = d + problem.y * problem.variance_gradient(decision + intercept)
        if problem.fit_intercept:
            intercept = problem.best_intercept(decision)[0]
        point = problem.point(w.copy(), intercept, box_dual, decision)
        return point if best is None or point.gap < best.gap else best
