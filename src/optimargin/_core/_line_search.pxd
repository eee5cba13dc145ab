"""Shared by the Newton methods for band-loss problems: the loss, and the length of a step."""

cdef extern from "band_loss.h" nogil:
    double optimargin_band_evaluate(
        const double* decision, double offset, const double* target, const double* orientation,
        const double* weight, double C1, double C2, double D,
        double* pull, double* curvature, Py_ssize_t n,
    )
    double optimargin_band_conjugate(
        const double* pull, const double* target, const double* orientation, const double* weight,
        double C1, double C2, double D, Py_ssize_t n,
    )
    void optimargin_band_derivatives(
        const double* decision, double offset, const double* step, double step_offset,
        const double* target, const double* orientation, const double* weight,
        double C1, double C2, double D, double length, double* out, Py_ssize_t n,
    )


cdef inline double step_length(
    const double* decision,
    double offset,
    const double* step,
    double step_offset,
    const double* target,
    const double* orientation,
    const double* weight,
    Py_ssize_t n,
    double C1,
    double C2,
    double D,
    double linear,
    double quadratic,
    double objective,
) noexcept nogil:
    """Minimise ``t linear + t^2 quadratic / 2 + loss(decision + t step)`` over t in (0, 1].

    Returns 0 if a step would decrease the objective by no more than its rounding error. The
    derivative is increasing and piecewise linear: Newton's method kept inside a bracket finds
    its zero in a few passes over the samples.
    """
    cdef double t = 1.0, low = 0.0, high = 1.0, start, derivative
    cdef double[3] loss
    optimargin_band_derivatives(
        decision, offset, step, step_offset, target, orientation, weight, C1, C2, D, 0.0, loss, n
    )
    start = linear + loss[0]
    if not start < -1e-15 * max(objective, 1e-3):
        return 0.0
    for _ in range(60):
        optimargin_band_derivatives(
            decision, offset, step, step_offset, target, orientation, weight, C1, C2, D, t, loss, n
        )
        derivative = linear + t * quadratic + loss[0]
        if -1e-3 * start >= derivative >= 1e-3 * start:
            break
        if derivative < 0.0:
            if t == 1.0:
                break
            low = t
        else:
            high = t
        t -= derivative / (quadratic + loss[2])
        if not low < t < high:
            t = 0.5 * (low + high)
    return t
