"""The linear system of an active set over a Gram matrix, and samples left out of it.

System     [A  r] [z]   [v]      A = I + diag(r) K_SS diag(r),   r = c^1/2,
           [r' 0] [b] = [t]      S = {c > 0}

with curvatures c of the loss; the border is there if an intercept is fitted. Newton's method, also
at neighbouring points of a grid, needs one active set after another, and these differ in few
samples. So the factor A = L L' follows: a sample that enters is a new last row of L, one that
leaves takes its row with it, and rotations of columns make L triangular again. Both take about k^2
operations, a new factor k^3 / 3.

`optimargin.systems.base` derives what the inverse is good for. With P = A^-1, bordered, and
slopes s of a function by the held-out values of the samples B,

    u = (P_BB)^-1 (theta_B / r_B),   theta' = theta - r P_:B u,   f_B = a_B - u / r_B,
    g = (P_BB)^-1 (s_B / r_B + z_B),   left = r (P_:B g - z),

where z solves the system for the slopes of samples of the fold that are not active. The function
changes by left' dK theta', and by -left' (da + (a - f') dlog c) on the samples kept.
"""

from libc.math cimport sqrt
from libc.string cimport memcpy, memmove, memset
from scipy.linalg.cython_blas cimport daxpy, ddot, dgemm, dgemv, drot, dsyr, dtrsm, dtrsv
from scipy.linalg.cython_lapack cimport dpotrf, dpotri, dpotrs, dtrtri

cdef double CHANGES = 0.25  # share of an active set, past which a new factor is faster
cdef double SINGULAR = 1e-13  # of a pivot that is at most one

ctypedef struct Fold:  # of one repeat, for q outputs; B are its `size` active samples
    const int* of  # the fold of every sample
    int which, size
    int* members  # places of B among the k active samples
    Vector u, moved, z  # (size, q), (k, q) and (k,); all matrices are column by column
    Vector theta  # of the model without the fold, (n, q)
    Vector block, columns  # the factor of P_BB, and P_:B


cdef int follow(Problem* p) noexcept nogil:
    """Factorise the matrix of the samples of positive curvature; return 0 on success."""
    cdef int i, n_changes = 0
    for i in range(p.n):
        n_changes += p.curvature[i] != p.factored_curvature[i]
    if p.state == FACTOR:
        if n_changes == 0:
            return 0
        p.n_changes_left -= n_changes
        if p.n_changes_left >= 0 and change(p):
            return 0
    return factorise(p)


cdef int factorise(Problem* p) noexcept nogil:
    """Collect the active set and factorise its matrix."""
    cdef int i, j, k = 0, info = 0
    cdef double jitter = 0.0
    cdef Vector out
    memcpy(p.factored_curvature, p.curvature, p.n * sizeof(double))
    for i in range(p.n):
        if p.curvature[i] > 0.0:
            p.active[k], p.root[k] = i, sqrt(p.curvature[i])
            k += 1
    p.n_active, p.n_changes_left, p.state = k, <int> (CHANGES * k), FACTOR
    for _ in range(12):
        for j in range(k):
            out = p.matrix + <Py_ssize_t> j * p.n
            products(p, j, j, k, out)
            # Rounding in K times huge weights can hide the identity.
            out[j] = out[j] * (1.0 + jitter) + 1.0
        dpotrf("L", &k, p.matrix, &p.n, &info)
        if info == 0:
            break
        jitter = 10.0 * jitter if jitter > 0.0 else 1e-14
        p.n_changes_left = 0
    if info:
        p.state = NOTHING
    return info


cdef void products(Problem* p, int place, int first, int last, Vector out) noexcept nogil:
    """Put r_i K_ij r_j into `out`, for the active sample i of a place and those j of others."""
    cdef int j
    cdef Given row = p.K + <Py_ssize_t> p.active[place] * p.n
    for j in range(first, last):
        out[j] = p.root[place] * p.root[j] * row[p.active[j]]


cdef bint change(Problem* p) noexcept nogil:
    """Let samples leave and enter the factor; False if rounding has spoilt it."""
    cdef int i, j
    for j in range(p.n_active - 1, -1, -1):
        i = p.active[j]
        if p.curvature[i] != p.factored_curvature[i]:
            remove(p, j)
            p.factored_curvature[i] = 0.0
    for i in range(p.n):
        if p.curvature[i] != p.factored_curvature[i] and not append(p, i):
            return False
    return True


