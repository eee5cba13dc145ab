"""Linear equations on the active set of an ODM, while samples enter and leave it.

System     (I + r K r) z = v   on the samples S = {side != 0},   r_i = (2 C w_i)^1/2

with C = C1 below the band of the loss (side -1) and C2 above it (side 1). Newton's method, also at
neighbouring points of a grid, needs one active set after another, and these differ in a few
samples. Instead of factorising each, the factor A = U'U of an earlier set is kept. With columns B
of the samples that entered and E (of the identity) of those that left, the solution is

    [A   B   E] [z ]   [v ]                  W = U'^-1 [B  E],   h = U'^-1 v
    [B'  A_N 0] [zN] = [vN]      so          (W'W - diag(A_N, 0)) [zN; m] = W'h - [vN; 0]
    [E'  0   0] [m ]   [0 ]                  z = U^-1 (h - W [zN; m])

which takes one product with the factor per change since it was computed. This is
the Schur-complement method of active-set solvers: P. E. Gill, W. Murray, M. A. Saunders and
M. H. Wright, in Reliable Numerical Computation, 1990.
"""

import numpy as np

from libc.math cimport sqrt
from libc.string cimport memset
from scipy.linalg.cython_blas cimport daxpy, ddot, dgemm, dtrsm
from scipy.linalg.cython_lapack cimport dgetrf, dgetrs, dpotrf

# Above this share of changes in the active set, a new factorisation is faster.
cdef double CHANGES = 0.25

cdef enum:
    LEAVES = 0
    ENTERS_BELOW = 1
    ENTERS_ABOVE = 2


