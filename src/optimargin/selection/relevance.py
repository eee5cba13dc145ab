"""Widths per feature of a radial kernel, found by the gradient of the held-out loss.

From a tuned common width, the logarithms of the widths of all features and the penalty descend
together on the closed-form fold loss of `optimargin.selection.loss`: at quadratic losses, where
all classes share their factors, since the loss matters little for the widths.

As many parameters as features fit chance, too. Two restraints: the loss has a penalty on widths
that differ; and the widths are taken only where fits confirm them on samples that took no part in
finding them. Other folds of the same samples cannot tell, since all of them were seen: so the
descent is repeated without each of three outer folds.

Most data gain nothing by widths, and those that do gain much. So a few steps from each half of some
hundred samples, scored on the other half, tell whether the rest is worth its time.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from optimargin._threads import one_blas_thread, one_thread
from optimargin._ties import TOLERANCE, exceeds, place_of_best
from optimargin.selection.criteria import Criterion
from optimargin.selection.loss import CHEAP_UP_TO, EXACT_UP_TO, N_FOLDS, HeldOutLoss
from optimargin.selection.search import DESCENT, climb, looks_and_middle
from optimargin.selection.stages import OTHER_HILL, Clock, Judged, Stage, work_off
from optimargin.systems import Folds

N_OUTER = 3  # folds that confirm, and parts of each: their spread says how sure the mean gain is
MAX_SAMPLES = EXACT_UP_TO  # that widths are found on
PROMISING = 0.04  # mean gain of both halves, as a share of the loss
_STEPS = 2 * DESCENT  # evaluations of a descent that widths are taken from
_LARGEST_DENSE = 20_000_000  # elements of sparse data that are made dense
_STEP = 0.03  # widths of the bounds, the first step of a descent
MAX_STEPS = (N_OUTER + 1) * _STEPS + 8 * DESCENT  # evaluations, about


def can_find_widths(data, guide):
    """Return whether widths per feature can be found for these data and this criterion."""
    n_samples = min(data.n_samples, MAX_SAMPLES)
    return (
        data.kernel.kind.has_width
        and data.objective_type.has_gradient
        and guide.has_slope
        and data.X.shape[1] > 1
        and (not issparse(data.X) or n_samples * data.X.shape[1] <= _LARGEST_DENSE)
    )


@dataclass(frozen=True)
class WidthsSearch:
    """Looks for widths per feature from a tuned common width.

    Attributes
    ----------
    x : ndarray of shape (n_parameters,)
        Coordinates of the objective, of a quadratic loss if there is any.
    gamma : float
        The tuned one.
    guide : Criterion
    random_state : RandomState
    clock : Clock
    """

    x: np.ndarray
    gamma: float
    guide: Criterion
    random_state: Any
    clock: Clock

    def loss(self, data, rows, left_out=None, n_repeats=1):
        """Return the loss of some samples, as a function of widths per feature.

        Parameters
        ----------
        data : SelectionData
        rows : ndarray of shape (n_rows,)
        left_out : ndarray of shape (n_left_out,), default=None
            Samples that the models of all `rows` are judged by; `rows` themselves, left out fold by
            fold, when not given.
        n_repeats : int
        """
        splits = None if left_out is None else [(rows, left_out)]
        settings = {"n_repeats": n_repeats, "gamma": self.gamma, "rows": rows}
        return HeldOutLoss(data, splits, self.random_state, self.guide, **settings)

    def descend(self, loss, start, max_evals=_STEPS):
        """Return the record of the lowest loss that a descent saw.

        Of the objective, coordinates that are those of quadratic losses stay.

        Parameters
        ----------
        loss : HeldOutLoss
        start : ndarray of shape (n_coordinates,)
        max_evals : int
        """

        def work(stage, _):
            stage.descend(start, max_evals, loss.quadratic, step=_STEP)

        stage = work_off([Stage(loss, self.clock, work)])
        self.clock.check()
        return next(stage.ranked())

    def starts(self, data):
        """Return where descents start: at the tuned point, and maybe at the default one.

        Among features that say nothing, the best common width may be so large that the model is
        nearly linear. No small change of widths leads from there to a kernel that is not.
        """
        starts = [np.append(self.x, np.zeros(data.X.shape[1]))]
        default = data.objective_type.default_x
        away = data.log2_width(self.gamma)
        if default is not None and exceeds(away, OTHER_HILL):  # widths have two digits
            starts.append(np.append(_quadratic(data, default), np.full(data.X.shape[1], -away)))
        return starts

    def lowest(self, loss, starts):
        """Return the start whose descent ends lowest, of ties the first, and that end."""
        ends = [self.descend(loss, start, DESCENT) for start in starts]
        k = place_of_best([-end.loss for end in ends])
        return starts[k], ends[k]

    def promise(self, data):
        """Return whether the widths of each half of some samples help the other half."""
        data = data.sample(2 * CHEAP_UP_TO, self.random_state)
        used = np.flatnonzero(data.weight)
        half = Folds.stratified(data.strata[used], 2, 1, self.random_state).fold[0]
        starts, gains = self.starts(data), []
        for k, least in enumerate((PROMISING / 4, PROMISING)):
            kept, others = used[half == k], used[half != k]
            lacks_a_class = data.lacks_a_class(kept) or data.lacks_a_class(others)
            if kept.size < N_FOLDS or lacks_a_class:
                return False
            one = HeldOutLoss(data, None, self.random_state, self.guide, n_repeats=1, rows=kept)
            common = self.descend(one, np.append(self.x, data.log2_width(self.gamma)), DESCENT // 2)
            _, found = self.lowest(self.loss(data, kept), starts)
            wider = np.full(data.X.shape[1], common.x[-1] - data.log2_width(self.gamma))
            judge = self.loss(data, kept, others)
            old, new = (
                judge(x, gradient=False)[0].score
                for x in (np.append(common.x[:-1], wider), found.x)
            )
            gains.append((new - old) / max(1.0 - old, np.finfo(float).tiny))
            if np.mean(gains) <= least:
                return False
        return True

    def last_steps(self, data, x, gammas):
        """Return the loss of all samples, and its record at the end of the last steps.

        With their features divided by their widths, the data have a common width again.
        """
        scaled = data.scaled(np.sqrt(gammas))
        loss = HeldOutLoss(scaled, None, self.random_state, self.guide)
        start = np.clip(np.append(x, scaled.log2_width(1.0)), *loss.bounds.T)
        _, middle = looks_and_middle(loss, self.random_state)  # some go all the way
        stage = work_off([Stage(middle or loss, self.clock, climb)], DESCENT, [start])
        self.clock.check()
        best = next(stage.ranked())
        return loss, best if middle is None else loss(best.x, gradient=False)[0]


def find_widths(tuned, best, random_state, clock, *, at_once=False) -> Judged | None:
    """Return widths per feature where fits without each fold confirm them, else None.

    They are found and confirmed on at most `MAX_SAMPLES`; then the coordinates of the objective
    and a common factor of the widths follow from all samples. Where these are many, those that
    widths were not found on have to confirm them as well.

    Parameters
    ----------
    tuned : HeldOutLoss
        Of a common width, for all samples.
    best : Judged
        The tuned point.
    random_state : RandomState
    clock : Clock
        `StopSearch` is raised when it is over.
    at_once : bool
        Whether to look for widths without asking first whether they promise anything.

    Returns
    -------
    found : Judged or None
        Its held-out values are those of models whose widths, too, were found without the samples.
    """
    clock.check()
    every = tuned.data
    x, gamma = _quadratic(every, best.x[:-1]), best.point["gamma"]
    widths = WidthsSearch(x, gamma, tuned.guide, random_state, clock)
    clock.expect(MAX_STEPS)
    # Pairs of classes have threads of their own; one output has too few samples here.
    with one_blas_thread() if every.are_pairs else one_thread():
        return _found(widths, tuned, best) if at_once or widths.promise(every) else None


def _found(widths, tuned, best):
    """Return widths per feature that fits confirm, or None; see `find_widths`."""
    every, x, state = tuned.data, widths.x, widths.random_state
    data = every.sample(MAX_SAMPLES, state)
    used, starts = np.flatnonzero(data.weight), widths.starts(data)
    start = starts[0]
    if len(starts) > 1:
        start, _ = widths.lowest(widths.loss(data, used), starts)
    models = _confirmed(widths, data, used, starts[0], start)
    if models is None:
        return None
    found = widths.descend(widths.loss(data, used), start).x
    gammas = widths.gamma * 4.0 ** -found[x.size :]
    of_all, last = widths.last_steps(every, found[: x.size], gammas)
    x, factor = last.x[:-1], last.point["gamma"]
    point = {**last.point, "gamma": gammas * factor}
    if every.n_samples >= 2 * MAX_SAMPLES:
        return _confirmed_by_others(tuned, best, of_all, last, data.rows, point)
    # The same last steps for the models without each fold.
    moved = [np.append(x, found[x.size :] - 0.5 * np.log2(factor)) for _, found in models]
    judged = [judge(at, gradient=False)[0] for (judge, _), at in zip(models, moved, strict=True)]
    rows = np.searchsorted(every.rows, np.concatenate([each.truth.rows for each in judged]))
    decision = np.concatenate([each.decision for each in judged])
    return Judged(x, point, np.mean([each.loss for each in judged]), every.truth(rows), decision)


def _confirmed(widths, data, used, common, start):
    """Return the losses of outer folds, and widths found without them; None without a clear gain.

    Parameters
    ----------
    widths : WidthsSearch
    data : SelectionData
    used : ndarray of shape (n_used,)
        Samples of positive weight.
    common, start : ndarray of shape (n_parameters + n_features,)
        The tuned point, and where descents start.
    """
    if used.size < 2 * N_OUTER**2:
        return None
    outer = Folds.stratified(data.strata[used], N_OUTER, 1, widths.random_state).fold[0]
    models, gains = [], []
    for k in range(N_OUTER):
        kept, left_out = used[outer != k], used[outer == k]
        if data.lacks_a_class(kept):
            return None
        found = widths.descend(widths.loss(data, kept), start).x
        judge = widths.loss(data, kept, left_out)
        models.append((judge, found))
        after, before = (judge(x, gradient=False)[0].decision for x in (found, common))
        for part in range(N_OUTER):
            some = slice(part, None, N_OUTER)
            new, old = (
                _score(widths.guide, data, left_out[some], f[some]) for f in (after, before)
            )
            gains.append(new - old)
        # Scores of guides are of the order of one, and so is what rounding adds to them.
        if k > 0 and np.mean(gains) <= TOLERANCE:
            return None  # the other folds would have to make up for it
    # More than a standard error.
    return models if np.mean(gains) > np.std(gains, ddof=1) / np.sqrt(len(gains)) else None


def _confirmed_by_others(tuned, best, of_all, last, drawn, point):
    """Return widths where they help samples that they were not found on, else None.

    Parameters
    ----------
    tuned, of_all : HeldOutLoss
        With all samples: of the tuned common width, and of the widths.
    best, last : Judged
        The points of each.
    drawn : ndarray
        The samples that widths were found on, as in `SelectionData.rows`.
    point : dict
        What is to be confirmed.
    """
    scores = []
    for loss, judged in ((tuned, best), (of_all, last)):
        others = np.flatnonzero(~np.isin(judged.truth.rows, drawn))
        decision, truth = judged.decision[others], tuned.data.truth(loss.rows[others])
        scores.append(tuned.guide.score(decision, truth))
    if not exceeds(scores[1], scores[0]):
        return None
    return Judged(last.x[:-1], point, 1.0 - scores[1], truth, decision)


def _quadratic(data, x):
    """Return coordinates of the objective where it is quadratic, if it is anywhere."""
    fixed = data.objective_type.quadratic
    return x if fixed is None else np.where(np.isnan(fixed), x, fixed)


def _score(guide, data, rows, decision):
    """Return the score of some held-out samples."""
    return guide.score(decision, data.truth(rows))
