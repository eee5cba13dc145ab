"""Quadratic problems side by side, each over some of the rows of one Gram matrix.

`optimargin.held_out.quadratic` has the mathematics: P is the bordered inverse of a problem,

    theta = P t,   u = (P_BB)^-1 theta_B,   f_B = t_B - u

are the decision values of the samples B by the model without them, and with slopes s by these
values and g = (P_BB)^-1 s_B the derivative by the kernel is the outer product of P_:B g and
theta - P_:B u. This version is for pairs of classes, hundreds of problems of some dozen rows each,
without the interpreter. Inverses of all pairs of classes of one size take two Gram matrices.
"""

import numpy as np

from cython.parallel cimport parallel, prange, threadid
from libc.string cimport memset
from scipy.linalg.cython_blas cimport daxpy, dgemm, dgemv
from scipy.linalg.cython_lapack cimport dpotrf, dpotri, dpotrs

cdef double SINGULAR = 1e-13  # of a pivot that is at most one


cdef class QuadraticRows:
    """Problems of one quadratic loss.

    Parameters
    ----------
    n_samples : int
        Of the Gram matrix.
    owns : list of ndarray of shape (n_rows,), dtype intp
        The rows of each problem, in increasing order.
    values, orientations, weights : list of ndarray of shape (n_rows,)
        Of the target of each problem, weights being positive.
    fit_intercept : bool

    Attributes
    ----------
    theta, pivot, ridge : ndarray
        Coefficients, the diagonal of the inverses, and what is added to that of the Gram matrix,
        of all problems one after the other.
    intercept, objective : ndarray of shape (n_problems,)
    """

    cdef readonly object theta, pivot, ridge, intercept, objective
    cdef Py_ssize_t n_samples, n_problems, most_rows
    cdef bint fit_intercept
    cdef Py_ssize_t[::1] _start, _square, _rows, _first_place, _place_problem, _place_row
    cdef const double[::1] _value, _orientation, _weight
    cdef double[::1] _ridge, _theta, _pivot, _at_intercept, _intercept, _objective, _inverse
    cdef double[::1] _slopes

    def __init__(self, n_samples, owns, values, orientations, weights, fit_intercept):
        sizes = np.array([own.size for own in owns], dtype=np.intp)
        self.n_samples, self.n_problems = n_samples, sizes.size
        self.most_rows, self.fit_intercept = sizes.max(), fit_intercept
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        square = np.concatenate([[0], np.cumsum(sizes**2)]).astype(np.intp)
        rows = np.concatenate(owns).astype(np.intp)
        self._start, self._square, self._rows = start, square, rows
        self._value, self._orientation, self._weight = (
            np.concatenate(each).astype(np.float64) for each in (values, orientations, weights)
        )
        # Where each sample of the Gram matrix is.
        order = np.argsort(rows, kind="stable")
        self._first_place = np.searchsorted(rows[order], np.arange(n_samples + 1)).astype(np.intp)
        problem = np.repeat(np.arange(sizes.size), sizes)
        self._place_problem = problem[order].astype(np.intp)
        self._place_row = (np.arange(rows.size) - start[problem])[order].astype(np.intp)
        self.theta, self.pivot, self.ridge = np.empty((3, rows.size))
        self.intercept, self.objective = np.empty(sizes.size), np.empty(sizes.size)
        self._theta, self._pivot, self._ridge = self.theta, self.pivot, self.ridge
        self._intercept, self._objective = self.intercept, self.objective
        self._at_intercept = np.zeros(rows.size)
        self._inverse = np.empty(square[-1])
        self._slopes = np.empty(0)

    def solve(self, const double[:, ::1] K, double penalty, int n_threads):
        """Return whether all problems were solved: a matrix may be indefinite by rounding."""
        cdef Py_ssize_t k
        cdef int failed = 0
        for k in prange(
            self.n_problems, nogil=True, schedule="dynamic", num_threads=n_threads
        ):
            failed += self._solve(k, K, penalty)
        return failed == 0

    cdef int _solve(self, Py_ssize_t k, const double[:, ::1] K, double penalty) noexcept nogil:
        cdef Py_ssize_t first = self._start[k], i, j
        cdef int n = <int> (self._start[k + 1] - first), info = 0, one = 1
        cdef double* P = &self._inverse[self._square[k]]
        cdef double* at_intercept = &self._at_intercept[first]
        cdef double* theta = &self._theta[first]
        cdef const double* row
        cdef double total, border = 0.0, unity = 1.0, nothing = 0.0
        self._intercept[k] = self._objective[k] = 0.0
        if n == 0:
            return 0
        for i in range(n):
            row = &K[self._rows[first + i], 0]
            for j in range(i + 1):
                P[i * n + j] = row[self._rows[first + j]]
            self._ridge[first + i] = 1.0 / (2.0 * penalty * self._weight[first + i])
            P[i * n + i] += self._ridge[first + i]
        dpotrf("U", &n, P, &n, &info)
        if info == 0:
            dpotri("U", &n, P, &n, &info)
        if info != 0:
            return 1
        for i in range(n):
            for j in range(i):
                P[j * n + i] = P[i * n + j]
        if self.fit_intercept:
            for i in range(n):
                total = 0.0
                for j in range(n):
                    total += P[i * n + j]
                at_intercept[i] = total
                border += total
            for i in range(n):
                total = at_intercept[i] / border
                for j in range(n):
                    P[i * n + j] -= total * at_intercept[j]
            for i in range(n):
                at_intercept[i] /= border
        dgemv("N", &n, &n, &unity, P, &n, <double*> &self._value[first], &one, &nothing, theta,
              &one)
        total = 0.0
        for i in range(n):
            total += at_intercept[i] * self._value[first + i]
            self._pivot[first + i] = P[i * n + i]
        self._intercept[k] = total
        for i in range(n):  # theta' (K + ridge) theta / 2
            self._objective[k] += 0.5 * theta[i] * (self._value[first + i] - total)
        return 0

    cdef int _largest_fold(self, const int[:, ::1] fold, int n_folds):
        """Return the largest number of samples of a problem in one fold."""
        cdef Py_ssize_t k, i, repeat
        cdef int largest = 1
        cdef int[::1] count = np.zeros(n_folds, dtype=np.intc)
        for k in range(self.n_problems):
            for repeat in range(fold.shape[0]):
                count[:] = 0
                for i in range(self._start[k], self._start[k + 1]):
                    count[fold[repeat, self._rows[i]]] += 1
                for i in range(n_folds):
                    largest = max(largest, count[i])
        return largest

    cdef int _fold(
        self, Py_ssize_t k, const int* fold, int left_out, int* members, double* block, double* u
    ) noexcept nogil:
        """Find the samples of a fold, factorise its block and solve for u.

        Returns the number of samples, or -1 where there is no model without them.
        """
        cdef Py_ssize_t first = self._start[k], i, j
        cdef int n = <int> (self._start[k + 1] - first), size = 0, info = 0, one = 1
        cdef const double* P = &self._inverse[self._square[k]]
        for i in range(n):
            if fold[self._rows[first + i]] == left_out:
                members[size] = <int> i
                u[size] = self._theta[first + i]
                size += 1
        if size == 0:
            return 0
        if size == n:
            return -1
        for i in range(size):
            for j in range(i + 1):
                block[i * size + j] = P[<Py_ssize_t> members[i] * n + members[j]]
            if not block[i * size + i] * self._ridge[first + members[i]] > SINGULAR:
                return -1
        dpotrf("U", &size, block, &size, &info)
        if info != 0:
            return -1
        dpotrs("U", &size, &one, block, &size, u, &size, &info)
        return size

    def leave_folds_out(
        self, const int[:, ::1] fold, int n_folds, double[:, :, ::1] out, int n_threads
    ):
        """Put decision values for the models without a sample's fold into `out`.

        Parameters
        ----------
        fold : ndarray of shape (n_repeats, n_samples)
            The fold of each sample, from 0 to n_folds - 1, in each repeat.
        n_folds : int
        out : ndarray of shape (n_repeats, n_samples, n_problems)
            Changed where a sample is one of the problem's.
        n_threads : int
        """
        cdef Py_ssize_t k
        cdef int t, largest = self._largest_fold(fold, n_folds)
        cdef double[:, ::1] work = np.empty((n_threads, largest * (largest + 1)))
        cdef int[:, ::1] members = np.empty((n_threads, largest), dtype=np.intc)
        with nogil, parallel(num_threads=n_threads):
            t = threadid()
            for k in prange(self.n_problems, schedule="dynamic"):
                self._leave_out(k, fold, n_folds, out, &members[t, 0], &work[t, 0], largest)

    cdef void _leave_out(
        self, Py_ssize_t k, const int[:, ::1] fold, int n_folds, double[:, :, ::1] out,
        int* members, double* work, int largest,
    ) noexcept nogil:
        cdef Py_ssize_t first = self._start[k], i, repeat
        cdef int left_out, size, j
        cdef double* u = work
        for repeat in range(fold.shape[0]):
            for left_out in range(n_folds):
                size = self._fold(k, &fold[repeat, 0], left_out, members, work + largest, u)
                for j in range(size):
                    i = first + members[j]
                    out[repeat, self._rows[i], k] = self._value[i] - u[j]
                if size < 0:  # nothing is left to learn from
                    for i in range(first, self._start[k + 1]):
                        if fold[repeat, self._rows[i]] == left_out:
                            out[repeat, self._rows[i], k] = self._intercept[k]

    def fold_gradient(
        self, const int[:, ::1] fold, int n_folds, const double[:, :, ::1] slope, int n_threads
    ):
        """Differentiate a function of the decision values that `leave_folds_out` found.

        Parameters
        ----------
        fold, n_folds, n_threads
            As in `leave_folds_out`.
        slope : ndarray of shape (n_repeats, n_samples, n_problems)
            The derivative of the function by each decision value.

        Returns
        -------
        by_loss : ndarray of shape (3,)
            By log C1, by log C2 and by D.
        by_kernel : ndarray of shape (n_samples, n_samples)
            As a bilinear form: it need not be symmetric.
        """
        cdef Py_ssize_t k, i, place
        cdef int t, largest = self._largest_fold(fold, n_folds)
        cdef Py_ssize_t n_models = fold.shape[0] * n_folds
        by_problem = np.zeros((self.n_problems, 3))
        by_kernel = np.zeros((self.n_samples, self.n_samples))
        cdef double[:, ::1] by_loss = by_problem, G = by_kernel
        cdef double[:, ::1] work = np.empty((n_threads, largest * (largest + 2)))
        cdef double[:, ::1] both = np.empty((n_threads, 2 * n_models * self.most_rows))
        cdef int[:, ::1] members = np.empty((n_threads, largest), dtype=np.intc)
        if self._slopes.shape[0] == 0:
            self._slopes = np.empty(self._inverse.shape[0])
        with nogil, parallel(num_threads=n_threads):
            t = threadid()
            for k in prange(self.n_problems, schedule="dynamic"):
                self._differentiate(
                    k, fold, n_folds, slope, &members[t, 0], &work[t, 0], largest, &both[t, 0],
                    &by_loss[k, 0],
                )
            for i in prange(self.n_samples, schedule="static"):
                for place in range(self._first_place[i], self._first_place[i + 1]):
                    self._collect(self._place_problem[place], self._place_row[place], &G[i, 0])
        return by_problem.sum(axis=0), by_kernel

    cdef void _differentiate(
        self, Py_ssize_t k, const int[:, ::1] fold, int n_folds, const double[:, :, ::1] slope,
        int* members, double* work, int largest, double* both, double* by_loss,
    ) noexcept nogil:
        """Put the derivative by the kernel values of one problem where there is room for it."""
        cdef Py_ssize_t first = self._start[k], i, repeat, model
        cdef int n = <int> (self._start[k + 1] - first), n_models = <int> fold.shape[0] * n_folds
        cdef int left_out, size, j, one = 1, info = 0
        cdef double* u = work
        cdef double* g = work + largest
        cdef double* left
        cdef double* coef
        cdef double* theta = &self._theta[first]
        cdef double* P = &self._inverse[self._square[k]]
        cdef double minus, unity = 1.0, nothing = 0.0, value, sign
        if n == 0:
            return
        memset(both, 0, 2 * <Py_ssize_t> n_models * n * sizeof(double))
        for model in range(n_models):
            repeat, left_out = model // n_folds, <int> (model % n_folds)
            left, coef = both + model * n, both + (n_models + model) * n
            size = self._fold(k, &fold[repeat, 0], left_out, members, work + 2 * largest, u)
            if size <= 0:
                continue
            for j in range(size):
                g[j] = slope[repeat, self._rows[first + members[j]], k]
            dpotrs("U", &size, &one, work + 2 * largest, &size, g, &size, &info)
            for i in range(n):
                coef[i] = theta[i]
            for j in range(size):
                minus = -u[j]
                daxpy(&n, &g[j], P + <Py_ssize_t> members[j] * n, &one, left, &one)
                daxpy(&n, &minus, P + <Py_ssize_t> members[j] * n, &one, coef, &one)
            for i in range(n):
                if fold[repeat, self._rows[first + i]] == left_out:
                    continue  # ridges and values of the fold itself do not matter
                value = -left[i] * coef[i] * self._ridge[first + i]
                sign = self._orientation[first + i]
                if sign * theta[i] > 0:
                    by_loss[0] += value
                    by_loss[2] += left[i] * sign
                else:
                    by_loss[1] += value
                    by_loss[2] -= left[i] * sign
        dgemm("N", "T", &n, &n, &n_models, &unity, both + <Py_ssize_t> n_models * n, &n, both, &n,
              &nothing, &self._slopes[self._square[k]], &n)

    cdef void _collect(self, Py_ssize_t k, Py_ssize_t row, double* out) noexcept nogil:
        cdef Py_ssize_t first = self._start[k], n = self._start[k + 1] - first, j
        cdef const double* slopes = &self._slopes[self._square[k] + row * n]
        for j in range(n):
            out[self._rows[first + j]] += slopes[j]
