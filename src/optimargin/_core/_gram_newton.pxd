from optimargin._core._active_system cimport ActiveSystem


cdef class GramNewton(ActiveSystem):
    cdef readonly object target, orientation, theta, decision
    cdef public double intercept
    cdef readonly double objective
    cdef readonly int n_iter
    cdef long solve_number
    cdef bint fit_intercept
    cdef double D, border
    cdef const double[::1] _t, _s
    cdef double[::1] _theta, _decision, _ones, _target, _work, _scale, _solved
    cdef double[::1] _new_theta, _new_decision, _step

    cdef int _solve(self, double C1, double C2, double D, int max_iter) noexcept nogil
    cdef int _iterate(self, int max_iter) noexcept nogil
    cdef void _reset(self) noexcept nogil
    cdef void _accept(self, double new_intercept) noexcept nogil
    cdef bint _same_sides(self, double new_intercept) noexcept nogil
    cdef int _side_of(self, int i, double value) noexcept nogil
    cdef bint _classify(self, const double* decision, double intercept) noexcept nogil
    cdef double _ridge(self) noexcept nogil
    cdef int _settle(self) noexcept nogil
    cdef void _multiply(self, double* vector, double* out) noexcept nogil
    cdef double _value(
        self, const double* theta, const double* decision, double intercept
    ) noexcept nogil
    cdef double _aim(self, int i) noexcept nogil
