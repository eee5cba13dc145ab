"""Loss values and derivatives over all samples, each in one pass."""

cdef extern from "odm_loss.h" nogil:
    double optimargin_odm_evaluate(
        const double* margin, const double* weight, double C1, double C2, double D,
        double* dual, double* curvature, Py_ssize_t n,
    )
    void optimargin_odm_derivatives(
        const double* margin, const double* slope, const double* weight,
        double C1, double C2, double D, double t, double* out, Py_ssize_t n,
    )


def odm_evaluate(
    const double[::1] margin,  # in
    const double[::1] weight,  # in
    double C1,
    double C2,
    double D,
    double[::1] dual,  # out
    double[::1] curvature,  # out
):
    """Return sum(weight * loss); dual[:] = -weight * loss', curvature[:] = weight * loss''."""
    cdef double total
    if margin.shape[0] == 0:
        return 0.0
    with nogil:
        total = optimargin_odm_evaluate(
            &margin[0], &weight[0], C1, C2, D, &dual[0], &curvature[0], margin.shape[0]
        )
    return total


def odm_derivatives(
    const double[::1] margin,  # in
    const double[::1] slope,  # in
    const double[::1] weight,  # in
    double C1,
    double C2,
    double D,
    double t,
):
    """Derivatives in t of sum(weight * loss(margin + t * slope)).

    Returns
    -------
    first : float
    magnitude : float
        The sum of the absolute terms of `first`, the scale of its rounding error.
    second : float
    """
    cdef double[3] out = [0.0, 0.0, 0.0]
    if margin.shape[0] > 0:
        with nogil:
            optimargin_odm_derivatives(
                &margin[0], &slope[0], &weight[0], C1, C2, D, t, out, margin.shape[0]
            )
    return out[0], out[1], out[2]
