"""A factor over the active samples: `optimargin.systems.base` has the equations.

For coefficients of samples, and for sparse rows with more features than samples, whose
coefficients are those of features: w = Phi' theta.

The Newton step starts at a point. With rho the coefficients of the gradient in w and f its decision
values,

    x = r A^-1 (r f),   q = r A^-1 r,   db = (1'x + sum of pulls) / 1'q,   dtheta = -rho + x - db q,

which sets theta to zero off S and to the solution of the system on it. What is factorised is A
with a unit diagonal, which costs nothing and keeps rounding small.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from optimargin._linalg import Factor, solve_spd
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.systems.base import SINGULAR, ActiveSystem, Derivatives, Form, IndefiniteError

_INDEFINITE = 1e-2  # of a diagonal that has to be raised by as much: float32 rounds by far less


class SampleSystem(ActiveSystem):
    """The system in the coordinates of the active samples."""

    def __init__(self, design, *, fit_intercept):
        super().__init__(design, fit_intercept=fit_intercept)
        self._in_features = isinstance(design, FeatureSpaceDesign)
        self._factored: Any = None
        self._factor: Any = None
        self._inverse: Any = None

    @property
    def operations(self):
        """Those of a Cholesky factor of all samples."""
        return float(self.design.n_samples) ** 3

    @property
    def n_bytes(self):
        """A factor, and its inverse where folds are left out."""
        return 16.0 * self.design.n_samples**2

    def _factorise(self, curvature):
        """Make the factor that belongs to curvatures, if it is not there."""
        if self._factored is not None and np.array_equal(self._factored, curvature):
            return
        self._factored = curvature
        self._factor = self._inverse = None
        self._rows = np.flatnonzero(curvature)
        self._root = np.sqrt(curvature[self._rows])
        diagonal = 1.0 + curvature[self._rows] * self.design.squared_norms[self._rows]
        if (diagonal <= 0).any():
            raise IndefiniteError
        self._unit = 1.0 / np.sqrt(diagonal)
        self._factor = Factor(self._matrix()) if self._rows.size else None
        self._ones = self._unsolved(self._root)
        self._border = self._root @ self._ones

    def _matrix(self):
        """Return A with a unit diagonal; its lower triangle is enough."""
        design, scale = self.design, self._unit * self._root
        if self._in_features:
            M = design.scaled_gram(self._rows, scale)
        else:
            M = design.block(self._rows)
            M *= scale
            M *= scale[:, None]
        M[np.diag_indices_from(M)] += self._unit**2
        return M

    def _unsolved(self, right):
        """Return ``A^-1 right`` of a vector or of columns."""
        if self._factor is None:
            return right
        unit = self._unit if right.ndim == 1 else self._unit[:, None]
        solved = self._factor.solve(unit * right)
        if not np.isfinite(solved).all():
            solved = solve_spd(self._matrix(), unit * right)
        return unit * solved

    def step(self, point, curvature):
        """Return the Newton step in the coefficients and in the intercept."""
        self._factorise(curvature)
        design, rows = self.design, self._rows
        if self._in_features:
            image = design.decision(point.residual)[rows]
        elif design.complete or point.curvature[rows].all():
            image = point.residual_image[rows]
        else:
            # A kink that is held on to adds samples where such a design left the image out.
            image = design.decision(point.residual)[rows]
        x = self._root * self._unsolved(self._root * image)
        intercept_step = 0.0
        if self.fit_intercept:
            x, intercept_step = eliminate_intercept(x, self._root * self._ones, point)
        return self._spread(x) - point.residual, intercept_step

    def _spread(self, theta):
        """Return the coefficients of those of the active samples, of a vector or of columns."""
        out = np.zeros((self.design.n_samples, *theta.shape[1:]))
        out[self._rows] = theta
        if not self._in_features:
            return out
        return self.design.represent(out) if out.ndim == 1 else self.design.represents(out)

    def _solve(self, decision):
        self._factorise(self.curvature)
        if self._factor is not None and self._factor.ridge > _INDEFINITE:
            raise IndefiniteError
        root, aim = self._root[:, None], self.aim[self._rows]
        solved = self._unsolved(root * aim)
        self.intercept = np.zeros(aim.shape[1])
        if self.fit_intercept and self._rows.size:
            self.intercept = self._root @ solved / self._border
            solved -= np.outer(self._ones, self.intercept)
        self.theta = root * solved
        self.coef = self._spread(self.theta)
        if self._rows.size == self.design.n_samples:
            self.decision = np.empty_like(self.aim)
        elif decision is None:
            self.decision = self.design.decisions(self.coef) + self.intercept
        else:
            self.decision = decision.copy()
        self.error = self.theta / root**2
        self.decision[self._rows] = aim - self.error

    def _prepare(self):
        self._factorise(self.curvature)

    def _pivots(self):
        """Return the diagonal of P."""
        if self.active.size == 0:
            return np.zeros(0)
        half = self._factor.inverse_root()
        diagonal = np.einsum("ij,ij->i", half, half) * self._unit**2
        return diagonal - self._ones**2 / self._border if self.fit_intercept else diagonal

    def influence(self, new):
        """Return the influence of the aims on new samples."""
        self._prepare()
        if self.active.size == 0:
            return np.zeros((new.shape[0], 0))
        if self._in_features:
            new = self.design.decisions(new.T, self.active).T
        solved = self._unsolved((new * self._root).T)
        if self.fit_intercept:
            solved += np.outer(self._ones / self._border, 1.0 - self._root @ solved)
        return solved.T * self._root

    def _bordered_inverse(self):
        """Return P, which is kept until there is another factor."""
        if self._inverse is None:
            self._inverse = self._unsolved(np.eye(self.active.size))
            if self.fit_intercept:
                self._inverse -= np.outer(self._ones, self._ones / self._border)
        return self._inverse

    def _leave_out(self, rows, known=None):
        """Return coefficients of the active samples, intercepts, and what went into these.

        That is which active samples leave, the block of P that is theirs, and u. There is no u
        where no model is left: its value is the intercept.
        """
        self._prepare()
        gone = np.flatnonzero(np.isin(self.active, rows))
        if gone.size == 0:
            return self.theta, self.intercept, gone, None, self.theta[gone]
        inverse = self._bordered_inverse()
        block = inverse[np.ix_(gone, gone)]
        if gone.size == self.active.size or not (block.diagonal() > SINGULAR).all():
            return np.zeros_like(self.theta), self.intercept, gone, block, None
        u = solve_spd(block, self.theta[gone] / self._root[gone, None])
        theta = self.theta - self._root[:, None] * (inverse[:, gone] @ u)
        theta[gone] = 0.0
        intercept = self.intercept
        if self.fit_intercept:
            intercept = intercept - self._ones[gone] @ u / self._border
        return theta, intercept, gone, block, u

    def without(self, rows):
        """Return coefficients and intercepts without `rows`."""
        theta, intercept, *_ = self._leave_out(rows)
        return self._spread(theta), intercept

    def _values_without(self, rows, model):
        """Return the values of `rows`: of active ones by u, of others by coefficients."""
        theta, intercept, gone, _, u = model
        out = np.repeat(intercept[None], rows.size, axis=0)
        if u is None:
            return out
        is_active = self.curvature[rows] > 0
        out[is_active] = self.aim[self.active[gone]] - u / self._root[gone, None]
        off = rows[~is_active]
        if off.size and self._in_features:
            out[~is_active] += self.design.decisions(self._spread(theta), off)
        elif off.size:
            out[~is_active] += self.design.columns(self.active, off) @ theta
        return out

    def _differentiate_without(self, rows, model, slope):
        left = np.zeros_like(self.aim)
        if model[-1] is None:
            return Derivatives(left, left, [])
        left[rows] = slope
        if self._in_features:
            by_theta = self.design.decisions(self.design.represents(left), self.active)
        else:
            by_theta = self.design.columns(self.active, rows).T @ slope
        return self._differentiate(by_theta, left, slope, model)

    def _differentiate_test(self, test, slope):
        by_coef = test.represents(slope)
        if self._in_features:
            by_coef = self.design.decisions(by_coef)
        model = self._leave_out(np.zeros(0, dtype=np.intp))
        found = self._differentiate(by_coef[self.active], np.zeros_like(self.aim), slope, model)
        coef = found.forms[0].coef
        return replace(found, forms=[*found.forms, Form("test", slope.T, coef)])

    def _differentiate(self, by_theta, left, slope, model):
        """Return the derivatives of a function of values by a model.

        Parameters
        ----------
        by_theta : ndarray of shape (n_active, n_outputs)
            Its derivatives by the coefficients of active samples.
        left : ndarray of shape (n_samples, n_outputs)
            The same by the values of samples; overwritten.
        slope : ndarray of shape (n_values, n_outputs)
            The same by all values.
        model : tuple
            See `_leave_out`.
        """
        theta, _, gone, block, _ = model
        root = self._root[:, None]
        adjoint = self._unsolved(root * by_theta)
        if self.fit_intercept and self.active.size:
            rest = slope.sum(axis=0) - self._root @ adjoint
            adjoint += np.outer(self._ones / self._border, rest)
        if gone.size:
            adjoint -= self._inverse[:, gone] @ solve_spd(block, adjoint[gone])
            adjoint[gone] = 0.0
        by_aim, by_log, coef = np.zeros((3, *self.aim.shape))
        by_aim[self.active] = root * adjoint
        by_log[self.active] = by_aim[self.active] * theta / root**2
        coef[self.active] = theta
        return Derivatives(by_aim, by_log, [Form("samples", (left - by_aim).T, coef.T)])


def eliminate_intercept(x, q, point):
    """Return x - db q, and the step db of the intercept.

    Where rounding leaves nothing of q, the intercept waits for its own exact minimisation.
    """
    total = q.sum()
    if not total > 0:
        return x, 0.0
    intercept_step = (x.sum() + point.pull.sum()) / total
    return x - intercept_step * q, intercept_step
