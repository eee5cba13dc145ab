"""The factor of an active set, while samples enter and leave it.

System     A z = v,   A = I + diag(r) K_SS diag(r),   r_i = (2 C w_i)^1/2,   S = {side != 0}

with C = C1 below the band of the loss (side -1) and C2 above it (side 1). Newton's method, also at
neighbouring points of a grid, needs one active set after another, and these differ in few
samples. So the factor A = U'U of an earlier set is kept. With columns B of the samples that
entered and E (of the identity) of those that left, the solution is

    [A   B   E] [z ]   [v ]                  W = U'^-1 [B  E],   h = U'^-1 v
    [B'  A_N 0] [zN] = [vN]      so          (W'W - diag(A_N, 0)) [zN; m] = W'h - [vN; 0]
    [E'  0   0] [m ]   [0 ]                  z = U^-1 (h - W [zN; m])

which takes one product with the factor per change since it was computed. This is the
Schur-complement method of active-set solvers: P. E. Gill, W. Murray, M. A. Saunders and
M. H. Wright, in Reliable Numerical Computation, 1990.
"""

from libc.math cimport sqrt
from libc.string cimport memset
from scipy.linalg.cython_blas cimport daxpy, ddot, dgemm, dtrsm
from scipy.linalg.cython_lapack cimport dgetrf, dgetrs, dpotrf, dpotri

cdef double CHANGES = 0.25  # share of an active set, past which a new factorisation is faster

cdef enum:  # changes of an active set
    LEAVES = 0
    ENTERS_BELOW = 1
    ENTERS_ABOVE = 2


cdef double root_of(Problem* p, int i, int side) noexcept nogil:
    return sqrt(2.0 * (p.C1 if side < 0 else p.C2) * p.weight[i])


cdef int follow(Problem* p) noexcept nogil:
    """Prepare to solve on the samples that `side` selects; return 0 on success."""
    if (
        p.state == FACTOR and p.C1 == p.factored_C1 and p.C2 == p.factored_C2 and note_changes(p)
    ):
        return 0
    return factor(p)


cdef int factor(Problem* p) noexcept nogil:
    """Collect the active set and factorise its matrix."""
    cdef int i, j, k = 0, info = 0
    cdef double scale, jitter = 0.0
    cdef const double* row
    cdef double* out
    for i in range(p.n):
        p.place[i] = -1
        p.factored_side[i] = p.side[i]
        p.scale[i] = 0.0
        if p.side[i] != 0:
            p.active[k] = i
            p.column[k] = p.index[i]
            p.place[i] = k
            p.root[k] = p.scale[i] = root_of(p, i, p.side[i])
            k += 1
    p.n_active = k
    p.factored_C1, p.factored_C2 = p.C1, p.C2
    p.n_slots = p.n_used = 0
    p.n_changes_max = min(<int> (CHANGES * k), p.most_slots)
    for i in range(3 * p.n if p.most_slots > 0 else 0):
        p.slot_of[i] = -1
    p.state = FACTOR
    if k == 0:
        return 0
    for _ in range(12):
        for i in range(k):
            row = p.K + p.column[i] * p.stride
            out = p.matrix + <Py_ssize_t> i * k
            scale = p.root[i]
            for j in range(i + 1):
                out[j] = scale * p.root[j] * row[p.column[j]]
            # Rounding in K times huge weights can hide the identity.
            out[i] = out[i] * (1.0 + jitter) + 1.0
        dpotrf("U", &k, p.matrix, &k, &info)
        if info == 0:
            return 0
        jitter = 10.0 * jitter if jitter > 0.0 else 1e-14
    p.state = NOTHING
    return info


cdef bint note_changes(Problem* p) noexcept nogil:
    """Find how `side` differs from the factorised set; False if there are too many changes."""
    cdef int i, j, kind, side, known = p.n_slots, q, info = 0
    p.n_used = 0
    for i in range(p.n):
        side = p.side[i]
        if side == p.factored_side[i]:
            continue
        if p.factored_side[i] != 0 and slot(p, LEAVES, i) < 0:
            return False
        kind = ENTERS_BELOW if side < 0 else ENTERS_ABOVE
        if side != 0 and slot(p, kind, i) < 0:
            return False
    q = p.n_used
    if q == 0:
        return True
    if known < p.n_slots:
        complete_slots(p, known)
    for i in range(q):
        for j in range(q):
            p.small[i * q + j] = p.products[p.used[i] * p.most_slots + p.used[j]]
    dgetrf(&q, &q, p.small, &q, p.pivots, &info)
    return info == 0


cdef int slot(Problem* p, int kind, int row) noexcept nogil:
    """Return the slot of a change, a new one if necessary; -1 if there are too many."""
    cdef int found = p.slot_of[kind * p.n + row] if p.most_slots > 0 else -1
    if found < 0:
        if p.n_slots >= p.n_changes_max:
            return -1
        found = p.n_slots
        p.n_slots += 1
        p.slot_of[kind * p.n + row] = found
        p.slot_row[found] = row
        p.slot_root[found] = 0.0
        if kind != LEAVES:
            p.slot_root[found] = root_of(p, row, -1 if kind == ENTERS_BELOW else 1)
    p.used[p.n_used] = found
    p.n_used += 1
    return found


