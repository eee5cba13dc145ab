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
from optimargin.held_out.closed_form import point_near
from optimargin.kernels.prepared import row_blocks
from optimargin.solvers import Newton, NewtonCG
from optimargin.systems import SampleSystem, system_of
from optimargin.training.plan import plan_calibration

_TIE = 1e-6  # relative difference of scores of two fits that are the same but for rounding
_ROUNDING = 1e-9  # of a number of samples, and of scores of one fit, which are about one


@dataclass(frozen=True)
class FewSamples:
    """Weights that add up to `total` are too few for a false-alarm rate, which takes `needed`."""

    rate: float
    total: float
    needed: float


@dataclass(frozen=True)
class TiedSamples:
    """More samples than a share have the smallest score."""

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
    steps = np.append(0, np.flatnonzero(np.diff(ordered) > _ROUNDING) + 1)  # numbers below, but all
    shares = np.append(0.0, np.cumsum(count[order]))[steps] / total
    last = int(np.searchsorted(shares, rate * (1 + _ROUNDING), side="right")) - 1
    is_single = last + 1 == steps.size or (shares[last + 1] - shares[last]) * total <= 1 + _ROUNDING
    if not is_single and shares[last + 1] - rate < rate - shares[last]:
        last += 1
    n_below = steps[last]
    if n_below == 0:
        return float(ordered[0] - _ROUNDING), int(np.append(steps, order.size)[1])
    return float(ordered[n_below - 1 : n_below + 1].mean()), 0


