"""Symmetric matrices kept as panels of their lower triangle.

Panel p holds rows bounds[p]:bounds[p + 1] and columns 0:bounds[p + 1], row by row, at
buffer[offsets[p]:offsets[p + 1]]. This takes half the memory of the full matrix, and a product
reads every entry once and uses it for both (i, j) and (j, i).
"""

from cython cimport floating
from cython.parallel cimport prange

cdef extern from "panel_row.h" nogil:
    void optimargin_panel_rows_float(
        const float* rows, Py_ssize_t square, Py_ssize_t width, const double* scale,
        const double* v, double* out, double* total,
    )
    void optimargin_panel_rows_double(
        const double* rows, Py_ssize_t square, Py_ssize_t width, const double* scale,
        const double* v, double* out, double* total,
    )
    void optimargin_panel_row_float(
        const float* row, Py_ssize_t square, Py_ssize_t width, double scale,
        const double* v, double* out, double* total,
    )
    void optimargin_panel_row_double(
        const double* row, Py_ssize_t square, Py_ssize_t width, double scale,
        const double* v, double* out, double* total,
    )


def panel_product(
    const floating[::1] buffer,  # in
    const Py_ssize_t[::1] bounds,  # in
    const Py_ssize_t[::1] offsets,  # in
    const double[:, ::1] V,  # in, one vector per row
    double[:, :, ::1] partial,  # out, (n_threads, n_vectors, n_samples); zero on entry
    int n_threads,
):
    """partial.sum(axis=0) == V @ K for the symmetric K that the panels hold."""
    cdef Py_ssize_t n_panels = bounds.shape[0] - 1, n_vectors = V.shape[0], p, t, i, v
    # Panels increase in width: assigning them in turn gives every thread an equal share.
    for t in prange(n_threads, nogil=True, num_threads=n_threads, schedule="static"):
        p = t
        while p < n_panels:
            i = bounds[p]
            while i < bounds[p + 1]:
                for v in range(n_vectors):
                    _add_products(
                        &buffer[offsets[p] + (i - bounds[p]) * bounds[p + 1]],
                        bounds[p], bounds[p + 1], i, &V[v, 0], &partial[t, v, 0],
                    )
                i = i + 4
            p = p + n_threads


cdef void _add_products(
    const floating* rows, Py_ssize_t square, Py_ssize_t width, Py_ssize_t i, const double* v,
    double* out,
) noexcept nogil:
    """The rows i to i + 3 of a panel that ends at row `width`, or those that exist."""
    cdef Py_ssize_t k
    if i + 4 <= width:
        if floating is float:
            optimargin_panel_rows_float(rows, square, width, v + i, v, out, out + i)
        else:
            optimargin_panel_rows_double(rows, square, width, v + i, v, out, out + i)
        return
    for k in range(width - i):
        if floating is float:
            optimargin_panel_row_float(
                rows + k * width, square, width, v[i + k], v, out, out + i + k
            )
        else:
            optimargin_panel_row_double(
                rows + k * width, square, width, v[i + k], v, out, out + i + k
            )


def rows_product(
    const floating[:, ::1] K,  # in
    const double[::1] v,  # in
    double[::1] out,  # out
):
    """out[:] = K @ v."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(K.shape[0]):
            out[i] = 0.0
            if floating is float:
                optimargin_panel_row_float(&K[i, 0], 0, K.shape[1], 0.0, &v[0], NULL, &out[i])
            else:
                optimargin_panel_row_double(&K[i, 0], 0, K.shape[1], 0.0, &v[0], NULL, &out[i])