cdef void remove(Problem* p, int place) noexcept nogil:
    """Take an active sample out of the factor: L without its row, times rotations."""
    cdef int j, rest, one = 1, last = p.n_active - 1
    cdef double cosine, sine, pivot
    cdef Vector column
    for j in range(last):
        column = p.matrix + <Py_ssize_t> j * p.n
        if j < place:
            memmove(column + place, column + place + 1, (last - place) * sizeof(double))
            continue
        # Rotate column j + 1 into this one, from its diagonal on, which vanishes.
        rest = last - j - 1
        pivot = sqrt(column[j + 1] ** 2 + column[p.n + j + 1] ** 2)
        cosine, sine = column[j + 1] / pivot, column[p.n + j + 1] / pivot
        drot(&rest, column + j + 2, &one, column + p.n + j + 2, &one, &cosine, &sine)
        memmove(column + j + 1, column + j + 2, rest * sizeof(double))
        column[j] = pivot
    memmove(p.active + place, p.active + place + 1, (last - place) * sizeof(int))
    memmove(p.root + place, p.root + place + 1, (last - place) * sizeof(double))
    p.n_active = last


cdef bint append(Problem* p, int i) noexcept nogil:
    """Give the factor a last row l' = (L^-1 a)', (1 + a_ii - l'l)^1/2; False if it has none."""
    cdef int j, one = 1, k = p.n_active
    cdef double pivot
    cdef Vector row = p.solved
    p.active[k], p.root[k], p.n_active = i, sqrt(p.curvature[i]), k + 1
    p.factored_curvature[i] = p.curvature[i]
    products(p, k, 0, k + 1, row)
    dtrsv("L", "N", "N", &k, p.matrix, &p.n, row, &one)
    pivot = 1.0 + row[k] - ddot(&k, row, &one, row, &one)
    if not pivot > 0.5:  # it is at least 1 without rounding
        return False
    row[k] = sqrt(pivot)
    for j in range(k + 1):
        p.matrix[<Py_ssize_t> j * p.n + k] = row[j]
    return True


cdef void solve_system(
    Problem* p, int n, Given values, Given totals, Vector out, Vector offsets
) noexcept nogil:
    """Solve the system for v = r * values, t = totals; put r * z into `out`, 0 off the set.

    With h = L^-1 v and e = L^-1 r, the offset b is (e'h - t) / e'e, and z = L'^-1 (h - b e).
    Offsets stay where no sample is active.
    """
    cdef int j, o, k = p.n_active, n_columns = n + p.fit_intercept, one = 1
    cdef double unit = 1.0, border, offset
    cdef Vector z = p.solved
    cdef Vector e = z + <Py_ssize_t> n * k
    memset(out, 0, <size_t> n * p.n * sizeof(double))
    if k == 0:
        return
    for j in range(k):
        e[j] = p.root[j]
        for o in range(n):
            z[o * k + j] = p.root[j] * values[o * p.n + p.active[j]]
    dtrsm("L", "L", "N", "N", &k, &n_columns, &unit, p.matrix, &p.n, z, &k)
    border = ddot(&k, e, &one, e, &one)
    for o in range(n):
        offsets[o] = 0.0
        if p.fit_intercept:
            offset = (totals[o] if totals != NULL else 0.0) - ddot(&k, e, &one, z + o * k, &one)
            offset /= border
            daxpy(&k, &offset, e, &one, z + o * k, &one)
            offsets[o] = -offset
    dtrsm("L", "L", "T", "N", &k, &n, &unit, p.matrix, &p.n, z, &k)
    for o in range(n):
        for j in range(k):
            out[o * p.n + p.active[j]] = p.root[j] * z[o * k + j]


cdef int prepare_to_leave(Problem* p) noexcept nogil:
    """Factorise the current active set, and solve for the border; return 0 on success."""
    cdef int j, one = 1, info = follow(p), k = p.n_active
    if info == 0 and p.fit_intercept:
        for j in range(k):
            p.ones[j] = p.root[j]
        dtrsv("L", "N", "N", &k, p.matrix, &p.n, p.ones, &one)
        p.border = ddot(&k, p.ones, &one, p.ones, &one)
        dtrsv("L", "T", "N", &k, p.matrix, &p.n, p.ones, &one)
    return info