@dataclass(frozen=True)
class Reference:
    """Scores of samples by models that they had no part in, which new samples are compared with.

    The models without one sample each follow from one factor over the support vectors; those
    without one fold each are stored.

    Attributes
    ----------
    scores : ndarray of shape (n_samples,)
        Of models without one sample each, first those of the support vectors.
    shares : ndarray of shape (n_samples,)
        What each sample counts, as a share of all.
    total : ndarray of shape (1,)
        What all samples count.
    root, change : ndarray of shape (n_support,) or None
        Of models without one sample each: the root of the curvature of each support vector, and
        how far the model moves when it is left out (`optimargin.systems`).
    fold : ndarray of shape (n_samples,) or None
        Of models without one fold each: integers from 0.
    coef : ndarray of shape (n_folds, n_support) or None
        Their coefficients of the support vectors.
    """

    scores: np.ndarray
    shares: np.ndarray
    total: np.ndarray
    root: Any = None
    change: Any = None
    fold: Any = None
    coef: Any = None

    @classmethod
    def of(cls, scores, count, **models) -> "Reference":
        """Return the reference of samples that count so many each."""
        total = count.sum(keepdims=True)
        return cls(scores, count / total, total, **models)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The same as plain arrays, which model files hold."""
        return {name: values for name, values in vars(self).items() if values is not None}

    def check(self, n_support):
        """Raise ValueError for parts that do not fit together."""
        shapes: dict = {"total": (1,), "root": (n_support,), "change": (n_support,)}
        if self.coef is not None:
            shapes["coef"] = (len(self.coef), n_support)
        for name, values in self.arrays.items():
            shape = shapes.get(name, (self.scores.size,))
            if values.shape != shape or not np.isfinite(values).all():
                raise ValueError(f"the {name} of the reference of p-values are damaged")
        if self.coef is not None and not ((self.fold >= 0) & (self.fold < len(self.coef))).all():
            raise ValueError("the folds of the reference of p-values are damaged")
        total, most = self.total[0], np.sqrt(np.finfo(np.float64).max)  # products do not overflow
        if (self.shares < 0).any() or abs(self.shares.sum() - 1) > 1e-6 or not 0 < total < most:
            raise ValueError("the counts of the reference of p-values are damaged")

    def p_values(self, model, X, decision):
        """Return the p-values of the rows of `X`, whose scores are `decision`."""
        # What decision values have to reach to count as equal to scores.
        reached = self.scores - _TIE * np.abs(self.scores)
        compare = self._with_each if self.fold is None else self._with_folds
        # The shares of the total are counts of samples, which are exact to six digits.
        count = np.round(compare(model, X, decision, reached) * self.total, 6)
        return (1.0 + count) / (1.0 + self.total)

    def _with_each(self, model, X, decision, reached):
        """Return the share of the samples that rows do not score above, without one each."""
        n_support = self.root.size
        out = self._counted(slice(n_support, None), reached, decision)
        if n_support == 0:
            return out
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
        return out

    def _with_folds(self, model, X, decision, reached):
        """Return the same by the models without one fold each."""
        none = np.zeros(len(self.coef), dtype=self.coef.dtype)
        decisions = replace(model, dual_coef=self.coef, intercept=none).scores(X)
        return sum(
            self._counted(self.fold == k, reached, of_fold) for k, of_fold in enumerate(decisions.T)
        )

    def _counted(self, some, reached, decision):
        """Return the summed shares of `some` samples whose scores are reached."""
        scores = reached[some]
        order = np.argsort(scores)
        summed = np.append(0.0, np.cumsum(self.shares[some][order]))
        return summed[np.searchsorted(scores[order], decision, side="right")]


_KINDS = ({"root", "change"}, {"fold", "coef"})  # what a reference has beside its scores


def from_arrays(arrays, n_support):
    """Return the reference of plain arrays, checked to fit together and to the support vectors."""
    is_plain = isinstance(arrays, dict) and all(
        isinstance(values, np.ndarray) and values.dtype.kind == ("i" if name == "fold" else "f")
        for name, values in arrays.items()
    )
    if not is_plain:
        raise ValueError("the reference of p-values holds something else than numbers")
    if not any(arrays.keys() == {"scores", "shares", "total"} | kind for kind in _KINDS):
        raise ValueError(f"the reference of p-values has the parts {sorted(arrays)}")
    reference = Reference(**arrays)
    reference.check(n_support)
    return reference


@dataclass(frozen=True)
class Calibrator:
    """Finds what the scores of a solved problem mean, from models without some of the samples.

    Attributes
    ----------
    rate : float
        Of false alarms.
    novelty : bool, default=True
        Whether new samples will be asked about, or those of the fit alone.
    """

    rate: float
    novelty: bool = True

    def __call__(self, problem, solution, *, kernel, count, options, notify):
        """Return the threshold, the reference, and the models that are stored beside the model.

        Parameters
        ----------
        problem : AdditiveProblem
        solution : Solution
        kernel : Kernel
        count : ndarray of shape (n_samples,)
            How many samples each stands for: its weight, not normalised.
        options : Options
        notify : callable

        Returns
        -------
        offset : float
        reference : Reference
            Over all samples, in their order. Its coefficients are those of `models`, once these
            are expressed by support vectors.
        models : list of Point
        """
        point = problem.point(solution.coef, solution.intercept)
        n_active = int(np.count_nonzero(point.curvature))
        plan = plan_calibration(problem.design, n_active, kernel)
        system = system_of(problem, point) if plan.closed_form else None
        reference, models = None if system is None else _without_each(system, count), []
        offset = None if reference is None else self.offset(reference.scores, count, notify)
        if reference is None or (self.novelty and not plan.stores_leave_one_out):
            reference, models = _without_folds(problem, point, system, count, plan.n_folds, options)
        if offset is None:
            offset = self.offset(reference.scores, count, notify)
        return offset, reference, models if self.novelty else []

    def applied(self, fit, rows, offset, reference, models):
        """Return a fit of the model and `models` as the fit of the model, with what was found.

        Parameters
        ----------
        fit : Fit
        rows : ndarray of shape (n_samples,)
            Indices of the samples in the data given.
        offset, reference, models
            As they were found.
        """
        model, others = fit.model.split(1)
        if models:
            reference = replace(reference, coef=others.dual_coef)
        elif self.novelty:
            support = np.searchsorted(rows, model.support)
            order = np.append(support, np.delete(np.arange(rows.size), support))
            by_sample = {"scores": order, "shares": order, "root": support, "change": support}
            parts = reference.arrays
            reference = replace(reference, **{k: parts[k][by_sample[k]] for k in by_sample})
        return replace(fit, model=model, calibrated=self.attributes(offset, reference))

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
        offset = self.offset(scores[used], count[used], notify)
        models = {"fold": fold[used], "coef": others.dual_coef}
        found = self.attributes(offset, Reference.of(scores[used], count[used], **models))
        if not self.novelty:
            found["held_out_scores_"] = scores  # also of samples that count nothing
        return replace(
            fit,
            model=model,
            n_iter=fit.n_iter[:1],
            objective_value=fit.objective_value[:1],
            dual_gap=fit.dual_gap[:1],
            calibrated=found,
        )

    def offset(self, scores, count, notify):
        """Return the threshold of held-out scores."""
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

    def attributes(self, offset, reference):
        """Return what a fitted estimator keeps: a reference, or the scores of its samples."""
        if self.novelty:
            return {"offset_": offset, "_reference": reference.arrays}
        return {"offset_": offset, "held_out_scores_": reference.scores}


def _without_each(system, count):
    """Return the models without one sample each; root and change are those of all samples."""
    share = 1.0 / np.maximum(count, 1.0)
    change, _ = system.changes(share)
    moves = np.zeros(count.size)
    moves[system.active] = change[:, 0] * share[system.active]
    scores, root = system.left_out(share)[:, 0], np.sqrt(system.curvature)
    return Reference.of(scores, count, root=root, change=moves)


def _without_folds(problem, point, system, count, n_folds, options):
    """Return the models without one fold each; they begin at closed forms where there are any."""
    n_samples = count.size
    fold = np.random.default_rng(options.seed).permutation(n_samples) % min(n_folds, n_samples)
    solver = (NewtonCG if system is None else Newton)(tol=options.tol, max_iter=options.max_iter)
    scores, models = np.empty(n_samples), []
    for k in range(fold.max() + 1):
        rows = np.flatnonzero(fold == k)
        if system is None:
            start = np.where(fold == k, 0.0, point.coef)
        else:
            start = system.without(rows)[0][:, 0]
        models.append(point_near(problem.without(rows), start, 0.0, solver))
        scores[rows] = models[-1].decision[rows]
    return Reference.of(scores, count, fold=fold), models
