"""Coordinate descent on a dual with one variable a sample.

    min over d   1/2 d' Q d + sum_i h_i(d_i),     Q_ij = y_i y_j phi_i' phi_j

Three parts that know nothing of each other:

    Rows      how a sample meets the data: its decision value, its norm, and moving w along it
    Step      the exact minimiser over one variable, which is all a learner has to supply
    Descent   the loop: random order, shrinking, an unpenalised intercept

Reference: C.-J. Hsieh et al., A dual coordinate descent method for large-scale linear SVM,
ICML 2008.
"""

from cython cimport floating
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t, uint64_t

import numpy as np


cdef inline double dot(const floating* x, const double* w, Py_ssize_t n) noexcept nogil:
    """x @ w"""
    cdef double total = 0.0
    cdef Py_ssize_t j
    for j in range(n):
        total += x[j] * w[j]
    return total


cdef inline void axpy(double a, const floating* x, double* w, Py_ssize_t n) noexcept nogil:
    """w += a * x"""
    cdef Py_ssize_t j
    for j in range(n):
        w[j] += a * x[j]


cdef class Rows:
    """The samples as coordinate descent meets them, one at a time."""

    cdef const double[::1] squared_norms

    cdef double decision(self, Py_ssize_t i) noexcept nogil:
        """phi_i' w"""
        return 0.0

    cdef int add(self, Py_ssize_t i, double amount) except -1 nogil:
        """w += amount * phi_i"""
        return 0


cdef class DenseRows(Rows):
    """Rows of a dense matrix, less a constant row."""

    cdef const float[:, ::1] X32
    cdef const double[:, ::1] X64
    cdef const double[::1] center
    cdef double[::1] w
    cdef bint single, centered
    cdef Py_ssize_t n_features

    def __init__(self, X, center, double[::1] w, const double[::1] squared_norms):
        self.single = X.dtype == np.float32
        if self.single:
            self.X32 = X
        else:
            self.X64 = X
        self.centered = center is not None
        if self.centered:
            self.center = center
        self.w = w
        self.squared_norms = squared_norms
        self.n_features = w.shape[0]

    cdef double decision(self, Py_ssize_t i) noexcept nogil:
        cdef double value
        if self.single:
            value = dot[float](&self.X32[i, 0], &self.w[0], self.n_features)
        else:
            value = dot[double](&self.X64[i, 0], &self.w[0], self.n_features)
        if self.centered:
            value -= dot[double](&self.center[0], &self.w[0], self.n_features)
        return value

    cdef int add(self, Py_ssize_t i, double amount) except -1 nogil:
        if self.single:
            axpy[float](amount, &self.X32[i, 0], &self.w[0], self.n_features)
        else:
            axpy[double](amount, &self.X64[i, 0], &self.w[0], self.n_features)
        if self.centered:
            axpy[double](-amount, &self.center[0], &self.w[0], self.n_features)
        return 0


cdef class CSRRows(Rows):
    """Rows of a CSR matrix."""

    cdef const float[::1] data32
    cdef const double[::1] data64
    cdef const int32_t[::1] indices
    cdef const Py_ssize_t[::1] indptr
    cdef double[::1] w
    cdef bint single

    def __init__(
        self, data, const int32_t[::1] indices, const Py_ssize_t[::1] indptr, double[::1] w,
        const double[::1] squared_norms,
    ):
        self.single = data.dtype == np.float32
        if self.single:
            self.data32 = data
        else:
            self.data64 = data
        self.indices = indices
        self.indptr = indptr
        self.w = w
        self.squared_norms = squared_norms

    cdef double decision(self, Py_ssize_t i) noexcept nogil:
        cdef double total = 0.0
        cdef Py_ssize_t k
        if self.single:
            for k in range(self.indptr[i], self.indptr[i + 1]):
                total += self.data32[k] * self.w[self.indices[k]]
        else:
            for k in range(self.indptr[i], self.indptr[i + 1]):
                total += self.data64[k] * self.w[self.indices[k]]
        return total

    cdef int add(self, Py_ssize_t i, double amount) except -1 nogil:
        cdef Py_ssize_t k
        if self.single:
            for k in range(self.indptr[i], self.indptr[i + 1]):
                self.w[self.indices[k]] += amount * self.data32[k]
        else:
            for k in range(self.indptr[i], self.indptr[i + 1]):
                self.w[self.indices[k]] += amount * self.data64[k]
        return 0