cdef void complete_slots(Problem* p, int first) noexcept nogil:
    """Compute the columns W from slot `first` on, and their products."""
    cdef int s, t, j, row, k = p.n_active, m = p.n_slots, fresh = m - first
    cdef double one = 1.0, zero = 0.0, root, value
    cdef const double* values
    cdef double* out
    for s in range(first, m):
        row, root, out = p.slot_row[s], p.slot_root[s], p.columns + <Py_ssize_t> s * p.n
        if root > 0.0:
            values = p.K + p.index[row] * p.stride
            for j in range(k):
                out[j] = root * p.root[j] * values[p.column[j]]
        else:
            memset(out, 0, k * sizeof(double))
            out[p.place[row]] = 1.0
    out = p.columns + <Py_ssize_t> first * p.n
    dtrsm("L", "U", "T", "N", &k, &fresh, &one, p.matrix, &k, out, &p.n)
    # All products of the fresh columns with all others, W'W.
    dgemm("T", "N", &m, &fresh, &k, &one, p.columns, &p.n, out, &p.n, &zero,
          p.products + <Py_ssize_t> first * p.most_slots, &p.most_slots)
    for s in range(first, m):
        root = p.slot_root[s]
        values = p.K + p.index[p.slot_row[s]] * p.stride
        for t in range(s + 1):
            if root > 0.0 and p.slot_root[t] > 0.0:
                value = root * p.slot_root[t] * values[p.index[p.slot_row[t]]]
                p.products[s * p.most_slots + t] -= value + (1.0 if s == t else 0.0)
            p.products[t * p.most_slots + s] = p.products[s * p.most_slots + t]


cdef void solve_system(Problem* p, double* vectors, int n_vectors) noexcept nogil:
    """Solve in place for vectors over all samples; zero off the active set."""
    cdef int i, j, v, some, k = p.n_active, q = p.n_used, one = 1, info
    cdef double unit = 1.0, value
    cdef double* h = p.packed
    cdef double* change = p.packed + <Py_ssize_t> n_vectors * k
    cdef double* vector
    for v in range(n_vectors):
        vector = vectors + <Py_ssize_t> v * p.n
        for i in range(k):
            j = p.active[i]
            h[v * k + i] = vector[j] if p.side[j] == p.factored_side[j] else 0.0
    if k > 0:
        dtrsm("L", "U", "T", "N", &k, &n_vectors, &unit, p.matrix, &k, h, &k)
    for v in range(n_vectors if q > 0 else 0):
        vector = vectors + <Py_ssize_t> v * p.n
        for i in range(q):
            some = p.used[i]
            value = ddot(&k, p.columns + <Py_ssize_t> some * p.n, &one, h + v * k, &one)
            if p.slot_root[some] > 0.0:
                value -= vector[p.slot_row[some]]
            change[v * q + i] = value
    if q > 0:
        dgetrs("N", &q, &n_vectors, p.small, &q, p.pivots, change, &q, &info)
        for v in range(n_vectors):
            for i in range(q):
                value = -change[v * q + i]
                daxpy(&k, &value, p.columns + <Py_ssize_t> p.used[i] * p.n, &one, h + v * k, &one)
    if k > 0:
        dtrsm("L", "U", "N", "N", &k, &n_vectors, &unit, p.matrix, &k, h, &k)
    for v in range(n_vectors):
        vector = vectors + <Py_ssize_t> v * p.n
        memset(vector, 0, p.n * sizeof(double))
        for i in range(k):
            j = p.active[i]
            if p.side[j] == p.factored_side[j]:
                vector[j] = h[v * k + i]
        for i in range(q):
            if p.slot_root[p.used[i]] > 0.0:
                vector[p.slot_row[p.used[i]]] = change[v * q + i]


cdef int invert(Problem* p) noexcept nogil:
    """Turn the factor of the current active set into the full symmetric P; 0 on success."""
    cdef int i, j, k, info
    cdef double value
    if p.state == INVERSE:
        return 0
    info = settle(p)
    k = p.n_active
    if info or k == 0:
        return info
    dpotri("U", &k, p.matrix, &k, &info)
    p.state = INVERSE
    for i in range(k):
        for j in range(i + 1):
            value = p.matrix[<Py_ssize_t> i * k + j]
            if p.fit_intercept:
                value -= p.ones[i] * p.ones[j] / p.border
            p.matrix[<Py_ssize_t> i * k + j] = value
            p.matrix[<Py_ssize_t> j * k + i] = value
    return info


cdef int settle(Problem* p) noexcept nogil:
    """Factorise the active set itself, and solve for the border; 0 on success."""
    cdef int i, k, info
    cdef bint same = p.state == FACTOR and p.C1 == p.factored_C1 and p.C2 == p.factored_C2
    for i in range(p.n):
        same = same and p.side[i] == p.factored_side[i]
    if same:
        p.n_used = 0
    else:
        info = factor(p)
        if info:
            return info
    k = p.n_active
    for i in range(p.n):
        p.solved[i] = p.scale[i] = root_of(p, i, p.side[i]) if p.side[i] != 0 else 0.0
    solve_system(p, p.solved, 1)
    p.border = 0.0
    for i in range(k):
        p.ones[i] = p.solved[p.active[i]]
        p.border += p.root[i] * p.ones[i]
    return 0
