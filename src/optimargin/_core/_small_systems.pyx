"""Problems of the band loss over rows of one Gram matrix: solved, and with samples left out.

Pairs of classes are hundreds of problems of some dozen rows each, a grid is one problem at
thousands of points. All of them are solved without the interpreter, side by side in threads:
`_gram_newton` and `_leave_out` have the mathematics of one.
"""

import numpy as np

from cython.parallel cimport parallel, prange, threadid
from libc.stdlib cimport calloc, free
from scipy.linalg.cython_blas cimport dgemm

from optimargin._core._active_system cimport NOTHING, Problem, invert
from optimargin._core._gram_newton cimport newton, solve_quadratic
from optimargin._core._leave_out cimport adjoint, differentiate, fold_values, left_out

cdef double ROOM = 0.25  # share of an active set that there is room for to change
cdef double KEPT_BYTES = 1e9  # of the matrices of all problems; above, they share one
INDEFINITE = "The kernel matrix is too far from positive semi-definite."


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
