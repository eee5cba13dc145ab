"""Certificates: by how much the objective of a model can be lowered, at most.

A certificate is a duality gap relative to the objective, and how it is known. It holds for the
numbers that a model keeps (w and b of a linear model, coefficients of samples and b of a kernel
model) and for the data as they were given. There are three kinds (`Certificate.how`):

    exact           rounding errors are negligible, or the gap was computed in extended precision
    with rounding   a bound on what rounding can do was added
    estimated       what rounding does was measured on some rows, taken several times and added

Pulls as dual point. See `optimargin.problems.additive`: the gap is half a squared norm.

Coefficients as dual point. In sample space the coefficients theta of a solution, once they sum to
zero, are a dual point themselves. Its gap asks for nothing but the decision values f = K theta:

    P - D = sum_i g_i(f_i),   g_i(f) = w_i l(s_i (t_i - f - b)) + w_i l*(s_i theta_i / w_i)
                                       - theta_i (t_i - f - b).

With large penalties it is far smaller than that of the pulls p, 1/2 |theta - p|_K^2, and with small
ones far larger.

Rounded kernel values. A solver that sees K + E instead of K certifies another problem. Each g_i is
convex, not negative, and has curvature w_i L at most. So its root changes by at most
(w_i L / 2)^1/2 e_i where rounding changes f_i by e_i, and the gap is at most

    ((sum_i g_i)^1/2 + (L / 2 sum_i w_i e_i^2)^1/2)^2.

Rounding changes each pull by w_i L (e_i + max e) at most, the intercept following, and the norm
of theta - p by |E|. `RoundingProbe` measures these changes.

Rounded sums. Decision values are sums of many terms, and terms that are large beside their sum
(columns of very different sizes, columns far from zero, Gram matrices of such columns, coefficients
that cancel) leave rounding errors that a large penalty turns into a large loss. Norms tell when
that is out of the question. Otherwise P(w, b) - D(p) is computed from the data in extended
precision, with the best of several dual points p, and what rounding to that precision leaves is
added: on some computers no number is wider than double precision.
"""

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from scipy.sparse import issparse

from optimargin._linalg import line_search
from optimargin.kernels import PreparedKernel
from optimargin.kernels.base import InnerProductKernel, RadialKernel

EXACT, WITH_ROUNDING, ESTIMATED = "exact", "with rounding", "estimated"

GAP_FLOOR = 1e-3  # keeps relative gaps meaningful when the objective is near zero
ROUNDING_FLOOR = float(np.finfo(np.float64).eps)
"""No objective is known more precisely than this, so no certificate claims more."""

_LONG = np.longdouble
_NEGLIGIBLE = 1e-10  # share of the objective
_ROUGH = 1e-6  # a gap beside which rounding of sums is nothing
_SLIGHT = 0.01  # share of a gap that rounding may get wrong
_SUMS = 1.0 + 1e-6  # what the order of sums may change of a large gap
_GROWTH = 4.0  # rounding errors of a sum, in units of the root of its length
_DIFFERENCES = 1e-12  # rounding of a difference of two objectives, relative to one of them
_STIFF = 1e4  # curvature of the loss of one sample, past which rounding of few values may count
_BLOCK_ELEMENTS = 1 << 16  # values in extended precision at a time
_GRAM_OPERATIONS = 1e8  # for kernel values in extended precision: less than a second
_PROBED_ROWS = 4  # that errors are measured on, twice
_MARGIN = 4.0  # between the largest effect of rounding measured and the largest of all


@dataclass(frozen=True)
class Certificate:
    """By how much an objective can be lowered, at most, and how that is known.

    Attributes
    ----------
    gap : float
        The duality gap relative to the objective.
    how : {"exact", "with rounding", "estimated"}
    """

    gap: float
    how: str = EXACT

    def plus(self, gap: float, how: str | None = None) -> "Certificate":
        """Return the certificate of something that adds to the gap."""
        return Certificate(self.gap + gap, how or self.how)


