"""Problems of the band loss over rows of one Gram matrix: solved, and with samples left out.

Problem    min over theta, b   1/2 theta' K theta + sum_i w_i l(s_i (t_i - f_i)),  f = K theta + b

On its active set S (curvatures c_i = w_i l'' > 0, aims a = t -+ s D) the optimum solves, with the
roots r = c^1/2 and A = I + diag(r) K_SS diag(r),

    theta = r * A^-1 (r * (a - b)) on S and 0 off S,   sum(theta) = 0 when b is fitted.

`_active_system` keeps a factor of A from one active set to the next.

`optimargin.systems` derives how samples are left out. With P = A^-1, bordered by r where an
intercept is fitted, and slopes s of a function by the held-out values of the samples B,

    u = (P_BB)^-1 (theta_B / r_B),   theta' = theta - r P_:B u,   f_B = a_B - u / r_B,
    g = (P_BB)^-1 (s_B / r_B + z_B),   left = r (P_:B g - z),

where z solves the system for the slopes of samples of the fold that are not active. The function
changes by left' dK theta', and by -left' (da + (a - f') dlog c) on the samples kept.

A loss of C1 = C2 without a band is quadratic: all samples are active, so that several outputs may
share a problem, its factor and its inverse.
"""

import numpy as np

from cython.parallel cimport parallel, prange, threadid
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from scipy.linalg.cython_blas cimport ddot, dgemm, dgemv
from scipy.linalg.cython_lapack cimport dpotrf, dpotrs, dtrtri

from optimargin._core._active_system cimport (
    INVERSE, NOTHING, Problem, follow, invert, root_of, settle, solve_system,
)
from optimargin._core._line_search cimport optimargin_band_value, side_of_band, step_length

cdef double ROOM = 0.25  # share of an active set that there is room for to change
cdef double SINGULAR = 1e-13  # of a pivot that is at most one
cdef int MAX_ITER = 200  # Newton steps
cdef double KEPT_BYTES = 1e9  # of the matrices of all problems; above, they share one
INDEFINITE = "The kernel matrix is too far from positive semi-definite."


# ---- Newton's method -------------------------------------------------------------------------


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


cdef int side_at(Problem* p, int i, double value) noexcept nogil:
    return side_of_band(p.orientation[i] * (p.target[i] - value), p.weight[i], p.C2, p.D)


cdef bint classify(Problem* p, const double* decision, double intercept, bint keep) noexcept nogil:
    """Return whether all sides are those at these decision values, and store these or not."""
    cdef int i, side, changes = 0
    for i in range(p.n):
        side = side_at(p, i, decision[i] + intercept)
        changes += side != p.side[i]
        if keep:
            p.side[i] = side
    return changes == 0


cdef void ridge(Problem* p) noexcept nogil:
    """Put the solution on the active set into new_theta and new_intercept."""
    cdef int i, o, n_active = 0, n_outputs = p.n_outputs
    cdef double intercept
    cdef double* ones = p.solved + <Py_ssize_t> n_outputs * p.n
    cdef double* solved
    cdef double* theta
    for i in range(p.n):
        n_active += p.side[i] != 0
        p.scale[i] = ones[i] = root_of(p, i, p.side[i]) if p.side[i] != 0 else 0.0
        for o in range(n_outputs):
            p.solved[o * p.n + i] = p.scale[i] * p.aim[o * p.n + i]
    if n_active == 0:
        memset(p.new_theta, 0, <size_t> n_outputs * p.n * sizeof(double))
        memcpy(p.new_intercept, p.intercept, n_outputs * sizeof(double))
        return
    solve_system(p, p.solved, n_outputs + p.fit_intercept)
    p.border = 0.0
    for i in range(p.n):
        p.border += p.scale[i] * ones[i]
    for o in range(n_outputs):
        solved, theta = p.solved + <Py_ssize_t> o * p.n, p.new_theta + <Py_ssize_t> o * p.n
        intercept = 0.0
        for i in range(p.n if p.fit_intercept else 0):
            intercept += p.scale[i] * solved[i]
        intercept /= p.border
        p.new_intercept[o] = intercept
        for i in range(p.n):
            theta[i] = p.scale[i] * (solved[i] - intercept * ones[i] if intercept else solved[i])


