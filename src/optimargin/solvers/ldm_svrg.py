"""Stochastic variance-reduced gradient for the linear large margin distribution machine.

Problem   min over w, b   1/2 |w|^2 + l1 Var(g) - l2 Mean(g) + C sum_i w_i max(0, 1 - g_i)

The gradient of the variance couples all samples; two independent ones give an unbiased estimate
of it (Theorem 1 of the paper), corrected by its value at the last snapshot. The hinge loss has a
kink, so the noise of its part does not vanish: a step size that is halved whenever a snapshot
does not improve the objective keeps the method convergent, slowly. It is meant for large sparse
data and moderate accuracy. The dual point of the certificate is how often, in the last passes, the
margin of each sample was below one.

References: T. Zhang and Z.-H. Zhou, Optimal Margin Distribution Machine, TKDE 2020, Theorem 1 and
Algorithm 2. R. Johnson and T. Zhang, Accelerating stochastic gradient descent using predictive
variance reduction, NIPS 2013.
"""

import numpy as np

from optimargin._core._ldm import TwoSamplePass
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.problems.ldm import LDMProblem
from optimargin.solvers.base import Solution, Solver, UnsuitableProblemError

_STEP = 0.25  # in units of one over the largest smoothness constant
_INNER_PASSES = 2  # passes over the samples between two snapshots


class LDMSVRG(Solver):
    """SVRG in feature space; an iteration is a snapshot and the steps up to the next."""

    problem_type = LDMProblem
    design_type = FeatureSpaceDesign

    def check(self, problem):
        """Raise for problems of another kind, and for hard margins."""
        super().check(problem)
        if problem.is_hard:
            raise UnsuitableProblemError("LDMSVRG needs a finite C: a hard margin has no gradient.")

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def _solve(self, problem, coef, intercept):
        design, y, weight = problem.design, problem.y, problem.weight
        n_samples = design.n_samples
        size = float(np.max(weight * (design.squared_norms + problem.fit_intercept)))
        # Each of the two samples adds its curvature; the hinge loss, which has none, counts as
        # if its slope of C changed over a margin of one.
        smoothness = 1 + (4 * problem.lambda1 + problem.C) * n_samples * size
        eta = _STEP / smoothness
        passes = TwoSamplePass(y, weight, problem.C, problem.lambda1, seed=self.seed)
        share = np.ones(n_samples)
        w = np.zeros(design.n_coef)
        point = best = self._point(problem, w, 0.0, share)
        n_iter = 0
        for _ in self.iterations():
            n_iter += 1
            margin = y * (point.decision + point.intercept)
            below = np.where(margin < 1, problem.C * weight, 0.0)
            theta = y * (problem.lower + below)
            theta -= problem.variance_gradient(point.decision + point.intercept)
            z = design.represent(theta)
            offset = point.coef - z
            shrunk, intercept = passes.run(
                design.rows_of(offset),
                design.decision(z),
                margin,
                share,
                point.intercept,
                eta,
                eta if problem.fit_intercept else 0.0,
                _INNER_PASSES * n_samples,
            )
            moved = self._point(problem, z + shrunk * offset, intercept, share)
            best = min(best, moved, key=lambda p: p.gap)
            if moved.value < point.value:
                point = moved
            else:
                eta *= 0.5
            if best.relative_gap <= self.tol:
                break
        return Solution.from_point(best, n_iter)

    @staticmethod
    def _point(problem, w, intercept, share):
        decision = problem.design.decision(w)
        if problem.fit_intercept:
            intercept = problem.best_intercept(decision)[0]
        box_dual = problem.lower + problem.C * problem.weight * share
        return problem.point(w, intercept, box_dual, decision)