cdef int invert(Problem* p) noexcept nogil:
    """Turn the factor of the current active set into the full symmetric P; 0 on success."""
    cdef int i, j, k, one = 1, info
    cdef double share
    if p.state == INVERSE:
        return 0
    if prepare_to_leave(p):
        return 1
    k = p.n_active
    dpotri("L", &k, p.matrix, &p.n, &info)
    if p.fit_intercept and k > 0:
        share = -1.0 / p.border
        dsyr("L", &k, &share, p.ones, &one, p.matrix, &p.n)
    for j in range(k):
        for i in range(j + 1, k):
            p.matrix[<Py_ssize_t> i * p.n + j] = p.matrix[<Py_ssize_t> j * p.n + i]
    p.state = INVERSE
    return info


cdef int adjoint(Problem* p, const Request* asked, int thread) noexcept nogil:
    """Put derivatives by the aims of a function of the model into `by_aim`."""
    cdef int info = follow(p)
    if info == 0:
        solve_system(p, p.n_outputs, asked.slope + p.first, asked.total + p.first_output,
                     asked.by_aim + p.first, p.new_intercept)
    return info


cdef int leave_each_out(Problem* p, const Request* asked, int thread) noexcept nogil:
    """Put the values of samples for the models without (a share of) each into `values`."""
    cdef int i, j, o, k, size, one = 1, info
    cdef double pivot
    cdef Vector column
    cdef Vector out = asked.values + p.first
    for o in range(p.n_outputs):
        for i in range(p.n):
            out[o * p.n + i] = p.decision[o * p.n + i] + p.intercept[o]
    if prepare_to_leave(p):
        return 1
    k = p.n_active
    dtrtri("L", "N", &k, p.matrix, &p.n, &info)
    p.state = NOTHING
    for j in range(k):
        i, size, column = p.active[j], k - j, p.matrix + <Py_ssize_t> j * (p.n + 1)
        pivot = ddot(&size, column, &one, column, &one)
        if p.fit_intercept:
            pivot -= p.ones[j] ** 2 / p.border
        if asked.share != NULL:
            pivot = 1.0 - asked.share[p.first_row + i] * (1.0 - pivot)
        # If a sample is alone in the active set, there is no model without it.
        for o in range(p.n_outputs if pivot > SINGULAR else 0):
            out[o * p.n + i] = p.aim[o * p.n + i] - p.theta[o * p.n + i] / (p.curvature[i] * pivot)
    return 0


cdef int leave_folds_out(Problem* p, const Request* asked, int thread) noexcept nogil:
    """Answer for the models without each fold: their values, or derivatives by given slopes."""
    cdef Fold fold
    cdef Py_ssize_t model, repeat, size = <Py_ssize_t> p.n_outputs * p.n
    if invert(p):
        return 1
    fold.members = asked.members + thread * asked.most_rows
    fold.u = asked.work + thread * asked.room
    fold.theta, fold.moved, fold.z = fold.u + size, fold.u + 2 * size, fold.u + 3 * size
    fold.block = fold.z + p.n
    for model in range(asked.n_repeats * asked.n_folds):
        repeat = model // asked.n_folds
        fold.of, fold.which = asked.fold + repeat * asked.n_samples, <int> (model % asked.n_folds)
        if asked.slope == NULL:
            find_values(p, &fold, asked.values + repeat * asked.n_flat + p.first)
        else:
            fold.theta = asked.coef + model * asked.n_flat + p.first
            differentiate(
                p, &fold, asked.slope + repeat * asked.n_flat + p.first,
                asked.left + model * asked.n_flat + p.first,
                asked.by_aim + p.first, asked.by_log_curvature + p.first,
            )
    return 0


cdef bint holds(Problem* p, Fold* fold, int i) noexcept nogil:
    return fold.of[p.rows[i]] == fold.which


