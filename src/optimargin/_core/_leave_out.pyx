"""Predictions for samples left out, and their derivatives, from the factor of a Newton solve.

With P the bordered inverse of `_gram_newton`, in samples scaled by the roots r of their
curvatures, removing the active samples B requires theta_B = 0:

    u = (P_BB)^-1 (theta_B / r_B),   theta' = theta - r P_SB u,   f_B = t_B - u / r_B.

`optimargin.held_out.closed_form` derives this and does the same for single fits. This version is
for solving thousands of problems, without the interpreter.
"""

import numpy as np

from libc.string cimport memset
from scipy.linalg.cython_blas cimport ddot, dgemm
from scipy.linalg.cython_lapack cimport dpotrf, dpotri, dpotrs, dtrtri

from optimargin._core._gram_newton cimport GramNewton

from optimargin._core._gram_newton import INDEFINITE

cdef double SINGULAR = 1e-13


cdef class FoldModels:
    """The models without a fold, as `LeaveOutNewton.leave_folds_out` found them.

    Attributes
    ----------
    coefficients : ndarray of shape (n_repeats * n_folds, n_samples)
        Kernel coefficients of each model.
    """

    cdef readonly object coefficients, fold
    cdef readonly int n_folds
    cdef long solve_number  # the solve that they belong to
    cdef const int[:, ::1] _fold
    cdef double[:, ::1] _theta, _blocks


