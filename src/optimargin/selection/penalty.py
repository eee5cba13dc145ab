"""The penalty of linear models that suits all samples, where a search has seen some of them.

Per sample, the best penalty of some thousand samples is too small for a hundred times as many. So
models of four fifths of the samples are scored on the others: at the penalty that was found, then
at larger or smaller ones, as long as the score rises. Each fit starts from the last, so that all
of them cost little more than the largest. A parabola through the best three points gives one more.
Then the default form of the loss is tried, and followed the same way where it is better.
"""

from dataclasses import dataclass, replace

import numpy as np

from optimargin._ties import exceeds, place_of_best
from optimargin.selection.search import StopSearch
from optimargin.systems import Folds
from optimargin.training import train

N_FOLDS = 5  # of which one is held out from many samples,
N_HELD_OUT = 3  # and so many, one after the other, from fewer
MANY = 20_000  # samples
MAX_FITS = 14
STEP = 2.0  # in log2 of the penalty
_CLOSE = 0.25  # to a point that was tried, the last one tells nothing new
_TOL = 1e-3  # of fits that are only scored


@dataclass(frozen=True)
class Penalty:
    """A penalty that all samples have chosen.

    Attributes
    ----------
    x : ndarray of shape (n_parameters,)
        Coordinates of the objective.
    score : float
        Of the samples held out.
    rows : ndarray of shape (n_held_out,)
        These samples.
    decision : ndarray of shape (n_held_out, n_outputs)
        Their decision values.
    """

    x: np.ndarray
    score: float
    rows: np.ndarray
    decision: np.ndarray


def can_find_penalty(data):
    """Return whether every class has samples in every fold, held out or not."""
    _, counts = np.unique(data.strata[data.weight > 0], return_counts=True)
    return counts.min() >= N_FOLDS


def find_penalty(data, x, criterion, options, random_state, tick=lambda: None) -> Penalty | None:
    """Return the best penalty for all samples, or None where there was no time for one fit.

    Parameters
    ----------
    data : SelectionData
        All samples.
    x : ndarray of shape (n_parameters,)
        Coordinates of the objective that some samples have chosen. The first of them is the
        logarithm of the penalty.
    criterion : callable
        Given held-out decision values and the truth, it returns the score.
    options : Options
        Of fits.
    random_state : RandomState
        Deals samples out.
    tick : callable
        Called before each fit. It may raise `StopSearch`: the best point so far is returned.
    """
    trials = _Trials(data, criterion, options, random_state, tick)
    try:
        _climb(trials, x)
        best = trials.best
        default = data.objective_type.default_x
        if default is not None and default.size > 1 and trials.n_left > 0:
            other = np.append(best.x[0], default[1:])
            if exceeds(trials(other).score, best.score):
                _climb(trials, other)
    except StopSearch:
        pass
    return trials.best


def _climb(trials, x):
    """Try larger penalties than that of `x`, or smaller ones, as long as the score rises."""
    low, high = trials.bounds
    for direction in (STEP, -STEP):
        best = trials(x)
        while trials.n_left > 0 and low < best.x[0] + direction < high:
            trial = trials(np.append(best.x[0] + direction, x[1:]))
            if not exceeds(trial.score, best.score):
                break
            best = trial
        if best.x[0] != x[0]:
            break  # the other way leads down
    vertex = trials.vertex(x[1:])
    if vertex is not None and trials.n_left > 0:
        trials(np.append(vertex, x[1:]))


class _Trials:
    """Fits at one penalty after another."""

    def __init__(self, data, criterion, options, random_state, tick):
        self._data, self._criterion = data, criterion
        self.bounds = data.objective_type.bounds[0]
        self._options = replace(
            options, tol=max(options.tol, _TOL), solver="auto", approximation=None
        )
        self._tick = tick
        used = np.flatnonzero(data.weight)
        fold = Folds.stratified(data.strata[used], N_FOLDS, 1, random_state).fold[0]
        n_held_out = 1 if used.size >= MANY else N_HELD_OUT
        self._tests = [used[fold == k] for k in range(n_held_out)]
        self._parts = [data.part_targets(used[fold != k]) for k in range(n_held_out)]
        self._rows = np.concatenate(self._tests)
        self._truth = data.truth(self._rows)
        self._models: list = [None] * n_held_out
        self._known: dict[bytes, Penalty] = {}

    @property
    def n_left(self):
        """How many more fits may be made."""
        return MAX_FITS - len(self._known)

    @property
    def best(self):
        """The best one so far, of ties that of the smoothest model, or None."""
        known = list(self._known.values())
        return known[self._chosen(known)] if known else None

    def _chosen(self, known):
        kind, unit = self._data.objective_type, self._data.unit
        scores = [each.score for each in known]
        return place_of_best(scores, lambda k: kind.roughness(kind.at(known[k].x, unit)))

    def __call__(self, x):
        """Return what a point is worth."""
        if x.tobytes() not in self._known:
            self._tick()
            self._known[x.tobytes()] = self._fitted(x)
        return self._known[x.tobytes()]

    def _fitted(self, x):
        data = self._data
        parameters = data.objective_type.at(x, data.unit)
        objective = data.make_objective(**parameters)
        for k, ((kept, targets), model) in enumerate(zip(self._parts, self._models, strict=True)):
            fit = train(data.X[kept], targets, objective, options=self._options, start=model)
            self._models[k] = fit.model
        scores = [
            model.scores(data.X[test])
            for model, test in zip(self._models, self._tests, strict=True)
        ]
        scales = [target.scale for target in data.targets]
        center, unit = (np.array([getattr(s, name) for s in scales]) for name in ("center", "unit"))
        decision = (np.concatenate(scores) - center) / unit
        return Penalty(x, self._criterion(decision, self._truth), data.rows[self._rows], decision)

    def vertex(self, shape):
        """Return where a parabola through the best point and its neighbours is highest, or None.

        Parameters
        ----------
        shape : ndarray of shape (n_parameters - 1,)
            The other coordinates.
        """
        alike = [each for each in self._known.values() if np.array_equal(each.x[1:], shape)]
        alike.sort(key=lambda each: each.x[0])
        tried = np.array([each.x[0] for each in alike])
        scores = np.array([each.score for each in alike])
        k = self._chosen(alike)
        if not 0 < k < tried.size - 1:
            return None
        near, values = tried[k - 1 : k + 2], scores[k - 1 : k + 2]
        second, first, _ = np.polyfit(near - near[1], values, 2)
        if not second < 0:
            return None
        at = near[1] - first / (2 * second)
        return None if np.abs(tried - at).min() < _CLOSE else at
