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

from optimargin.designs import (
    LINEAR_DESIGNS,
    FeatureDesign,
    GramDesign,
    LandmarkDesign,
    LinearGramDesign,
)
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.kernels import PreparedKernel
from optimargin.kernels.base import InnerProductKernel, RadialKernel
from optimargin.problems.additive import AdditiveProblem
from optimargin.problems.base import GAP_FLOOR, relative_gap
from optimargin.targets import LABELS

_LONG = np.longdouble
_EPS = float(np.finfo(np.float64).eps)
_NEGLIGIBLE = 1e-10  # of the objective
_ROUGH = 1e-6  # a gap beside which rounding to double precision is nothing
_SLIGHT = 0.01  # share of a gap, which rounding may get wrong
_SUMS = 1.0 + 1e-6  # what the order of sums may change of a large gap
_GROWTH = 4.0  # rounding errors of a sum, in units of the root of its length
_BLOCK_ELEMENTS = 1 << 16
_GRAM_OPERATIONS = 1e8  # for kernel values in extended precision: less than a second
_N_PROBES, _PROBE_MARGIN = 4, 4.0  # rows that errors are measured on, twice, and a margin
_MAX_STEPS = 50
_FAR = 1e6  # squared norm, in units of the kernel's width, past which distances lose digits,
_NEAR = 70.0  # squared distance past which values are negligible,
_CANCELS = 1e-14  # and squared distance, relative to squared norms, with too few digits


def certified(problem, solution, prepared, projector=None):
    """Return a solution with the gap of the numbers that a model keeps, for the data as given.

    Models of landmarks and of kernels that were projected keep the gap of their solution.

    Parameters
    ----------
    problem : Problem
    solution : Solution
        In the units of y.
    prepared : Prepared
    projector : ndarray of shape (n_samples, n_samples) or None
        See `optimargin.kernels.GramMatrix`.
    """
    design, X, kernel = problem.design, prepared.X, prepared.kernel
    if isinstance(design, LandmarkDesign):
        return solution
    by_samples = kernel is not None and isinstance(design, FeatureSpaceDesign)
    if X.dtype != np.float64 or by_samples:
        solution = _rounded_as_kept(problem, solution, X, by_samples)
    if not isinstance(problem, AdditiveProblem):
        return solution
    if kernel is not None:
        return solution if projector is not None else certify_samples(problem, solution, kernel, X)
    if isinstance(design, LINEAR_DESIGNS):
        return certify_features(problem, solution, X, prepared.square)
    return solution


def _rounded_as_kept(problem, solution, X, by_samples):
    """Return a solution whose gap is that of numbers in the precision of the data.

    A kernel model keeps coefficients of samples: their sum is w but for rounding, which can be
    large where samples nearly cancel.
    """
    design = problem.design
    scale = problem.target.scale if isinstance(problem, AdditiveProblem) else LABELS
    is_linear = isinstance(design, LINEAR_DESIGNS)
    shift = design.to_features(solution.coef)[1] if is_linear else 0.0
    coef = solution.pull if by_samples else solution.coef
    coef, intercept = _kept(scale, coef, solution.intercept + shift, X.dtype)
    if by_samples:
        coef = FeatureDesign(X).represent(coef)
        shift = design.to_features(coef)[1] * scale.unit
    intercept -= shift / scale.unit
    if getattr(design, "is_rounded", False):
        problem = problem.over(design.finest)
    value = problem.objective_at(coef, intercept)
    if np.isinf(value):  # a hard margin, missed by rounding
        return solution
    before = solution.objective / scale.unit**2
    floor = getattr(problem, "gap_floor", GAP_FLOOR)
    is_rounded = getattr(problem.design, "is_rounded", False)
    if is_rounded and value - before > _SLIGHT * solution.dual_gap * max(abs(value), floor):
        # A rise that counts has to be that of kernel values which are not rounded.
        problem = problem.over(problem.design.precise)
        value = problem.objective_at(coef, intercept)
        before = problem.objective_at(*scale.standardised(solution.coef, solution.intercept))
    rise = relative_gap(value, max(value - before, 0.0), floor) * _SUMS
    return replace(solution, dual_gap=solution.dual_gap + rise)


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
    w, intercept = _kept(problem.target.scale, w, solution.intercept + shift, X.dtype)
    if _is_safe(problem, solution, _feature_errors(problem, solution, X, w, intercept, square)):
        return solution
    rows = _LongRows(X, problem.design.center)
    pulls = [solution.pull / problem.target.scale.unit]
    if isinstance(problem.design, LinearGramDesign):
        pulls.append(solution.coef / problem.target.scale.unit)
    return _with_long_gap(problem, solution, rows, w, intercept, pulls)


