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
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse

from optimargin._ties import TOLERANCE, exceeds, largest, place_of_best
from optimargin.kernels import gamma_of_width
from optimargin.selection.criteria import Criterion
from optimargin.selection.loss import N_FOLDS, HeldOutLoss
from optimargin.selection.search import climb
from optimargin.selection.stages import Clock, Judged, Stage, work_off
from optimargin.systems import Folds

N_REPEATS = 2  # partitions into folds
N_OUTER = 3  # folds that confirm
N_BLOCKS = 3  # parts of an outer fold: the spread of their gains says how sure the mean gain is
MARGIN = 1.0  # standard errors by which the gain must exceed zero
MAX_SAMPLES = 500  # samples that widths are found on
MAX_WIDTHS = 300  # widths: features beyond the most promising ones share one
HALF = 200  # samples of each half that tells whether widths are worth looking for
PROMISING = (0.01, 0.04)  # gains, as shares of the loss: of the first half, and of both on average
_STEPS = 25  # evaluations of a descent
_FEW_STEPS = 10  # evaluations of a descent that only tells what promises more
_MAX_LAST = 15  # evaluations with all samples
_LARGEST_DENSE = 20_000_000  # elements of sparse data that are made dense
_RTOL = 1e-3  # share of the loss by which a step has to lower it for a descent to go on
_STEP = 0.03  # widths of the bounds, the first step of a descent
MAX_STEPS = (N_OUTER + 1) * _STEPS + _MAX_LAST + 7 * _FEW_STEPS  # evaluations, about
_NEARLY_LINEAR = 1.0  # log2 of a common width, in mean distances


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

    def loss(self, data, rows, n_repeats=N_REPEATS):
        """Return the loss of some samples, as a function of widths per feature."""
        settings = {"n_repeats": n_repeats, "gamma": self.gamma, "rows": rows}
        return HeldOutLoss(data, None, self.random_state, self.guide, **settings)

    def descend(self, loss, start, max_evals=_STEPS, *, together=False):
        """Return the record of the lowest loss that a descent saw.

        Of the objective, coordinates that are those of quadratic losses stay.

        Parameters
        ----------
        loss : HeldOutLoss
            Of widths per feature.
        start : ndarray of shape (n_parameters + n_features,)
        max_evals : int
        together : bool
            Whether all widths change by the same factor.
        """

        def work(stage, _):
            groups = _groups(stage, start, self.x.size, together)
            settings = {"groups": groups, "step": _STEP, "rtol": _RTOL}
            stage.descend(start, max_evals, loss.quadratic, **settings)

        stage = work_off([Stage(loss, self.clock, work)])
        self.clock.check()
        return next(stage.ranked())

    def common(self, data, log2_width=0.0):
        """Return the point of a common width."""
        return np.append(self.x, np.full(data.X.shape[1], log2_width))

    def starts(self, data):
        """Return where descents start: at the tuned point, and maybe at the default one.

        Among features that say nothing, the best common width may be so large that the model is
        nearly linear. No small change of widths leads from there to a kernel that is not.
        """
        starts = [self.common(data)]
        default = data.objective_type.default_x
        away = 0.5 * np.log2(gamma_of_width(data.mean_distance) / self.gamma)
        if default is not None and exceeds(away, _NEARLY_LINEAR):  # widths have two digits
            starts.append(self.common(data, -away))
            starts[1][: self.x.size] = _quadratic(data, default)
        return starts

    def lowest(self, loss, starts):
        """Return the start whose descent ends lowest, of ties the first, and that end."""
        ends = [self.descend(loss, start, _FEW_STEPS) for start in starts]
        k = place_of_best([-end.loss for end in ends])
        return starts[k], ends[k]

    def promise(self, data):
        """Return whether the widths of each half of some samples help the other half."""
        data = data.sample(2 * HALF, self.random_state)
        used = np.flatnonzero(data.weight)
        half = Folds.stratified(data.strata[used], 2, 1, self.random_state).fold[0]
        gains: list[float] = []
        for k, least in enumerate(PROMISING):
            kept, others = used[half == k], used[half != k]
            lacks_a_class = data.lacks_a_class(kept) or data.lacks_a_class(others)
            if kept.size < N_FOLDS or lacks_a_class:
                return False
            loss = self.loss(data, kept, n_repeats=1)
            common = self.descend(loss, self.common(data), _FEW_STEPS // 2, together=True)
            _, found = self.lowest(loss, self.starts(data))
            X, truth = data.X[others], data.truth(others)
            old, new = (self.guide.score(loss.decide(at.x, X), truth) for at in (common, found))
            gains.append((new - old) / max(1.0 - old, np.finfo(float).tiny))
            if np.mean(gains) <= least:
                return False
        return True

    def start(self, data, used):
        """Return the start that leads lowest."""
        starts = self.starts(data)
        return starts[0] if len(starts) == 1 else self.lowest(self.loss(data, used), starts)[0]

    def last_steps(self, data, x, gammas):
        """Return the loss of all samples, and its record at the end of the last steps.

        With their features divided by their widths, the data have a common width again.
        """
        scaled = data.scaled(np.sqrt(gammas))
        loss = HeldOutLoss(scaled, None, self.random_state, self.guide)
        of_one = 0.5 * np.log2(gamma_of_width(scaled.mean_distance))  # where gamma is one
        start = np.clip(np.append(x, of_one), *loss.bounds.T)
        middle = loss.middle(self.random_state)  # some of many samples go all the way
        stage = work_off([Stage(middle or loss, self.clock, climb)], _MAX_LAST, [start])
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
    every, guide = tuned.data, tuned.guide
    x, gamma = _quadratic(every, best.x[:-1]), best.point["gamma"]
    widths = WidthsSearch(x, gamma, guide, random_state, clock)
    clock.expect(MAX_STEPS)
    if not (at_once or widths.promise(every)):
        return None
    data = every.sample(MAX_SAMPLES, random_state)
    used = np.flatnonzero(data.weight)
    if used.size < 2 * N_OUTER * N_BLOCKS:
        return None
    outer = Folds.stratified(data.strata[used], N_OUTER, 1, random_state).fold[0]
    start = widths.start(data, used)
    models = []
    before, after = np.empty((2, used.size, len(data.targets)))
    score = partial(_score, guide, data, used)
    gains: list[float] = []
    for k in range(N_OUTER):
        kept, left_out = used[outer != k], np.flatnonzero(outer == k)
        if data.lacks_a_class(kept):
            return None
        loss, X = widths.loss(data, kept), data.X[used[left_out]]
        found = widths.descend(loss, start).x
        before[left_out] = loss.decide(widths.common(data), X)
        after[left_out] = loss.decide(found, X)
        models.append((loss, found, left_out, X))
        for block in range(N_BLOCKS):
            some = left_out[block::N_BLOCKS]
            gains.append(score(after, some) - score(before, some))
        # Scores of guides are of the order of one, and so is what rounding adds to them.
        if k > 0 and np.mean(gains) <= TOLERANCE:
            return None  # the other folds would have to make up for it
    if np.mean(gains) <= MARGIN * np.std(gains, ddof=1) / np.sqrt(len(gains)):
        return None
    found = widths.descend(widths.loss(data, used), start).x
    gammas = gamma * 4.0 ** -found[x.size :]
    of_all, last = widths.last_steps(every, found[: x.size], gammas)
    x, factor = last.x[:-1], last.point["gamma"]
    point = {**last.point, "gamma": gammas * factor}
    if every.n_samples >= 2 * MAX_SAMPLES:
        return _confirmed_by_others(tuned, best, of_all, last, data.rows, point)
    for loss, found, left_out, X in models:
        moved = found - 0.5 * np.log2(factor)
        moved[: x.size] = x
        after[left_out] = loss.decide(moved, X)
    value = np.mean([score(after, left_out) for _, _, left_out, _ in models])
    truth = every.truth(np.searchsorted(every.rows, data.rows[used]))
    return Judged(x, point, 1.0 - float(value), truth, after)


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


def _groups(stage, start, n_loss, together):
    """Return a group per coordinate; its own for features of large gradients, else a common one."""
    n_features = start.size - n_loss
    groups = np.arange(start.size)
    if together:
        groups[n_loss:] = n_loss
    elif n_features > MAX_WIDTHS:
        slope = np.abs(stage(start)[1][n_loss:])
        groups[n_loss:] = n_loss + MAX_WIDTHS
        groups[n_loss + largest(slope, MAX_WIDTHS)] = n_loss + np.arange(MAX_WIDTHS)
    return groups


def _score(guide, data, used, decision, some):
    """Return the score of some held-out samples."""
    return guide.score(decision[some], data.truth(used[some]))
