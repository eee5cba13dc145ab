cdef class GramNewton:
    cdef readonly object K, y, weight, theta, decision, side
    cdef public double intercept
    cdef readonly double objective
    cdef readonly int n_iter, n_active
    cdef bint fit_intercept
    cdef int n
    cdef double C1, C2, D, border
    cdef const double[:, ::1] _K
    cdef const double[::1] _y, _weight
    cdef double[::1] _theta, _decision, _matrix, _root, _ones, _target, _work
    cdef double[::1] _new_theta, _new_decision
    cdef int[::1] _active, _side, _place

    cdef int _solve(self, int max_iter) noexcept nogil
    cdef void _accept(self, double new_intercept) noexcept nogil
    cdef bint _same_sides(self, double new_intercept) noexcept nogil
    cdef int _side_of(self, int i, double value) noexcept nogil
    cdef bint _classify(self, const double* decision, double intercept) noexcept nogil
    cdef int _factor(self) noexcept nogil
    cdef double _ridge(self) noexcept nogil
    cdef void _multiply(self, double* vector, double* out) noexcept nogil
    cdef double _value(
        self, const double* theta, const double* decision, double intercept
    ) noexcept nogil
    cdef double _line_search(
        self, double slope, double quadratic, double intercept_step
    ) noexcept nogil
    cdef double _derivative(
        self, double t, double slope, double quadratic, double intercept_step, double* second
    ) noexcept nogil
