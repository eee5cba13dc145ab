"""Semismooth Newton for one band-loss problem after another, over few features.

Problem    min over w   1/2 |w_F|^2 + sum_i w_i l(s_i (t_i - x_i'w)),   F the penalised coefficients

with the band loss l of curvature 2 C1 below its band and 2 C2 above. The Newton matrix is

    I_F + 2 C1 G_below + 2 C2 G_above,   G = sum of w_i x_i x_i' over the samples on that side,

so neighbouring points of a grid, whatever their C1, C2 and D, differ only in the few samples that
changed sides. The solver of a fit (`optimargin.solvers.newton`) takes the same steps. This one is
for solving thousands of problems, and runs without the interpreter.
"""

import numpy as np

from libc.string cimport memcpy, memset
from scipy.linalg.cython_blas cimport ddot, dgemv, dsyr
from scipy.linalg.cython_lapack cimport dpotrf, dpotrs

from optimargin._core._line_search cimport optimargin_band_evaluate, side_of_band, step_length

cdef int MAX_ITER = 200
cdef double SETTLED = 1e-20  # relative gap at which a final active set needs no further step
cdef double AT_A_KINK = 1e-12  # relative gap that suffices if the last step would cross a kink


cdef class FeatureNewton:
    """One band-loss problem and its current solution.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_coef), C-contiguous
        With an intercept, its last column is 1.
    target, orientation : ndarray of shape (n_samples,)
        See `optimargin.targets.Target`; they may be the same array.
    weight : ndarray of shape (n_samples,)
    fit_intercept : bool
        Whether the last coefficient is not penalised.

    Attributes
    ----------
    coef : ndarray of shape (n_coef,)
        The solution, and the start of the next solve.
    objective : float
    """

    cdef readonly object coef
    cdef readonly double objective
    cdef int n, d, n_penalised, n_updates
    cdef double C1, C2, D
    cdef const double[:, ::1] _X
    cdef const double[::1] _t, _s, _weight
    cdef double[::1] _coef, _decision, _moved, _curvature, _pull, _gradient, _step
    cdef double[:, ::1] _below, _above, _hessian
    cdef signed char[::1] _side

    def __init__(self, X, target, orientation, weight, fit_intercept):
        self._X, self._t, self._s, self._weight = X, target, orientation, weight
        self.n, self.d = X.shape
        self.n_penalised = self.d - bool(fit_intercept)
        self.coef = np.zeros(self.d)
        self._coef = self.coef
        self._decision, self._moved, self._curvature, self._pull = np.empty((4, self.n))
        self._gradient, self._step = np.empty((2, self.d))
        self._below, self._above, self._hessian = np.zeros((3, self.d, self.d))
        self._side = np.zeros(self.n, dtype=np.int8)

    def solve(self, double C1, double C2, double D):
        """Minimise from the current solution; return whether a minimum was reached."""
        cdef bint converged
        with nogil:
            converged = self._solve(C1, C2, D)
        return converged

    def solve_path(self, const double[:, ::1] points, double[:, ::1] coef):
        """Minimise at one point after another, each from the last solution.

        Parameters
        ----------
        points : ndarray of shape (n_points, 3)
            C1, C2 and D.
        coef : ndarray of shape (n_points, n_coef)
            Receives the solutions.

        Returns
        -------
        converged : ndarray of shape (n_points,), dtype bool
        """
        cdef Py_ssize_t p
        converged = np.empty(points.shape[0], dtype=np.uint8)
        cdef unsigned char[::1] _converged = converged
        with nogil:
            for p in range(points.shape[0]):
                _converged[p] = self._solve(points[p, 0], points[p, 1], points[p, 2])
                memcpy(&coef[p, 0], &self._coef[0], self.d * sizeof(double))
        return converged.astype(bool)

    cdef bint _solve(self, double C1, double C2, double D) noexcept nogil:
        self.C1, self.C2, self.D = C1, C2, D
        if self._iterate():
            return True
        # On ill-conditioned data, Newton's method may not end from a start far away.
        memset(&self._coef[0], 0, self.d * sizeof(double))
        self._forget_sides()
        if self._iterate():
            return True
        memset(&self._coef[0], 0, self.d * sizeof(double))
        self._forget_sides()
        return False

    cdef bint _iterate(self) noexcept nogil:
        cdef int i, j, n_unchanged = 0
        cdef double length = 0.0, linear, quadratic, square, gap
        self._multiply(&self._coef[0], &self._decision[0])
        for _ in range(MAX_ITER):
            square = self._evaluate()
            n_unchanged = n_unchanged + 1 if self._update_sides() == 0 and length == 1.0 else 0
            gap = 0.5 * square / max(self.objective, 1e-3)
            if n_unchanged == 2 or (n_unchanged == 1 and gap <= SETTLED):
                return gap <= SETTLED  # otherwise rounding made the matrices unusable
            if self._direction() != 0:
                return False
            self._multiply(&self._step[0], &self._moved[0])
            linear = quadratic = 0.0
            for j in range(self.n_penalised):
                linear += self._coef[j] * self._step[j]
                quadratic += self._step[j] * self._step[j]
            length = step_length(
                &self._decision[0], 0.0, &self._moved[0], 0.0,
                &self._t[0], &self._s[0], &self._weight[0], self.n,
                self.C1, self.C2, self.D, linear, quadratic, self.objective,
            )
            if length == 0.0:
                # The objective is at its minimum up to rounding. Its square root, the distance
                # to the solution, may not be: a step on the final active set still helps.
                if not self._keeps_sides():
                    return gap <= AT_A_KINK
                length = 1.0
            for j in range(self.d):
                self._coef[j] += length * self._step[j]
            for i in range(self.n):
                self._decision[i] += length * self._moved[i]
        return False

    cdef bint _keeps_sides(self) noexcept nogil:
        """Return whether a full step leaves every sample on its side of the band."""
        cdef int i
        for i in range(self.n):
            if self._side_of(i, self._decision[i] + self._moved[i]) != self._side[i]:
                return False
        return True

    cdef signed char _side_of(self, int i, double value) noexcept nogil:
        return side_of_band(
            self._s[i] * (self._t[i] - value), self._weight[i], self.C2, self.D
        )

    cdef double _evaluate(self) noexcept nogil:
        """Compute objective and gradient; return the gradient's square."""
        cdef int j, one = 1
        cdef double minus = -1.0, zero = 0.0, norm = 0.0, square = 0.0
        self.objective = optimargin_band_evaluate(
            &self._decision[0], 0.0, &self._t[0], &self._s[0], &self._weight[0],
            self.C1, self.C2, self.D, &self._pull[0], &self._curvature[0], self.n,
        )
        dgemv("N", &self.d, &self.n, &minus, <double*> &self._X[0, 0], &self.d, &self._pull[0],
              &one, &zero, &self._gradient[0], &one)
        for j in range(self.n_penalised):
            norm += self._coef[j] * self._coef[j]
            self._gradient[j] += self._coef[j]
        for j in range(self.d):
            square += self._gradient[j] * self._gradient[j]
        self.objective += 0.5 * norm
        return square

    cdef int _update_sides(self) noexcept nogil:
        """Update the scatter matrices; return the number of samples that changed."""
        cdef int i, n_changes = 0
        cdef signed char side
        if self.n_updates > 2 * self.n:  # limits the accumulated rounding of updates
            self._forget_sides()
        for i in range(self.n):
            side = self._side_of(i, self._decision[i])
            if side != self._side[i]:
                n_changes += 1
                self._add(i, self._side[i], -self._weight[i])
                self._add(i, side, self._weight[i])
                self._side[i] = side
        self.n_updates += n_changes
        return n_changes

    cdef void _forget_sides(self) noexcept nogil:
        self.n_updates = 0
        memset(&self._side[0], 0, self.n)
        memset(&self._below[0, 0], 0, <size_t> self.d * self.d * sizeof(double))
        memset(&self._above[0, 0], 0, <size_t> self.d * self.d * sizeof(double))

    cdef void _add(self, int i, signed char side, double weight) noexcept nogil:
        cdef int one = 1
        cdef double* matrix = &self._below[0, 0] if side < 0 else &self._above[0, 0]
        if side != 0:
            dsyr("U", &self.d, &weight, <double*> &self._X[i, 0], &one, matrix, &self.d)

    cdef int _direction(self) noexcept nogil:
        """Put Newton's step into `_step`; return 0 unless rounding made its matrix singular."""
        cdef int i, j, one = 1, info = 0
        cdef double low = 2.0 * self.C1, high = 2.0 * self.C2
        for i in range(self.d):
            self._step[i] = -self._gradient[i]
            for j in range(i + 1):
                self._hessian[i, j] = low * self._below[i, j] + high * self._above[i, j]
            if i < self.n_penalised:
                self._hessian[i, i] += 1.0
            elif self._hessian[i, i] == 0.0:
                self._hessian[i, i] = 1.0  # no sample is active: the intercept stays
        dpotrf("U", &self.d, &self._hessian[0, 0], &self.d, &info)
        if info == 0:
            dpotrs("U", &self.d, &one, &self._hessian[0, 0], &self.d, &self._step[0], &self.d,
                   &info)
        return info

    cdef void _multiply(self, const double* vector, double* out) noexcept nogil:
        """Put ``X @ vector`` into `out`."""
        cdef int i, one = 1
        for i in range(self.n):
            out[i] = ddot(&self.d, <double*> &self._X[i, 0], &one, <double*> vector, &one)