cdef int solve_quadratic(Problem* p) noexcept nogil:
    """Solve for all outputs at once."""
    cdef int i, o, info
    cdef Py_ssize_t at
    cdef double total
    for i in range(p.n):
        p.side[i] = -1
        for o in range(p.n_outputs):
            p.aim[o * p.n + i] = p.target[o * p.n + i]
    p.n_iter = 1
    info = follow(p)
    if info:
        return info
    ridge(p)
    memcpy(p.theta, p.new_theta, <size_t> p.n_outputs * p.n * sizeof(double))
    memcpy(p.intercept, p.new_intercept, p.n_outputs * sizeof(double))
    for o in range(p.n_outputs):
        total = 0.0
        for i in range(p.n):
            at = o * p.n + i
            total += p.theta[at] * (p.aim[at] - p.intercept[o])  # theta' (K + 1 / c) theta
            p.decision[at] = p.aim[at] - p.intercept[o] - p.theta[at] / (p.scale[i] * p.scale[i])
        p.objective[o] = 0.5 * total
    p.is_stale = False
    return 0


cdef int newton(Problem* p) noexcept nogil:
    """Minimise from the current solution; return 0 on success."""
    cdef int info
    if p.is_stale:
        multiply(p, p.theta, p.decision)
        p.is_stale = False
    info = iterate(p)
    if info == 0 and p.n_iter < 0:
        # On ill-conditioned data, Newton's method may not end from a start far away.
        memset(p.theta, 0, p.n * sizeof(double))
        memset(p.decision, 0, p.n * sizeof(double))
        p.intercept[0] = 0.0
        info = iterate(p)
    return info


cdef int iterate(Problem* p) noexcept nogil:
    cdef int i, info
    cdef double slope, quadratic, length, step, intercept
    cdef bint unchanged
    classify(p, p.decision, p.intercept[0], True)
    p.objective[0] = value_at(p, p.theta, p.decision, p.intercept[0])
    p.n_iter = -1
    for iteration in range(1, MAX_ITER + 1):
        info = follow(p)
        if info:
            return info
        for i in range(p.n):
            p.aim[i] = p.target[i] + p.orientation[i] * p.side[i] * p.D
        ridge(p)
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
        if length == 0.0:
            # The objective is at its minimum up to rounding. Its square root, the distance
            # to the solution, may not be: the ridge solution is closer, if it is one.
            p.n_iter = iteration
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
        if p.n_iter > 0 or (unchanged and length == 1.0):
            p.n_iter = iteration
            break
    for i in range(p.n):
        p.aim[i] = p.target[i] + p.orientation[i] * p.side[i] * p.D
    return 0


# ---- Samples left out ------------------------------------------------------------------------


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
    if size == 0:
        return 0
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