cdef class LeaveOutNewton(GramNewton):
    """One band-loss problem that also predicts samples left out.

    Parameters
    ----------
    K, target, orientation, weight, fit_intercept
        As in `GramNewton`.
    """

    def leave_one_out(self, double[::1] out):
        """Put the decision value of every sample for the model without it into `out`."""
        cdef int i, j, k, info
        cdef double pivot
        cdef const double* row
        with nogil:
            info = self._settle()
        if info:
            raise FloatingPointError(INDEFINITE)
        self._factored = False  # the inverse overwrites the factor
        k = self.n_active
        with nogil:
            for i in range(self.n):
                out[i] = self._decision[i] + self.intercept
            if k > 0:
                dtrtri("U", "N", &k, &self._matrix[0], &k, &info)
                memset(&self._work[0], 0, k * sizeof(double))
                for j in range(k):
                    row = &self._matrix[<Py_ssize_t> j * k]
                    for i in range(j + 1):
                        self._work[i] += row[i] * row[i]
                for i in range(k):
                    pivot = self._work[i]
                    if self.fit_intercept:
                        pivot -= self._ones[i] * self._ones[i] / self.border
                    j = self._active[i]
                    # If a sample is alone in the active set, there is no model without it.
                    if pivot > SINGULAR:
                        out[j] = self._target[i] - self._theta[j] / (
                            self._root[i] * self._root[i] * pivot
                        )

    def leave_folds_out(self, const int[:, ::1] fold, int n_folds, double[:, ::1] out):
        """Put decision values for the models without a sample's fold into `out`.

        Parameters
        ----------
        fold : ndarray of shape (n_repeats, n_samples)
            The fold of each sample, from 0 to n_folds - 1, in each repeat.
        n_folds : int
        out : ndarray of shape (n_repeats, n_samples)

        Returns
        -------
        models : FoldModels
            For `fold_gradient`, until the next solve.
        """
        cdef int n_models = fold.shape[0] * n_folds, model, largest
        cdef FoldModels models = FoldModels()
        self._invert()
        models.n_folds, models.solve_number = n_folds, self.solve_number
        models.fold, models._fold = np.asarray(fold), fold
        models.coefficients = np.zeros((n_models, self.n))
        models._theta = models.coefficients
        largest = self._largest_block(fold, n_folds)
        models._blocks = np.empty((n_models, max(largest * largest, 1)))
        members = np.empty(self.n, dtype=np.intc)
        cdef int[::1] scratch = members
        with nogil:
            for model in range(n_models):
                self._leave_out(
                    &fold[model // n_folds, 0], model % n_folds, &models._theta[model, 0],
                    &models._blocks[model, 0], &scratch[0], &out[model // n_folds, 0],
                )
        return models

    cdef int _largest_block(self, const int[:, ::1] fold, int n_folds):
        cdef int repeat
        largest = 0
        for repeat in range(fold.shape[0]):
            active = np.asarray(fold[repeat])[np.asarray(self._active)[: self.n_active]]
            largest = max(largest, np.bincount(active, minlength=n_folds).max())
        return largest

    cdef void _invert(self) except *:
        """Turn the factor into the full symmetric inverse P of the bordered system."""
        cdef int i, j, k, info
        cdef double* P = &self._matrix[0]
        cdef double value
        with nogil:
            info = self._settle()
        if info:
            raise FloatingPointError(INDEFINITE)
        self._factored = False  # the inverse overwrites the factor
        k = self.n_active
        if k == 0:
            return
        with nogil:
            dpotri("U", &k, P, &k, &info)
            for i in range(k):
                for j in range(i + 1):
                    value = P[<Py_ssize_t> i * k + j]
                    if self.fit_intercept:
                        value -= self._ones[i] * self._ones[j] / self.border
                    P[<Py_ssize_t> i * k + j] = value
                    P[<Py_ssize_t> j * k + i] = value

    cdef void _leave_out(
        self, const int* fold, int left_out, double* theta, double* block, int* members, double* out
    ) noexcept nogil:
        """Decision values for the model without one fold; a block marked -1 has no model."""
        cdef int i, j, k = self.n_active, size = 0, one = 1, info = 0
        cdef double intercept = self.intercept
        cdef double* u = &self._work[0]
        cdef const double* row
        for i in range(k):
            if fold[self._active[i]] == left_out:
                members[size] = i
                u[size] = self._theta[self._active[i]] / self._root[i]
                size += 1
        block[0] = 1.0
        if size > 0:
            info = self._factor_block(block, members, size)
            if info == 0:
                dpotrs("U", &size, &one, block, &size, u, &size, &info)
        if info != 0:
            # Every active sample is in this fold: there is nothing left to learn from.
            for i in range(self.n):
                if fold[i] == left_out:
                    out[i] = intercept
            memset(theta, 0, self.n * sizeof(double))
            block[0] = -1.0
            return
        for i in range(k):
            if fold[self._active[i]] != left_out:
                row = &self._matrix[<Py_ssize_t> i * k]
                theta[self._active[i]] = self._theta[self._active[i]]
                for j in range(size):
                    theta[self._active[i]] -= self._root[i] * row[members[j]] * u[j]
        for j in range(size):
            out[self._active[members[j]]] = self._target[members[j]] - u[j] / self._root[members[j]]
            if self.fit_intercept:
                intercept -= self._ones[members[j]] * u[j] / self.border
        for i in range(self.n):
            if fold[i] == left_out and self._place[i] < 0:
                out[i] = ddot(&self.n, <double*> &self._K[i, 0], &one, theta, &one) + intercept

    cdef int _factor_block(self, double* block, const int* members, int size) noexcept nogil:
        cdef int i, j, info
        for i in range(size):
            for j in range(i + 1):
                block[i * size + j] = self._matrix[
                    <Py_ssize_t> members[i] * self.n_active + members[j]
                ]
            if not block[i * size + i] > SINGULAR:
                return 1
        dpotrf("U", &size, block, &size, &info)
        return info

    def fold_gradient(
        self, FoldModels models, const double[:, ::1] slope, const double[:, ::1] image
    ):
        """Differentiate a function of the decision values that `leave_folds_out` found.

        Parameters
        ----------
        models : FoldModels
            Of the last solve.
        slope : ndarray of shape (n_repeats, n_samples)
            The derivative of the function by each decision value.
        image : ndarray of shape (n_repeats * n_folds, n_samples)
            ``K @ s`` of each model, where s is `slope` on the samples it left out, otherwise 0.

        Returns
        -------
        gradient : ndarray of shape (3,)
            By log C1, by log C2 and by D.
        adjoint : ndarray of shape (n_repeats * n_folds, n_samples)
            The derivative by K is ``adjoint.T @ coefficients``, as a bilinear form.
        """
        if models.solve_number != self.solve_number:
            raise RuntimeError("The problem was solved again since these models were made.")
        cdef const int[:, ::1] fold = models._fold
        cdef double[:, ::1] fold_theta = models._theta, blocks = models._blocks
        cdef int n_folds = models.n_folds, k = self.n_active, model, i, size, row
        cdef int n_models = fold.shape[0] * n_folds
        cdef double alpha = 1.0, beta = 0.0, total, share, value
        cdef const int* folds
        gradient = np.zeros(3)
        adjoint = np.zeros((n_models, self.n))
        rhs = np.zeros((n_models, max(k, 1)))
        solution = np.zeros((n_models, max(k, 1)))
        members = np.empty(self.n, dtype=np.intc)
        cdef double[::1] _gradient = gradient
        cdef double[:, ::1] _adjoint = adjoint, _rhs = rhs, _solution = solution
        cdef int[::1] _members = members
        with nogil:
            for model in range(n_models):
                folds = &fold[model // n_folds, 0]
                for i in range(k):
                    row = self._active[i]
                    if folds[row] != model % n_folds:
                        _rhs[model, i] = self._root[i] * image[model, row]
            if k > 0:
                dgemm("N", "N", &k, &n_models, &k, &alpha, &self._matrix[0], &k,
                      &_rhs[0, 0], &k, &beta, &_solution[0, 0], &k)
            for model in range(n_models):
                folds = &fold[model // n_folds, 0]
                if blocks[model, 0] < 0.0:
                    continue
                total = 0.0
                size = 0
                for i in range(self.n):
                    if folds[i] == model % n_folds:
                        value = slope[model // n_folds, i]
                        total += value
                        _adjoint[model, i] = value
                        if self._place[i] >= 0:
                            _members[size] = self._place[i]
                            size += 1
                share = total / self.border if self.fit_intercept else 0.0
                self._project_out(
                    &_solution[model, 0], share, &blocks[model, 0], &_members[0], size
                )
                for i in range(k):
                    row = self._active[i]
                    if folds[row] == model % n_folds:
                        continue
                    value = self._root[i] * _solution[model, i]
                    _adjoint[model, row] = -value
                    # -d(ridge) theta, the ridge being 1 / root^2
                    total = value * fold_theta[model, row] / (self._root[i] * self._root[i])
                    _gradient[0 if self._side[row] < 0 else 1] += total
                    _gradient[2] += value * self._s[row] * self._side[row]
        return gradient, adjoint

    cdef void _project_out(
        self, double* solution, double share, double* block, const int* members, int size
    ) noexcept nogil:
        """Complete the solution of a bordered system and make it zero on the left-out fold."""
        cdef int i, j, k = self.n_active, one = 1, info
        cdef const double* row
        if share != 0.0:
            for i in range(k):
                solution[i] += share * self._ones[i]
        if size == 0:
            return
        for j in range(size):
            self._work[j] = solution[members[j]]
        dpotrs("U", &size, &one, block, &size, &self._work[0], &size, &info)
        for i in range(k):
            row = &self._matrix[<Py_ssize_t> i * k]
            for j in range(size):
                solution[i] -= row[members[j]] * self._work[j]
