"""The stages of a search: evaluations of one loss after another, within numbers of them and a time.

A search is a list of stages, worked off one by one. Each evaluates one loss, where its `work` wants
to: at points all over a box, down a hill, at points given. It is told where the stage before found
low losses, and ends when its work is done, its evaluations are used up or the clock says so. All
stages have one clock, and every evaluation has one record.
"""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc

from optimargin._ties import Levels, exceeds, place_of_best, ranking
from optimargin.selection.criteria import Criterion, reported, scored


class Level(IntEnum):
    """What has judged a point: the chosen one is of the highest level that there is."""

    SEARCHED = auto()
    FINALIST = auto()
    FURTHER = auto()


APART = 0.05  # widths of the bounds, in some coordinate, for two points to differ
OTHER_HILL = 1.0  # log2 of the width, for two points to lead to different ends
_STEP = 0.1  # widths of the bounds, the first step of a descent
_EDGE = 0.15  # widths of the bounds, the first simplex
_RTOL = 5e-4  # share of the loss by which a step has to lower it for a descent to go on


class StopSearch(Exception):
    """Ends a stage whose evaluations are used up, and a job whose time is over."""


class Clock:
    """Count the steps of a job, and write a line to standard error about once a second.

    All stages of a job share one, so that its line is about the whole job.

    Parameters
    ----------
    name : str
        What the line starts with.
    total : int
        The number of steps, as far as it is known.
    unit : str
        What a step is, in the plural.
    verbose : bool
        Whether to write.
    max_time : float, default=None
        In seconds, after which no step is to begin.
    tick : callable, default=None
        Called after each step that is heard of; it returns whether to end the job.

    Attributes
    ----------
    later : int
        Steps that come after those that are expected.
    """

    def __init__(
        self, name="", total=0, unit="evaluations", *, verbose=False, max_time=None, tick=None
    ):
        self.name, self.total, self.unit, self.verbose = name, total, unit, verbose
        self.done = self.later = 0
        self._max_time, self._tick, self._is_stopped = max_time, tick, False
        self._start = self._last = time.monotonic()
        self._since = self._start, 0
        self._lock = threading.Lock()  # points of a grid are solved in threads

    def is_over(self, share=None):
        """Return whether no step may begin any more: some share of the time, or all, is spent."""
        spent = time.monotonic() - self._start
        return self._is_stopped or (
            self._max_time is not None and spent > (share or 1.0) * self._max_time
        )

    def check(self):
        """Raise `StopSearch` where no step may begin any more."""
        if self.is_over():
            raise StopSearch

    def step(self, note="", n_steps=1, *, is_heard=True):
        """Count steps that were made; `note` is added to the line."""
        with self._lock:
            self.done += n_steps
            self.total = max(self.total, self.done)
            now = time.monotonic()
            if self.verbose and (now - self._last >= 1 or self.done == self.total):
                self._last = now
                self._print(now, note)
        if is_heard and self._tick is not None and self._tick():
            self._is_stopped = True

    def expect(self, n_steps):
        """Say how many steps are to come before `later` ones, at most.

        How long one takes is measured from now on: those before were of another kind.
        """
        with self._lock:
            self.total = self.done + n_steps + self.later
            self._since = time.monotonic(), self.done

    def end(self, note=""):
        """Tell that there are no more steps, unless the last one has."""
        with self._lock:
            if self.verbose and 0 < self.done != self.total:
                self.total = self.done
                self._print(time.monotonic(), note)

    def _print(self, now, note):
        since, before = self._since
        each = (now - since) / max(self.done - before, 1)
        print(
            f"{self.name}: {self.done} of {self.total} {self.unit}, {now - self._start:.0f} s so "
            f"far, about {each * max(self.total - self.done, 0):.0f} s to go{note}",
            file=sys.stderr,
            flush=True,
        )


@dataclass(eq=False)
class Judged:
    """The record of one evaluation.

    Attributes
    ----------
    x : ndarray of shape (n_coordinates,) or None
        None for a point of a grid.
    point : dict
        The parameters there, by name.
    loss : float
        What descents lower.
    truth : Truth
        What held-out decision values are compared with.
    decision : ndarray of shape (n_held_out, n_outputs) or None
        These values; None when nobody will ask for them again.
    score : float
        What the point is chosen by.
    plain : float
        The score that people know.
    level : Level
    """

    x: Any
    point: dict
    loss: float
    truth: Any
    decision: np.ndarray | None
    score: float = np.nan
    plain: float = np.nan
    level: Level = Level.SEARCHED


