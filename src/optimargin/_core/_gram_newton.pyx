"""Semismooth Newton on the active set of one ODM problem, over a Gram matrix.

Problem    min over theta, b   1/2 theta' K theta + sum_i w_i l(y_i f_i),   f = K theta + b

with the ODM loss l. On its active set S (curvatures c_i = w_i l'' > 0, targets t) the optimum
solves, with A = I + C^1/2 K C^1/2 and r = c^1/2,

    theta = r * A^-1 (r * (t - b)) on S and 0 off S,   sum(theta) = 0 when b is fitted.

The solver behind a fit (`optimargin.solvers.newton`) does the same steps. This one exists for
problems solved by the thousand: it keeps its memory from one problem to the next, runs
without the interpreter, and leaves the factor of A behind for `_leave_out`. With an intercept,
A^-1 stands for the inverse bordered by r: P = A^-1 - g g' / (r'g),   g = A^-1 r.
"""

import numpy as np

from libc.math cimport fabs, sqrt
from libc.string cimport memcpy, memset
from scipy.linalg.cython_blas cimport ddot, dgemv
from scipy.linalg.cython_lapack cimport dpotrf, dpotrs

cdef double ROUNDING = 1e-15  # relative: a decrease below this is none
cdef double OBJECTIVE_FLOOR = 1e-3


