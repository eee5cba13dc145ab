"""Kernel values from inner products, in place and in the precision of the data."""

from cython cimport floating
from libc.math cimport sqrt

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
):
    """K[:] = exp(-gamma * max(row_norms[:, None] + column_norms - 2 K, 0))."""
    cdef Py_ssize_t n_rows = K.shape[0], n_columns = K.shape[1], i
    cdef floating scale = <floating> -gamma
    if n_rows == 0 or n_columns == 0:
        return
    with nogil:
        for i in range(n_rows):
            if floating is float:
                optimargin_rbf_row_float(
                    &K[i, 0], row_norms[i], &column_norms[0], scale, n_columns
                )
            else:
                optimargin_rbf_row_double(
                    &K[i, 0], row_norms[i], &column_norms[0], scale, n_columns
                )


def weighted_distances(
    const floating[:, ::1] K,  # in: inner products of rows
    const floating[::1] row_norms,  # in, squared
    const floating[::1] column_norms,  # in, squared
    const double[::1] row_weight,  # in
    const double[::1] column_weight,  # in
):
    """Return row_weight @ sqrt(row_norms[:, None] + column_norms - 2 K) @ column_weight.

    Squares within rounding of zero count as zero: a sample has distance zero to its copies.
    """
    cdef Py_ssize_t n_rows = K.shape[0], n_columns = K.shape[1], i, j
    cdef double total = 0.0, row_total
    cdef floating squared, norms, rounding = 1e-6 if floating is float else 1e-14
    with nogil:
        for i in range(n_rows):
            row_total = 0.0
            for j in range(n_columns):
                norms = row_norms[i] + column_norms[j]
                squared = norms - 2 * K[i, j]
                squared = squared if squared > rounding * norms else 0
                row_total = row_total + column_weight[j] * sqrt(squared)
            total += row_weight[i] * row_total
    return total