cdef class SmallSystems:
    """Problems of the band loss, each over some rows of one Gram matrix.

    Flat arrays hold what belongs to rows: problem by problem, within one output by output.

    Parameters
    ----------
    rows : list of ndarray of shape (n_rows,), dtype intp
        Of each problem, in increasing order.
    n_outputs : list of int
        Of each problem. Several outputs need a quadratic loss.
    target, orientation : ndarray of shape (n_flat,)
    weight : list of ndarray of shape (n_rows,)
        Positive, and the same for all outputs of a problem.
    fit_intercept : bool

    Attributes
    ----------
    theta, decision, aim : ndarray of shape (n_flat,)
        Coefficients, decision values without the intercept, and aims of the last solve.
    intercept, objective : ndarray of shape (n_flat_outputs,)
    solve_number : int
        How many solves there were: what was found is valid until the next.
    """

    cdef readonly object theta, decision, aim, intercept, objective
    cdef readonly long solve_number
    cdef Py_ssize_t n_problems, n_flat, most_rows, most_outputs, owner
    cdef object _kept, _kept_of_kernel
    cdef bint _is_shared
    cdef Problem* _problems
    cdef Py_ssize_t[::1] _start, _first_output
    cdef const double[:, ::1] _K

    def __cinit__(self, rows, *_):
        self.n_problems = len(rows)
        self._problems = <Problem*> calloc(max(self.n_problems, 1), sizeof(Problem))
        if self._problems == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._problems)

    cdef double* _doubles(self, Py_ssize_t size) except NULL:
        """Return new zeros that live as long as this does."""
        cdef double[::1] out = np.zeros(max(size, 1))
        self._kept.append(out)
        return &out[0]

    cdef int* _ints(self, Py_ssize_t size) except NULL:
        cdef int[::1] out = np.zeros(max(size, 1), dtype=np.intc)
        self._kept.append(out)
        return &out[0]

    def __init__(self, rows, n_outputs, target, orientation, weight, fit_intercept):
        cdef Py_ssize_t k, n, q, first = 0, flat
        cdef Problem* p
        cdef double* shared
        sizes = np.array([each.size for each in rows], dtype=np.intp)
        self._kept, self.owner = [], -1
        self._start = np.append(0, np.cumsum(sizes * n_outputs)).astype(np.intp)
        self._first_output = np.append(0, np.cumsum(n_outputs)).astype(np.intp)
        self.n_flat = self._start[self.n_problems]
        self.most_rows, self.most_outputs = sizes.max(), max(n_outputs)
        self._is_shared = 8.0 * np.sum(sizes.astype(float) ** 2) > KEPT_BYTES
        shared = self._doubles(self.most_rows**2 if self._is_shared else 0)
        self.theta, self.decision, self.aim = np.zeros((3, self.n_flat))
        self.intercept, self.objective = np.zeros((2, sum(n_outputs)))
        cdef const double[::1] t = target, s = orientation, w = np.concatenate(weight)
        cdef double[::1] theta = self.theta, decision = self.decision, aim = self.aim
        cdef double[::1] intercept = self.intercept, objective = self.objective
        cdef const Py_ssize_t[::1] own = np.concatenate(rows)
        cdef Py_ssize_t[::1] column
        self._kept += [t, s, w, own]
        for k in range(self.n_problems):
            p, n, q, flat = &self._problems[k], sizes[k], n_outputs[k], self._start[k]
            p.n, p.n_outputs, p.fit_intercept = <int> n, <int> q, fit_intercept
            if n == 0:
                continue
            p.rows, p.weight, p.target, p.orientation = &own[first], &w[first], &t[flat], &s[flat]
            p.theta, p.decision, p.aim = &theta[flat], &decision[flat], &aim[flat]
            p.intercept = &intercept[self._first_output[k]]
            p.objective = &objective[self._first_output[k]]
            first += n
            p.matrix = shared if self._is_shared else self._doubles(n * n)
            p.root, p.scale, p.ones = self._doubles(n), self._doubles(n), self._doubles(n)
            p.solved, p.packed = self._doubles((q + 1) * n), self._doubles((q + 1) * n)
            p.new_theta, p.new_intercept = self._doubles(q * n), self._doubles(q)
            p.side, p.active, p.place = self._ints(n), self._ints(n), self._ints(n)
            p.factored_side = self._ints(n)
            column = np.zeros(n, dtype=np.intp)
            self._kept.append(column)
            p.column = &column[0]

    def _prepare_newton(self, Py_ssize_t k):
        """Make room for the changes of an active set, and gather the kernel values of own rows."""
        cdef Problem* p = &self._problems[k]
        cdef Py_ssize_t n = p.n, q = max(<Py_ssize_t> (ROOM * p.n), 1)
        cdef Py_ssize_t[::1] every
        cdef double[:, ::1] own
        if p.most_slots == 0:
            p.most_slots = <int> q
            p.step, p.new_decision = self._doubles(n), self._doubles(n)
            p.packed = self._doubles(2 * (n + q))
            p.slot_of, p.slot_row, p.used = self._ints(3 * n), self._ints(q), self._ints(q)
            p.pivots, p.slot_root, p.columns = self._ints(q), self._doubles(q), self._doubles(q * n)
            p.products, p.small = self._doubles(q * q), self._doubles(q * q)
            p.state = NOTHING
        if p.stride != n:
            K, rows = np.asarray(self._K), np.asarray(<const Py_ssize_t[:n]> p.rows)
            own = np.ascontiguousarray(K[np.ix_(rows, rows)])
            every = np.arange(n)
            self._kept_of_kernel.append((own, every))
            p.K, p.stride, p.index = &own[0, 0], n, &every[0]

    def change_kernel(self, const double[:, ::1] K):
        """Go on with other kernel values, of shape (n_samples, n_samples)."""
        cdef Py_ssize_t k
        cdef Problem* p
        self._K, self._kept_of_kernel = K, []
        for k in range(self.n_problems):
            p = &self._problems[k]
            p.K, p.stride, p.index = &K[0, 0], K.shape[0], p.rows
            p.state, p.is_stale = NOTHING, True

    cdef void _claim(self, Py_ssize_t k) noexcept nogil:
        """Let problem `k` have the matrix, where there is one for all."""
        if self._is_shared and self.owner != k:
            if self.owner >= 0:
                self._problems[self.owner].state = NOTHING
            self.owner = k

    def _threads(self, n_threads):
        return 1 if self._is_shared else min(n_threads, self.n_problems)

    def solve(self, const double[:, ::1] losses, int n_threads):
        """Minimise every problem, from its last solution.

        Parameters
        ----------
        losses : ndarray of shape (n_problems, 3)
            C1, C2 and D.
        n_threads : int
        """
        cdef Py_ssize_t k
        cdef int failed = 0
        cdef Problem* p
        self.solve_number += 1
        n_threads = self._threads(n_threads)
        for k in range(self.n_problems):
            p = &self._problems[k]
            p.C1, p.C2, p.D = losses[k, 0], losses[k, 1], losses[k, 2]
            p.is_quadratic = p.C1 == p.C2 and p.D == 0
            if p.n > 0 and not p.is_quadratic:
                self._prepare_newton(k)
        if n_threads == 1:
            for k in range(self.n_problems):
                with nogil:
                    failed += self._solve(k)
        else:
            for k in prange(
                self.n_problems, nogil=True, schedule="dynamic", num_threads=n_threads
            ):
                failed += self._solve(k)
        if failed:
            raise FloatingPointError(INDEFINITE)

    cdef int _solve(self, Py_ssize_t k) noexcept nogil:
        cdef Problem* p = &self._problems[k]
        if p.n == 0:
            return 0
        self._claim(k)
        return (solve_quadratic(p) if p.is_quadratic else newton(p)) != 0

    def curvature(self):
        """Return the curvatures of the last solve, of shape (n_flat,)."""
        out = np.empty(self.n_flat)
        cdef double[::1] flat = out
        cdef Py_ssize_t k, i, o
        cdef Problem* p
        for k in range(self.n_problems):
            p = &self._problems[k]
            for o in range(p.n_outputs):
                for i in range(p.n):
                    flat[self._start[k] + o * p.n + i] = p.scale[i] * p.scale[i]
        return out

    def left_out(self, share=None):
        """Return the values of all rows for the models without (a share of) each, flat.

        Parameters
        ----------
        share : ndarray of shape (n_own,), default=None
            Of the rows of all problems, one after the other; all of their weight by default.
        """
        cdef const double[::1] shares = share
        cdef const double* some = NULL
        cdef Py_ssize_t k, first = 0
        cdef int failed = 0
        out = np.empty(self.n_flat)
        cdef double[::1] flat = out
        for k in range(self.n_problems):
            if self._problems[k].n == 0:
                continue
            if share is not None:
                some = &shares[first]
            first += self._problems[k].n
            with nogil:
                self._claim(k)
                failed += left_out(&self._problems[k], some, &flat[self._start[k]]) != 0
        if failed:
            raise FloatingPointError(INDEFINITE)
        return out

    def _room(self, const int[:, ::1] fold, int n_folds, int n_threads):
        """Return work space of every thread for what is done fold by fold."""
        cdef Py_ssize_t k, i, repeat, largest = 1
        cdef Problem* p
        cdef int[::1] count = np.zeros(n_folds, dtype=np.intc)
        for k in range(self.n_problems):
            p = &self._problems[k]
            for repeat in range(fold.shape[0]):
                count[:] = 0
                for i in range(p.n):
                    count[fold[repeat, p.rows[i]]] += 1
                for i in range(n_folds):
                    largest = max(largest, count[i])
        n, q = self.most_rows, self.most_outputs
        return (
            np.empty((n_threads, 3 * (q + 1) * n + largest * (largest + n))),
            np.empty((n_threads, n), dtype=np.intc),
        )

    cdef int _invert(self, Py_ssize_t k) noexcept nogil:
        self._claim(k)
        return invert(&self._problems[k]) != 0

    def leave_folds_out(self, const int[:, ::1] fold, int n_folds, int n_threads):
        """Return the values of all rows for the models without their fold.

        Parameters
        ----------
        fold : ndarray of shape (n_repeats, n_samples)
            The fold of each sample, from 0 to n_folds - 1, in each repeat.
        n_folds, n_threads : int

        Returns
        -------
        values : ndarray of shape (n_repeats, n_flat)
        """
        cdef Py_ssize_t k
        cdef int t, failed = 0
        n_threads = self._threads(n_threads)
        out = np.empty((fold.shape[0], self.n_flat))
        cdef double[:, ::1] values = out, work
        cdef int[:, ::1] members
        work, members = self._room(fold, n_folds, n_threads)
        with nogil, parallel(num_threads=n_threads):
            t = threadid()
            for k in prange(self.n_problems, schedule="dynamic"):
                failed += self._leave_folds_out(
                    k, fold, n_folds, values, &members[t, 0], &work[t, 0]
                )
        if failed:
            raise FloatingPointError(INDEFINITE)
        return out

    cdef int _leave_folds_out(
        self, Py_ssize_t k, const int[:, ::1] fold, int n_folds, double[:, ::1] out, int* members,
        double* work,
    ) noexcept nogil:
        cdef Py_ssize_t repeat
        cdef int which
        if self._problems[k].n == 0:
            return 0
        if self._invert(k):
            return 1
        for repeat in range(fold.shape[0]):
            for which in range(n_folds):
                fold_values(&self._problems[k], &fold[repeat, 0], which, members, work,
                            &out[repeat, self._start[k]])
        return 0

    def differentiate(
        self, const int[:, ::1] fold, int n_folds, const double[:, ::1] slope, int n_threads
    ):
        """Differentiate a function of the values that `leave_folds_out` found.

        Parameters
        ----------
        fold, n_folds, n_threads
            As in `leave_folds_out`.
        slope : ndarray of shape (n_repeats, n_flat)
            The derivative of the function by each value.

        Returns
        -------
        by_aim, by_log_curvature : ndarray of shape (n_flat,)
        left, coef : ndarray of shape (n_repeats * n_folds, n_flat)
            The derivative by the kernel values K between the rows of an output is the bilinear
            form ``sum of left' dK coef`` over its models.
        """
        cdef Py_ssize_t k
        cdef int t, failed = 0
        n_threads = self._threads(n_threads)
        n_models = fold.shape[0] * n_folds
        by_aim, by_log = np.zeros((2, self.n_flat))
        left, coef = np.zeros((2, n_models, self.n_flat))
        cdef double[::1] _by_aim = by_aim, _by_log = by_log
        cdef double[:, ::1] _left = left, _coef = coef, work
        cdef int[:, ::1] members
        work, members = self._room(fold, n_folds, n_threads)
        with nogil, parallel(num_threads=n_threads):
            t = threadid()
            for k in prange(self.n_problems, schedule="dynamic"):
                failed += self._differentiate(
                    k, fold, n_folds, slope, _by_aim, _by_log, _left, _coef, &members[t, 0],
                    &work[t, 0],
                )
        if failed:
            raise FloatingPointError(INDEFINITE)
        return by_aim, by_log, left, coef

    cdef int _differentiate(
        self, Py_ssize_t k, const int[:, ::1] fold, int n_folds, const double[:, ::1] slope,
        double[::1] by_aim, double[::1] by_log, double[:, ::1] left, double[:, ::1] coef,
        int* members, double* work,
    ) noexcept nogil:
        cdef Py_ssize_t repeat, first = self._start[k], model
        cdef int which
        if self._problems[k].n == 0:
            return 0
        if self._invert(k):
            return 1
        for repeat in range(fold.shape[0]):
            for which in range(n_folds):
                model = repeat * n_folds + which
                differentiate(
                    &self._problems[k], &fold[repeat, 0], which, members, work,
                    &slope[repeat, first], &by_aim[first], &by_log[first], &left[model, first],
                    &coef[model, first],
                )
        return 0

    def by_kernel(self, const double[:, ::1] left, const double[:, ::1] coef, Py_ssize_t n_samples):
        """Return the bilinear forms of `differentiate` as one dense array.

        Returns
        -------
        G : ndarray of shape (n_samples, n_samples)
            Sums of ``left' coef`` over all models and outputs, at the places of their rows.
        """
        cdef int n, n_models = <int> left.shape[0], width = <int> self.n_flat
        cdef Py_ssize_t k, i, j, flat
        cdef double one = 1.0, zero = 0.0
        cdef Problem* p
        G = np.zeros((n_samples, n_samples))
        cdef double[:, ::1] out = G, block = np.empty((self.most_rows, self.most_rows))
        for k in range(self.n_problems):
            p, n = &self._problems[k], self._problems[k].n
            for o in range(p.n_outputs if n > 0 else 0):
                flat = self._start[k] + o * n
                with nogil:
                    dgemm("N", "T", &n, &n, &n_models, &one, <double*> &coef[0, flat], &width,
                          <double*> &left[0, flat], &width, &zero, &block[0, 0], &n)
                    for i in range(n):
                        for j in range(n):
                            out[p.rows[i], p.rows[j]] += (&block[0, 0])[i * n + j]
        return G

    def adjoint(self, const double[::1] slope, const double[::1] total):
        """Differentiate a function of the solutions.

        Parameters
        ----------
        slope : ndarray of shape (n_flat,)
            By the coefficients; used on the active set.
        total : ndarray of shape (n_flat_outputs,)
            By the intercepts.

        Returns
        -------
        by_aim : ndarray of shape (n_flat,)
        """
        cdef Py_ssize_t k
        cdef int failed = 0
        out = np.zeros(self.n_flat)
        cdef double[::1] by_aim = out
        for k in range(self.n_problems):
            if self._problems[k].n > 0:
                with nogil:
                    self._claim(k)
                    failed += adjoint(
                        &self._problems[k], &slope[self._start[k]],
                        &total[self._first_output[k]], &by_aim[self._start[k]],
                    ) != 0
        if failed:
            raise FloatingPointError(INDEFINITE)
        return out
