"""What the scores of a one-class model mean: a threshold and p-values.

A model scores the samples it was trained on too high, so neither comes from those scores, but from
scores s_i = f_-i(x_i) by models that the sample had no part in. A new normal sample is, before one
looks, as likely to have any rank among such scores as any other. So the k-th smallest of m of them
is undercut by about k / (m + 1) of new normal samples, and

    p(x) = (1 + #{i : s_i <= f_-i(x)}) / (m + 1),

which compares sample and new sample by the same model, is at most alpha with a probability of at
most 2 alpha for models without one sample each (Barber et al., Predictive inference with the
jackknife+, 2021) and, in practice, near alpha. A weight of w counts as w samples, one of which is
left out at a time.

Where the samples are many, models without each of a few folds take the place of those without one
sample; `optimargin.training.plan.plan_calibration` decides.

Where the odd ones among the samples themselves are looked for, the scores s_i are all that is kept,
and the threshold is between those of the share asked for and the others.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optimargin.designs import GramDesign
from optimargin.kernels.prepared import row_blocks
from optimargin.solvers import Newton, NewtonCG
from optimargin.systems import SampleSystem, system_of
from optimargin.training.plan import plan_calibration

_TIE = 1e-6  # relative difference of scores that are the same but for rounding
_SAME = 1e-9  # the same of scores of one fit, which are about one
_ROUNDING = 1e-9  # of a number of samples
_DIGITS = 6  # of a number of samples that are not rounding
_MOST = 1e200  # that all samples may count


@dataclass(frozen=True)
class FewSamples:
    """There are too few samples for a false-alarm rate.

    Attributes
    ----------
    rate : float
    total : float
        The sum of the weights.
    needed : float
        What it has to be.
    """

    rate: float
    total: float
    needed: float


@dataclass(frozen=True)
class TiedSamples:
    """More samples than a share have the smallest score.

    Attributes
    ----------
    rate : float
        The share.
    n_tied : int
    """

    rate: float
    n_tied: int


def threshold(scores, count, rate):
    """Return the score that a share `rate` of new normal samples undercuts.

    Parameters
    ----------
    scores : ndarray of shape (n_samples,)
        Each by a model without the sample.
    count : ndarray of shape (n_samples,)
        How many samples each stands for.
    rate : float

    Returns
    -------
    threshold : float
        The k-th smallest score with k = floor(rate (m + 1)) and m the sum of the counts; the
        smallest score where k is zero.
    is_reached : bool
        Whether k is at least one.
    """
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(count[order])
    wanted = np.floor(rate * (reached[-1] + 1) * (1 + _ROUNDING))
    place = np.searchsorted(reached, wanted - _ROUNDING * reached[-1])
    return float(scores[order[min(place, order.size - 1)]]), bool(wanted >= 1)


def dividing_line(scores, count, rate):
    """Return the score that a share `rate` of the samples themselves is below.

    Samples of the same score are on one side: that which is nearer to the share.

    Parameters
    ----------
    scores, count, rate
        As in `threshold`.

    Returns
    -------
    line : float
        Halfway between the scores on its sides.
    n_tied : int
        Where no sample is below: how many have the smallest score. Else zero.
    """
    order = np.argsort(scores, kind="stable")
    ordered, total = scores[order], count.sum()
    steps = np.append(0, np.flatnonzero(np.diff(ordered) > _SAME) + 1)  # numbers below, but all
    shares = np.append(0.0, np.cumsum(count[order]))[steps] / total
    last = int(np.searchsorted(shares, rate * (1 + _ROUNDING), side="right")) - 1
    is_single = last + 1 == steps.size or (shares[last + 1] - shares[last]) * total <= 1 + _ROUNDING
    if not is_single and shares[last + 1] - rate < rate - shares[last]:
        last += 1
    n_below = steps[last]
    if n_below == 0:
        return float(ordered[0] - _SAME), int(np.append(steps, order.size)[1])
    return float(ordered[n_below - 1 : n_below + 1].mean()), 0


@dataclass(frozen=True)
class LeaveOneOutReference:
    """The models without one sample each: those of support vectors follow from one factor.

    Attributes
    ----------
    scores : ndarray of shape (n_samples,)
        Each by the model without the sample; first those of the support vectors.
    shares : ndarray of shape (n_samples,)
        What each sample counts, as a share of all.
    total : ndarray of shape (1,)
        What all samples count.
    root, change : ndarray of shape (n_support,)
        The root of the curvature of each support vector, and how far the model moves when it
        is left out (`optimargin.systems`).
    """

    scores: np.ndarray
    shares: np.ndarray
    total: np.ndarray
    root: np.ndarray
    change: np.ndarray

    def check(self, n_support):
        """Raise ValueError for parts that do not fit together."""
        shapes = {"total": (1,), "root": (n_support,), "change": (n_support,)}
        _check_parts(self.scores.size, shapes, **as_arrays(self))

    def p_values(self, model, X, decision):
        """Return the p-values of the rows of `X`, whose scores are `decision`."""
        n_support = self.root.size
        reached = _lowered(self.scores)
        out = _counted(reached[n_support:], self.shares[n_support:], decision)
        if n_support == 0:
            return _as_p_values(out, self.total)
        vectors = model.vectors.astype(np.float64)
        K = np.ascontiguousarray(model.kernel(vectors), dtype=np.float64)
        system = SampleSystem(GramDesign(K), fit_intercept=False)
        system.move(self.root**2, np.zeros((n_support, 1)))
        for rows in row_blocks(X.shape[0], n_support):
            new = model.kernel(X[rows].astype(np.float64), vectors)
            moved = np.zeros(new.shape)
            moved[:, system.active] = system.influence(new[:, system.active])
            moved *= self.change
            tie = _TIE * np.abs(moved)  # of scores that are zero but for rounding
            is_reached = reached[:n_support] <= decision[rows, None] - moved + tie
            out[rows] += is_reached @ self.shares[:n_support]
        return _as_p_values(out, self.total)


@dataclass(frozen=True)
class FoldReference:
    """The models without one fold each.

    Attributes
    ----------
    scores : ndarray of shape (n_samples,)
        Each by the model without the fold of the sample.
    shares, total : ndarray of shape (n_samples,), (1,)
        As in `LeaveOneOutReference`.
    fold : ndarray of shape (n_samples,)
        Integers from 0.
    coef : ndarray of shape (n_folds, n_support)
        Coefficients of the support vectors.
    """

    scores: np.ndarray
    shares: np.ndarray
    total: np.ndarray
    fold: np.ndarray
    coef: np.ndarray

    def check(self, n_support):
        """Raise ValueError for parts that do not fit together."""
        shapes = {"total": (1,), "coef": (len(self.coef), n_support)}
        _check_parts(self.scores.size, shapes, **as_arrays(self))
        if not ((self.fold >= 0) & (self.fold < len(self.coef))).all():
            raise ValueError("the folds of the reference of p-values are damaged")

    def p_values(self, model, X, decision):
        """Return the p-values of the rows of `X`."""
        none = np.zeros(len(self.coef), dtype=self.coef.dtype)
        decisions = replace(model, dual_coef=self.coef, intercept=none).scores(X)
        out = np.zeros(X.shape[0])
        reached = _lowered(self.scores)
        for k in range(len(self.coef)):
            some = self.fold == k
            out += _counted(reached[some], self.shares[some], decisions[:, k])
        return _as_p_values(out, self.total)


def _as_p_values(shares, total):
    """Return ``(1 + count) / (1 + total)`` of shares of the total; counts of samples are exact."""
    return (1.0 + np.round(shares * total, _DIGITS)) / (1.0 + total)


def _lowered(scores):
    """Return what decision values have to reach to count as equal to scores."""
    return scores - _TIE * np.abs(scores)


def _counted(scores, shares, decision):
    """Return the shares of the scores up to each of some decision values, summed."""
    order = np.argsort(scores)
    summed = np.append(0.0, np.cumsum(shares[order]))
    return summed[np.searchsorted(scores[order], decision, side="right")]


def as_arrays(reference) -> dict[str, np.ndarray]:
    """Return a reference as plain arrays, which model files hold."""
    return {name: getattr(reference, name) for name in reference.__dataclass_fields__}


def from_arrays(arrays, n_support):
    """Return the reference of plain arrays, checked to fit together and to the support vectors."""
    is_plain = isinstance(arrays, dict) and all(
        isinstance(values, np.ndarray) and values.dtype.kind == ("i" if name == "fold" else "f")
        for name, values in arrays.items()
    )
    if not is_plain:
        raise ValueError("the reference of p-values holds something else than numbers")
    for kind in (LeaveOneOutReference, FoldReference):
        if arrays.keys() == set(kind.__dataclass_fields__):
            reference: Any = kind(**arrays)
            reference.check(n_support)
            shares, total = reference.shares, reference.total[0]
            if (shares < 0).any() or abs(shares.sum() - 1) > 1e-6 or not 0 < total < _MOST:
                raise ValueError("the counts of the reference of p-values are damaged")
            return reference
    raise ValueError(f"the reference of p-values has the parts {sorted(arrays)}")


def _check_parts(n_samples, shapes, **arrays):
    """Raise ValueError for arrays that are not finite or have other shapes."""
    for name, values in arrays.items():
        if values.shape != shapes.get(name, (n_samples,)) or not np.isfinite(values).all():
            raise ValueError(f"the {name} of the reference of p-values are damaged")


@dataclass(frozen=True)
class Calibration:
    """What models without some of the samples tell.

    Attributes
    ----------
    offset : float
        The threshold of scores.
    scores : ndarray of shape (n_samples,)
        The scores it comes from.
    models : list of Solution
        Those that are stored beside the model, if any.
    reference : LeaveOneOutReference, FoldReference or None
        Over all samples, in their order; its coefficients are those of `models`, once these
        are expressed by support vectors. None where no new samples will be asked about.
    """

    offset: float
    scores: np.ndarray
    models: list
    reference: Any

    def applied(self, fit, rows):
        """Return a fit of the model and `models` as the fit of the model, with its calibration.

        Parameters
        ----------
        fit : Fit
        rows : ndarray of shape (n_samples,)
            Indices of the samples in the data given.
        """
        model, others = fit.model.split(1)
        reference = self.reference
        if reference is None:
            return replace(fit, calibrated=_attributes(self.offset, scores=self.scores))
        if self.models:
            reference = replace(reference, coef=others.dual_coef)
        else:
            support = np.searchsorted(rows, model.support)
            is_other = np.ones(rows.size, dtype=bool)
            is_other[support] = False
            order = np.concatenate([support, np.flatnonzero(is_other)])
            reference = LeaveOneOutReference(
                reference.scores[order],
                reference.shares[order],
                reference.total,
                reference.root[support],
                reference.change[support],
            )
        return replace(fit, model=model, calibrated=_attributes(self.offset, reference))


@dataclass(frozen=True)
class Calibrator:
    """Makes the calibration of a solved problem.

    Attributes
    ----------
    rate : float
        Of false alarms.
    novelty : bool, default=True
        Whether new samples will be asked about, or those of the fit alone.
    """

    rate: float
    novelty: bool = True

    def __call__(self, problem, solution, *, kernel, count, options, notify) -> Calibration:
        """Return the calibration.

        Parameters
        ----------
        problem : AdditiveProblem
        solution : Solution
        kernel : Kernel
        count : ndarray of shape (n_samples,)
            How many samples each stands for: its weight, not normalised.
        options : Options
        notify : callable
        """
        point = problem.point(solution.coef, solution.intercept)
        n_active = int(np.count_nonzero(point.curvature))
        plan = plan_calibration(problem.design, n_active, kernel)
        system = system_of(problem, point) if plan.closed_form else None
        reference: Any = None if system is None else _without_each(system, count)
        scores = None if system is None else reference.scores
        models: list = []
        if scores is None or (self.novelty and not plan.stores_leave_one_out):
            reference, models = _without_folds(problem, point, system, count, plan.n_folds, options)
        if scores is None:
            scores = reference.scores
        offset = self._offset(scores, count, notify)
        if not self.novelty:
            return Calibration(offset, scores, [], None)
        return Calibration(offset, scores, models, reference)

    def of_folds(self, fit, scores, count, fold, *, notify):
        """Return a fit of the model and of those without one fold as the fit of the model.

        Parameters
        ----------
        fit : Fit
            Its first output is the model, the others are the models without one fold each.
        scores, count, fold : ndarray of shape (n_samples,)
            The score of each sample by the model without its fold, its weight, and its fold.
        notify : callable
        """
        model, others = fit.model.split(1)
        used = count > 0
        offset = self._offset(scores[used], count[used], notify)
        reference = None
        if self.novelty:
            shares, total = _shares(count[used])
            reference = FoldReference(scores[used], shares, total, fold[used], others.dual_coef)
        return replace(
            fit,
            model=model,
            n_iter=fit.n_iter[:1],
            objective_value=fit.objective_value[:1],
            dual_gap=fit.dual_gap[:1],
            calibrated=_attributes(offset, reference, scores),
        )

    def _offset(self, scores, count, notify):
        total, needed = float(count.sum()), 1 / self.rate
        if self.novelty:
            offset, is_reached = threshold(scores, count, self.rate)
            if not is_reached:
                notify(FewSamples(self.rate, total, needed - 1))  # a new sample is one more
            return offset
        offset, n_tied = dividing_line(scores, count, self.rate)
        if n_tied:
            few = total < needed * (1 - _ROUNDING)
            notify(FewSamples(self.rate, total, needed) if few else TiedSamples(self.rate, n_tied))
        return offset


def _attributes(offset, reference=None, scores=None):
    """Return what a fitted estimator keeps: a reference, or else the scores of its samples."""
    if reference is None:
        return {"offset_": offset, "held_out_scores_": scores}
    return {"offset_": offset, "_reference": as_arrays(reference)}


def _shares(count):
    """Return counts as shares, and their sum."""
    total = count.sum(keepdims=True)
    return count / total, total


def _without_each(system, count):
    """Return the models without one sample each; root and change are those of all samples."""
    share = 1.0 / np.maximum(count, 1.0)
    scores = system.left_out(share)[:, 0]
    change, _ = system.changes(share)
    moves = np.zeros(count.size)
    moves[system.active] = change[:, 0] * share[system.active]
    root = np.sqrt(system.curvature)
    shares, total = _shares(count)
    return LeaveOneOutReference(scores, shares, total, root, moves)


def _without_folds(problem, point, system, count, n_folds, options):
    """Return the models without one fold each; they begin at closed forms where there are any."""
    n_samples = count.size
    fold = np.random.default_rng(options.seed).permutation(n_samples) % min(n_folds, n_samples)
    scores = np.empty(n_samples)
    models = []
    for k in range(fold.max() + 1):
        rows = np.flatnonzero(fold == k)
        if system is None:
            solver: Any = NewtonCG(tol=options.tol, max_iter=options.max_iter)
            start = np.where(fold == k, 0.0, point.coef)
        else:
            solver = Newton(tol=options.tol, max_iter=options.max_iter)
            start = system.without(rows)[0][:, 0]
        models.append(solver.solve(problem.without(rows), start, 0.0))
        scores[rows] = problem.design.decision(models[-1].coef)[rows]
    shares, total = _shares(count)
    return FoldReference(scores, shares, total, fold, np.empty((0, 0))), models
