"""Coordinate descent on the dual of small band-loss problems, all of it without the interpreter.

`_coordinate_descent` is for any loss and any kind of rows, one epoch per call. This one is for
solving hundreds of problems, each over a Gram matrix that fits into the cache.
"""

import numpy as np

from libc.math cimport fabs
from libc.stdint cimport uint64_t

from optimargin._core._random cimport shuffle, start

cdef extern from "small_descent.h" nogil:
    double descent_epoch "optimargin_descent_epoch"(
        const float* K, Py_ssize_t n, const Py_ssize_t* order, const double* target,
        const double* orientation, const double* ridge1, const double* ridge2, double D,
        double* pull, double* decision, double intercept, double intercept_scale)
    double descent_gap "optimargin_descent_gap"(
        Py_ssize_t n, const double* target, const double* orientation, const double* ridge1,
        const double* ridge2, double D, const double* pull, const double* decision,
        double intercept, int fit_intercept, double largest, double* value)


def descend(
    const float[:, ::1] K,  # in, (n, n)
    const double[::1] target,  # in, as all that follows
    const double[::1] orientation,
    const double[::1] ridge1,
    const double[::1] ridge2,
    double D,
    double[::1] pull,  # in, out
    double[::1] decision,  # in, out: K @ pull
    double intercept,
    double intercept_scale,  # zero without an intercept
    double largest,  # no kernel value exceeds it
    double tol,  # of the gap relative to the objective, which counts as no less than `floor`
    double floor,
    int max_epochs,
    uint64_t seed,
):
    """Return the number of epochs, the intercept and the relative gap."""
    cdef Py_ssize_t n = pull.shape[0], i
    cdef int epoch = 0
    cdef bint fit_intercept = intercept_scale > 0.0
    cdef double total, gap = 0.0, value = 0.0
    cdef uint64_t state = start(seed)
    cdef Py_ssize_t[::1] order = np.arange(n, dtype=np.intp)
    with nogil:
        while epoch < max_epochs:
            epoch += 1
            shuffle(&state, &order[0], n)
            intercept = descent_epoch(
                &K[0, 0], n, &order[0], &target[0], &orientation[0], &ridge1[0], &ridge2[0], D,
                &pull[0], &decision[0], intercept, intercept_scale,
            )
            if fit_intercept:  # the method of multipliers
                total = 0.0
                for i in range(n):
                    total += pull[i]
                intercept += intercept_scale * total
            gap = descent_gap(
                n, &target[0], &orientation[0], &ridge1[0], &ridge2[0], D, &pull[0],
                &decision[0], intercept, fit_intercept, largest, &value,
            )
            gap /= max(fabs(value), fabs(value - gap), floor)
            if gap <= tol:
                break
    return epoch, intercept, gap
