"""Semismooth Newton on the active set of one band-loss problem, over a Gram matrix.

Problem    min over theta, b   1/2 theta' K theta + sum_i w_i l(s_i (t_i - f_i)),  f = K theta + b

with the band loss l. On its active set S (curvatures c_i = w_i l'' > 0, targets t -+ s D) the
optimum solves, with A = I + C^1/2 K C^1/2 and r = c^1/2,

    theta = r * A^-1 (r * (t - b)) on S and 0 off S,   sum(theta) = 0 when b is fitted.

The solver of a fit (`optimargin.solvers.newton`) takes the same steps. This one is for solving
thousands of problems: it keeps its memory and the factor of A from one problem to the next
(`_active_system`) and runs without the interpreter. With an intercept, A^-1 is replaced by the
inverse bordered by r: P = A^-1 - g g' / (r'g),   g = A^-1 r.
"""

import numpy as np

from libc.string cimport memcpy, memset
from scipy.linalg.cython_blas cimport dgemv

from optimargin._core._active_system cimport ActiveSystem
from optimargin._core._line_search cimport optimargin_band_value, side_of_band, step_length

cdef int MAX_ITER = 200
INDEFINITE = "The kernel matrix is too far from positive semi-definite."


cdef class GramNewton(ActiveSystem):
    """One band-loss problem and its current solution.

    Parameters
    ----------
    K : ndarray of shape (n_samples, n_samples), C-contiguous, symmetric
    target, orientation : ndarray of shape (n_samples,)
        See `optimargin.targets.Target`; they may be the same array.
    weight : ndarray of shape (n_samples,)
        Samples of zero weight are never active.
    fit_intercept : bool

    Attributes
    ----------
    theta : ndarray of shape (n_samples,)
        Kernel coefficients; also the start of the next solve.
    decision : ndarray of shape (n_samples,)
        ``K @ theta``, without the intercept.
    intercept, objective : float
    n_iter : int
        Newton steps of the last solve; -1 when it did not converge.
    """

    def __init__(self, K, target, orientation, weight, fit_intercept):
        super().__init__(K, weight)
        n = K.shape[0]
        self.target, self.orientation = target, orientation
        self._t, self._s = target, orientation
        self.fit_intercept = fit_intercept
        self.theta = np.zeros(n)
        self.decision = np.zeros(n)
        self._theta, self._decision = self.theta, self.decision
        self._ones, self._target, self._work = np.empty((3, n))
        self._scale = np.zeros(n)
        self._solved = np.zeros(2 * n)
        self._new_theta, self._new_decision, self._step = np.empty((3, n))
        self.intercept = 0.0

    cdef void _reset(self) noexcept nogil:
        memset(&self._theta[0], 0, self.n * sizeof(double))
        memset(&self._decision[0], 0, self.n * sizeof(double))
        self.intercept = 0.0

    def refresh(self):
        """Recompute the decision values after K was changed in place."""
        self._factored = False
        with nogil:
            self._multiply(&self._theta[0], &self._decision[0])

    def solve(self, double C1, double C2, double D, int max_iter=MAX_ITER):
        """Minimise from the current solution; return the number of Newton steps."""
        cdef int info
        with nogil:
            info = self._solve(C1, C2, D, max_iter)
        if info:
            raise FloatingPointError(INDEFINITE)
        return self.n_iter

    def solve_path(
        self, const double[:, ::1] points, double[:, ::1] theta, double[::1] intercept
    ):
        """Minimise at one point after another, each from the last solution.

        Parameters
        ----------
        points : ndarray of shape (n_points, 3)
            C1, C2 and D.
        theta : ndarray of shape (n_points, n_samples)
            Receives the solutions.
        intercept : ndarray of shape (n_points,)
            Receives their intercepts.
        """
        cdef int p, info = 0
        with nogil:
            for p in range(points.shape[0]):
                info = self._solve(points[p, 0], points[p, 1], points[p, 2], MAX_ITER)
                if info:
                    break
                memcpy(&theta[p, 0], &self._theta[0], self.n * sizeof(double))
                intercept[p] = self.intercept
        if info:
            raise FloatingPointError(INDEFINITE)

    cdef int _solve(self, double C1, double C2, double D, int max_iter) noexcept nogil:
        cdef int info
        self.solve_number += 1
        self.C1, self.C2, self.D = C1, C2, D
        info = self._iterate(max_iter)
        if info == 0 and self.n_iter < 0:
            # On ill-conditioned data, Newton's method may not end from a start far away.
            self._reset()
            info = self._iterate(max_iter)
        return info

    cdef int _iterate(self, int max_iter) noexcept nogil:
        cdef int i, info
        cdef double slope, quadratic, length, step, new_intercept
        cdef bint unchanged
        self._classify(&self._decision[0], self.intercept)
        self.objective = self._value(&self._theta[0], &self._decision[0], self.intercept)
        self.n_iter = -1
        for iteration in range(1, max_iter + 1):
            info = self._follow()
            if info:
                return info
            new_intercept = self._ridge()
            # Along the step: derivative at 0 and constant curvature of the quadratic part.
            slope = 0.0
            quadratic = 0.0
            for i in range(self.n):
                step = self._new_theta[i] - self._theta[i]
                slope += step * self._decision[i]
                quadratic += step * (self._new_decision[i] - self._decision[i])
                self._step[i] = self._new_decision[i] - self._decision[i]
            length = step_length(
                &self._decision[0], self.intercept, &self._step[0], new_intercept - self.intercept,
                &self._t[0], &self._s[0], &self._weight[0], self.n,
                self.C1, self.C2, self.D, slope, quadratic, self.objective,
            )
            if length == 0.0:
                # The objective is at its minimum up to rounding. Its square root, the distance
                # to the solution, may not be: the ridge solution is closer, if it is one.
                if self._same_sides(new_intercept):
                    self._accept(new_intercept)
                self.n_iter = iteration
                return 0
            if length == 1.0:
                self._accept(new_intercept)
            else:
                for i in range(self.n):
                    self._theta[i] += length * (self._new_theta[i] - self._theta[i])
                    self._decision[i] += length * (self._new_decision[i] - self._decision[i])
                self.intercept += length * (new_intercept - self.intercept)
            unchanged = self._classify(&self._decision[0], self.intercept)
            self.objective = self._value(&self._theta[0], &self._decision[0], self.intercept)
            if unchanged and length == 1.0:
                self.n_iter = iteration
                return 0
        return 0

    cdef void _accept(self, double new_intercept) noexcept nogil:
        memcpy(&self._theta[0], &self._new_theta[0], self.n * sizeof(double))
        memcpy(&self._decision[0], &self._new_decision[0], self.n * sizeof(double))
        self.intercept = new_intercept

    cdef bint _same_sides(self, double new_intercept) noexcept nogil:
        cdef int i
        for i in range(self.n):
            if self._side_of(i, self._new_decision[i] + new_intercept) != self._side[i]:
                return False
        return True

    cdef int _side_of(self, int i, double value) noexcept nogil:
        return side_of_band(
            self._s[i] * (self._t[i] - value), self._weight[i], self.C2, self.D
        )

    cdef bint _classify(self, const double* decision, double intercept) noexcept nogil:
        """Store the side of the band of each sample; return whether nothing changed."""
        cdef int i, side, changes = 0
        for i in range(self.n):
            side = self._side_of(i, decision[i] + intercept)
            changes += side != self._side[i]
            self._side[i] = side
        return changes == 0

    cdef double _ridge(self) noexcept nogil:
        """Put the ridge solution on the active set into new_theta; return its intercept."""
        cdef int i, n_vectors = 2 if self.fit_intercept else 1, n_active = 0
        cdef double intercept = 0.0
        cdef double* solved = &self._solved[0]
        cdef double* ones = solved + self.n
        for i in range(self.n):
            self._scale[i] = 0.0
            if self._side[i] != 0:
                n_active += 1
                self._scale[i] = self._root_of(i, self._side[i])
            ones[i] = self._scale[i]
            solved[i] = self._scale[i] * self._aim(i)
        if n_active == 0:
            memset(&self._new_theta[0], 0, self.n * sizeof(double))
            memset(&self._new_decision[0], 0, self.n * sizeof(double))
            return self.intercept
        self._solve_system(solved, n_vectors)
        if self.fit_intercept:
            self.border = 0.0
            for i in range(self.n):
                self.border += self._scale[i] * ones[i]
                intercept += self._scale[i] * solved[i]
            intercept /= self.border
            for i in range(self.n):
                solved[i] -= intercept * ones[i]
        for i in range(self.n):
            self._new_theta[i] = self._scale[i] * solved[i]
        self._multiply(&self._new_theta[0], &self._new_decision[0])
        return intercept

    cdef int _settle(self) noexcept nogil:
        """Factorise the active set itself, for uses that need more than solutions."""
        cdef int i, row, info
        cdef bint same = self._factored
        for i in range(self.n):
            same = same and self._side[i] == self._factored_side[i]
        if not same:
            info = self._factor()
            if info:
                return info
            self._ridge()
        for i in range(self.n_active):
            row = self._active[i]
            self._ones[i] = self._solved[self.n + row]
            self._target[i] = self._aim(row)
        return 0

    cdef void _multiply(self, double* vector, double* out) noexcept nogil:
        cdef int n = self.n, one = 1
        cdef double alpha = 1.0, beta = 0.0
        dgemv("T", &n, &n, &alpha, <double*> &self._K[0, 0], &n, vector, &one, &beta, out, &one)

    cdef double _value(
        self, const double* theta, const double* decision, double intercept
    ) noexcept nogil:
        cdef int i
        cdef double norm = 0.0
        for i in range(self.n):
            norm += theta[i] * decision[i]
        return 0.5 * max(norm, 0.0) + optimargin_band_value(
            decision, intercept, &self._t[0], &self._s[0], &self._weight[0],
            self.C1, self.C2, self.D, self.n,
        )

    cdef double _aim(self, int i) noexcept nogil:
        """Return the edge of the band towards which the decision value of sample i is pulled."""
        return self._t[i] + self._s[i] * self._side[i] * self.D

    def adjoint(self, const double[::1] slope, double total):
        """Solve the bordered system of the last solve for another right-hand side.

        Parameters
        ----------
        slope : ndarray of shape (n_samples,)
            The derivative of a function by theta; used on the active set.
        total : float
            Its derivative by the intercept.

        Returns
        -------
        adjoint : ndarray of shape (n_samples,)
            The derivative by the targets t, zero off the active set.
        """
        cdef int i
        cdef double share = 0.0
        adjoint = np.empty(self.n)
        cdef double[::1] out = adjoint
        with nogil:
            for i in range(self.n):
                out[i] = self._scale[i] * slope[i]
            self._solve_system(&out[0], 1)
            if self.fit_intercept and self.border > 0.0:
                share = total
                for i in range(self.n):
                    share -= self._scale[i] * out[i]
                share /= self.border
            for i in range(self.n):
                out[i] = self._scale[i] * out[i]
                if self.fit_intercept:
                    out[i] += self._scale[i] * share * self._solved[self.n + i]
        return adjoint