cdef class GramRows(Rows):
    """Samples of a kernel: a step updates all decision values by one row of K.

    `get_row(i)` returns row i of K, from memory or from a cache that computes it.
    """

    cdef double[::1] decisions
    cdef const float[:, ::1] K32
    cdef const double[:, ::1] K64
    cdef object get_row
    cdef bint single, in_memory

    def __init__(self, K, get_row, double[::1] decisions, const double[::1] squared_norms):
        self.in_memory = K is not None
        if self.in_memory:
            self.single = K.dtype == np.float32
            if self.single:
                self.K32 = K
            else:
                self.K64 = K
        self.get_row = get_row
        self.decisions = decisions
        self.squared_norms = squared_norms

    cdef double decision(self, Py_ssize_t i) noexcept nogil:
        return self.decisions[i]

    cdef int add(self, Py_ssize_t i, double amount) except -1 nogil:
        cdef Py_ssize_t n = self.decisions.shape[0]
        if not self.in_memory:
            with gil:
                self.add_computed(self.get_row(i), amount)
        elif self.single:
            axpy[float](amount, &self.K32[i, 0], &self.decisions[0], n)
        else:
            axpy[double](amount, &self.K64[i, 0], &self.decisions[0], n)
        return 0

    cdef int add_computed(self, row, double amount) except -1:
        cdef const float[::1] row32
        cdef const double[::1] row64
        if row.dtype == np.float32:
            row32 = row
            axpy[float](amount, &row32[0], &self.decisions[0], row32.shape[0])
        else:
            row64 = row
            axpy[double](amount, &row64[0], &self.decisions[0], row64.shape[0])
        return 0


cdef class Step:
    """The exact minimiser of the dual over one variable."""

    cdef double solve(self, Py_ssize_t i, double q, double d, double margin) noexcept nogil:
        """Return the new d_i, given Q_ii, the old d_i and the margin y_i f_i at the old d."""
        return d

    cdef double curvature(self, Py_ssize_t i, double d) noexcept nogil:
        """Return h_i''(d)."""
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
        # Any state but zero will do; the odd constant spreads neighbouring seeds.
        self.random_state = (seed + 1) * <uint64_t> 0x9E3779B97F4A7C15
        self.unshrink()

    @property
    def is_shrunk(self):
        """Whether some variables are left out of the epochs."""
        return self.n_active < self.order.shape[0]

    def unshrink(self):
        """Take all variables back into the epochs."""
        self.n_active = self.order.shape[0]
        self.shrink_above = INFINITY

    def recentre(self):
        """Remove the penalty on the intercept; return sum(y * dual), zero at the optimum."""
        cdef double total = np.dot(self.y, self.dual)
        self.intercept += self.intercept_scale * total
        return total

    cdef inline Py_ssize_t draw(self, Py_ssize_t n) noexcept nogil:
        """Return a random integer below n (xorshift64*)."""
        self.random_state ^= self.random_state >> 12
        self.random_state ^= self.random_state << 25
        self.random_state ^= self.random_state >> 27
        return <Py_ssize_t> (
            ((self.random_state * <uint64_t> 0x2545F4914F6CDD1D) >> 33) % <uint64_t> n
        )

    def epoch(self):
        """Visit every active variable once; return the largest violation of optimality met."""
        cdef Py_ssize_t k = 0, other, i
        cdef double q, old, new, margin, violation, largest = 0.0
        with nogil:
            while k < self.n_active:
                other = k + self.draw(self.n_active - k)
                i = self.order[other]
                self.order[other] = self.order[k]
                self.order[k] = i
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
        self.shrink_above = largest if largest > 0.0 else INFINITY
        return largest
