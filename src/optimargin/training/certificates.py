"""Gaps in extended precision, where double precision does not tell them.

A gap is that of the numbers that a model keeps, for the data as they were given: w and b of a
linear model, coefficients of samples and b of a kernel model. Decision values are sums of many
terms, and terms that are large beside their sum (columns of very different sizes, columns far from
zero, Gram matrices of such columns, coefficients that cancel) leave rounding errors that a large
penalty turns into a large loss. Norms tell when that is out of the question; otherwise
P(w, b) - D(p) is computed from the data in extended precision, where D is the dual objective of
`optimargin.problems.additive` and p the best of several dual points.
"""

from dataclasses import replace

import numpy as np
from scipy.sparse import issparse

from optimargin.designs import LINEAR_DESIGNS, GramDesign, LinearGramDesign
from optimargin.kernels import PreparedKernel
from optimargin.kernels.base import InnerProductKernel, RadialKernel
from optimargin.problems.base import relative_gap

_LONG = np.longdouble
_EPS = float(np.finfo(np.float64).eps)
_NEGLIGIBLE = 1e-10  # of the objective
_GROWTH = 4.0  # rounding errors of a sum, in units of the root of its length
_BLOCK_ELEMENTS = 1 << 16
_GRAM_OPERATIONS = 1e8  # for kernel values in extended precision: less than a second
_MAX_STEPS = 50


def certify_features(problem, solution, X, square):
    """Return the solution of a linear model with the gap of the numbers that are kept.

    Parameters
    ----------
    problem : AdditiveProblem
        Over a design of linear data.
    solution : Solution
        In the units of y.
    X : {ndarray, CSR} of shape (n_samples, n_features)
    square : float
        The sum of the squares of all values of X.
    """
    w, shift = problem.design.to_features(solution.coef)
    w, intercept = _kept(problem, w, solution.intercept + shift, X.dtype)
    bound = _feature_rounding(problem, solution, X, w, intercept, square)
    if _is_negligible(bound, problem, solution):
        return solution
    pulls = [solution.pull / problem.target.scale.unit]
    if isinstance(problem.design, LinearGramDesign):
        pulls.append(solution.coef / problem.target.scale.unit)
    rows = _LongRows(X, problem.design.center)
    return _with_long_gap(problem, solution, rows, w, intercept, pulls)


def certify_samples(problem, solution, kernel, X, square):
    """Return the solution of a kernel model with the gap of the numbers that are kept.

    Where kernel values in extended precision would take too long, the solution is returned as
    it is.

    Parameters
    ----------
    problem : AdditiveProblem
        Over a design of the kernel, not projected.
    solution : Solution
        In the units of y.
    kernel : Kernel
    X : {ndarray, CSR} of shape (n_samples, n_features)
    square : float
        The sum of the squares of all values of X.
    """
    n_samples, n_features = X.shape
    if n_samples**2 * (n_features + 20.0) > _GRAM_OPERATIONS:
        return solution
    design, shift = problem.design, 0.0
    if isinstance(design, LINEAR_DESIGNS):
        shift = design.to_features(solution.coef)[1]
    coef = design.sample_coefficients(solution.coef, solution.pull)
    coef, intercept = _kept(problem, coef, solution.intercept + shift, X.dtype)
    bound = _sample_rounding(problem, solution, kernel, X, coef, intercept, square)
    if _is_negligible(bound, problem, solution):
        return solution
    space: _LongRows | _LongGram
    if kernel.is_linear:
        is_centred = problem.fit_intercept and not issparse(X)
        space = _LongRows(X, X.mean(axis=0, dtype=np.float64) if is_centred else None)
        start = space.represent(coef.astype(_LONG), centred=False)
    else:
        space, start = _LongGram(kernel, X, design), coef
    pulls = [solution.pull / problem.target.scale.unit, coef]
    return _with_long_gap(problem, solution, space, start, intercept, pulls)


def _kept(problem, coef, intercept, dtype):
    """Return coefficients and intercept as a model keeps them, in the units of the problem."""
    coef = coef.astype(dtype).astype(np.float64)
    return problem.target.scale.standardised(coef, float(dtype.type(intercept)))


