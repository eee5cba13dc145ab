"""A quadratic over a box, solved many times with one matrix.

Problem    min over a   1/2 a'Qa - b'a,   0 <= a <= width

A primal active set method. On the free variables F it steps towards the minimum over the face,

    p = -(Q_FF + ridge I)^-1 g_F,   g = Qa - b,

up to the exact minimum along p or the first bound, which fixes a variable. At the minimum of a face
the variable at the bound that the gradient violates most is freed. The value never increases,
whatever the rank of Q: where Q_FF is singular the ridge makes p long, and a bound ends it. The
Cholesky factor of the face is updated when variables enter (a triangular solve) and leave (plane
rotations). It is kept for the next problem, whose solution usually differs in a few bounds.

Reference: J. Nocedal and S. J. Wright, Numerical Optimization, 2nd ed. (2006), section 16.5.
"""

import numpy as np

from libc.math cimport fabs, hypot, sqrt
from scipy.linalg.cython_blas cimport daxpy, dcopy, ddot, dtrsv

cdef double RIDGE = 1e-11  # relative to the mean diagonal
cdef int REFINEMENTS = 10  # steps on one face before it counts as solved


cdef class BoxQP:
    """Quadratics with one matrix.

    Parameters
    ----------
    Q : ndarray of shape (n, n), C-contiguous
        Symmetric and positive semi-definite.

    Attributes
    ----------
    n_steps : int
        Steps of the last solve.
    """

    cdef const double[:, ::1] _Q
    cdef double[::1] _R, _gradient, _step, _image  # _R: upper triangular, by columns
    cdef int[::1] _free
    cdef int n, n_free
    cdef double ridge
    cdef readonly int n_steps

    def __init__(self, const double[:, ::1] Q):
        cdef int i
        self._Q = Q
        self.n = n = Q.shape[0]
        self._R = np.empty(n * n)
        self._gradient, self._step, self._image = np.empty((3, n))
        self._free = np.empty(n, dtype=np.intc)
        self.n_free = 0
        self.ridge = 1e-300
        for i in range(n):
            self.ridge += RIDGE * Q[i, i] / n

    def solve(
        self,
        const double[::1] b,  # in
        const double[::1] width,  # in
        double[::1] a,  # in, out: inside the box
        double tol,
        int n_sweeps=0,
        int max_steps=20_000,
    ):
        """Minimise from `a`; return whether no gradient inside the box is above `tol`.

        Parameters
        ----------
        b, width : ndarray of shape (n,)
        a : ndarray of shape (n,)
            The start, and then the solution. Variables at a bound are fixed there at first.
        tol : float
        n_sweeps : int, default=0
            Initial sweeps of coordinate descent, for starts far from the solution.
        max_steps : int, default=20000

        Returns
        -------
        converged : bool
        """
        cdef bint converged
        with nogil:
            self._start(&b[0], &a[0])
            self._sweep(&width[0], &a[0], n_sweeps)
            self._match_free(&width[0], &a[0])
            converged = self._minimise(&width[0], &a[0], tol, max_steps)
        return converged

    cdef void _start(self, const double* b, double* a) noexcept nogil:
        """gradient = Q @ a - b"""
        cdef int i, one = 1
        for i in range(self.n):
            self._gradient[i] = -b[i]
        for i in range(self.n):
            if a[i] != 0.0:
                daxpy(&self.n, &a[i], <double*> &self._Q[i, 0], &one, &self._gradient[0], &one)

    cdef void _sweep(self, const double* width, double* a, int n_sweeps) noexcept nogil:
        cdef int i, _sweep, one = 1
        cdef double new, change
        for _sweep in range(n_sweeps):
            for i in range(self.n):
                new = a[i] - self._gradient[i] / (self._Q[i, i] + self.ridge)
                new = min(max(new, 0.0), width[i])
                change = new - a[i]
                if change != 0.0:
                    a[i] = new
                    daxpy(
                        &self.n, &change, <double*> &self._Q[i, 0], &one, &self._gradient[0], &one
                    )

    cdef bint _minimise(
        self, const double* width, double* a, double tol, int max_steps
    ) noexcept nogil:
        cdef int refined = 0, worst
        self.n_steps = 0
        while self.n_steps < max_steps:
            self.n_steps += 1
            if self.n_free and refined < REFINEMENTS and self._largest_gradient() > 0.1 * tol:
                refined += 1
                if self._step_to_bound(width, a):
                    refined = 0
                continue
            refined = 0
            worst = self._most_violated(width, a, tol)
            if worst < 0:
                return self.n_free == 0 or self._largest_gradient() <= tol
            self._insert(worst)
        return False

    cdef double _largest_gradient(self) noexcept nogil:
        """abs(gradient[free]).max()"""
        cdef int k
        cdef double largest = 0.0
        for k in range(self.n_free):
            largest = max(largest, fabs(self._gradient[self._free[k]]))
        return largest

    cdef int _most_violated(self, const double* width, double* a, double tol) noexcept nogil:
        """Return the variable at a bound whose gradient points inwards most strongly, or -1."""
        cdef int i, worst = -1
        cdef double violation, most = tol
        for i in range(self.n):
            if a[i] <= 0.0:
                violation = -self._gradient[i]
            elif a[i] >= width[i]:
                violation = self._gradient[i]
            else:
                continue
            if violation > most:
                most, worst = violation, i
        return worst

    cdef bint _step_to_bound(self, const double* width, double* a) noexcept nogil:
        """Step to the minimum over the face or the first bound; return whether it hit a bound."""
        cdef int i, k, blocking = -1, one = 1
        cdef double slope = 0.0, curvature = 0.0, length, limit
        for k in range(self.n_free):
            self._step[k] = -self._gradient[self._free[k]]
        dtrsv("U", "T", "N", &self.n_free, &self._R[0], &self.n, &self._step[0], &one)
        dtrsv("U", "N", "N", &self.n_free, &self._R[0], &self.n, &self._step[0], &one)
        for i in range(self.n):
            self._image[i] = 0.0
        for k in range(self.n_free):
            i = self._free[k]
            daxpy(&self.n, &self._step[k], <double*> &self._Q[i, 0], &one, &self._image[0], &one)
        for k in range(self.n_free):
            slope += self._step[k] * self._gradient[self._free[k]]
            curvature += self._step[k] * self._image[self._free[k]]
        length = -slope / curvature if curvature > 0.0 else 1e300
        for k in range(self.n_free):
            i = self._free[k]
            if self._step[k] == 0.0:
                continue
            limit = (-a[i] if self._step[k] < 0.0 else width[i] - a[i]) / self._step[k]
            if limit < length:
                length, blocking = limit, k
        for k in range(self.n_free):
            i = self._free[k]
            a[i] = min(max(a[i] + length * self._step[k], 0.0), width[i])
        daxpy(&self.n, &length, &self._image[0], &one, &self._gradient[0], &one)
        if blocking >= 0:
            i = self._free[blocking]
            a[i] = 0.0 if self._step[blocking] < 0.0 else width[i]
            self._remove(blocking)
        return blocking >= 0

    # ------------------------------------------------------------------ the factor

    cdef void _match_free(self, const double* width, double* a) noexcept nogil:
        """Make the variables inside the box the free ones."""
        cdef int i, k
        for k in range(self.n_free - 1, -1, -1):
            i = self._free[k]
            if a[i] <= 0.0 or a[i] >= width[i]:
                self._remove(k)
        for i in range(self.n):
            self._image[i] = 0.0
        for k in range(self.n_free):
            self._image[self._free[k]] = 1.0
        for i in range(self.n):
            if self._image[i] == 0.0 and 0.0 < a[i] < width[i]:
                self._insert(i)

    cdef void _insert(self, int i) noexcept nogil:
        """Free a variable: one more column of the factor."""
        cdef int k, one = 1
        cdef double* column = &self._R[0] + <Py_ssize_t> self.n_free * self.n
        cdef double rest = self._Q[i, i] + self.ridge
        for k in range(self.n_free):
            column[k] = self._Q[i, self._free[k]]
        dtrsv("U", "T", "N", &self.n_free, &self._R[0], &self.n, column, &one)
        rest -= ddot(&self.n_free, column, &one, column, &one)
        column[self.n_free] = sqrt(max(rest, self.ridge))
        self._free[self.n_free] = i
        self.n_free += 1

    cdef void _remove(self, int gone) noexcept nogil:
        """Fix a variable, given by its index among the free ones: rotate its column out."""
        cdef int k, j, one = 1, size
        cdef double* column
        cdef double upper, below, length
        for k in range(gone, self.n_free - 1):
            # The next column, with one entry below the diagonal, moves to this index.
            column = &self._R[0] + <Py_ssize_t> k * self.n
            size = k + 2
            dcopy(&size, column + self.n, &one, column, &one)
            for j in range(gone, k):
                # _step and _image hold the rotations so far.
                upper, below = column[j], column[j + 1]
                column[j] = self._step[j] * upper + self._image[j] * below
                column[j + 1] = self._step[j] * below - self._image[j] * upper
            upper, below = column[k], column[k + 1]
            length = hypot(upper, below)
            self._step[k], self._image[k] = upper / length, below / length
            column[k] = length
            self._free[k] = self._free[k + 1]
        self.n_free -= 1
