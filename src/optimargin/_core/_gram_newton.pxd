from optimargin._core._active_system cimport Problem, Request

cdef int minimise(Problem* p, const Request* asked, int thread) noexcept nogil
