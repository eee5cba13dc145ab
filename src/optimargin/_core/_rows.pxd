cdef class Rows:
    cdef const double[::1] squared_norms
    cdef double decision(self, Py_ssize_t i) noexcept nogil
    cdef int add(self, Py_ssize_t i, double amount) except -1 nogil
    cdef void expect(self, Py_ssize_t i) noexcept nogil