def _is_negligible(bound, problem, solution):
    objective = abs(solution.objective) / problem.target.scale.unit**2
    return bound <= _NEGLIGIBLE * max(objective, problem.gap_floor)


def _with_long_gap(problem, solution, space, coef, intercept, pulls):
    value, gap = _long_gap(problem, space, coef, intercept, pulls)
    return replace(
        solution,
        objective=value * problem.target.scale.unit**2,
        dual_gap=relative_gap(value, gap, problem.gap_floor),
    )


# ---------------------------------------------------------------- what rounding can do


def _hidden(problem, solution, error, length):
    """Return what errors of decision values can hide in the objective and in its gap.

    Parameters
    ----------
    error : float
        Of any decision value.
    length : float
        Of the longest row of features.
    """
    unit = problem.target.scale.unit
    objective = max(abs(solution.objective) / unit**2, problem.gap_floor)
    total = np.abs(solution.pull).sum() / unit
    smoothness = problem.loss.smoothness
    residual = (2 * smoothness * error + _GROWTH * _EPS * total) * length
    in_value = total * error + smoothness * error**2
    return in_value + residual * (np.sqrt(2 * max(solution.dual_gap, 0.0) * objective) + residual)


def _feature_rounding(problem, solution, X, w, intercept, square):
    """Return what rounding can hide in a linear model.

    By the norm of all of X first, which is known; by those of its columns where that is too
    much.
    """
    design, unit = problem.design, problem.target.scale.unit
    center = np.zeros(X.shape[1]) if design.center is None else np.abs(design.center)
    growth = _GROWTH * np.sqrt(X.shape[1]) * _EPS
    shifted = center @ np.abs(w) + abs(intercept)

    def hidden(reach, length):
        return _hidden(problem, solution, growth * (reach + shifted), length)

    if isinstance(design, LinearGramDesign):
        norms = np.sqrt(design.squared_norms)
        longest = norms.max(initial=0.0)
        return hidden(longest * (norms @ np.abs(solution.coef)) / unit, longest)
    longest = np.sqrt(square)
    bound = hidden(longest * np.linalg.norm(w), longest)
    if _is_negligible(bound, problem, solution):
        return bound
    highest = abs(X).max(axis=0)
    highest = highest.toarray().ravel() if issparse(X) else highest
    highest = highest.astype(np.float64) + center
    return hidden(highest @ np.abs(w), np.linalg.norm(highest))


def _sample_rounding(problem, solution, kernel, X, coef, intercept, square):
    """Return what rounding can hide in a kernel model."""
    growth = _GROWTH * np.sqrt(X.shape[1]) * _EPS
    if isinstance(kernel, RadialKernel):
        most = 1.0 + float(np.max(kernel.gamma)) * square
        error = growth * (most**2 * np.abs(coef).sum() + abs(intercept))
        bound = _hidden(problem, solution, error, 1.0)
        if _is_negligible(bound, problem, solution):
            return bound
    if kernel.is_prepared:
        scale = PreparedKernel(kernel, X, np.float64).rounding_scale()
        longest = 1.0 if isinstance(kernel, RadialKernel) else scale.max(initial=0.0)
    else:
        scale = np.sqrt(np.abs(problem.design.squared_norms))
        longest = scale.max(initial=0.0)
    reach = scale.max(initial=0.0) * (scale @ np.abs(coef))
    return _hidden(problem, solution, growth * (reach + abs(intercept)), longest)


# ---------------------------------------------------------------- extended precision


