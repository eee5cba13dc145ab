"""Coordinate descent on a dual with one variable per sample.

    min over p   1/2 p' Q p + sum_i h_i(p_i),     Q_ij = phi_i' phi_j

The variables p are the pulls of the samples on the decision function. `Step` is the exact
minimiser over one of them, which is all that a loss must supply; `Descent` is the loop: random
order, shrinking, an unpenalised intercept.

Reference: C.-J. Hsieh et al., A dual coordinate descent method for large-scale linear SVM,
ICML 2008.
"""

from libc.math cimport INFINITY, fabs
from libc.stdint cimport uint64_t

from optimargin._core._random cimport shuffle, start
from optimargin._core._rows cimport Rows

import numpy as np

cdef extern from "band_loss.h" nogil:
    double band_minimiser "optimargin_band_minimiser"(
        double s, double t, double D, double ridge1, double ridge2, double q, double p, double f
    )


# A variable is skipped while its gradient is further from moving it than this share of the largest
# violation of the last epoch. Certificates use all variables: a wrong guess only costs time.
cdef double SHRINK_SHARE = 0.25


cdef class Step:
    """The exact minimiser of the dual over one variable."""

    cdef double solve(self, Py_ssize_t i, double q, double p, double f) noexcept nogil:
        """Return the new p_i, given Q_ii, the old p_i and the decision value f_i at the old p."""
        return p

    cdef double curvature(self, Py_ssize_t i, double p) noexcept nogil:
        """Return h_i''(p)."""
        return 0.0

    cdef double pull(self, Py_ssize_t i, double f) noexcept nogil:
        """Return -w_i dl_i/df, for a differentiable loss."""
        return 0.0

    cdef double slack(self, Py_ssize_t i, double p, double f) noexcept nogil:
        """Return how far the gradient is from moving p_i off a kink or bound (<= 0: it moves)."""
        return -1.0


cdef class BandStep(Step):
    """h(p) = p^2 ridge1 / 2 + D |p| - t p where s p > 0, with ridge2 where s p < 0."""

    cdef const double[::1] target, orientation, ridge1, ridge2
    cdef double D

    def __init__(
        self,
        const double[::1] target,
        const double[::1] orientation,
        const double[::1] ridge1,
        const double[::1] ridge2,
        double D,
    ):
        self.target = target
        self.orientation = orientation
        self.ridge1 = ridge1
        self.ridge2 = ridge2
        self.D = D

    cdef double solve(self, Py_ssize_t i, double q, double p, double f) noexcept nogil:
        return band_minimiser(
            self.orientation[i], self.target[i], self.D, self.ridge1[i], self.ridge2[i], q, p, f
        )

    cdef double curvature(self, Py_ssize_t i, double p) noexcept nogil:
        if p == 0.0:
            return 0.0
        return self.ridge1[i] if self.orientation[i] * p > 0.0 else self.ridge2[i]

    cdef double pull(self, Py_ssize_t i, double f) noexcept nogil:
        cdef double s = self.orientation[i], shortfall = s * (self.target[i] - f)
        if shortfall > self.D:
            return s * (shortfall - self.D) / self.ridge1[i]
        if shortfall < -self.D:
            return s * (shortfall + self.D) / self.ridge2[i]
        return 0.0

    cdef double slack(self, Py_ssize_t i, double p, double f) noexcept nogil:
        cdef double shortfall
        if p != 0.0:
            return -1.0
        shortfall = self.orientation[i] * (self.target[i] - f)
        if self.ridge2[i] == INFINITY or shortfall > 0.0:
            return self.D - shortfall
        return self.D + shortfall


cdef class PythonStep(Step):
    """A step whose formulas are written in Python, for losses without a compiled one.

    Parameters
    ----------
    rule : object
        With methods ``solve(i, q, p, f)``, ``curvature(i, p)`` and ``pull(i, f)`` as in `Step`.
        An exception they raise ends the epoch and is raised from there.
    """

    cdef object rule

    def __init__(self, rule):
        self.rule = rule

    cdef double solve(self, Py_ssize_t i, double q, double p, double f) noexcept nogil:
        with gil:
            try:
                return p if self.error is not None else self.rule.solve(i, q, p, f)
            except BaseException as error:
                self.error = error
                return p

    cdef double curvature(self, Py_ssize_t i, double p) noexcept nogil:
        with gil:
            try:
                return 0.0 if self.error is not None else self.rule.curvature(i, p)
            except BaseException as error:
                self.error = error
                return 0.0

    cdef double pull(self, Py_ssize_t i, double f) noexcept nogil:
        with gil:
            try:
                return 0.0 if self.error is not None else self.rule.pull(i, f)
            except BaseException as error:
                self.error = error
                return 0.0


cdef class Descent:
    """The state of a descent: variables, order, active variables, intercept.

    The intercept is treated by the method of multipliers: within an epoch it moves as if it were
    the coefficient of a feature of constant value sqrt(intercept_scale). Then `recentre` removes
    the penalty on it, so that it is unpenalised in the limit.
    """

    cdef Rows rows
    cdef Step step
    cdef double[::1] pull
    cdef Py_ssize_t[::1] order
    cdef Py_ssize_t n_active
    cdef uint64_t random_state
    cdef double shrink_above, intercept_scale
    cdef public double intercept

    def __init__(
        self, Rows rows, Step step, double[::1] pull, *,
        double intercept, double intercept_scale, uint64_t seed,
    ):
        self.rows = rows
        self.step = step
        self.pull = pull
        self.order = np.arange(pull.shape[0], dtype=np.intp)
        self.intercept = intercept
        self.intercept_scale = intercept_scale
        self.random_state = start(seed)
        self.shrink_above = INFINITY
        self.unshrink()

    @property
    def is_shrunk(self):
        """Whether some variables are left out of the epochs."""
        return self.n_active < self.order.shape[0]

    def unshrink(self):
        """Include all variables in the epochs again."""
        self.n_active = self.order.shape[0]

    def recentre(self):
        """Remove the penalty on the intercept; return sum(pull), zero at the optimum."""
        cdef double total = 0.0
        cdef Py_ssize_t i
        for i in range(self.pull.shape[0]):
            total += self.pull[i]
        self.intercept += self.intercept_scale * total
        return total

    def epoch(self):
        """Visit every active variable once; return the largest violation of optimality seen."""
        cdef Py_ssize_t k = 0, last = self.order.shape[0] - 1, i
        cdef double q, old, new, f, violation, largest = 0.0
        with nogil:
            shuffle(&self.random_state, &self.order[0], self.n_active)
            while k < self.n_active:
                i = self.order[k]
                self.rows.expect(self.order[min(k + 2, last)])
                old = self.pull[i]
                f = self.rows.decision(i) + self.intercept
                q = self.rows.squared_norms[i] + self.intercept_scale
                if self.step.slack(i, old, f) > self.shrink_above:
                    self.n_active -= 1
                    self.order[k] = self.order[self.n_active]
                    self.order[self.n_active] = i
                    continue
                new = self.step.solve(i, q, old, f)
                k += 1
                if new == old:
                    continue
                violation = fabs(new - old) * (q + self.step.curvature(i, new))
                largest = max(largest, violation)
                self.pull[i] = new
                self.rows.add(i, new - old)
                self.intercept += self.intercept_scale * (new - old)
        if self.step.error is not None:
            raise self.step.error
        self.shrink_above = SHRINK_SHARE * largest if largest > 0.0 else INFINITY
        return largest
