"""Predictions for samples left out, from the fit itself; and bounds on their error.

On the active set S of a fit the loss is quadratic: with curvatures c_i, targets t_i and
M = K_SS + diag(1 / c), the coefficients and the intercept solve the bordered system

    [ M  1 ] [theta]   [t]                           [ P   q ]
    [ 1' 0 ] [  b  ] = [0],      whose inverse is    [ q'  . ]    (P = M^-1 without intercept).

Removing the samples B, with the weights of the others kept, asks for theta_B = 0. As long as
no other sample enters or leaves S, that is

    u = (P_BB)^-1 theta_B,   theta' = theta - P_SB u,   b' = b - q_B' u,

and the removed samples of S get the decision values t_B - u; for one sample that is
t_i - theta_i / P_ii. Samples off S do not matter to the fit, so removing them changes nothing.
The feature-space form removes rows from the normal equations instead. Where memberships do
change, Newton steps that start at this point give the exact answer.

Reference: T. Zhang and Z.-H. Zhou, Optimal Margin Distribution Machine, TKDE 2020, Theorem 3
for the bound, of which only a corrected form is valid (see `error_bound`).
"""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, eigh, lstsq
from scipy.linalg.lapack import dtrtri
from scipy.sparse import issparse

from optimargin.problems import MarginProblem
from optimargin.solvers import SOLVERS

_BLOCK_ELEMENTS = 1 << 20  # 8 MB of float64 for a block of packed rows
_EXACT_GAP = 1e-14
_SINGULAR = 1e-13  # of a pivot that is at most one


def leave_one_out(problem, coef, intercept, *, exact=False):
    """Return the decision value of each sample for the model fitted without it.

    Parameters
    ----------
    problem : MarginProblem
        Its loss must be piecewise quadratic.
    coef, intercept : ndarray, float
        The solution of `problem`.
    exact : bool, default=False
        Follow the samples that enter or leave the active set when another one is removed, so
        that the values equal those of a refit. It costs a few Newton steps for each sample
        whose removal changes the active set.

    Returns
    -------
    decision : ndarray of shape (n_samples,)
        With the intercept.
    """
    system = make_system(problem, coef, intercept)
    decision = system.leave_one_out()
    if exact:
        for row in system.active:
            decision[row] = _left_out(system, np.array([row]))[0]
    return decision


def leave_folds_out(problem, coef, intercept, folds, *, exact=False):
    """Return the decision value of each sample for the model fitted without its fold.

    Parameters
    ----------
    problem, coef, intercept, exact
        As in `leave_one_out`.
    folds : iterable of ndarray
        The samples of each fold; every sample must be in exactly one.

    Returns
    -------
    decision : ndarray of shape (n_samples,)
    """
    system = make_system(problem, coef, intercept)
    decision = np.empty(problem.design.n_samples)
    for rows in folds:
        decision[rows] = _left_out(system, np.asarray(rows), exact=exact)
    return decision


def _left_out(system, rows, *, exact=True):
    """Return the decision values of `rows` for the model without them."""
    problem = system.problem
    coef, intercept = system.without(rows)
    if not exact:
        return problem.design.decision(coef)[rows] + intercept
    weight = problem.weight.copy()
    weight[rows] = 0.0
    reduced = MarginProblem(
        problem.loss, problem.design, problem.y, weight, fit_intercept=problem.fit_intercept
    )
    point = reduced.point(coef, intercept)
    if point.relative_gap > _EXACT_GAP:
        solver = SOLVERS["newton"](tol=_EXACT_GAP, max_iter=1000)
        solution = solver.solve(reduced, point.coef, point.intercept)
        point = reduced.point(solution.coef, solution.intercept)
    return point.decision[rows] + point.intercept


