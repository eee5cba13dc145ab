"""Problems of the band loss over rows of one Gram matrix: solved, and with samples left out.

Problem    min over theta, b   1/2 theta' K theta + sum_i w_i l(s_i (t_i - f_i)),  f = K theta + b

Pairs of classes are hundreds of problems of some dozen rows each, a grid is one problem at
thousands of points. All of them are solved without the interpreter, side by side in threads, by
semismooth Newton steps. With the aims a = t -+ s D of the active set S, a step solves

    theta = r * A^-1 (r * (a - b)) on S and 0 off S,   sum(theta) = 0 when b is fitted.

Memory and the factor of A are kept from one solve to the next; `_active_system` has that system,
and how it leaves samples out. The solver of a fit (`optimargin.solvers.newton`) takes the same
steps. A loss of C1 = C2 without a band is quadratic: all samples are active, and several outputs
share one factor.
"""

import numpy as np

from cython.parallel cimport prange, threadid
from libc.string cimport memcpy, memset
from scipy.linalg.cython_blas cimport ddot, dgemm, dgemv

from optimargin._core._active_system cimport (
    NOTHING, Answer, Given, Problem, Request, Vector, adjoint, follow, leave_each_out,
    leave_folds_out, solve_system,
)
from optimargin._core._line_search cimport optimargin_band_evaluate, step_length

cdef double KEPT_BYTES = 1e9  # of the matrices of all problems; above, they share one
cdef int MAX_ITER = 200  # Newton steps


cdef void multiply(Problem* p, Vector vector, Vector out) noexcept nogil:
    cdef int one = 1
    cdef double alpha = 1.0, beta = 0.0
    dgemv("T", &p.n, &p.n, &alpha, <double*> p.K, &p.n, vector, &one, &beta, out, &one)


cdef void gather_values(Problem* p) noexcept nogil:
    """Copy the kernel values of the problem's own rows, where these are not all samples.

    They are symmetric, and rows lie far apart in memory: one half is read.
    """
    cdef Py_ssize_t i, j, n = p.n
    cdef const Py_ssize_t* rows = p.rows
    cdef Vector own = p.own_values
    cdef Given row
    p.K = p.all_values if own == NULL else own
    for i in range(n if own != NULL else 0):
        row = p.all_values + rows[i] * p.n_all
        for j in range(i, n):
            own[i * n + j] = own[j * n + i] = row[rows[j]]


cdef bint evaluate(Problem* p, Given decision, double intercept, bint keep) noexcept nogil:
    """Return whether curvatures and aims are as before; keep them and the objective, or not."""
    cdef int i, one = 1
    cdef bint unchanged = True
    cdef double aim
    cdef Vector pull = p.solved
    cdef Vector curvature = p.solved + p.n
    cdef double total = optimargin_band_evaluate(
        decision, intercept, p.target, p.orientation, p.weight, p.C1, p.C2, p.D, pull, curvature,
        p.n,
    )
    for i in range(p.n):
        aim = p.target[i] - (p.D if pull[i] > 0.0 else -p.D if pull[i] < 0.0 else 0.0)
        unchanged &= aim == p.aim[i] and curvature[i] == p.curvature[i]
        if keep:
            p.aim[i], p.curvature[i] = aim, curvature[i]
    if keep:
        p.objective[0] = total + 0.5 * max(ddot(&p.n, p.theta, &one, p.decision, &one), 0.0)
    return unchanged


cdef int solve_quadratic(Problem* p) noexcept nogil:
    """Solve for all outputs at once."""
    cdef int i, o
    cdef Py_ssize_t at
    cdef double total
    for i in range(p.n):
        p.curvature[i] = 2.0 * p.C1 * p.weight[i]
    if follow(p):
        return 1
    memcpy(p.aim, p.target, <size_t> p.n_outputs * p.n * sizeof(double))
    solve_system(p, p.n_outputs, p.aim, NULL, p.theta, p.intercept)
    for o in range(p.n_outputs):
        total = 0.0
        for i in range(p.n):
            at = o * p.n + i
            total += p.theta[at] * (p.aim[at] - p.intercept[o])  # theta' (K + 1 / c) theta
            p.decision[at] = p.aim[at] - p.intercept[o] - p.theta[at] / p.curvature[i]
        p.objective[o] = 0.5 * total
    return 0


