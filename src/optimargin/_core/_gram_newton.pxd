from optimargin._core._active_system cimport Problem

cdef int solve_quadratic(Problem* p) noexcept nogil
cdef int newton(Problem* p) noexcept nogil