def error_bound(problem, coef, intercept, kind="valid"):
    """Bound the leave-one-out error of a fit by numbers that the fit has already computed.

    With a_i the dual variable of sample i, h_i = k(x_i, x_i) + 1 / c_i, and S1 and S2 the
    samples whose margin is below 1 - D and above 1 + D:

    - ``"printed"``: the paper's ``(sum_S a_i h_i + D (|S1| - |S2|)) / n``. Its terms of S2 can
      be negative, and then it can be below the error.
    - ``"valid"``: ``sum_S1 min(1, a_i h_i / (1 - D)) / n``. A sample of S2 cannot become an
      error: its margin only grows when it is removed.
    - ``"count"``: the share of the samples of S1 with ``a_i h_i >= 1 - D``, tighter still.

    The last two hold for models without an intercept. With one only the share of S1 is safe,
    and that is what they return. With sample weights, shares are shares of the weight.

    Parameters
    ----------
    problem : MarginProblem
        With an `ODMLoss`.
    coef, intercept : ndarray, float
        The solution of `problem`.
    kind : {"printed", "valid", "count"}, default="valid"

    Returns
    -------
    bound : float
    """
    point = problem.point(coef, intercept)
    D = problem.loss.D
    below, above = point.dual > 0, point.dual < 0
    if kind != "printed" and problem.fit_intercept:
        return float(problem.weight[below].sum())
    active = np.flatnonzero(point.curvature)
    rise = np.zeros(problem.design.n_samples)
    rise[active] = np.abs(point.dual[active]) * (
        problem.design.squared_norms[active] + 1 / point.curvature[active]
    )
    if kind == "printed":
        terms = np.where(below, rise + D, np.where(above, rise - D, 0.0))
    elif kind == "count":
        terms = below & (rise >= 1 - D)
    else:
        terms = np.where(below, np.minimum(1.0, rise / (1 - D)), 0.0)
    return float(problem.weight @ terms)


def make_system(problem, coef, intercept):
    """Return the linear system that the solution of `problem` satisfies."""
    return _SYSTEMS[problem.design.space](problem, problem.point(coef, intercept))


class _System:
    """The active set of a solution, with targets t."""

    def __init__(self, problem, point):
        self.problem = problem
        self.point = point
        self.decision = point.decision + point.intercept
        self.active = np.flatnonzero(point.curvature)
        curvature = point.curvature[self.active]
        self.root = np.sqrt(curvature)
        # -l' = c (target - margin) on the active set.
        self.target = self.decision[self.active] + problem.y[self.active] * (
            point.dual[self.active] / curvature
        )


class _SampleSystem(_System):
    """Coefficients belong to samples: removing samples down-dates the inverse."""

    def __init__(self, problem, point):
        super().__init__(problem, point)
        size = self.active.size
        A = problem.design.block(self.active)
        A *= self.root
        A *= self.root[:, None]
        A[np.arange(size), np.arange(size)] += 1.0
        if size:
            # The transpose is A itself in the order that LAPACK needs no copy of; zeros above
            # the diagonal let the inverse of the factor be used as it is.
            factor = cholesky(A.T, lower=True, overwrite_a=True, check_finite=False)
            self._factor = factor, True
            self._ones = cho_solve(self._factor, self.root, check_finite=False)
            self._border = self.root @ self._ones
        self._inverse = None

    def leave_one_out(self):
        decision = self.decision.copy()
        if self.active.size == 0:
            return decision
        triangle, _ = dtrtri(self._factor[0], lower=True)
        pivot = np.einsum("ij,ij->j", triangle, triangle)
        if self.problem.fit_intercept:
            pivot -= self._ones**2 / self._border
        # Alone in the active set, a sample leaves no model behind to ask.
        known = pivot > _SINGULAR
        rows = self.active[known]
        change = self.point.coef[rows] / (self.root[known] ** 2 * pivot[known])
        decision[rows] = self.target[known] - change
        return decision

    def without(self, rows):
        coef, intercept = self.point.coef.copy(), self.point.intercept
        left_out = np.flatnonzero(np.isin(self.active, rows))
        if left_out.size == self.active.size:
            return np.zeros_like(coef), intercept
        columns = self._inverse_columns(left_out)
        theta = coef[self.active]
        u = _solve(columns[left_out], theta[left_out] / self.root[left_out])
        coef[self.active] = theta - self.root * (columns @ u)
        coef[self.active[left_out]] = 0.0
        if self.problem.fit_intercept:
            intercept -= self._ones[left_out] @ u / self._border
        return coef, intercept

    def _inverse_columns(self, left_out):
        """Return columns of P, scaled by the roots of the curvatures."""
        if self._inverse is None:
            self._inverse = cho_solve(self._factor, np.eye(self.active.size), check_finite=False)
            if self.problem.fit_intercept:
                self._inverse -= np.outer(self._ones, self._ones / self._border)
        return self._inverse[:, left_out]