def relative_gap(value: float, gap: float, floor: float = GAP_FLOOR) -> float:
    """Return a duality gap relative to the objective; infinite where it overflows.

    Parameters
    ----------
    value, gap : float
        The objective and its duality gap.
    floor : float
        The gap is relative to no less than this.
    """
    if not np.isfinite(gap):
        return np.inf
    return gap / max(abs(value), abs(value - gap), floor) if gap else 0.0


def gap_floor_of_labels(loss) -> float:
    """Return what gaps of classifiers are relative to when the objective is near zero.

    A model that is zero everywhere costs l(1), which no optimum exceeds: of small penalties, whose
    objectives are small without being exact, gaps are relative to that.
    """
    return GAP_FLOOR * min(1.0, float(loss.terms(np.ones(1))[0][0]) or 1.0)


def balanced(pull):
    """Return pulls that sum to zero: those of the stronger side are made weaker."""
    up, down = pull[pull > 0].sum(), -pull[pull < 0].sum()
    if up == down:
        return pull
    stronger = pull > 0 if up > down else pull < 0
    return np.where(stronger, pull * (min(up, down) / max(up, down)), pull)


# ---------------------------------------------------------------- rounded kernel values


def coefficient_gap(problem, coef, decision, value):
    """Return the duality gap with the coefficients, made to sum to zero, as dual point.

    A difference of two objectives, and so never below their rounding.

    Parameters
    ----------
    problem : AdditiveProblem
        In sample space.
    coef, decision : ndarray of shape (n_samples,)
    value : float
        The objective.
    """
    size = np.abs(coef)
    norm = size.sum()
    square = coef @ decision
    dual = coef
    if problem.fit_intercept and norm > 0:
        # Coefficients of one sign grow and the others shrink, in proportion.
        total = coef.sum()
        dual = coef - total / norm * size
        square -= 2 * total / norm * (size @ decision)
        square += total**2 * np.max(problem.design.squared_norms, initial=0.0)
    gap = value + 0.5 * square + problem.loss.conjugate(dual, problem.target)
    return max(gap, _DIFFERENCES * abs(value))


def point_gap(problem, point):
    """Return the relative gap of a point for kernel values that are not rounded.

    Parameters
    ----------
    problem : AdditiveProblem
        Over a design that `is_rounded`.
    point : Point
    """
    own, by_rounding, effects = _roots(problem, point.coef, point.decision, point.value)
    mean_square, largest, value_error = effects
    longest = np.sqrt(np.max(problem.design.squared_norms, initial=0.0))
    moved = problem.loss.smoothness * (np.sqrt(mean_square) + largest)
    by_pulls = np.sqrt(point.gap) + (
        longest * moved + value_error @ np.abs(point.residual)
    ) / np.sqrt(2.0)
    gap = relative_gap(point.value, float(min(own + by_rounding, by_pulls)) ** 2, point.gap_floor)
    of_value = _rounding_of_value(problem, point.coef, point.pull, mean_square)
    return np.hypot(gap, relative_gap(point.value, of_value, point.gap_floor))


def coefficients_gap(problem, coef, decision, value, pull):
    """Return the relative gap of coefficients that certify themselves, kernel values not rounded.

    Parameters
    ----------
    problem : AdditiveProblem
        Over a design that `is_rounded`.
    coef, decision, pull : ndarray of shape (n_samples,)
    value : float
        The objective.

    Returns
    -------
    gap : float
    by_rounding : float
        What rounding alone adds to it.
    """
    own, by_rounding, (mean_square, _, _) = _roots(problem, coef, decision, value)
    of_value = _rounding_of_value(problem, coef, pull, mean_square)
    gap, by_rounding, of_value = (
        relative_gap(value, part, problem.gap_floor)
        for part in ((own + by_rounding) ** 2, by_rounding**2, of_value)
    )
    return np.hypot(gap, of_value), by_rounding


def _rounding_of_value(problem, coef, pull, mean_square):
    """Return what rounding of kernel values does to the objective itself.

    Errors of decision values nearly add up at random, and the gap does not depend on them; there
    is a margin of two deviations in their mean square.
    """
    # Distances are rounded alike for all values of a sample.
    margin = 1.0 if problem.design.rounds_independently else 4.0
    return np.sqrt(mean_square) * np.linalg.norm(0.5 * coef - pull) * margin


