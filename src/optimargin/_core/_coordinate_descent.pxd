cdef class Step:
    cdef object error  # what a step written in Python raised

    cdef double solve(self, Py_ssize_t i, double q, double p, double f) noexcept nogil
    cdef double curvature(self, Py_ssize_t i, double p) noexcept nogil
    cdef double pull(self, Py_ssize_t i, double f) noexcept nogil
    cdef double slack(self, Py_ssize_t i, double p, double f) noexcept nogil
