"""Samples left out of one problem over a Gram matrix, and derivatives by their values.

`optimargin.systems.base` derives the equations. With P = A^-1, bordered by r where an intercept is
fitted (`_gram_newton`), and slopes s of a function by the held-out values of the samples B,

    u = (P_BB)^-1 (theta_B / r_B),   theta' = theta - r P_:B u,   f_B = a_B - u / r_B,
    g = (P_BB)^-1 (s_B / r_B + z_B),   left = r (P_:B g - z),

where z solves the system for the slopes of samples of the fold that are not active. The function
changes by left' dK theta', and by -left' (da + (a - f') dlog c) on the samples kept.
"""

from libc.string cimport memcpy, memset
from scipy.linalg.cython_blas cimport ddot, dgemm, dgemv
from scipy.linalg.cython_lapack cimport dpotrf, dpotrs, dtrtri

from optimargin._core._active_system cimport INVERSE, NOTHING, Problem, settle, solve_system

cdef double SINGULAR = 1e-13  # of a pivot that is at most one


cdef int left_out(Problem* p, const double* share, double* out) noexcept nogil:
    """Put the values of samples for the models without (a share of) each into `out`."""
    cdef int i, j, o, k, info
    cdef double pivot
    cdef const double* row
    cdef double* pivots = p.packed
    for o in range(p.n_outputs):
        for i in range(p.n):
            out[o * p.n + i] = p.decision[o * p.n + i] + p.intercept[o]
    if p.state != INVERSE:
        info = settle(p)
        k = p.n_active
        if info or k == 0:
            return info
        dtrtri("U", "N", &k, p.matrix, &k, &info)
        p.state = NOTHING
        memset(pivots, 0, k * sizeof(double))
        for j in range(k):
            row = p.matrix + <Py_ssize_t> j * k
            for i in range(j + 1):
                pivots[i] += row[i] * row[i]
        for i in range(k if p.fit_intercept else 0):
            pivots[i] -= p.ones[i] * p.ones[i] / p.border
    else:
        k = p.n_active
        for i in range(k):
            pivots[i] = p.matrix[<Py_ssize_t> i * k + i]
    for i in range(k):
        j, pivot = p.active[i], pivots[i]
        if share != NULL:
            pivot = 1.0 - share[j] * (1.0 - pivot)
        # If a sample is alone in the active set, there is no model without it.
        for o in range(p.n_outputs if pivot > SINGULAR else 0):
            out[o * p.n + j] = p.aim[o * p.n + j] - p.theta[o * p.n + j] / (
                p.root[i] * p.root[i] * pivot
            )
    return 0


cdef int leave_fold(
    Problem* p, const int* fold, int which, int* members, double* block, double* u
) noexcept nogil:
    """Find the active samples of a fold, factorise their block of P and solve for u.

    Returns their number, or -1 where there is no model without them.
    """
    cdef int i, j, o, k = p.n_active, size = 0, info = 0
    cdef const double* row
    for i in range(k):
        if fold[p.rows[p.active[i]]] == which:
            members[size] = i
            size += 1
    if size == 0 or size == k:
        return 0 if size == 0 else -1
    for i in range(size):
        row = p.matrix + <Py_ssize_t> members[i] * k
        for j in range(i + 1):
            block[i * size + j] = row[members[j]]
        if not block[i * size + i] > SINGULAR:
            return -1
        for o in range(p.n_outputs):
            u[o * size + i] = p.theta[o * p.n + p.active[members[i]]] / p.root[members[i]]
    dpotrf("U", &size, block, &size, &info)
    if info == 0:
        dpotrs("U", &size, &p.n_outputs, block, &size, u, &size, &info)
    return size if info == 0 else -1


cdef void columns_of(Problem* p, const int* members, int size, double* out) noexcept nogil:
    """Gather the columns P_:B."""
    cdef int i
    for i in range(size):
        memcpy(out + <Py_ssize_t> i * p.n_active,
               p.matrix + <Py_ssize_t> members[i] * p.n_active, p.n_active * sizeof(double))


cdef int model_without(
    Problem* p, const int* fold, int which, int* members, double* work, double* u, double* theta
) noexcept nogil:
    """Put coefficients of the model without a fold into `theta`; see `leave_fold`."""
    cdef int i, o, k = p.n_active
    cdef int size = leave_fold(p, fold, which, members, work, u)
    cdef double one = 1.0, zero = 0.0
    cdef double* columns = work + <Py_ssize_t> max(size, 0) * max(size, 0)
    cdef double* moved = columns + <Py_ssize_t> max(size, 0) * k
    if size < 0:
        memset(theta, 0, <size_t> p.n_outputs * p.n * sizeof(double))
        return size
    memcpy(theta, p.theta, <size_t> p.n_outputs * p.n * sizeof(double))
    if size == 0:
        return 0
    columns_of(p, members, size, columns)
    dgemm("N", "N", &k, &p.n_outputs, &size, &one, columns, &k, u, &size, &zero, moved, &k)
    for o in range(p.n_outputs):
        for i in range(k):
            theta[o * p.n + p.active[i]] -= p.root[i] * moved[o * k + i]
        for i in range(size):
            theta[o * p.n + p.active[members[i]]] = 0.0
    return size


