"""The Newton steps of a problem whose samples are met one chunk at a time.

The iteration is that of `newton_cg`; only where a direction comes from differs. With few
coefficients every round brings the whole Hessian, and the direction solves

    [ I + Phi' C Phi   Phi' C 1 ] [dw]     [ grad_w ]
    [ 1' C Phi         1' C 1   ] [db] = - [ grad_b ]

directly. With many, db is eliminated, and conjugate gradients preconditioned by the diagonal ask
for one product with the Hessian, one round, a step.
"""

import numpy as np

from optimargin.solvers.newton import _solve_spd
from optimargin.solvers.newton_cg import _FINEST, NewtonCG, Space, _model_cg, small_residual


class ChunkedNewton(NewtonCG):
    """Semismooth Newton for a `ChunkedProblem`."""

    def _make_space(self, problem):
        return (_Factorised if problem.factorise else _Iterated)(problem, self)


class _Factorised(Space):
    roughest = _FINEST

    def direction(self, point):
        n_coef = self.problem.n_coef
        hessian = point.second.copy()
        hessian[np.arange(n_coef), np.arange(n_coef)] += 1.0
        gradient = point.gradient
        if not (self.problem.fit_intercept and hessian[-1, -1] > 0):
            hessian, gradient = hessian[:n_coef, :n_coef], gradient[:n_coef]
        step = _solve_spd(hessian, -gradient)
        return step[:n_coef], step[n_coef] if step.size > n_coef else 0.0


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
        step, moment = _model_cg(product, right, 1.0 + squares[:-1], self.accuracy, enough)
        intercept_step = -(moment + point.gradient[-1]) / total if has_intercept else 0.0
        return step, intercept_step