cdef bint leave(Problem* p, Fold* fold, bint with_coefficients) noexcept nogil:
    """Solve for u without a fold, and for theta' if it is asked for, with the columns P_:B.

    Returns False where nothing is left to learn from.
    """
    cdef int i, j, o, k = p.n_active, size = 0, info = 0
    cdef double one = 1.0, zero = 0.0
    cdef Given row
    fold.size = 0
    for j in range(k):
        if holds(p, fold, p.active[j]):
            fold.members[size] = j
            size += 1
    if with_coefficients and (size < k or k == 0):
        memcpy(fold.theta, p.theta, <size_t> p.n_outputs * p.n * sizeof(double))
    if size == 0 or size == k:
        return size == 0
    for i in range(size):
        row = p.matrix + <Py_ssize_t> fold.members[i] * p.n
        for j in range(i + 1):
            fold.block[i * size + j] = row[fold.members[j]]
        if not fold.block[i * size + i] > SINGULAR:
            return False
        j = p.active[fold.members[i]]
        for o in range(p.n_outputs):
            fold.u[o * size + i] = p.theta[o * p.n + j] / p.root[fold.members[i]]
    dpotrf("U", &size, fold.block, &size, &info)
    if info:
        return False
    dpotrs("U", &size, &p.n_outputs, fold.block, &size, fold.u, &size, &info)
    fold.size, fold.columns = size, fold.block + <Py_ssize_t> size * size
    if not with_coefficients:
        return True
    for i in range(size):
        memcpy(fold.columns + <Py_ssize_t> i * k,
               p.matrix + <Py_ssize_t> fold.members[i] * p.n, k * sizeof(double))
    dgemm("N", "N", &k, &p.n_outputs, &size, &one, fold.columns, &k, fold.u, &size, &zero,
          fold.moved, &k)
    for o in range(p.n_outputs):
        for j in range(k):
            fold.theta[o * p.n + p.active[j]] -= p.root[j] * fold.moved[o * k + j]
        for i in range(size):
            fold.theta[o * p.n + p.active[fold.members[i]]] = 0.0
    return True


cdef void find_values(Problem* p, Fold* fold, Vector out) noexcept nogil:
    """Put the values of the samples of a fold for the model without it into `out`."""
    cdef int i, place, o, one = 1
    cdef Py_ssize_t j
    cdef bint some_inactive = p.n_active < p.n, is_known = leave(p, fold, some_inactive)
    cdef double intercept
    for o in range(p.n_outputs):
        intercept = p.intercept[o]
        for i in range(fold.size if p.fit_intercept else 0):
            intercept -= p.ones[fold.members[i]] * fold.u[o * fold.size + i] / p.border
        for i in range(p.n if some_inactive or not is_known else 0):
            if holds(p, fold, i):
                out[o * p.n + i] = intercept
                if is_known and p.curvature[i] == 0.0:
                    out[o * p.n + i] += ddot(&p.n, <double*> p.K + <Py_ssize_t> i * p.n, &one,
                                             fold.theta + o * p.n, &one)
        for i in range(fold.size):
            place = fold.members[i]
            j = o * p.n + p.active[place]
            out[j] = p.aim[j] - fold.u[o * fold.size + i] / p.root[place]


cdef void differentiate(
    Problem* p, Fold* fold, Given slope, Vector left, Vector by_aim, Vector by_log
) noexcept nogil:
    """Add what a fold adds to derivatives, and put its bilinear form into `left` and theta'."""
    cdef int i, j, o, k = p.n_active, one = 1, info
    cdef double unit = 1.0, zero = 0.0, minus = -1.0, total
    cdef Vector g = fold.u
    cdef Vector z = fold.z
    cdef Vector right = fold.moved
    cdef Given row
    if not leave(p, fold, True):
        return
    for o in range(p.n_outputs):
        memset(z, 0, k * sizeof(double))
        if k < p.n:  # samples of the fold that are not active
            total = 0.0
            memset(right, 0, k * sizeof(double))
            for i in range(p.n):
                if p.curvature[i] == 0.0 and holds(p, fold, i):
                    left[i], row = slope[i], p.K + <Py_ssize_t> i * p.n
                    total += slope[i]
                    for j in range(k):
                        right[j] += slope[i] * p.root[j] * row[p.active[j]]
            for i in range(fold.size):
                right[fold.members[i]] = 0.0
            dgemv("N", &k, &k, &unit, p.matrix, &p.n, right, &one, &zero, z, &one)
            for j in range(k if p.fit_intercept else 0):
                z[j] += total / p.border * p.ones[j]
        for i in range(fold.size):
            j = fold.members[i]
            g[i] = slope[p.active[j]] / p.root[j] + z[j]
        if fold.size > 0:
            dpotrs("U", &fold.size, &one, fold.block, &fold.size, g, &fold.size, &info)
            dgemv("N", &k, &fold.size, &minus, fold.columns, &k, g, &one, &unit, z, &one)
        for j in range(k):
            i = p.active[j]
            left[i] = -p.root[j] * z[j]
            if not holds(p, fold, i):  # curvatures and aims of the fold itself do not matter
                by_aim[i] -= left[i]
                by_log[i] -= left[i] * fold.theta[o * p.n + i] / p.curvature[i]
        slope, left, by_aim, by_log = slope + p.n, left + p.n, by_aim + p.n, by_log + p.n