class _LongRows:
    """Rows of features, around a centre: coefficients are w."""

    def __init__(self, X, center):
        self._X = X
        self._center = None if center is None else center.astype(_LONG)

    def decision(self, w):
        """Return decision values of rows as they are but for a constant, and that constant."""
        w = w.astype(_LONG)
        shift = 0.0 if self._center is None else self._center @ w
        return np.concatenate([rows @ w for _, rows in self._blocks(self._center)]), shift

    def represent(self, pull, *, centred=True):
        """Return the sum of rows."""
        center = self._center if centred else None
        return sum(pull[part] @ rows for part, rows in self._blocks(center))

    def square(self, w, decision):
        """Return the squared norm."""
        return w.astype(_LONG) @ w

    def square_of_pulls(self, pull):
        """Return the squared norm of the sum of rows; with a centre, pulls must sum to zero."""
        w = self.represent(pull)
        return w @ w

    def _blocks(self, center):
        n_block = max(_BLOCK_ELEMENTS // max(self._X.shape[1], 1), 1)
        for first in range(0, self._X.shape[0], n_block):
            part = slice(first, first + n_block)
            rows = self._X[part].astype(_LONG)
            yield part, rows if center is None else rows - center


class _LongGram:
    """Kernel values: coefficients are those of samples."""

    def __init__(self, kernel, X, design):
        self._K = _long_values(kernel, X, design)

    def decision(self, coef):
        """Return decision values, and zero."""
        return self._K @ coef.astype(_LONG), _LONG(0)

    def square(self, coef, decision):
        """Return the squared norm."""
        return coef.astype(_LONG) @ decision

    def square_of_pulls(self, pull):
        """Return the squared norm of the features of pulls."""
        return pull @ (self._K @ pull)


def _long_values(kernel, X, design):
    """Return all kernel values; those that are given, by a matrix or a function, are exact."""
    if not isinstance(kernel, RadialKernel | InnerProductKernel):
        return (design.K if isinstance(design, GramDesign) else kernel(X)).astype(_LONG)
    rows = (X.toarray() if issparse(X) else X).astype(_LONG)
    if isinstance(kernel, InnerProductKernel):
        return kernel.of_products(rows @ rows.T)
    rows = (rows - rows.mean(axis=0)) * np.sqrt(np.asarray(kernel.gamma, dtype=_LONG))
    norms = np.square(rows).sum(axis=1)
    squares = norms[:, None] + norms - 2 * (rows @ rows.T)
    return kernel.profile(np.maximum(squares, 0))


def _long_gap(problem, space, coef, intercept, pulls):
    """Return the objective of coefficients and an intercept, and its gap.

    Parameters
    ----------
    space : _LongRows or _LongGram
    coef : ndarray
    intercept : float
        For rows as they are.
    pulls : list of ndarray of shape (n_samples,)
        Dual points that may be better than the pulls at these coefficients.
    """
    loss, target = problem.loss, problem.target
    weight = target.weight.astype(_LONG)
    decision, shift = space.decision(coef)
    intercept = _LONG(intercept) + shift

    def evaluate(offset):
        value, slope, curvature = loss.terms(target.shortfall(decision + offset))
        return weight @ value, weight * target.orientation * slope, weight @ curvature

    value, pull, curvature = evaluate(intercept)
    value += space.square(coef, decision) / 2
    if problem.fit_intercept:
        for _ in range(_MAX_STEPS):
            excess = pull.sum()
            if not curvature > 0 or abs(excess) <= np.finfo(_LONG).eps * np.abs(pull).sum():
                break
            intercept += excess / curvature
            _, pull, curvature = evaluate(intercept)
        pulls = [_balanced(p) for p in [pull, *pulls]]
    else:
        pulls = [pull, *pulls]
    dual = max(_dual_value(problem, space, weight, p.astype(_LONG)) for p in pulls)
    return float(value), max(float(value - dual), 0.0)


def _balanced(pull):
    """Return pulls that sum to zero: those of the stronger side are made weaker."""
    pull = pull.astype(_LONG)
    up, down = pull[pull > 0].sum(), -pull[pull < 0].sum()
    if up > down:
        return np.where(pull > 0, pull * (down / up), pull)
    return np.where(pull < 0, pull * (up / down), pull) if down > up else pull


def _dual_value(problem, space, weight, pull):
    target = problem.target
    with np.errstate(invalid="ignore", over="ignore"):
        conjugate = problem.loss.conjugate_terms(target.orientation * pull / weight)
        value = target.value @ pull - weight @ conjugate - space.square_of_pulls(pull) / 2
    return value if np.isfinite(value) else -np.inf