cdef void fold_values(
    Problem* p, const int* fold, int which, int* members, double* work, double* out
) noexcept nogil:
    """Put the values of the samples of a fold for the model without it into `out`."""
    cdef int i, o, size, one = 1
    cdef bint all_active = p.n_active == p.n
    cdef double intercept
    cdef double* u = work
    cdef double* theta = u + <Py_ssize_t> p.n_outputs * p.n
    cdef double* rest = theta + <Py_ssize_t> p.n_outputs * p.n
    if all_active:
        size = leave_fold(p, fold, which, members, rest, u)
    else:
        size = model_without(p, fold, which, members, rest, u, theta)
    for o in range(p.n_outputs):
        intercept = p.intercept[o]
        if size < 0:
            # Every active sample is in this fold: there is nothing left to learn from.
            for i in range(p.n):
                if fold[p.rows[i]] == which:
                    out[o * p.n + i] = intercept
            continue
        for i in range(size):
            out[o * p.n + p.active[members[i]]] = (
                p.aim[o * p.n + p.active[members[i]]] - u[o * size + i] / p.root[members[i]]
            )
            if p.fit_intercept:
                intercept -= p.ones[members[i]] * u[o * size + i] / p.border
        if not all_active:
            for i in range(p.n):
                if fold[p.rows[i]] == which and p.place[i] < 0:
                    out[o * p.n + i] = intercept + ddot(
                        &p.n, <double*> p.K + i * p.stride, &one, theta + o * p.n, &one
                    )


cdef void differentiate(
    Problem* p, const int* fold, int which, int* members, double* work, const double* slope,
    double* by_aim, double* by_log_curvature, double* left, double* theta
) noexcept nogil:
    """Add what one fold adds to derivatives, and put its bilinear form into left and theta."""
    cdef int i, j, o, k = p.n_active, one = 1, size, info
    cdef double unity = 1.0, zero = 0.0, total, value
    cdef double* u = work
    cdef double* z = u + <Py_ssize_t> p.n_outputs * p.n
    cdef double* right = z + k
    cdef double* g = right + k
    cdef double* rest = g + p.n
    cdef double* columns
    cdef double* out
    size = model_without(p, fold, which, members, rest, u, theta)
    if size < 0:
        return
    columns = rest + <Py_ssize_t> size * size
    for o in range(p.n_outputs):
        out = left + <Py_ssize_t> o * p.n
        memset(z, 0, k * sizeof(double))
        total = 0.0
        if k < p.n:
            memset(right, 0, k * sizeof(double))
            for i in range(p.n):
                if fold[p.rows[i]] == which and p.place[i] < 0:
                    value = out[i] = slope[o * p.n + i]
                    total += value
                    for j in range(k):
                        right[j] += value * p.root[j] * p.K[i * p.stride + p.active[j]]
            for i in range(size):
                right[members[i]] = 0.0
            if k > 0:
                dgemv("N", &k, &k, &unity, p.matrix, &k, right, &one, &zero, z, &one)
            if p.fit_intercept:
                for j in range(k):
                    z[j] += total / p.border * p.ones[j]
        for i in range(size):
            j = members[i]
            g[i] = slope[o * p.n + p.active[j]] / p.root[j] + z[j]
        if size > 0:
            dpotrs("U", &size, &one, rest, &size, g, &size, &info)
            value = -1.0
            dgemv("N", &k, &size, &unity, columns, &k, g, &one, &value, z, &one)
        else:
            for j in range(k):
                z[j] = -z[j]
        for j in range(k):
            i = p.active[j]
            out[i] = p.root[j] * z[j]
            if fold[p.rows[i]] != which:  # curvatures and aims of the fold itself do not matter
                by_aim[o * p.n + i] -= out[i]
                by_log_curvature[o * p.n + i] -= out[i] * theta[o * p.n + i] / (
                    p.root[j] * p.root[j]
                )


cdef int adjoint(Problem* p, const double* slope, const double* total, double* out) noexcept nogil:
    """Put derivatives by the aims of a function of the model into `out`; 0 on success."""
    cdef int i, j, o, k, one = 1, info
    cdef double share, unity = 1.0, zero = 0.0
    cdef double* moved = p.packed
    if p.state != INVERSE:
        info = settle(p)
        if info:
            return info
    k = p.n_active
    memset(out, 0, <size_t> p.n_outputs * p.n * sizeof(double))
    for o in range(p.n_outputs if k > 0 else 0):
        if p.state == INVERSE:
            for j in range(k):
                moved[j] = p.root[j] * slope[o * p.n + p.active[j]]
            dgemv("N", &k, &k, &unity, p.matrix, &k, moved, &one, &zero, moved + k, &one)
            for j in range(k):
                moved[j] = moved[k + j]
            share = total[o] if p.fit_intercept else 0.0  # the inverse is bordered
        else:
            for i in range(p.n):
                p.solved[i] = p.scale[i] * slope[o * p.n + i]
            solve_system(p, p.solved, 1)
            share = total[o] if p.fit_intercept else 0.0
            for j in range(k):
                moved[j] = p.solved[p.active[j]]
            if p.fit_intercept:
                for j in range(k):
                    share -= p.root[j] * moved[j]
        for j in range(k):
            i = p.active[j]
            out[o * p.n + i] = p.root[j] * moved[j]
            if p.fit_intercept:
                out[o * p.n + i] += p.root[j] * p.ones[j] * share / p.border
    return 0
