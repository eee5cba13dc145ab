cdef class Step:
    cdef double solve(self, Py_ssize_t i, double q, double d, double margin) noexcept nogil
    cdef double curvature(self, Py_ssize_t i, double d) noexcept nogil
    cdef double dual(self, Py_ssize_t i, double margin) noexcept nogil
    cdef double slack(self, Py_ssize_t i, double d, double margin) noexcept nogil
