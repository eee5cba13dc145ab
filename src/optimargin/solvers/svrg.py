"""Stochastic variance-reduced gradient for large linear problems.

Problem    min over w, b   1/2 |w|^2 + sum_i w_i l(s_i (t_i - x_i' w - b))

A snapshot computes the full gradient (and with it, for free, the certified duality gap);
between snapshots each step follows one sample, corrected by what that sample's gradient was at
the snapshot, so that the noise vanishes as the method converges. The step size comes from the
row norms and the loss's smoothness; should the objective rise all the same, the step is halved
and the last snapshot restored, so the method cannot diverge.

References: T. Zhang and Z.-H. Zhou, Optimal Margin Distribution Machine, TKDE 2020, Algorithm 2.
R. Johnson and T. Zhang, Accelerating stochastic gradient descent using predictive variance
reduction, NIPS 2013.
"""

from optimargin._core._svrg import StochasticPass
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.solvers.base import Solution, Solver


class SVRG(Solver):
    """SVRG in feature space.

    Parameters
    ----------
    tol, max_iter, seed, on_iteration
        See `Solver`; `max_iter` and `n_iter` count passes of n_samples gradients, snapshots
        included, while callbacks see one task per snapshot.
    """

    design_type = FeatureSpaceDesign

    def _solve(self, problem, coef, intercept):
        design, target = problem.design, problem.target
        constants = target.weight * (design.squared_norms + problem.fit_intercept)
        smoothness = 1 + problem.loss.smoothness * design.n_samples * constants.max()
        # Where a pass can halve the error, frequent snapshots pay off.
        inner_passes = 1 if smoothness < design.n_samples else 2
        eta = 0.5 / smoothness
        step_rule = problem.loss.coordinate_step(target)
        passes = StochasticPass(step_rule, design.n_samples, seed=self.seed)
        point = problem.point(coef, intercept)
        n_passes = 1
        for _ in self.iterations():
            if n_passes >= self.max_iter or point.relative_gap <= self.tol:
                break
            snapshot = point.coef - point.residual
            offset = point.residual.copy()
            shrunk, intercept = passes.run(
                design.rows_of(offset),
                design.decision(snapshot),
                point.pull,
                point.intercept,
                eta,
                eta if problem.fit_intercept else 0.0,
                inner_passes * design.n_samples,
            )
            offset *= shrunk
            offset += snapshot
            moved = problem.point(offset, intercept)
            n_passes += inner_passes + 1
            if moved.value < point.value:
                point = moved
            else:
                eta *= 0.5
        return Solution.from_point(point, min(n_passes, self.max_iter))
