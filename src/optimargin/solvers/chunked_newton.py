"""The Newton steps of a problem whose samples come in chunks.

The iteration is that of `newton_cg`; only where a direction comes from differs. With few
coefficients every round brings the whole Hessian, and the system of `_systems` is solved
directly. With many, db is eliminated, and conjugate gradients preconditioned by the diagonal ask
for one product with the Hessian, one round, per step.
"""

from optimargin.problems.chunked import ChunkedProblem
from optimargin.solvers.newton_cg import FINEST, NewtonCG, Space, model_cg, small_residual
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
        total = sums[-1]
        has_intercept = self.problem.fit_intercept and total > 0
        right = -point.gradient[:-1]
        if has_intercept:
            right = right + point.gradient[-1] / total * sums[:-1]

        def product(v):
            out, moment = self.problem.hessian_product(point, v)
            if has_intercept:
                out = out - moment / total * sums[:-1]
            return out + v, moment

        enough = small_residual(self.solver.tol, point)
        step, moment = model_cg(product, right, 1.0 + squares[:-1], self.accuracy, enough)
        intercept_step = -(moment + point.gradient[-1]) / total if has_intercept else 0.0
        return step, intercept_step
