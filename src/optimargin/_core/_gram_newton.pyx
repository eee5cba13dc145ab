"""Semismooth Newton on the active set of one problem of the band loss, over a Gram matrix.

Problem    min over theta, b   1/2 theta' K theta + sum_i w_i l(s_i (t_i - f_i)),  f = K theta + b

On its active set S (roots r of the curvatures, aims a = t -+ s D) the optimum solves, with
A = I + diag(r) K_SS diag(r),

    theta = r * A^-1 (r * (a - b)) on S and 0 off S,   sum(theta) = 0 when b is fitted.

The solver of a fit (`optimargin.solvers.newton`) takes the same steps. This one is for solving
thousands of problems: it keeps its memory and the factor of A from one problem to the next
(`_active_system`) and runs without the interpreter. A loss of C1 = C2 without a band is quadratic:
all samples are active, and several outputs share one factor.
"""

from libc.string cimport memcpy, memset
from scipy.linalg.cython_blas cimport dgemv

from optimargin._core._active_system cimport Problem, Request, follow, solve_system
from optimargin._core._line_search cimport optimargin_band_value, side_of_band, step_length

cdef int MAX_ITER = 200  # Newton steps


cdef int minimise(Problem* p, const Request* asked, int thread) noexcept nogil:
    """Solve a problem, from its current solution; return 0 on success."""
    return solve_quadratic(p) if p.is_quadratic else newton(p)


cdef void multiply(Problem* p, double* vector, double* out) noexcept nogil:
    cdef int one = 1, stride = <int> p.stride
    cdef double alpha = 1.0, beta = 0.0
    dgemv("T", &p.n, &p.n, &alpha, <double*> p.K, &stride, vector, &one, &beta, out, &one)


cdef double value_at(
    Problem* p, const double* theta, const double* decision, double intercept
) noexcept nogil:
    cdef int i
    cdef double norm = 0.0
    for i in range(p.n):
        norm += theta[i] * decision[i]
    return 0.5 * max(norm, 0.0) + optimargin_band_value(
        decision, intercept, p.target, p.orientation, p.weight, p.C1, p.C2, p.D, p.n
    )


cdef bint classify(Problem* p, const double* decision, double intercept, bint keep) noexcept nogil:
    """Return whether all sides are those at these decision values; keep these and aims, or not."""
    cdef int i, side
    cdef double shortfall
    cdef bint unchanged = True
    for i in range(p.n):
        shortfall = p.orientation[i] * (p.target[i] - (decision[i] + intercept))
        side = side_of_band(shortfall, p.weight[i], p.C2, p.D)
        unchanged = unchanged and side == p.side[i]
        if keep:
            p.side[i] = side
            p.aim[i] = p.target[i] + p.orientation[i] * side * p.D
    return unchanged


cdef int solve_quadratic(Problem* p) noexcept nogil:
    """Solve for all outputs at once."""
    cdef int i, o
    cdef Py_ssize_t at
    cdef double total
    for i in range(p.n):
        p.side[i] = -1
    if follow(p):
        return 1
    memcpy(p.aim, p.target, <size_t> p.n_outputs * p.n * sizeof(double))
    solve_system(p, p.n_outputs, p.aim, NULL, p.theta, p.intercept)
    for o in range(p.n_outputs):
        total = 0.0
        for i in range(p.n):
            at = o * p.n + i
            total += p.theta[at] * (p.aim[at] - p.intercept[o])  # theta' (K + 1 / c) theta
            p.decision[at] = p.aim[at] - p.intercept[o] - p.theta[at] / p.root[i] ** 2
        p.objective[o] = 0.5 * total
    p.is_stale = False
    return 0


cdef int newton(Problem* p) noexcept nogil:
    cdef int info
    if p.is_stale:
        multiply(p, p.theta, p.decision)
        p.is_stale = False
    info = iterate(p)
    if info < 0:
        # On ill-conditioned data, Newton's method may not end from a start far away.
        memset(p.theta, 0, p.n * sizeof(double))
        memset(p.decision, 0, p.n * sizeof(double))
        p.intercept[0] = 0.0
        info = iterate(p)
    return info > 0


cdef int iterate(Problem* p) noexcept nogil:
    """Take Newton steps; return 0 at the minimum, -1 if it was not reached, 1 on failure."""
    cdef int i
    cdef double slope, quadratic, length, step, intercept
    cdef bint is_last, unchanged
    classify(p, p.decision, p.intercept[0], True)
    p.objective[0] = value_at(p, p.theta, p.decision, p.intercept[0])
    for _ in range(MAX_ITER):
        if follow(p):
            return 1
        p.new_intercept[0] = p.intercept[0]
        solve_system(p, 1, p.aim, NULL, p.new_theta, p.new_intercept)
        intercept = p.new_intercept[0]
        multiply(p, p.new_theta, p.new_decision)
        # Along the step: derivative at 0 and constant curvature of the quadratic part.
        slope = quadratic = 0.0
        for i in range(p.n):
            step = p.new_theta[i] - p.theta[i]
            slope += step * p.decision[i]
            p.step[i] = p.new_decision[i] - p.decision[i]
            quadratic += step * p.step[i]
        length = step_length(
            p.decision, p.intercept[0], p.step, intercept - p.intercept[0],
            p.target, p.orientation, p.weight, p.n, p.C1, p.C2, p.D, slope, quadratic,
            p.objective[0],
        )
        is_last = length == 0.0
        if is_last:
            # The objective is at its minimum up to rounding. Its square root, the distance
            # to the solution, may not be: the ridge solution is closer, if it is one.
            if not classify(p, p.new_decision, intercept, False):
                return 0
            length = 1.0
        if length == 1.0:
            memcpy(p.theta, p.new_theta, p.n * sizeof(double))
            memcpy(p.decision, p.new_decision, p.n * sizeof(double))
            p.intercept[0] = intercept
        else:
            for i in range(p.n):
                p.theta[i] += length * (p.new_theta[i] - p.theta[i])
                p.decision[i] += length * p.step[i]
            p.intercept[0] += length * (intercept - p.intercept[0])
        unchanged = classify(p, p.decision, p.intercept[0], True)
        p.objective[0] = value_at(p, p.theta, p.decision, p.intercept[0])
        if is_last or (unchanged and length == 1.0):
            return 0
    return -1
