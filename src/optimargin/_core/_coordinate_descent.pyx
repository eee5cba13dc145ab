"""Coordinate descent on a dual with one variable a sample.

    min over d   1/2 d' Q d + sum_i h_i(d_i),     Q_ij = y_i y_j phi_i' phi_j

`Step` is the exact minimiser over one variable, which is all a learner has to supply;
`Descent` is the loop: random order, shrinking, an unpenalised intercept.

Reference: C.-J. Hsieh et al., A dual coordinate descent method for large-scale linear SVM,
ICML 2008.
"""

from libc.math cimport INFINITY, fabs
from libc.stdint cimport uint64_t

from optimargin._core._random cimport shuffle, start
from optimargin._core._rows cimport Rows

import numpy as np


# A variable rests while its gradient is further from moving it than this share of the largest
# violation of the last epoch. Certificates look at all variables: a wrong guess costs time only.
cdef double SHRINK_SHARE = 0.25


cdef class Step:
    """The exact minimiser of the dual over one variable."""

    cdef double solve(self, Py_ssize_t i, double q, double d, double margin) noexcept nogil:
        """Return the new d_i, given Q_ii, the old d_i and the margin y_i f_i at the old d."""
        return d

    cdef double curvature(self, Py_ssize_t i, double d) noexcept nogil:
        """Return h_i''(d)."""
        return 0.0

    cdef double dual(self, Py_ssize_t i, double margin) noexcept nogil:
        """Return -w_i l'(margin), for a differentiable loss."""
        return 0.0

    cdef double slack(self, Py_ssize_t i, double d, double margin) noexcept nogil:
        """Return how far the gradient is from moving d_i off a kink or bound (<= 0: it moves)."""
        return -1.0


cdef class ODMStep(Step):
    """h(d) = d^2 ridge1 / 2 - (1 - D) d for d > 0, d^2 ridge2 / 2 - (1 + D) d for d < 0."""

    cdef const double[::1] ridge1, ridge2
    cdef double lower, upper

    def __init__(self, const double[::1] ridge1, const double[::1] ridge2, double D):
        self.ridge1 = ridge1
        self.ridge2 = ridge2
        self.lower = 1.0 - D
        self.upper = 1.0 + D

    cdef double solve(self, Py_ssize_t i, double q, double d, double margin) noexcept nogil:
        cdef double rest = q * d - margin
        if rest + self.lower > 0.0:
            return (rest + self.lower) / (q + self.ridge1[i])
        if rest + self.upper < 0.0:
            return (rest + self.upper) / (q + self.ridge2[i])
        return 0.0

    cdef double curvature(self, Py_ssize_t i, double d) noexcept nogil:
        if d == 0.0:
            return 0.0
        return self.ridge1[i] if d > 0.0 else self.ridge2[i]

    cdef double dual(self, Py_ssize_t i, double margin) noexcept nogil:
        if margin < self.lower:
            return (self.lower - margin) / self.ridge1[i]
        if margin > self.upper:
            return (self.upper - margin) / self.ridge2[i]
        return 0.0

    cdef double slack(self, Py_ssize_t i, double d, double margin) noexcept nogil:
        if d != 0.0:
            return -1.0
        if self.ridge2[i] == INFINITY or margin - self.lower < self.upper - margin:
            return margin - self.lower
        return self.upper - margin


cdef class BoxStep(Step):
    """h(d) = -target d on lower <= d <= upper: the hinge loss and its relatives."""

    cdef const double[::1] lower, upper
    cdef double target

    def __init__(self, const double[::1] lower, const double[::1] upper, double target):
        self.lower = lower
        self.upper = upper
        self.target = target

    cdef double solve(self, Py_ssize_t i, double q, double d, double margin) noexcept nogil:
        cdef double gradient = margin - self.target
        if q > 0.0:
            d = d - gradient / q
        elif gradient < 0.0:
            d = self.upper[i]
        elif gradient > 0.0:
            d = self.lower[i]
        return min(max(d, self.lower[i]), self.upper[i])

    cdef double slack(self, Py_ssize_t i, double d, double margin) noexcept nogil:
        if d <= self.lower[i]:
            return margin - self.target
        if d >= self.upper[i]:
            return self.target - margin
        return -1.0


cdef class Descent:
    """The state of a descent: variables, order, active variables, intercept.

    The intercept is treated by the method of multipliers: within an epoch it moves as if it
    were a feature of constant value sqrt(intercept_scale), and `recentre` then takes the
    penalty on it back, so that it is unpenalised in the limit.
    """

    cdef Rows rows
    cdef Step step
    cdef const double[::1] y
    cdef double[::1] dual
    cdef Py_ssize_t[::1] order
    cdef Py_ssize_t n_active
    cdef uint64_t random_state
    cdef double shrink_above, intercept_scale
    cdef public double intercept

    def __init__(
        self, Rows rows, Step step, const double[::1] y, double[::1] dual, *,
        double intercept, double intercept_scale, uint64_t seed,
    ):
        self.rows = rows
        self.step = step
        self.y = y
        self.dual = dual
        self.order = np.arange(y.shape[0], dtype=np.intp)
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
        """Take all variables back into the epochs."""
        self.n_active = self.order.shape[0]

    def recentre(self):
        """Remove the penalty on the intercept; return sum(y * dual), zero at the optimum."""
        cdef double total = np.dot(self.y, self.dual)
        self.intercept += self.intercept_scale * total
        return total

    def epoch(self):
        """Visit every active variable once; return the largest violation of optimality met."""
        cdef Py_ssize_t k = 0, last = self.order.shape[0] - 1, i
        cdef double q, old, new, margin, violation, largest = 0.0
        with nogil:
            shuffle(&self.random_state, &self.order[0], self.n_active)
            while k < self.n_active:
                i = self.order[k]
                self.rows.expect(self.order[min(k + 2, last)])
                old = self.dual[i]
                margin = self.y[i] * (self.rows.decision(i) + self.intercept)
                q = self.rows.squared_norms[i] + self.intercept_scale
                if self.step.slack(i, old, margin) > self.shrink_above:
                    self.n_active -= 1
                    self.order[k] = self.order[self.n_active]
                    self.order[self.n_active] = i
                    continue
                new = self.step.solve(i, q, old, margin)
                k += 1
                if new == old:
                    continue
                violation = fabs(new - old) * (q + self.step.curvature(i, new))
                largest = max(largest, violation)
                self.dual[i] = new
                self.rows.add(i, self.y[i] * (new - old))
                self.intercept += self.intercept_scale * self.y[i] * (new - old)
        self.shrink_above = SHRINK_SHARE * largest if largest > 0.0 else INFINITY
        return largest
