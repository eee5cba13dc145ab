"""Symmetric matrices kept as panels of their lower triangle.

Panel p holds rows bounds[p]:bounds[p + 1] and columns 0:bounds[p + 1], row by row, at
buffer[offsets[p]:offsets[p + 1]]. Half the memory of the full matrix, and a product reads
every entry once for both of its places.
"""

from cython cimport floating
from cython.parallel cimport prange

cdef extern from "panel_row.h" nogil:
    double optimargin_panel_row_float(
        const float* row, Py_ssize_t square, Py_ssize_t width, double scale,
        const double* v, double* out,
    )
    double optimargin_panel_row_double(
        const double* row, Py_ssize_t square, Py_ssize_t width, double scale,
        const double* v, double* out,
    )


def panel_product(
    const floating[::1] buffer,  # in
    const Py_ssize_t[::1] bounds,  # in
    const Py_ssize_t[::1] offsets,  # in
    const double[:, ::1] V,  # in, one vector a row
    double[:, :, ::1] partial,  # out, (n_threads, n_vectors, n_samples); zero on entry
    int n_threads,
):
    """partial.sum(axis=0) == V @ K for the symmetric K that the panels hold."""
    cdef Py_ssize_t n_panels = bounds.shape[0] - 1, n_vectors = V.shape[0], p, t, i, v
    # Panels grow in width: dealing them out in turn gives every thread an equal share.
    for t in prange(n_threads, nogil=True, num_threads=n_threads, schedule="static"):
        p = t
        while p < n_panels:
            for i in range(bounds[p], bounds[p + 1]):
                for v in range(n_vectors):
                    _row_product(
                        &buffer[offsets[p] + (i - bounds[p]) * bounds[p + 1]],
                        bounds[p], bounds[p + 1], i, &V[v, 0], &partial[t, v, 0],
                    )
            p = p + n_threads


cdef void _row_product(
    const floating* row, Py_ssize_t square, Py_ssize_t width, Py_ssize_t i, const double* v,
    double* out,
) noexcept nogil:
    """out[i] += row @ v; out[:square] += v[i] * row[:square]"""
    if floating is float:
        out[i] += optimargin_panel_row_float(row, square, width, v[i], v, out)
    else:
        out[i] += optimargin_panel_row_double(row, square, width, v[i], v, out)


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
            _row_product(&K[i, 0], 0, K.shape[1], 0, &v[0], &out[i])
