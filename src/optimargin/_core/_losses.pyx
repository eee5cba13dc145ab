"""Loss values and derivatives over all samples in one pass."""

from cython.parallel cimport prange


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
    """Return sum(weight * loss(margin)); dual[:] = -weight * loss', curvature[:] = weight * loss''.

    loss(g) = C1 max(0, 1 - D - g)**2 + C2 max(0, g - 1 - D)**2
    """
    cdef Py_ssize_t n_samples = margin.shape[0], i
    cdef double lower = 1.0 - D, upper = 1.0 + D, total = 0.0, distance, scale
    for i in prange(n_samples, nogil=True, num_threads=n_threads, schedule="static"):
        if margin[i] < lower:
            distance = lower - margin[i]
            scale = C1 * weight[i]
        elif margin[i] > upper:
            distance = upper - margin[i]
            scale = C2 * weight[i]
        else:
            distance = 0.0
            scale = 0.0
        total += scale * distance * distance
        dual[i] = 2.0 * scale * distance
        curvature[i] = 2.0 * scale
    return total
