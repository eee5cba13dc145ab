"""The band loss and its derivatives over all samples, each in one pass."""

from cython.parallel cimport prange

import numpy as np

from optimargin._core._line_search cimport (
    optimargin_band_conjugate, optimargin_band_derivatives, optimargin_band_evaluate
)


def band_evaluate(
    const double[::1] decision,  # in
    double offset,
    const double[::1] target,  # in
    const double[::1] orientation,  # in
    const double[::1] weight,  # in
    double C1,
    double C2,
    double D,
    double[::1] pull,  # out
    double[::1] curvature,  # out
    int n_threads,
):
    """Return sum(weight * loss) at decision values f = decision + offset.

    pull[:] = -weight * dloss/df, curvature[:] = weight * d2loss/df2.
    """
    cdef Py_ssize_t n = decision.shape[0], t, first
    cdef double[::1] partial
    if n == 0:
        return 0.0
    if n_threads == 1:
        return optimargin_band_evaluate(
            &decision[0], offset, &target[0], &orientation[0], &weight[0], C1, C2, D, &pull[0],
            &curvature[0], n,
        )
    partial = np.zeros(n_threads)
    for t in prange(n_threads, nogil=True, num_threads=n_threads, schedule="static"):
        first = n * t // n_threads
        partial[t] = optimargin_band_evaluate(
            &decision[first], offset, &target[first], &orientation[first], &weight[first],
            C1, C2, D, &pull[first], &curvature[first], n * (t + 1) // n_threads - first,
        )
    return sum(partial)


def band_conjugate(
    const double[::1] pull,  # in
    const double[::1] target,  # in
    const double[::1] orientation,  # in
    const double[::1] weight,  # in
    double C1,
    double C2,
    double D,
):
    """Return sum(weight * conjugate(orientation * pull / weight) - target * pull)."""
    cdef Py_ssize_t n = pull.shape[0]
    if n == 0:
        return 0.0
    return optimargin_band_conjugate(
        &pull[0], &target[0], &orientation[0], &weight[0], C1, C2, D, n
    )


def band_derivatives(
    const double[::1] decision,  # in
    double offset,
    const double[::1] step,  # in; None means zeros
    double step_offset,
    const double[::1] target,  # in
    const double[::1] orientation,  # in
    const double[::1] weight,  # in
    double C1,
    double C2,
    double D,
    double length,
    int n_threads,
):
    """Derivatives in t of sum(weight * loss) at decision + offset + t (step + step_offset).

    Returns
    -------
    first : float
    magnitude : float
        The sum of the absolute terms of `first`, the scale of its rounding error.
    second : float
    """
    cdef Py_ssize_t n = decision.shape[0], t, first
    cdef double[:, ::1] partial
    cdef double[3] all_of_it
    cdef const double* steps = NULL
    if n == 0:
        return 0.0, 0.0, 0.0
    if step is not None:
        steps = &step[0]
    if n_threads == 1:
        optimargin_band_derivatives(
            &decision[0], offset, steps, step_offset, &target[0], &orientation[0], &weight[0],
            C1, C2, D, length, all_of_it, n,
        )
        return all_of_it[0], all_of_it[1], all_of_it[2]
    partial = np.zeros((n_threads, 3))
    for t in prange(n_threads, nogil=True, num_threads=n_threads, schedule="static"):
        first = n * t // n_threads
        optimargin_band_derivatives(
            &decision[first], offset, steps + first if steps != NULL else NULL, step_offset,
            &target[first], &orientation[first], &weight[first],
            C1, C2, D, length, &partial[t, 0], n * (t + 1) // n_threads - first,
        )
    return tuple(np.sum(partial, axis=0).tolist())