def certify_samples(problem, solution, kernel, X):
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
    """
    n_samples, n_features = X.shape
    if n_samples**2 * (n_features + 20.0) > _GRAM_OPERATIONS:
        return solution
    design, shift = problem.design, 0.0
    if getattr(design, "is_rounded", False):
        if design.finest is design and solution.dual_gap > _ROUGH:
            return solution  # rounding of kernel values, far above that of sums, is in the claim
        problem = problem.over(design.finest)
    if isinstance(design, LINEAR_DESIGNS):
        shift = design.to_features(solution.coef)[1]
    coef = design.sample_coefficients(solution.coef, solution.pull)
    coef, intercept = _kept(problem.target.scale, coef, solution.intercept + shift, X.dtype)
    if _is_safe(problem, solution, _sample_errors(problem, solution, kernel, X, coef, intercept)):
        return solution
    space: _LongRows | _LongGram
    if kernel.is_linear:
        is_centred = problem.fit_intercept and not issparse(X)
        space = _LongRows(X, X.mean(axis=0, dtype=np.float64) if is_centred else None)
        start = space.represent(coef.astype(_LONG), centred=False)
    else:
        space, start = _LongGram(_long_values(kernel, X, design)), coef
    pulls = [solution.pull / problem.target.scale.unit, coef]
    return _with_long_gap(problem, solution, space, start, intercept, pulls)


def _kept(scale, coef, intercept, dtype):
    """Return coefficients and intercept as a model keeps them, in the units of a problem."""
    coef = coef.astype(dtype).astype(np.float64)
    return scale.standardised(coef, float(dtype.type(intercept)))


def _with_long_gap(problem, solution, space, coef, intercept, pulls):
    value, gap = _long_gap(problem, space, coef, intercept, pulls)
    return replace(
        solution,
        objective=value * problem.target.scale.unit**2,
        dual_gap=relative_gap(value, gap, problem.gap_floor),
    )


# ---------------------------------------------------------------- what rounding can do


def _is_safe(problem, solution, errors):
    """Return whether rounding cannot hide anything, by one of several bounds.

    Parameters
    ----------
    errors : iterable of (float, float)
        Bounds on the error of the objective, and of the norm of its gradient.
    """
    objective = abs(solution.objective) / problem.target.scale.unit**2
    objective = max(objective, problem.gap_floor)
    norm = np.sqrt(2 * max(solution.dual_gap, 0.0) * objective)
    return any(
        in_value + in_gradient * (norm + in_gradient) <= _NEGLIGIBLE * objective
        for in_value, in_gradient in errors
    )


def _feature_errors(problem, solution, X, w, intercept, square):
    """Yield errors of a linear model: by the norm of X, which is known, then by its columns."""
    design, unit = problem.design, problem.target.scale.unit
    pull, smoothness = np.abs(solution.pull) / unit, problem.loss.smoothness
    center = np.zeros(X.shape[1]) if design.center is None else np.abs(design.center)
    growth = _GROWTH * np.sqrt(X.shape[1]) * _EPS
    shifted = growth * (center @ np.abs(w) + abs(intercept))
    if isinstance(design, LinearGramDesign):
        norms = np.sqrt(design.squared_norms)
        error = growth * norms * (norms @ np.abs(solution.coef)) / unit + shifted
        yield _errors(problem, pull, error, norms)
        return
    # Sums over samples of products with the norms of rows, by the inequality of Cauchy.
    length = np.sqrt(square + X.shape[0] * (center @ center))
    share = np.sqrt(problem.target.weight.max(initial=0.0))
    reach = growth * np.linalg.norm(w) * length
    norm = np.linalg.norm(pull)
    error = share * reach + shifted
    in_value = norm * reach + pull.sum() * shifted + smoothness * error**2
    yield in_value, share * length * 2 * smoothness * error + growth * norm * length
    highest = abs(X).max(axis=0)
    highest = highest.toarray().ravel() if issparse(X) else highest
    highest = highest.astype(np.float64) + center
    error = np.full(pull.size, growth * (highest @ np.abs(w)) + shifted)
    yield _errors(problem, pull, error, np.linalg.norm(highest))


def _sample_errors(problem, solution, kernel, X, coef, intercept):
    """Yield errors of a kernel model: by the norms of rows, then as measured on some rows."""
    scale = problem.target.scale
    pull, size = np.abs(solution.pull) / scale.unit, np.abs(coef)
    growth = _GROWTH * np.sqrt(X.shape[1]) * _EPS
    if isinstance(kernel, RadialKernel):
        # The exponent of a value is rounded by a multiple of both squared norms.
        norms = PreparedKernel(kernel, X, np.float64).rounding_scale()
        error, lengths = norms * size.sum() + norms @ size, np.ones(1)
    else:
        lengths = np.sqrt(np.abs(_diagonal(problem, kernel, X)))
        error = lengths * (lengths @ size)
    error = growth * (error + abs(intercept))
    yield _errors(problem, pull, error, lengths)
    if solution.decision is None or not isinstance(kernel, RadialKernel | InnerProductKernel):
        return
    spaced = np.arange(0, pull.size, max(pull.size // _N_PROBES, 1))
    rows = np.union1d(spaced, np.argsort(error, kind="stable")[-_N_PROBES:])
    exact = _long_values(kernel, X, problem.design, rows) @ coef.astype(_LONG) + intercept
    seen = (solution.decision[rows] - scale.center) / scale.unit
    tiny = np.finfo(np.float64).tiny  # where all coefficients are zero
    share = _PROBE_MARGIN * np.max(np.abs(exact - seen) / (error[rows] + tiny), initial=0.0)
    yield _errors(problem, pull, float(share) * error, lengths)


def _errors(problem, pull, error, lengths):
    """Return what errors of decision values do to the objective and to its gradient.

    Parameters
    ----------
    pull, error : ndarray of shape (n_samples,)
    lengths : float or ndarray of shape (n_samples,)
        Norms of the features of samples, at most.
    """
    weight, smoothness = problem.target.weight, problem.loss.smoothness
    in_value = pull @ error + smoothness * (weight @ np.square(error))
    moved = 2 * smoothness * weight * error + _GROWTH * _EPS * pull
    return in_value, np.sum(moved * lengths)


def _diagonal(problem, kernel, X):
    if not kernel.is_prepared:
        return problem.design.squared_norms
    return PreparedKernel(kernel, X, np.float64).diagonal()


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
        n_samples = self._X.shape[0]
        stored = issparse(self._X) and center is None
        n_values = self._X.nnz if stored else n_samples * self._X.shape[1]
        n_block = max(_BLOCK_ELEMENTS * n_samples // max(n_values, 1), 1)
        for first in range(0, n_samples, n_block):
            part = slice(first, first + n_block)
            rows = self._X[part].astype(_LONG)
            yield part, rows if center is None else rows - center


class _LongGram:
    """Kernel values: coefficients are those of samples."""

    def __init__(self, K):
        self._K = K

    def decision(self, coef):
        """Return decision values, and zero."""
        return self._K @ coef.astype(_LONG), _LONG(0)

    def square(self, coef, decision):
        """Return the squared norm."""
        return coef.astype(_LONG) @ decision

    def square_of_pulls(self, pull):
        """Return the squared norm of the features of pulls."""
        return pull @ (self._K @ pull)


def _long_values(kernel, X, design, rows=slice(None)):
    """Return kernel values of rows; those that are given, by a matrix or a function, are exact."""
    if not isinstance(kernel, RadialKernel | InnerProductKernel):
        return (design.K if isinstance(design, GramDesign) else kernel(X))[rows].astype(_LONG)
    Z = (X.toarray() if issparse(X) else X).astype(_LONG)
    if isinstance(kernel, InnerProductKernel):
        return kernel.of_products(Z[rows] @ Z.T)
    Z = (Z - Z.mean(axis=0)) * np.sqrt(np.asarray(kernel.gamma, dtype=_LONG))
    norms = np.square(Z).sum(axis=1)
    around = norms[rows, None] + norms
    squares = around - 2 * (Z[rows] @ Z.T)
    # Small differences of large numbers, in extended precision, too.
    close = (around > _FAR) & (squares < _NEAR + _CANCELS * around)
    for i in np.flatnonzero(close.any(axis=1)):
        squares[i, close[i]] = np.square(Z[rows][i] - Z[close[i]]).sum(axis=1)
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