def _roots(problem, coef, decision, value):
    """Return the roots of two gaps, that of coefficients and what rounding adds to it.

    And the effects of rounding, of which `RoundingProbe` tells.
    """
    weight, smoothness = problem.target.weight, problem.loss.smoothness
    is_stiff = smoothness * weight.max(initial=0.0) > _STIFF
    effects = problem.design.rounding(coef, decision, weight, is_stiff=is_stiff)
    own = coefficient_gap(problem, coef, decision, value)
    return np.sqrt(own), np.sqrt(0.5 * smoothness * effects[0]), effects


class RoundingProbe:
    """What rounding of kernel values changes, measured on a few samples.

    Parameters
    ----------
    precise_kernel : callable
        Makes the kernel in double precision, once.
    stored_block : callable
        Given samples, it returns their rows as they are kept.
    scale : ndarray of shape (n_samples,)
        Value (i, j) is rounded by a multiple of ``scale_i scale_j``.
    """

    _rows_per_probe, _fewest, _most = 128, 32, 64
    _mean_margin = 2.0  # between a root mean square measured and that of all
    _all_up_to = 2000  # samples, all of which are measured where rounding of few values may count

    def __init__(self, precise_kernel, stored_block, scale):
        self.precise_kernel = cache(precise_kernel)
        self._stored_block = stored_block
        self._scale = scale
        self._inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)

    @cached_property
    def _probed(self):
        """Samples, those of the largest scale first and some evenly spaced, and how many are first.

        And their rows in double precision, and the largest change of a value in them, in units of
        the scales of its row and column.
        """
        n_samples = self._scale.size
        n_half = min(max(n_samples // self._rows_per_probe, self._fewest), self._most) // 2
        longest = np.argsort(self._scale, kind="stable")[-n_half:]
        rows = np.append(longest, np.arange(0, n_samples, max(n_samples // n_half, 1)))
        precise = self.precise_kernel().block(rows)
        return rows, longest.size, precise, self._largest_change(rows, precise)

    def _largest_change(self, rows, precise):
        change = np.abs(precise - self._stored_block(rows))
        return (change * self._inverse * self._inverse[rows, None]).max(initial=0.0)

    def effects(self, coef, decision, weight, *, is_stiff=False):
        """Return what rounding can do: measured on a few rows, times a margin.

        Parameters
        ----------
        coef : ndarray of shape (n_samples,)
        decision : ndarray of shape (n_samples,)
            ``K @ coef`` as the design computes it.
        weight : ndarray of shape (n_samples,)
        is_stiff : bool
            Whether errors of a few decision values may count. Of not too many samples, all are
            then measured.

        Returns
        -------
        mean_square : float
            A bound on ``weight @ error**2`` for the errors of `decision`.
        largest : float
            A bound on their absolute values.
        value_error : ndarray of shape (n_samples,)
            u such that kernel value (i, j) changes by at most ``u_i u_j``.
        """
        scale = self._scale
        if is_stiff and scale.size <= self._all_up_to:
            precise = self.precise_kernel().block()
            error = np.abs(precise @ coef - decision)
            unit = self._largest_change(np.arange(scale.size), precise)
            largest = float(error.max(initial=0.0))
            return float(weight @ np.square(error)), largest, np.sqrt(unit) * scale
        rows, n_longest, precise, unit = self._probed
        measured = np.abs(precise @ coef - decision[rows]) * self._inverse[rows]
        largest = _MARGIN * measured.max(initial=0.0) * scale.max(initial=0.0)
        # Means of squares, of the longest and of evenly spaced samples, and their standard errors,
        # which are large where few errors count.
        groups = [group**2 for group in np.split(measured, [n_longest]) if group.size]
        square = max((g.mean() + g.std() / np.sqrt(g.size) for g in groups), default=0.0)
        mean_square = self._mean_margin**2 * square * (weight @ np.square(scale))
        return float(mean_square), largest, np.sqrt(_MARGIN * unit) * scale


# ---------------------------------------------------------------- the numbers that a model keeps


def certified(problem, solution, prepared, projector=None):
    """Return a solution with the gap of the numbers that a model keeps, for the data as given.

    Models of kernels that were projected keep the gap of their solution.

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
    is_linear = hasattr(design, "from_features")  # over features, or inner products of them
    scale = problem.scale
    coef, shift = design.to_features(solution.coef) if is_linear else (solution.coef, 0.0)
    if kernel is not None:
        coef = design.sample_coefficients(solution.coef, solution.pull)
    kept = coef.astype(X.dtype).astype(np.float64)
    kept, intercept = scale.standardised(kept, float(X.dtype.type(solution.intercept + shift)))
    if X.dtype != np.float64 or (kernel is not None and coef is not solution.coef):
        solution = _with_rise(problem, solution, kernel, kept, intercept)
    is_additive = hasattr(problem, "loss")
    if not is_additive or projector is not None or not (is_linear or kernel is not None):
        return solution
    if solution.how == ESTIMATED and solution.dual_gap > _ROUGH:
        return solution  # rounding of kernel values, far above that of sums, is in the claim
    errors = _errors(problem, solution, prepared, kept, intercept)
    added, in_value, how = _added_by_rounding(problem, solution, errors)
    if added <= _NEGLIGIBLE:
        added, how = 0.0, None if how == WITH_ROUNDING else how
        return replace(solution, certificate=solution.certificate.plus(added, how))
    n_samples, n_features = X.shape
    if kernel is not None and n_samples**2 * (n_features + 20.0) > _GRAM_OPERATIONS:
        return replace(solution, certificate=solution.certificate.plus(added, how))
    return _with_long_gap(problem, solution, prepared, kept, intercept, in_value)


def _with_rise(problem, solution, kernel, kept, intercept):
    """Return a solution whose gap counts what rounding its numbers to those kept has cost.

    Where a kernel model keeps coefficients of samples, their sum is w but for rounding, which can
    be large where samples nearly cancel.
    """
    scale = problem.scale
    if hasattr(problem.design, "from_features"):
        features = getattr(problem.design, "features", problem.design)
        if kernel is not None:
            center = 0.0 if features.center is None else features.center
            kept = features.represent(kept) + kept.sum() * center
        kept, intercept = features.from_features(kept, intercept, problem)
        problem = problem.over(features)
    value, before = problem.objective_at(kept, intercept), solution.objective / scale.unit**2
    if np.isinf(value):  # a hard margin, missed by rounding
        return solution
    noticed = _SLIGHT * solution.dual_gap * max(abs(value), problem.gap_floor)
    if getattr(problem.design, "is_rounded", False) and value - before > noticed:
        # A rise that counts has to be that of kernel values which are not rounded.
        problem = problem.over(problem.design.precise)
        value = problem.objective_at(kept, intercept)
        before = problem.objective_at(*scale.standardised(solution.coef, solution.intercept))
    rise = relative_gap(value, max(value - before, 0.0), problem.gap_floor) * _SUMS
    return replace(solution, certificate=solution.certificate.plus(rise))


# ---------------------------------------------------------------- what rounding of sums can do


def _added_by_rounding(problem, solution, errors):
    """Return what rounding can add to a relative gap and to the objective, and how that is known.

    Parameters
    ----------
    errors : iterable of (str, float, float)
        See `_errors`. The first that are negligible are enough.
    """
    objective = max(abs(solution.objective) / problem.scale.unit**2, problem.gap_floor)
    norm = np.sqrt(2 * max(solution.dual_gap, 0.0) * objective)
    least = np.inf, np.inf, WITH_ROUNDING
    for how, in_value, in_gradient in errors:
        bound = float(in_value + in_gradient * (norm + in_gradient))
        added = bound / objective if objective > 0 else np.inf if bound else 0.0
        least = min(least, (added, float(in_value), how))
        if least[0] <= _NEGLIGIBLE:
            break
    return least


def _errors(problem, solution, prepared, kept, intercept):
    """Yield how errors are known, a bound on that of the objective, and on that of its gradient.

    Of features by the norm of X, which is known, then by its columns; of inner products of samples
    by the norms of their rows, then as measured on some rows.

    Parameters
    ----------
    kept : ndarray
        w, or coefficients of samples for a kernel model.
    intercept : float
        For rows as they are.
    """
    X, kernel, design, scale = prepared.X, prepared.kernel, problem.design, problem.scale
    weight, smoothness = problem.target.weight, problem.loss.smoothness
    pull, size = np.abs(solution.pull) / scale.unit, np.abs(kept)
    growth = _GROWTH * np.sqrt(X.shape[1]) * ROUNDING_FLOOR
    far = abs(intercept)  # from zero, where decision values of centred rows are

    def of_decision(error, lengths):
        """Return what errors of decision values do; samples have features of these lengths."""
        in_value = pull @ error + smoothness * (weight @ np.square(error))
        moved = 2 * smoothness * weight * error + _GROWTH * ROUNDING_FLOOR * pull
        return in_value, np.sum(moved * lengths)

    if kernel is None:
        center = np.zeros(X.shape[1]) if design.center is None else np.abs(design.center)
        far += center @ size
    if kernel is None and not hasattr(design, "features"):
        # Sums over samples of products with norms of rows, by the inequality of Cauchy.
        length = np.sqrt(prepared.square + X.shape[0] * (center @ center))
        share, norm = np.sqrt(weight.max(initial=0.0)), np.linalg.norm(pull)
        reach = growth * np.linalg.norm(kept) * length
        error = share * reach + growth * far
        in_value = norm * reach + pull.sum() * growth * far + smoothness * error**2
        in_gradient = share * length * 2 * smoothness * error + growth * norm * length
        yield WITH_ROUNDING, in_value, in_gradient
        highest = abs(X).max(axis=0)
        highest = (highest.toarray().ravel() if issparse(X) else highest) + center
        error = np.full(pull.size, growth * (highest @ size + far))
        yield WITH_ROUNDING, *of_decision(error, np.linalg.norm(highest))
        return
    size = size if kernel is not None else np.abs(solution.coef) / scale.unit
    if isinstance(kernel, RadialKernel):
        # The exponent of a value is rounded by a multiple of both squared norms.
        norms = PreparedKernel(kernel, X, np.float64).rounding_scale()
        error, lengths = norms * size.sum() + norms @ size, np.ones(1)
    else:
        squares = problem.design.squared_norms
        if kernel is not None and kernel.is_prepared:
            squares = PreparedKernel(kernel, X, np.float64).diagonal()
        lengths = np.sqrt(np.abs(squares))
        error = lengths * (lengths @ size)
    error = growth * (error + far)
    yield WITH_ROUNDING, *of_decision(error, lengths)
    is_wider = np.finfo(_LONG).eps < ROUNDING_FLOOR
    if solution.decision is not None and _has_formula(kernel) and is_wider:
        seen = (solution.decision - scale.center) / scale.unit - intercept
        share = _measured_share(kernel, X, kept, seen, error)
        yield ESTIMATED, *of_decision(share * error, lengths)


def _measured_share(kernel, X, coef, decision, error):
    """Return the largest share of a bound on errors of decision values, as seen on some rows."""
    spaced = np.arange(0, error.size, max(error.size // _PROBED_ROWS, 1))
    rows = np.union1d(spaced, np.argsort(error, kind="stable")[-_PROBED_ROWS:])
    exact = _long_values(kernel, X, rows) @ coef.astype(_LONG)
    tiny = np.finfo(np.float64).tiny  # where all coefficients are zero
    return float(_MARGIN * np.max(np.abs(exact - decision[rows]) / (error[rows] + tiny)))


# ---------------------------------------------------------------- extended precision


class _LongRows:
    """Rows of numbers, or of their differences from the mean row.

    Parameters
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
        Features, or kernel values with all samples.
    centred : bool
    """

    def __init__(self, X, *, centred):
        self._X = X
        self._center = X.mean(axis=0, dtype=np.float64).astype(_LONG) if centred else None

    def decision(self, w):
        """Return products with rows as they are but for a constant, and that constant."""
        shift = 0.0 if self._center is None else self._center @ w
        return np.concatenate([rows @ w for _, rows in self._blocks()]), shift

    def represent(self, pull):
        """Return the sum of rows; of differences from the mean, pulls must sum to zero."""
        return sum(pull[part] @ rows for part, rows in self._blocks())

    def _blocks(self):
        n_samples, center = self._X.shape[0], self._center
        stored = issparse(self._X) and center is None
        n_values = self._X.nnz if stored else n_samples * self._X.shape[1]
        n_block = max(_BLOCK_ELEMENTS * n_samples // max(n_values, 1), 1)
        for first in range(0, n_samples, n_block):
            part = slice(first, first + n_block)
            rows = self._X[part].astype(_LONG)
            yield part, rows if center is None else rows - center


def _long_values(kernel, X, rows):
    """Return values of a kernel with a formula between rows and all samples."""
    own, n_block = _long_dense(X[rows]), max(_BLOCK_ELEMENTS // X.shape[1], 1)
    blocks = []
    for first in range(0, X.shape[0], n_block):
        Z = _long_dense(X[first : first + n_block])
        if isinstance(kernel, InnerProductKernel):
            blocks.append(kernel.of_products(own @ Z.T))
        else:
            gamma = np.asarray(kernel.gamma, dtype=_LONG)
            squares = [(gamma * np.square(Z - row)).sum(axis=1) for row in own]
            blocks.append(kernel.profile(np.stack(squares)))
    return np.concatenate(blocks, axis=1)


def _long_dense(X):
    return (X.toarray() if issparse(X) else X).astype(_LONG)


def _has_formula(kernel):
    return isinstance(kernel, RadialKernel | InnerProductKernel)


def _with_long_gap(problem, solution, prepared, kept, intercept, in_value):
    """Return a solution with objective and gap of the numbers kept, in extended precision.

    Parameters
    ----------
    kept, intercept
        See `_errors`.
    in_value : float
        What rounding to double precision can do to the objective.
    """
    X, kernel, target, loss = prepared.X, prepared.kernel, problem.target, problem.loss
    kept = kept.astype(_LONG)
    is_gram = kernel is not None and not kernel.is_linear
    if is_gram:
        every = np.arange(X.shape[0])
        if _has_formula(kernel):
            values = _long_values(kernel, X, every)
        else:  # those that are given, by a matrix or a function, are exact
            values = problem.design.columns(every)
        rows = _LongRows(values, centred=False)
    else:
        kept = kept if kernel is None else _LongRows(X, centred=False).represent(kept)
        rows = _LongRows(X, centred=problem.fit_intercept and not issparse(X))
    weight, unit = target.weight.astype(_LONG), problem.scale.unit
    decision, shift = rows.decision(kept)
    offset = _LONG(intercept) + shift

    def evaluate(offset):
        value, slope, curvature = loss.terms(target.shortfall(decision + offset))
        return weight @ value, weight * target.orientation * slope, weight @ curvature

    def slope(step):
        _, pull, curvature = evaluate(offset + step)
        return -pull.sum(), np.abs(pull).sum(), curvature

    def dual_value(pull):
        pull = balanced(pull.astype(_LONG)) if problem.fit_intercept else pull.astype(_LONG)
        image = rows.represent(pull)
        square = (pull if is_gram else image) @ image
        with np.errstate(invalid="ignore", over="ignore"):
            conjugate = loss.conjugate_terms(target.orientation * pull / weight)
            value = target.value @ pull - weight @ conjugate - square / 2
        return value if np.isfinite(value) else -np.inf

    value, pull, _ = evaluate(offset)
    value += kept @ (decision if is_gram else kept) / 2
    if problem.fit_intercept:
        pull = evaluate(offset + line_search(slope, start=0.0))[1]
    own = problem.design.sample_coefficients(solution.coef, solution.pull)
    pulls = [pull, solution.pull / unit, *([] if own is solution.pull else [own / unit])]
    gap = max(float(value - max(map(dual_value, pulls))), 0.0)
    # What rounding leaves of the objective, and of the dual one, which is as large.
    left = 2 * in_value * float(np.finfo(_LONG).eps) / ROUNDING_FLOOR
    value, floor = float(value), problem.gap_floor
    how = EXACT if left <= _NEGLIGIBLE * max(value, floor) else WITH_ROUNDING
    certificate = Certificate(relative_gap(value, gap + left, floor), how)
    return replace(solution, objective=value * unit**2, certificate=certificate)
