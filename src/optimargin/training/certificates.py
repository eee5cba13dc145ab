"""Gaps of linear models in extended precision, where double precision does not tell them.

A gap is that of the numbers that a model keeps: w and b for rows as they were given. Products of
rows with w are sums of many terms, and terms that are large beside their sum (columns of very
different sizes, columns far from zero, Gram matrices of such columns) leave rounding errors that a
large penalty turns into a large loss. `rounding_bound` tells from norms alone when that is out of
the question; otherwise P(w, b) - D(p) is computed from the rows in extended precision, where D is
the dual objective of `optimargin.problems.additive` and p the best of several dual points.
"""

from dataclasses import replace

import numpy as np
from scipy.sparse import issparse

from optimargin.designs import LinearGramDesign
from optimargin.problems.base import relative_gap

_LONG = np.longdouble
_NEGLIGIBLE = 1e-10  # of the objective
_GROWTH = 4.0  # rounding errors of a sum, in units of the root of its length
_BLOCK_ELEMENTS = 1 << 16
_MAX_STEPS = 50
_EPS = float(np.finfo(np.float64).eps)


def certified(problem, solution, X, square):
    """Return a solution whose gap is that of the numbers that a linear model keeps.

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
    scale = problem.target.scale
    w, shift = problem.design.to_features(solution.coef)
    w = w.astype(X.dtype).astype(np.float64)
    intercept = float(X.dtype.type(solution.intercept + shift))
    w, intercept = scale.standardised(w, intercept)
    objective = max(abs(solution.objective) / scale.unit**2, problem.gap_floor)
    if _rounding_bound(problem, solution, X, w, intercept, square) <= _NEGLIGIBLE * objective:
        return solution
    pulls = [solution.pull / scale.unit]
    if isinstance(problem.design, LinearGramDesign):
        pulls.append(solution.coef / scale.unit)
    value, gap = _long_gap(problem, X, w, intercept, pulls)
    return replace(
        solution,
        objective=value * scale.unit**2,
        dual_gap=relative_gap(value, gap, problem.gap_floor),
    )


def _rounding_bound(problem, solution, X, w, intercept, square):
    """Return what rounding can hide in the objective and in its gap, at most.

    By the norm of all of X first, which is known; by those of its columns where that is too
    much.
    """
    design, unit = problem.design, problem.target.scale.unit
    center = 0.0 if design.center is None else design.center
    pull = np.abs(solution.pull) / unit
    growth = _GROWTH * np.sqrt(X.shape[1]) * _EPS
    shifted = np.abs(center) @ np.abs(w) + abs(intercept) if np.ndim(center) else abs(intercept)

    def bound(reach, length):
        """Of decision values that are sums of terms of size `reach`, and of the longest row."""
        error = growth * (reach + shifted)
        residual = 2 * problem.loss.smoothness * error * length + growth * pull.sum() * length
        gap = max(solution.dual_gap, 0.0) * max(solution.objective / unit**2, problem.gap_floor)
        in_value = pull.sum() * error + problem.loss.smoothness * error**2
        return in_value + residual * (np.sqrt(2 * gap) + residual)

    if isinstance(design, LinearGramDesign):
        norms = np.sqrt(design.squared_norms)
        longest = norms.max(initial=0.0)
        return bound(longest * (norms @ np.abs(solution.coef)) / unit, longest)
    longest = np.sqrt(square)
    found = bound(longest * np.linalg.norm(w), longest)
    if not found <= _NEGLIGIBLE * solution.objective / unit**2:
        highest = abs(X).max(axis=0)
        highest = highest.toarray().ravel() if issparse(X) else highest
        highest = highest.astype(np.float64) + np.abs(center)
        found = bound(highest @ np.abs(w), np.linalg.norm(highest))
    return found


def _long_gap(problem, X, w, intercept, pulls):
    """Return the objective of w and of an intercept for rows as they are, and its gap.

    Parameters
    ----------
    pulls : list of ndarray of shape (n_samples,)
        Dual points that may be better than the pulls at (w, intercept).
    """
    loss, target = problem.loss, problem.target
    center = None if problem.design.center is None else problem.design.center.astype(_LONG)
    w = w.astype(_LONG)
    weight = target.weight.astype(_LONG)
    decision = np.concatenate([rows @ w for _, rows in _long_rows(X, center)])
    # Rows are centred, which changes nothing but the intercept: sums of pulls cancel exactly.
    intercept = _LONG(intercept) if center is None else _LONG(intercept) + center @ w

    def evaluate(offset):
        value, slope, curvature = loss.terms(target.shortfall(decision + offset))
        return weight @ value, weight * target.orientation * slope, weight @ curvature

    value, pull, curvature = evaluate(intercept)
    value += w @ w / 2
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
    dual = max(_dual_value(problem, X, center, weight, p.astype(_LONG)) for p in pulls)
    return float(value), max(float(value - dual), 0.0)


def _balanced(pull):
    """Return pulls that sum to zero: those of the stronger side are made weaker."""
    pull = pull.astype(_LONG)
    up, down = pull[pull > 0].sum(), -pull[pull < 0].sum()
    if up > down:
        return np.where(pull > 0, pull * (down / up), pull)
    return np.where(pull < 0, pull * (up / down), pull) if down > up else pull


def _dual_value(problem, X, center, weight, pull):
    target = problem.target
    w = sum(pull[part] @ rows for part, rows in _long_rows(X, center))
    with np.errstate(invalid="ignore", over="ignore"):
        conjugate = problem.loss.conjugate_terms(target.orientation * pull / weight)
        value = target.value @ pull - weight @ conjugate - w @ w / 2
    return value if np.isfinite(value) else -np.inf


def _long_rows(X, center):
    """Yield (slice, rows) in extended precision, with the centre subtracted."""
    n_block = max(_BLOCK_ELEMENTS // max(X.shape[1], 1), 1)
    for first in range(0, X.shape[0], n_block):
        part = slice(first, first + n_block)
        rows = X[part].astype(_LONG)
        yield part, rows if center is None else rows - center