cdef class GramNewton:
    """One ODM problem, its current solution and the factor of its system.

    Parameters
    ----------
    K : ndarray of shape (n_samples, n_samples), C-contiguous, symmetric
    y : ndarray of shape (n_samples,)
        -1.0 or +1.0.
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
    side : ndarray of shape (n_samples,)
        -1 for samples below the band of the loss, 1 for those above, 0 for inactive ones.
    n_iter : int
        Newton steps of the last solve; -1 when it did not converge.
    """

    def __init__(self, K, y, weight, fit_intercept):
        self.K, self.y, self.weight = K, y, weight
        self._K, self._y, self._weight = K, y, weight
        self.n = n = K.shape[0]
        self.fit_intercept = fit_intercept
        self.theta = np.zeros(n)
        self.decision = np.zeros(n)
        self._theta, self._decision = self.theta, self.decision
        self._matrix = np.empty(n * n)
        self._root, self._ones, self._target, self._work = np.empty((4, n))
        self._new_theta, self._new_decision = np.empty((2, n))
        self._active, self._place = np.zeros((2, n), dtype=np.intc)
        self.side = np.zeros(n, dtype=np.intc)
        self._side = self.side
        self.intercept = 0.0

    def reset(self):
        """Forget the solution: the next solve starts at zero."""
        self.theta[:] = 0.0
        self.decision[:] = 0.0
        self.intercept = 0.0

    def refresh(self):
        """Recompute the decision values after K was changed in place."""
        with nogil:
            self._multiply(&self._theta[0], &self._decision[0])

    def solve(self, double C1, double C2, double D, int max_iter=200):
        """Minimise from the current solution; return the number of Newton steps."""
        cdef int info
        self.C1, self.C2, self.D = C1, C2, D
        with nogil:
            info = self._solve(max_iter)
        if info:
            raise FloatingPointError("The kernel matrix is too far from positive semi-definite.")
        return self.n_iter

    cdef int _solve(self, int max_iter) noexcept nogil:
        cdef int i, info
        cdef double slope, quadratic, length, step, new_intercept
        cdef bint unchanged
        self._classify(&self._decision[0], self.intercept)
        self.objective = self._value(&self._theta[0], &self._decision[0], self.intercept)
        self.n_iter = -1
        for iteration in range(1, max_iter + 1):
            info = self._factor()
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
            length = self._line_search(slope, quadratic, new_intercept - self.intercept)
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
        cdef double margin = self._y[i] * value
        if self._weight[i] > 0.0:
            if margin < 1.0 - self.D:
                return -1
            if margin > 1.0 + self.D and self.C2 > 0.0:
                return 1
        return 0

    cdef bint _classify(self, const double* decision, double intercept) noexcept nogil:
        """Note on which side of the band each sample lies; return whether nothing changed."""
        cdef int i, side, changes = 0
        for i in range(self.n):
            side = self._side_of(i, decision[i] + intercept)
            changes += side != self._side[i]
            self._side[i] = side
        return changes == 0

    cdef int _factor(self) noexcept nogil:
        """Collect the active set and factorise A = I + C^1/2 K C^1/2 over it."""
        cdef int i, j, k = 0, info = 0
        cdef double scale, jitter = 0.0
        cdef const double* row
        cdef double* out
        for i in range(self.n):
            self._place[i] = -1
            if self._side[i] != 0:
                scale = self.C1 if self._side[i] < 0 else self.C2
                self._active[k] = i
                self._place[i] = k
                self._root[k] = sqrt(2.0 * scale * self._weight[i])
                self._target[k] = self._y[i] * (1.0 + self._side[i] * self.D)
                k += 1
        self.n_active = k
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
        return info

    cdef double _ridge(self) noexcept nogil:
        """Put the solution of the factorised system into new_theta; return its intercept."""
        cdef int i, k = self.n_active, one = 1, info
        cdef double intercept = 0.0
        memset(&self._new_theta[0], 0, self.n * sizeof(double))
        if k == 0:
            memset(&self._new_decision[0], 0, self.n * sizeof(double))
            return self.intercept
        for i in range(k):
            self._work[i] = self._root[i] * self._target[i]
            self._ones[i] = self._root[i]
        dpotrs("U", &k, &one, &self._matrix[0], &k, &self._work[0], &k, &info)
        if self.fit_intercept:
            dpotrs("U", &k, &one, &self._matrix[0], &k, &self._ones[0], &k, &info)
            self.border = ddot(&k, &self._root[0], &one, &self._ones[0], &one)
            intercept = ddot(&k, &self._root[0], &one, &self._work[0], &one) / self.border
            for i in range(k):
                self._work[i] -= intercept * self._ones[i]
        for i in range(k):
            self._new_theta[self._active[i]] = self._root[i] * self._work[i]
        self._multiply(&self._new_theta[0], &self._new_decision[0])
        return intercept

    cdef void _multiply(self, double* vector, double* out) noexcept nogil:
        cdef int n = self.n, one = 1
        cdef double alpha = 1.0, beta = 0.0
        dgemv("T", &n, &n, &alpha, <double*> &self._K[0, 0], &n, vector, &one, &beta, out, &one)

    cdef double _value(
        self, const double* theta, const double* decision, double intercept
    ) noexcept nogil:
        cdef int i
        cdef double total = 0.0, norm = 0.0, margin, distance
        for i in range(self.n):
            norm += theta[i] * decision[i]
            margin = self._y[i] * (decision[i] + intercept)
            if margin < 1.0 - self.D:
                distance = 1.0 - self.D - margin
                total += self.C1 * self._weight[i] * distance * distance
            elif margin > 1.0 + self.D:
                distance = margin - 1.0 - self.D
                total += self.C2 * self._weight[i] * distance * distance
        return 0.5 * max(norm, 0.0) + total

    cdef double _line_search(
        self, double slope, double quadratic, double intercept_step
    ) noexcept nogil:
        """Return the minimising step length in (0, 1], or 0 when nothing is left to gain.

        The derivative along the step is increasing and piecewise linear: Newton's method kept
        inside a bracket finds its zero in a few passes over the samples.
        """
        cdef double t = 1.0, low = 0.0, high = 1.0, derivative, second, start
        start = self._derivative(0.0, slope, quadratic, intercept_step, &second)
        if not start < -ROUNDING * max(self.objective, OBJECTIVE_FLOOR):
            return 0.0
        for _ in range(60):
            derivative = self._derivative(t, slope, quadratic, intercept_step, &second)
            if fabs(derivative) <= -1e-3 * start:
                break
            if derivative < 0.0:
                if t == 1.0:
                    break
                low = t
            else:
                high = t
            t -= derivative / second
            if not low < t < high:
                t = 0.5 * (low + high)
        return t

    cdef double _derivative(
        self, double t, double slope, double quadratic, double intercept_step, double* second
    ) noexcept nogil:
        cdef int i
        cdef double value, change, margin, total = slope + t * quadratic, curvature = quadratic
        for i in range(self.n):
            change = self._y[i] * (self._new_decision[i] - self._decision[i] + intercept_step)
            margin = self._y[i] * (self._decision[i] + self.intercept) + t * change
            if margin < 1.0 - self.D:
                value = 2.0 * self.C1 * self._weight[i] * change
                total += value * (margin - 1.0 + self.D)
                curvature += value * change
            elif margin > 1.0 + self.D:
                value = 2.0 * self.C2 * self._weight[i] * change
                total += value * (margin - 1.0 - self.D)
                curvature += value * change
        second[0] = curvature
        return total

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
        cdef int i, k = self.n_active, one = 1, info
        cdef double share = 0.0
        adjoint = np.zeros(self.n)
        cdef double[::1] out = adjoint
        if k == 0:
            return adjoint
        with nogil:
            for i in range(k):
                self._work[i] = self._root[i] * slope[self._active[i]]
            dpotrs("U", &k, &one, &self._matrix[0], &k, &self._work[0], &k, &info)
            if self.fit_intercept:
                share = total - ddot(&k, &self._root[0], &one, &self._work[0], &one)
                share /= self.border
            for i in range(k):
                out[self._active[i]] = self._root[i] * (self._work[i] + share * self._ones[i])
        return adjoint
