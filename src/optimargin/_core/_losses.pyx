"""Loss values and derivatives over all samples, each in one pass."""

from cython.parallel cimport prange

import numpy as np

from optimargin._core._line_search cimport optimargin_odm_derivatives, optimargin_odm_evaluate


def odm_evaluate(
    const double[::1] margin,  # in
    const double[::1] weight,  # in
    double C1,
    double C2,
    double D,
    double[::1] dual,  # out
    double[::1] curvature,  # out
    int n_threads,
):
    """Return sum(weight * loss); dual[:] = -weight * loss', curvature[:] = weight * loss''."""
    cdef Py_ssize_t n = margin.shape[0], t, first
    cdef double[::1] partial = np.zeros(n_threads)
    if n == 0:
        return 0.0
    for t in prange(n_threads, nogil=True, num_threads=n_threads, schedule="static"):
        first = n * t // n_threads
        partial[t] = optimargin_odm_evaluate(
            &margin[first], &weight[first], C1, C2, D, &dual[first], &curvature[first],
            n * (t + 1) // n_threads - first,
        )
    return sum(partial)


def odm_derivatives(
    const double[::1] margin,  # in
    const double[::1] slope,  # in
    const double[::1] weight,  # in
    double C1,
    double C2,
    double D,
    double length,
    int n_threads,
):
    """Derivatives in t of sum(weight * loss(margin + t * slope)), at `length`.

    Returns
    -------
    first : float
    magnitude : float
        The sum of the absolute terms of `first`, the scale of its rounding error.
    second : float
    """
    cdef Py_ssize_t n = margin.shape[0], t, first
    cdef double[:, ::1] partial = np.zeros((n_threads, 3))
    if n == 0:
        return 0.0, 0.0, 0.0
    for t in prange(n_threads, nogil=True, num_threads=n_threads, schedule="static"):
        first = n * t // n_threads
        optimargin_odm_derivatives(
            &margin[first], &slope[first], &weight[first], C1, C2, D, length, &partial[t, 0],
            n * (t + 1) // n_threads - first,
        )
    return tuple(np.sum(partial, axis=0).tolist())
