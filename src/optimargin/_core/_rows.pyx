"""Row access for solvers that visit one sample at a time.

`Rows` hides how the data are stored. It offers the decision value of a sample, its norm, and moving
w along it. Solvers and losses do not depend on storage, nor storage on them.
"""

from cython cimport floating
from libc.stdint cimport int32_t

from optimargin._core._sparse cimport gather_dot, scatter_add

import numpy as np

cdef extern from "dense_rows.h" nogil:
    void add_rows_float "optimargin_add_rows_float"(
        const float* X, Py_ssize_t n, Py_ssize_t d, const double* r, double* out)
    void add_rows_double "optimargin_add_rows_double"(
        const double* X, Py_ssize_t n, Py_ssize_t d, const double* r, double* out)

cdef extern from "prefetch.h" nogil:
    void prefetch "OPTIMARGIN_PREFETCH"(const void* address)

cdef enum:
    LINE = 64  # bytes of a cache line
    LINES_AHEAD = 16  # of a row; the processor fetches the following lines by itself


cdef inline void prefetch_lines(const char* first, Py_ssize_t n_bytes) noexcept nogil:
    """Prefetch the first cache lines of `n_bytes`."""
    cdef Py_ssize_t k
    for k in range(min((n_bytes + LINE - 1) // LINE, LINES_AHEAD)):
        prefetch(first + k * LINE)


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
    """The samples of a design matrix."""

    cdef double decision(self, Py_ssize_t i) noexcept nogil:
        """phi_i' w"""
        return 0.0

    cdef int add(self, Py_ssize_t i, double amount) except -1 nogil:
        """w += amount * phi_i"""
        return 0

    cdef void expect(self, Py_ssize_t i) noexcept nogil:
        """Prefetch the data of the sample after the next one."""
        pass


cdef class DenseRows(Rows):
    """Rows of a dense matrix, minus a constant row."""

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

    cdef void expect(self, Py_ssize_t i) noexcept nogil:
        if self.single:
            prefetch_lines(<const char*> &self.X32[i, 0], self.n_features * sizeof(float))
        else:
            prefetch_lines(<const char*> &self.X64[i, 0], self.n_features * sizeof(double))


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
        cdef Py_ssize_t first = self.indptr[i], length = self.indptr[i + 1] - self.indptr[i]
        if length == 0:
            return 0.0
        if self.single:
            return gather_dot[float, int32_t](
                &self.data32[first], &self.indices[first], &self.w[0], length
            )
        return gather_dot[double, int32_t](
            &self.data64[first], &self.indices[first], &self.w[0], length
        )

    cdef int add(self, Py_ssize_t i, double amount) except -1 nogil:
        cdef Py_ssize_t first = self.indptr[i], length = self.indptr[i + 1] - self.indptr[i]
        if length == 0:
            return 0
        if self.single:
            scatter_add[float, int32_t](
                amount, &self.data32[first], &self.indices[first], &self.w[0], length
            )
        else:
            scatter_add[double, int32_t](
                amount, &self.data64[first], &self.indices[first], &self.w[0], length
            )
        return 0

    cdef void expect(self, Py_ssize_t i) noexcept nogil:
        cdef Py_ssize_t first = self.indptr[i], length = self.indptr[i + 1] - first
        if length > 0:
            prefetch_lines(<const char*> &self.indices[first], length * sizeof(int32_t))
            if self.single:
                prefetch_lines(<const char*> &self.data32[first], length * sizeof(float))
            else:
                prefetch_lines(<const char*> &self.data64[first], length * sizeof(double))


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
            add_rows_float(&self.K32[i, 0], 1, n, &amount, &self.decisions[0])
        else:
            add_rows_double(&self.K64[i, 0], 1, n, &amount, &self.decisions[0])
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