cdef class ActiveSystem:
    """The equations of one problem.

    Parameters
    ----------
    K : ndarray of shape (n_samples, n_samples), C-contiguous, symmetric
    weight : ndarray of shape (n_samples,)

    Attributes
    ----------
    side : ndarray of shape (n_samples,)
        -1 for samples below the band of the loss, 1 for those above, 0 for inactive ones.
    n_active : int
        The size of the set that was factorised.
    """

    def __init__(self, K, weight):
        self.K, self.weight = K, weight
        self._K, self._weight = K, weight
        self.n = n = K.shape[0]
        self.side = np.zeros(n, dtype=np.intc)
        self._side = self.side
        self._matrix = np.empty(n * n)
        self._root = np.empty(n)
        self._active, self._place, self._factored_side = np.zeros((3, n), dtype=np.intc)
        self._factored = False
        size = max(int(CHANGES * n), 1)
        self._slot_of = np.empty((3, n), dtype=np.intc)
        self._slot_row, self._used, self._pivots = np.empty((3, size), dtype=np.intc)
        self._slot_root = np.empty(size)
        self._columns = np.empty((size, n))
        self._products = np.empty((size, size))
        self._small = np.empty(size * size)
        self._packed = np.empty(2 * (n + size))

    cdef double _root_of(self, int i, int side) noexcept nogil:
        return sqrt(2.0 * (self.C1 if side < 0 else self.C2) * self._weight[i])

    cdef int _follow(self) noexcept nogil:
        """Prepare to solve on the samples that `side` selects; return 0 on success."""
        if (
            self._factored
            and self.C1 == self._factored_C1
            and self.C2 == self._factored_C2
            and self._note_changes()
        ):
            return 0
        return self._factor()

    cdef int _factor(self) noexcept nogil:
        """Collect the active set and factorise its matrix."""
        cdef int i, j, k = 0, info = 0
        cdef double scale, jitter = 0.0
        cdef const double* row
        cdef double* out
        for i in range(self.n):
            self._place[i] = -1
            self._factored_side[i] = self._side[i]
            if self._side[i] != 0:
                self._active[k] = i
                self._place[i] = k
                self._root[k] = self._root_of(i, self._side[i])
                k += 1
        self.n_active = k
        self._factored = True
        self._factored_C1, self._factored_C2 = self.C1, self.C2
        self.n_slots = self.n_used = 0
        self.n_changes_max = <int> (CHANGES * k)
        for i in range(3):
            for j in range(self.n):
                self._slot_of[i, j] = -1
        if k == 0:
            return 0
        for _ in range(12):
            for i in range(k):
                row = &self._K[self._active[i], 0]
                out = &self._matrix[<Py_ssize_t> i * k]
                scale = self._root[i]
                for j in range(i + 1):
                    out[j] = scale * self._root[j] * row[self._active[j]]
                # Rounding in K times huge weights can hide the identity.
                out[i] = out[i] * (1.0 + jitter) + 1.0
            dpotrf("U", &k, &self._matrix[0], &k, &info)
            if info == 0:
                break
            jitter = 10.0 * jitter if jitter > 0.0 else 1e-14
        self._factored = info == 0
        return info

    cdef bint _note_changes(self) noexcept nogil:
        """Find how `side` differs from the factorised set; False if there are too many changes."""
        cdef int i, j, kind, side, known = self.n_slots, q, info = 0
        self.n_used = 0
        for i in range(self.n):
            side = self._side[i]
            if side == self._factored_side[i]:
                continue
            if self._factored_side[i] != 0 and self._slot(LEAVES, i) < 0:
                return False
            kind = ENTERS_BELOW if side < 0 else ENTERS_ABOVE
            if side != 0 and self._slot(kind, i) < 0:
                return False
        q = self.n_used
        if q == 0:
            return True
        if known < self.n_slots:
            self._complete_slots(known)
        for i in range(q):
            for j in range(q):
                self._small[i * q + j] = self._products[self._used[i], self._used[j]]
        dgetrf(&q, &q, &self._small[0], &q, &self._pivots[0], &info)
        return info == 0

    cdef int _slot(self, int kind, int row) noexcept nogil:
        """Return the slot of a change, a new one if necessary; -1 if there are too many."""
        cdef int slot = self._slot_of[kind, row]
        if slot < 0:
            if self.n_slots >= self.n_changes_max:
                return -1
            slot = self.n_slots
            self.n_slots += 1
            self._slot_of[kind, row] = slot
            self._slot_row[slot] = row
            self._slot_root[slot] = 0.0
            if kind != LEAVES:
                self._slot_root[slot] = self._root_of(row, -1 if kind == ENTERS_BELOW else 1)
        self._used[self.n_used] = slot
        self.n_used += 1
        return slot

    cdef void _complete_slots(self, int first) noexcept nogil:
        """Compute the columns W from slot `first` on, and their products."""
        cdef int s, t, j, row, k = self.n_active, m = self.n_slots, fresh = m - first
        cdef double one = 1.0, zero = 0.0, root, value
        for s in range(first, m):
            row = self._slot_row[s]
            root = self._slot_root[s]
            if root > 0.0:
                for j in range(k):
                    self._columns[s, j] = root * self._root[j] * self._K[row, self._active[j]]
            else:
                memset(&self._columns[s, 0], 0, k * sizeof(double))
                self._columns[s, self._place[row]] = 1.0
        dtrsm("L", "U", "T", "N", &k, &fresh, &one, &self._matrix[0], &k,
              &self._columns[first, 0], &self.n)
        # All products of the fresh columns with all others, W'W.
        t = self._products.shape[1]
        dgemm("T", "N", &m, &fresh, &k, &one, &self._columns[0, 0], &self.n,
              &self._columns[first, 0], &self.n, &zero, &self._products[first, 0], &t)
        for s in range(first, m):
            root = self._slot_root[s]
            row = self._slot_row[s]
            for t in range(s + 1):
                if root > 0.0 and self._slot_root[t] > 0.0:
                    value = root * self._slot_root[t] * self._K[row, self._slot_row[t]]
                    self._products[s, t] -= value + (1.0 if s == t else 0.0)
                self._products[t, s] = self._products[s, t]

    cdef void _solve_system(self, double* vectors, int n_vectors) noexcept nogil:
        """Solve in place for one or two vectors over all samples; zero off the active set."""
        cdef int i, j, v, slot, k = self.n_active, q = self.n_used, one = 1, info
        cdef double unit = 1.0, value
        cdef double* h = &self._packed[0]
        cdef double* change = &self._packed[<Py_ssize_t> n_vectors * k]
        cdef double* vector
        for v in range(n_vectors):
            vector = vectors + <Py_ssize_t> v * self.n
            for i in range(k):
                j = self._active[i]
                h[v * k + i] = vector[j] if self._side[j] == self._factored_side[j] else 0.0
        if k > 0:
            dtrsm("L", "U", "T", "N", &k, &n_vectors, &unit, &self._matrix[0], &k, h, &k)
        for v in range(n_vectors):
            vector = vectors + <Py_ssize_t> v * self.n
            for i in range(q):
                slot = self._used[i]
                value = ddot(&k, &self._columns[slot, 0], &one, h + v * k, &one)
                if self._slot_root[slot] > 0.0:
                    value -= vector[self._slot_row[slot]]
                change[v * q + i] = value
        if q > 0:
            dgetrs("N", &q, &n_vectors, &self._small[0], &q, &self._pivots[0], change, &q, &info)
        for v in range(n_vectors):
            for i in range(q):
                value = -change[v * q + i]
                daxpy(&k, &value, &self._columns[self._used[i], 0], &one, h + v * k, &one)
        if k > 0:
            dtrsm("L", "U", "N", "N", &k, &n_vectors, &unit, &self._matrix[0], &k, h, &k)
        for v in range(n_vectors):
            vector = vectors + <Py_ssize_t> v * self.n
            memset(vector, 0, self.n * sizeof(double))
            for i in range(k):
                j = self._active[i]
                if self._side[j] == self._factored_side[j]:
                    vector[j] = h[v * k + i]
            for i in range(q):
                if self._slot_root[self._used[i]] > 0.0:
                    vector[self._slot_row[self._used[i]]] = change[v * q + i]
