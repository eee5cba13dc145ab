"""Kernel values from inner products, in place and in the precision of the data."""

from cython cimport floating
from cython.parallel cimport prange

cdef extern from "rbf_row.h" nogil:
    void optimargin_rbf_row_float(
        float* row, float row_norm, const float* column_norms, float scale, Py_ssize_t n
    )
    void optimargin_rbf_row_double(
        double* row, double row_norm, const double* column_norms, double scale, Py_ssize_t n
    )


def rbf_in_place(
    floating[:, ::1] K,  # in: inner products of rows; out: kernel values
    const floating[::1] row_norms,  # in, squared
    const floating[::1] column_norms,  # in, squared
    double gamma,
    int n_threads,
):
    """K[:] = exp(-gamma * max(row_norms[:, None] + column_norms - 2 K, 0))."""
    cdef Py_ssize_t n_rows = K.shape[0], n_columns = K.shape[1], i
    cdef floating scale = <floating> -gamma
    if n_rows == 0 or n_columns == 0:
        return
    for i in prange(n_rows, nogil=True, num_threads=n_threads, schedule="static"):
        if floating is float:
            optimargin_rbf_row_float(&K[i, 0], row_norms[i], &column_norms[0], scale, n_columns)
        else:
            optimargin_rbf_row_double(&K[i, 0], row_norms[i], &column_norms[0], scale, n_columns)
