"""The Newton steps of a problem whose samples come in chunks.

The iteration is that of `newton_cg`; only where a direction comes from differs. With few
coefficients every round brings the whole Hessian, and the system of `_systems` is solved
directly. With many, db is eliminated, and conjugate gradients preconditioned by the diagonal ask
for one product with the Hessian, one round, per step.
"""

from optimargin.problems.chunked import ChunkedProblem
from optimargin.solvers.newton_cg import FINEST, NewtonCG, Space, small_residual, truncated_step
from optimargin.systems.features import feature_step


class ChunkedNewton(NewtonCG):
    """Semismooth Newton for a `ChunkedProblem`."""

    problem_type = ChunkedProblem

    def _make_space(self, problem):
        return (_Factorised if problem.factorise else _Iterated)(problem, self)

    def check(self, problem):
        """Raise for a problem that is not chunked; its design is that of the chunks."""
        if not isinstance(problem, ChunkedProblem):
            super().check(problem)


class _Factorised(Space):
    roughest = FINEST

    def direction(self, point):
        return feature_step(point.second, point.gradient, self.problem.fit_intercept)


class _Iterated(Space):
    def direction(self, point):
        squares, sums = point.second
        return truncated_step(
            lambda v: self.problem.hessian_product(point, v),
            point.gradient,
            sums if self.problem.fit_intercept and sums[-1] > 0 else None,
            1.0 + squares[:-1],
            self.accuracy,
            small_residual(self.solver.tol, point),
        )[:2]