def forget(judged, scores):
    """Drop the held-out values of records that can no longer be chosen.

    Ties of the best can: which of them is taken may change with every further one.
    """
    for k in np.flatnonzero(exceeds(max(scores), np.array(scores))):
        judged[k].decision = None


@dataclass(frozen=True)
class Findings:
    """The points of a search that count, with their scores.

    Attributes
    ----------
    criterion : Criterion
        What points are chosen by.
    plain : Criterion
        What `score` of estimators measures.
    roughness : callable
        Of a point: of equal scores that of the smallest numbers is taken.
    all : list of Judged
        In the order in which they were found; levels never fall.
    """

    criterion: Criterion
    plain: Criterion
    roughness: Callable[[dict], Any]
    all: list[Judged] = field(default_factory=list, init=False)

    def add(self, found, level=Level.SEARCHED):
        """Score a record and keep it."""
        found.level, found.score = level, 1.0 - found.loss
        # Further points come from losses of their own.
        if self.criterion is not self.criterion.guide or level is Level.FURTHER:
            found.score = scored(self.criterion, found.decision, found.truth, found.point)
        found.plain = reported(self.plain, found.decision, found.truth)
        for each in self.all:
            if each.level < level:
                each.decision = None
        self.all.append(found)
        top = [each for each in self.all if each.level == level]
        forget(top, [each.score for each in top])

    @property
    def chosen(self):
        """The best record of the highest level, of ties that of the smoothest point."""
        top = [each for each in self.all if each.level == self.all[-1].level]
        if len(top) == 1:
            return top[0]
        scores = [each.score for each in top]
        return top[place_of_best(scores, lambda k: self.roughness(top[k].point))]


