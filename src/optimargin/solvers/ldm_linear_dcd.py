"""Dual coordinate descent on linear data with many features.

Problem   min over w, b, m   1/2 |w|^2 + sum_i w_i [l1 (g_i - m)^2 - l2 g_i + C max(0, 1 - g_i)]

At the best m, the mean margin, the bracket's first term is the variance. For fixed m the loss
is a sum over samples, so coordinate descent on its dual costs O(nnz) an epoch: no matrix of
the size of the features is needed. After each epoch m moves to the mean margin, and the
intercept follows by the method of multipliers.

With d the dual variables for fixed m, d_i + 2 l1 w_i (g_i - mean g), clipped to the box, is
feasible for the dual of the whole problem: that is the certificate.

Reference: C.-J. Hsieh et al., A dual coordinate descent method for large-scale linear SVM,
ICML 2008.
"""

from optimargin._core._coordinate_descent import BoxStep, Descent
from optimargin._core._ldm import MeanStep
from optimargin.solvers.base import Solution, Solver

_CHECK_GROWTH = 1.3  # epochs between two certificates grow by this factor


class LDMLinearCD(Solver):
    """Coordinate descent in feature space, one variable a sample."""

    def solve(self, problem, coef=None, intercept=0.0):
        design, y, weight = problem.design, problem.y, problem.weight
        d = problem.lower.copy()
        rows, w = design.rows(y * d)
        mean = float(weight @ (y * design.decision(w)))
        if problem.lambda1 > 0:
            step = MeanStep(weight, problem.C, problem.lambda1, problem.lambda2, mean)
        else:
            step = BoxStep(problem.lower, problem.upper, 1.0)
        descent = Descent(
            rows,
            step,
            y,
            d,
            intercept=0.0,
            intercept_scale=float(weight @ design.squared_norms) * problem.fit_intercept,
            seed=self.seed,
        )
        best, next_check, n_iter = None, 1, 0
        for n_iter in self.iterations():
            violation = descent.epoch()
            if problem.fit_intercept:
                descent.recentre()
            check = n_iter >= next_check or violation == 0 or n_iter == self.max_iter
            if problem.lambda1 > 0 or check:
                decision = design.decision(w)
                margin = y * (decision + descent.intercept)
                mean = float(weight @ margin)
            if check:
                next_check = int(n_iter * _CHECK_GROWTH) + 1
                point = self._point(problem, w, d, decision, descent.intercept, margin - mean)
                best = point if best is None or point.gap < best.gap else best
                if best.relative_gap <= self.tol:
                    break
                descent.unshrink()
            if problem.lambda1 > 0:
                step.mean = mean
        return Solution.from_point(best, n_iter)

    @staticmethod
    def _point(problem, w, d, decision, intercept, deviation):
        box_dual = d + 2 * problem.lambda1 * problem.weight * deviation
        if problem.fit_intercept:
            intercept = problem.best_intercept(decision)[0]
        return problem.point(w.copy(), intercept, box_dual, decision)