cdef int minimise(Problem* p, const Request* asked, int thread) noexcept nogil:
    """Solve a problem, from its current solution; return 0 on success."""
    cdef int info
    if p.is_quadratic:
        return solve_quadratic(p)
    if p.state == NOTHING:  # kernel values may have changed
        multiply(p, p.theta, p.decision)
    info = iterate(p)
    if info < 0:
        # On ill-conditioned data, Newton's method may not end from a start far away.
        memset(p.theta, 0, p.n * sizeof(double))
        memset(p.decision, 0, p.n * sizeof(double))
        p.intercept[0] = 0.0
        info = iterate(p)
    return info > 0


cdef int iterate(Problem* p) noexcept nogil:
    """Take Newton steps; return 0 at the minimum, -1 if it was not reached, 1 on failure."""
    cdef int i
    cdef double slope, quadratic, length, step, intercept
    cdef bint is_last, unchanged
    evaluate(p, p.decision, p.intercept[0], True)
    for _ in range(MAX_ITER):
        if follow(p):
            return 1
        p.new_intercept[0] = p.intercept[0]
        solve_system(p, 1, p.aim, NULL, p.new_theta, p.new_intercept)
        intercept = p.new_intercept[0]
        multiply(p, p.new_theta, p.new_decision)
        # Along the step: derivative at 0 and constant curvature of the quadratic part.
        slope = quadratic = 0.0
        for i in range(p.n):
            step = p.new_theta[i] - p.theta[i]
            slope += step * p.decision[i]
            p.step[i] = p.new_decision[i] - p.decision[i]
            quadratic += step * p.step[i]
        length = step_length(
            p.decision, p.intercept[0], p.step, intercept - p.intercept[0],
            p.target, p.orientation, p.weight, p.n, p.C1, p.C2, p.D, slope, quadratic,
            p.objective[0],
        )
        is_last = length == 0.0
        if is_last:
            # The objective is at its minimum up to rounding. Its square root, the distance
            # to the solution, may not be: the ridge solution is closer, if it is one.
            if not evaluate(p, p.new_decision, intercept, False):
                return 0
            length = 1.0
        if length == 1.0:
            memcpy(p.theta, p.new_theta, p.n * sizeof(double))
            memcpy(p.decision, p.new_decision, p.n * sizeof(double))
            p.intercept[0] = intercept
        else:
            for i in range(p.n):
                p.theta[i] += length * (p.new_theta[i] - p.theta[i])
                p.decision[i] += length * p.step[i]
            p.intercept[0] += length * (intercept - p.intercept[0])
        unchanged = evaluate(p, p.decision, p.intercept[0], True)
        if is_last or (unchanged and length == 1.0):
            return 0
    return -1


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
    n_problems : int
    """

    cdef readonly object theta, decision, aim, intercept, objective
    cdef readonly Py_ssize_t n_problems
    cdef Py_ssize_t n_flat, least_rows, most_rows, most_outputs
    cdef object _kept, _own, _row_of_flat
    cdef bint _is_shared
    cdef Problem* _problems
    cdef double[::1] _curvature, _matrix
    cdef const double[:, ::1] _K

    def __init__(self, rows, n_outputs, target, orientation, weight, fit_intercept):
        cdef Py_ssize_t k, n, q, first = 0, output = 0, row = 0, entry = 0
        cdef Problem* p
        cdef char[::1] structs = np.zeros(len(rows) * sizeof(Problem), dtype=np.int8)
        self._problems, self.n_problems = <Problem*> &structs[0], len(rows)
        sizes = np.array([each.size for each in rows], dtype=np.intp)
        n_entries = np.sum(sizes.astype(float) ** 2)
        self.n_flat = np.dot(sizes, n_outputs)
        self.least_rows, self.most_rows = sizes.min(), sizes.max()
        self.most_outputs = max(n_outputs)
        self._is_shared = self.n_problems > 1 and 8.0 * n_entries > KEPT_BYTES
        self.theta, self.decision, self.aim = np.zeros((3, self.n_flat))
        self.intercept, self.objective, new_intercept = np.zeros((3, sum(n_outputs)))
        n_rows = sizes.sum()
        every = np.split(np.arange(n_rows), np.cumsum(sizes[: self.n_problems - 1]))
        self._row_of_flat = np.concatenate([np.tile(*each) for each in zip(every, n_outputs)])
        cdef const double[::1] t = target, s = orientation, w = np.concatenate(weight)
        cdef double[::1] theta = self.theta, decision = self.decision, aim = self.aim
        cdef double[::1] intercept = self.intercept, objective = self.objective
        cdef double[::1] offset = new_intercept, solved = np.zeros(self.n_flat + n_rows)
        cdef const Py_ssize_t[::1] own = np.concatenate(rows)
        cdef double[:, ::1] by_row = np.zeros((7, n_rows))
        cdef int[::1] active = np.zeros(n_rows, dtype=np.intc)
        cdef double[::1] matrix = np.zeros(self.most_rows**2 if self._is_shared else int(n_entries))
        self._kept = [t, s, w, theta, decision, aim, intercept, objective, offset, solved, own,
                      by_row, active, matrix, structs]
        self._curvature, self._matrix = by_row[0], matrix
        for k in range(self.n_problems):
            p, n, q = &self._problems[k], sizes[k], n_outputs[k]
            p.n, p.n_outputs, p.fit_intercept = <int> n, <int> q, fit_intercept
            if n == 0:
                continue
            p.first, p.first_output, p.first_row = first, output, row
            p.target, p.orientation = &t[first], &s[first]
            p.theta, p.decision, p.aim = &theta[first], &decision[first], &aim[first]
            p.intercept, p.objective = &intercept[output], &objective[output]
            p.new_intercept, p.solved = &offset[output], &solved[first + row]
            p.rows, p.weight = &own[row], &w[row]
            p.curvature, p.factored_curvature = &by_row[0, row], &by_row[1, row]
            p.root, p.ones, p.step = &by_row[2, row], &by_row[3, row], &by_row[4, row]
            p.new_theta, p.new_decision = &by_row[5, row], &by_row[6, row]
            p.active = &active[row]
            p.matrix = &matrix[entry]
            first, output, row = first + q * n, output + q, row + n
            entry += 0 if self._is_shared else n * n

    def change_kernel(self, const double[:, ::1] K):
        """Go on with other kernel values, of shape (n_samples, n_samples)."""
        cdef Py_ssize_t k
        cdef Problem* p
        cdef double[::1] own
        self._K = K
        if self._own is None:
            self._own = np.empty(self._matrix.size if self.least_rows < K.shape[0] else 0)
        own = self._own
        for k in range(self.n_problems):
            p = &self._problems[k]
            p.all_values, p.n_all, p.state = &K[0, 0], K.shape[0], NOTHING
            if 0 < p.n < K.shape[0]:
                p.own_values = &own[p.matrix - &self._matrix[0]]

    cdef int _answer(self, Answer answer, Request* asked, int n_threads) except -1:
        """Ask every problem, side by side."""
        cdef Py_ssize_t k
        cdef int failed = 0
        asked.n_flat = self.n_flat
        n_threads = 1 if self._is_shared else min(n_threads, self.n_problems)
        for k in prange(self.n_problems, nogil=True, schedule="dynamic", num_threads=n_threads):
            failed += self._answer_one(k, answer, asked, threadid())
        if failed:
            raise FloatingPointError("The kernel matrix is too far from positive semi-definite.")
        return 0

    cdef int _answer_one(
        self, Py_ssize_t k, Answer answer, const Request* asked, int thread
    ) noexcept nogil:
        cdef Problem* p = &self._problems[k]
        if p.n == 0:
            return 0
        if self._is_shared:
            p.state = NOTHING  # other problems have used the matrix since
        if p.state == NOTHING:
            gather_values(p)
        return answer(p, asked, thread) != 0

    cdef int _answer_by_folds(
        self, Request* asked, const int[:, ::1] fold, int n_folds, int n_threads
    ) except -1:
        """Ask for what is done fold by fold, with work space for each thread."""
        cdef Py_ssize_t n = self.most_rows
        size = min(max(np.bincount(each).max() for each in np.asarray(fold)), n)
        room = (3 * self.most_outputs + 1) * n + size * (size + n)
        cdef double[:, ::1] work = np.empty((n_threads, room))
        cdef int[:, ::1] members = np.empty((n_threads, n), dtype=np.intc)
        asked.fold, asked.n_folds = &fold[0, 0], n_folds
        asked.n_repeats, asked.n_samples = fold.shape[0], fold.shape[1]
        asked.work, asked.room = &work[0, 0], room
        asked.members, asked.most_rows = &members[0, 0], n
        return self._answer(leave_folds_out, asked, n_threads)

    def solve(self, const double[:, ::1] losses, int n_threads):
        """Minimise every problem, from its last solution.

        Parameters
        ----------
        losses : ndarray of shape (n_problems, 3)
            C1, C2 and D.
        n_threads : int
        """
        cdef Py_ssize_t k
        cdef Problem* p
        cdef Request asked
        for k in range(self.n_problems):
            p = &self._problems[k]
            p.C1, p.C2, p.D = losses[k, 0], losses[k, 1], losses[k, 2]
            p.is_quadratic = p.C1 == p.C2 and p.D == 0
        self._answer(minimise, &asked, n_threads)

    def curvature(self):
        """Return the curvatures of the last solve, of shape (n_flat,)."""
        return np.asarray(self._curvature)[self._row_of_flat]

    def left_out(self, share=None):
        """Return the values of all rows for the models without (a share of) each, flat.

        Parameters
        ----------
        share : ndarray of shape (n_own,), default=None
            Of the rows of all problems, one after the other; all of their weight by default.
        """
        out = np.empty(self.n_flat)
        cdef const double[::1] shares = share
        cdef double[::1] values = out
        cdef Request asked
        asked.values, asked.share = &values[0], NULL
        if share is not None:
            asked.share = &shares[0]
        self._answer(leave_each_out, &asked, 1)
        return out

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
        out = np.empty((fold.shape[0], self.n_flat))
        cdef double[:, ::1] values = out
        cdef Request asked
        asked.values, asked.slope = &values[0, 0], NULL
        self._answer_by_folds(&asked, fold, n_folds, n_threads)
        return out

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
        by_aim, by_log_curvature = np.zeros((2, self.n_flat))
        left, coef = np.zeros((2, fold.shape[0] * n_folds, self.n_flat))
        cdef double[::1] aims = by_aim, logs = by_log_curvature
        cdef double[:, ::1] lefts = left, coefs = coef
        cdef Request asked
        asked.slope, asked.by_aim, asked.by_log_curvature = &slope[0, 0], &aims[0], &logs[0]
        asked.left, asked.coef = &lefts[0, 0], &coefs[0, 0]
        self._answer_by_folds(&asked, fold, n_folds, n_threads)
        return by_aim, by_log_curvature, left, coef

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
                flat = p.first + o * n
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
        out = np.zeros(self.n_flat)
        cdef double[::1] by_aim = out
        cdef Request asked
        asked.slope, asked.total, asked.by_aim = &slope[0], &total[0], &by_aim[0]
        self._answer(adjoint, &asked, 1)
        return out