@dataclass
class Stage:
    """A part of a search: evaluations of one loss, of which none is made twice.

    Attributes
    ----------
    loss : HeldOutLoss
    clock : Clock
    work : callable
        Given the stage and where to start, it evaluates the loss.
    max_evals : int
    reserve : int
        Evaluations of the whole that are left to later stages.
    share_of_time : float or None
        Of the whole, after which the stage ends; None is all of it.
    findings : Findings or None
        Where its points are kept, if they count.
    level : Level
    is_heard : bool
        Whether callbacks hear of its evaluations.
    all : list of Judged
        In the order in which they were made.
    """

    loss: Any
    clock: Clock
    work: Callable[["Stage", list], None]
    max_evals: float = np.inf
    reserve: int = 0
    share_of_time: float | None = None
    findings: Findings | None = None
    level: Level = Level.SEARCHED
    is_heard: bool = True
    all: list[Judged] = field(default_factory=list, init=False)
    _known: dict[bytes, tuple] = field(default_factory=dict, init=False, repr=False)

    @property
    def n_left(self):
        """How many more may be made."""
        return self.max_evals - len(self.all)

    def limit(self, max_evals):
        """Make no more evaluations than so many."""
        self.max_evals = min(self.max_evals, max_evals)
        if np.isfinite(self.max_evals):
            self.clock.expect(self.n_left + self.reserve)

    def __call__(self, x, gradient=True):
        """Return the record of a point, and the gradient there or None.

        The first evaluation is made whatever the time.
        """
        gradient = gradient and self.loss.has_gradient
        known = self._known.get(x.tobytes())
        if known is not None and (known[1] is not None or not gradient):
            return known
        if self.n_left < 1 or (self.all and self.clock.is_over(self.share_of_time)):
            raise StopSearch
        found, slope = self._known[x.tobytes()] = self.loss(x, gradient)
        self.all.append(found)
        note = ""
        if self.findings is None:
            forget(self.all, [-each.loss for each in self.all])
        else:
            self.findings.add(found, self.level)
            if self.clock.verbose:
                note = f", best objective {self.findings.chosen.score:.4f}"
        self.clock.step(note, is_heard=self.is_heard)
        return found, slope

    def ranked(self):
        """Yield the records by their losses, the best first; see `_ties`."""
        roughness = self.loss.roughness
        losses = [-each.loss for each in self.all]
        return (self.all[k] for k in ranking(losses, lambda k: roughness(self.all[k].point)))

    def best(self, n_points, *, hills=False):
        """Return the best points that are not alike, or that are on different hills.

        Hills differ by their widths.
        """
        apart = APART * np.ptp(self.loss.bounds, axis=1)
        if hills and self.loss.has_width:
            apart[:-1], apart[-1] = np.inf, OTHER_HILL
        return unlike((each.x for each in self.ranked()), apart, n_points)

    def spread(self, n_points, within, random_state):
        """Look at points all over the box where the search begins; see `descend`."""
        within = np.full(len(self.loss.bounds), np.nan) if within is None else within
        free = np.isnan(within)
        box = self.loss.spread[free]
        sobol = qmc.Sobol(len(box), rng=np.random.default_rng(random_state.randint(2**31)))
        points = qmc.scale(sobol.random(1 << max(n_points - 1, 0).bit_length()), *box.T)
        for point in points[:n_points]:
            x = within.copy()
            x[free] = point
            self(x, gradient=False)

    def descend(self, start, max_evals, within=None, *, step=_STEP):
        """Go downhill from a point, within bounds: by gradients, or by simplices without.

        Parameters
        ----------
        start : ndarray of shape (n_coordinates,)
        max_evals : int
            No step begins after so many evaluations, that of the start included.
        within : ndarray of shape (n_coordinates,), default=None
            Coordinates that are not NaN stay what they are.
        step : float
            The first one, in widths of the bounds.
        """
        free = np.arange(len(start)) if within is None else np.flatnonzero(np.isnan(within))
        low, high = self.loss.bounds_around(start)[free].T
        width = high - low
        # In units of the first step, so that one suits all coordinates.
        unit = step * width if self.loss.has_gradient else width
        bounds = np.stack([low - start[free], high - start[free]]) / unit
        here, levels, steepness = np.zeros(unit.size), Levels(), 1.0

        def at(u):
            x = start.copy()
            x[free] = np.clip(start[free] + unit * u, low, high)
            found, slope = self(x)
            if slope is None:
                return levels(found.loss)
            return found.loss / steepness, unit * slope[free] / steepness

        if self.loss.has_gradient:
            loss, slope = at(here)
            steepness = float(np.linalg.norm(slope))  # so that the first step is of length one
            if steepness <= _RTOL * abs(loss):
                return  # a step cannot lower the loss by more, and may go where rounding points
            method = "L-BFGS-B"
            options = {"maxfun": max_evals, "maxls": 8, "ftol": _RTOL, "gtol": 1e-3}
        else:
            method = "Nelder-Mead"
            # From the start towards the middle of the box along each axis.
            simplex = np.vstack([here, np.diag(np.where(-bounds[0] < 0.5, _EDGE, -_EDGE))])
            options = {"initial_simplex": simplex, "maxfev": max_evals, "xatol": 0.01}
            options["fatol"] = _RTOL
        minimize(
            at,
            here,
            jac=self.loss.has_gradient,
            method=method,
            bounds=list(zip(*bounds, strict=True)),
            options=options,
        )


def unlike(points, apart, n_points):
    """Return the first points that differ by more than `apart` in some coordinate."""
    chosen: list[np.ndarray] = []
    for x in points:
        if all((np.abs(x - other) > apart).any() for other in chosen):
            chosen.append(x)
        if len(chosen) == n_points:
            break
    return chosen


def work_off(stages, max_evals=np.inf, starts=()) -> Stage:
    """Work off stages, and return the last one.

    Parameters
    ----------
    stages : iterable of Stage
        A generator may wait with a stage until the one before it is done.
    max_evals : int
        Of all of them together.
    starts : sequence of ndarray of shape (n_coordinates,)
        Where the first one starts. The others do from the two best hills of the one before.
    """
    for stage in stages:
        stage.limit(max_evals - stage.reserve)
        with suppress(StopSearch):
            stage.work(stage, starts)
        max_evals -= len(stage.all)
        starts = stage.best(2, hills=True)
    return stage