class _FeatureSystem(_System):
    """Coefficients belong to features: removing samples takes rows from the equations."""

    def __init__(self, problem, point):
        super().__init__(problem, point)
        self._full = self._equations(point.curvature)

    def leave_one_out(self):
        decision = self.decision.copy()
        matrix = self._full[0]
        whitened = _inverse_root(matrix)
        n_block = max(_BLOCK_ELEMENTS // matrix.shape[0], 1)
        for first in range(0, self.active.size, n_block):
            part = slice(first, first + n_block)
            rows, target = self.active[part], self.target[part]
            image = self._packed(rows) @ whitened
            leverage = self.root[part] ** 2 * np.einsum("ij,ij->i", image, image)
            known = 1 - leverage > _SINGULAR
            change = leverage[known] * target[known]
            decision[rows[known]] = (decision[rows[known]] - change) / (1 - leverage[known])
        return decision

    @property
    def full_equations(self):
        """Matrix and right-hand side of the normal equations."""
        return self._full

    def equations_without(self, rows):
        """Return the normal equations without the contributions of `rows`."""
        if self.problem.design.is_sparse:
            curvature = np.zeros_like(self.point.curvature)
            curvature[rows] = self.point.curvature[rows]
            matrix, right = self._equations(curvature, identity=0.0)
            return self._full[0] - matrix, self._full[1] - right
        left_out = np.zeros(self.decision.size, dtype=bool)
        left_out[rows] = True
        places = np.flatnonzero(left_out[self.active])
        Z = self._packed(self.active[places])
        weighted = Z * (self.root[places] ** 2)[:, None]
        return self._full[0] - Z.T @ weighted, self._full[1] - self.target[places] @ weighted

    def without(self, rows):
        solution = _solve(*self.equations_without(rows))
        n_coef = self.problem.design.n_coef
        if not self.problem.fit_intercept:
            return solution, self.point.intercept
        return solution[:n_coef], float(solution[n_coef])

    def _equations(self, curvature, identity=1.0):
        """Return ``Z' C Z`` plus the identity on the features, and ``Z' C t``."""
        design = self.problem.design
        lower = design.weighted_gram(curvature)
        matrix = np.tril(lower) + np.tril(lower, -1).T
        n_coef = design.n_coef
        matrix[np.arange(n_coef), np.arange(n_coef)] += identity
        pull = np.zeros(design.n_samples)
        pull[self.active] = curvature[self.active] * self.target
        right = np.append(design.represent(pull), pull.sum())
        if self.problem.fit_intercept:
            return matrix, right
        return matrix[:n_coef, :n_coef], right[:n_coef]

    def _packed(self, rows):
        design = self.problem.design
        X = design.X[rows]
        packed = (X.toarray() if issparse(X) else X).astype(np.float64)
        if design.center is not None:
            packed -= design.center
        if not self.problem.fit_intercept:
            return packed
        return np.column_stack([packed, np.ones(rows.size)])


_SYSTEMS = {"sample": _SampleSystem, "feature": _FeatureSystem}


def _solve(A, b):
    """Solve with a symmetric positive semi-definite matrix."""
    if b.size == 0:
        return b
    try:
        return cho_solve(cho_factor(A, lower=True, check_finite=False), b, check_finite=False)
    except LinAlgError:
        return lstsq(A, b, check_finite=False)[0]


def _inverse_root(A):
    """Return R with ``R @ R.T`` the inverse of A, its small eigenvalues raised if need be."""
    try:
        factor = cholesky(A, lower=True, check_finite=False)
        return dtrtri(factor, lower=True)[0].T
    except LinAlgError:
        values, vectors = eigh(A, check_finite=False)
        return vectors / np.sqrt(np.maximum(values, A.shape[0] * np.finfo(float).eps * values[-1]))
