"""The penalty of linear models that suits all samples, where a search has seen some of them.

Per sample, the best penalty of some thousand samples is too small for a hundred times as many. So
models of four fifths of the samples are scored on the others: at the penalty that was found, then
at larger or smaller ones, as long as the score rises. Each fit starts from the last, so that all
of them cost little more than the largest. Then the default form of the loss is tried, and followed
the same way where it is better.
"""

from dataclasses import replace

import numpy as np

from optimargin._ties import exceeds
from optimargin.selection.loss import N_FOLDS, N_REPEATS
from optimargin.selection.search import DESCENT, LARGER
from optimargin.selection.stages import Judged, Stage, work_off
from optimargin.systems import Folds
from optimargin.training import train

MANY = 20_000  # samples from which one fold is enough, and the accuracy itself chooses
MAX_FITS = DESCENT  # points that are tried
_TOL = 1e-3  # relative gap of fits that are only scored


def can_find_penalty(data):
    """Return whether every class has samples in every fold, held out or not."""
    _, counts = np.unique(data.strata[data.weight > 0], return_counts=True)
    return counts.min() >= N_FOLDS


def find_penalty(data, criterion, options, best, random_state, clock) -> Judged | None:
    """Return the best penalty for all samples, or None where there is no time for one fit.

    Parameters
    ----------
    data : SelectionData
        All samples.
    criterion : Criterion
    options : Options
        Of fits.
    best : Judged
        The point that some samples have chosen. The first coordinate is the logarithm of the
        penalty.
    random_state : RandomState
        Deals samples out.
    clock : Clock
    """
    if clock.is_over():
        return None
    loss = PenaltyLoss(data, criterion, options, random_state)
    return next(work_off([Stage(loss, clock, _follow)], MAX_FITS, [best.x]).ranked())


def _follow(stage, starts):
    """Follow the penalty from a point, then maybe from that of the default form of the loss."""
    (x,) = starts
    _climb(stage, x)
    best, default = next(stage.ranked()), stage.loss.default_x
    if default is not None and default.size > 1:
        other = np.append(best.x[0], default[1:])
        if exceeds(-stage(other)[0].loss, -best.loss):
            _climb(stage, other)


def _climb(stage, x):
    """Try larger penalties than that of `x`, or smaller ones, as long as the score rises."""
    low, high = stage.loss.bounds[0]
    for direction in (LARGER, -LARGER):
        best, _ = stage(x)
        while low < best.x[0] + direction < high:
            trial, _ = stage(np.append(best.x[0] + direction, x[1:]))
            if not exceeds(-trial.loss, -best.loss):
                break
            best = trial
        if best.x[0] != x[0]:
            break  # the other way leads down


class PenaltyLoss:
    """Minus the score of held-out samples, as a function of the objective's coordinates.

    Parameters
    ----------
    data, criterion, options, random_state
        As in `find_penalty`.
    """

    has_gradient = has_width = False

    def __init__(self, data, criterion, options, random_state):
        kind = data.objective_type
        self.bounds, self.default_x = kind.bounds, kind.default_x
        self.roughness = kind.roughness
        self._data, self._criterion = data, criterion
        self._options = replace(
            options, tol=max(options.tol, _TOL), solver="auto", approximation=None
        )
        used = np.flatnonzero(data.weight)
        fold = Folds.stratified(data.strata[used], N_FOLDS, 1, random_state).fold[0]
        n_held_out = 1 if used.size >= MANY else N_REPEATS
        self._tests = [used[fold == k] for k in range(n_held_out)]
        self._parts = [data.part_targets(used[fold != k]) for k in range(n_held_out)]
        self._truth = data.truth(np.concatenate(self._tests))
        self._models: list = [None] * n_held_out

    def __call__(self, x, gradient=False):
        """Return the record of `x`, and None."""
        data = self._data
        point = data.objective_type.at(x, data.unit)
        objective = data.objective_at(point)[0]
        for k, (kept, targets) in enumerate(self._parts):
            start = self._models[k]
            fit = train(data.X[kept], targets, objective, options=self._options, start=start)
            self._models[k] = fit.model
        tested = zip(self._models, self._tests, strict=True)
        scores = np.concatenate([model.scores(data.X[test]) for model, test in tested])
        scales = [target.scale for target in data.targets]
        center, unit = (np.array([getattr(s, name) for s in scales]) for name in ("center", "unit"))
        decision = (scores - center) / unit
        loss = -self._criterion.score(decision, self._truth)
        return Judged(np.array(x), point, loss, self._truth, decision), None
