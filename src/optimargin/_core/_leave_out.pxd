from optimargin._core._active_system cimport Problem

cdef int left_out(Problem* p, const double* share, double* out) noexcept nogil
cdef void fold_values(
    Problem* p, const int* fold, int which, int* members, double* work, double* out,
) noexcept nogil
cdef void differentiate(
    Problem* p, const int* fold, int which, int* members, double* work, const double* slope,
    double* by_aim, double* by_log_curvature, double* left, double* theta,
) noexcept nogil
cdef int adjoint(Problem* p, const double* slope, const double* total, double* out) noexcept nogil
