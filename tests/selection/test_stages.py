"""Stages of a search: one record per evaluation, one clock, values kept while they count."""

import re
from dataclasses import FrozenInstanceError
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_moons

from optimargin import LinearODMClassifierCV, ODMClassifierCV
from optimargin.kernels import KernelChoice
from optimargin.objectives import ODM
from optimargin.selection import stages as clocks
from optimargin.selection.criteria import Criterion
from optimargin.selection.data import SelectionData
from optimargin.selection.loss import PENALTY, HeldOutLoss
from optimargin.selection.relevance import find_widths
from optimargin.selection.stages import (
    Clock,
    Findings,
    Judged,
    Level,
    Stage,
    StopSearch,
    work_off,
)
from tests.selection.test_penalty import words
from tests.selection.test_relevance import noisy_moons


class Bowl:
    """A quadratic function in three dimensions whose minimum is known."""

    has_gradient, has_width = True, False
    bounds = spread = np.array([[-4.0, 4.0]] * 3)
    lowest = np.array([1.0, -2.0, 0.5])

    def __init__(self):
        self.seen = []

    def bounds_around(self, start):
        return self.bounds

    def roughness(self, point):
        return ()

    def __call__(self, x, gradient=True):
        self.seen.append(tuple(x))
        away = x - self.lowest
        truth = SimpleNamespace(rows=np.arange(5))
        return Judged(x, {"C1": x[0]}, 0.1 + away @ away, truth, np.zeros((5, 1))), 2 * away


def looks_at(*points):
    """Return the work of a stage that looks at some points."""

    def work(stage, _):
        for x in points:
            stage(np.array(x, dtype=float))

    return work


def descends(stage, starts):
    stage.descend(starts[0], 50)


@pytest.mark.quick
def test_no_point_is_evaluated_twice_and_each_has_one_record():
    loss = Bowl()
    stage = work_off([Stage(loss, Clock(), looks_at([0, 0, 0], [1, 0, 0], [0, 0, 0]))])
    assert len(stage.all) == len(loss.seen) == 2
    again = work_off([Stage(loss, Clock(), descends)], starts=[np.zeros(3)])
    assert len(again.all) == len({tuple(each.x) for each in again.all})
    np.testing.assert_allclose(next(again.ranked()).x, loss.lowest, atol=0.05)


def test_stages_share_the_evaluations_and_hand_on_where_losses_are_low():
    started = []

    def work(stage, starts):
        started.append([x.tolist() for x in starts])
        looks_at(*np.arange(90).reshape(30, 3) / 30)(stage, starts)

    clock = Clock()
    stages = [Stage(Bowl(), clock, work, 8, reserve=6), Stage(Bowl(), clock, work, reserve=2)]
    last = work_off([*stages, Stage(Bowl(), clock, work)], 12, [np.zeros(3)])
    assert [len(each.all) for each in (*stages, last)] == [6, 4, 2]
    assert clock.done == clock.total == 12
    assert started[0] == [[0, 0, 0]]
    assert started[1][0] == next(stages[0].ranked()).x.tolist()


@pytest.mark.parametrize("max_evals", [0, 2])
def test_a_stage_ends_when_its_evaluations_are_used_up(max_evals):
    stage = Stage(Bowl(), Clock(), descends, max_evals)
    with pytest.raises(StopSearch):
        stage.work(stage, [np.zeros(3)])
    assert len(stage.all) == max_evals


def test_coordinates_that_stay():
    stage = Stage(Bowl(), Clock(), None)
    stage.descend(np.array([0.0, 1.0, 0.7]), 50, np.array([np.nan, np.nan, 0.7]))
    assert all(each.x[2] == 0.7 for each in stage.all)
    np.testing.assert_allclose(next(stage.ranked()).x[:2], Bowl.lowest[:2], atol=0.05)


def test_held_out_values_are_kept_where_they_can_still_be_chosen():
    stage = work_off([Stage(Bowl(), Clock(), descends)], starts=[np.zeros(3)])
    kept = [each for each in stage.all if each.decision is not None]
    assert next(stage.ranked()) in kept
    assert all(each.loss <= kept[0].loss * (1 + 1e-6) for each in kept)
    assert len(kept) < len(stage.all) / 2


class Given(Criterion):
    """A score that is known beforehand."""

    def __init__(self, scores):
        self.scores = iter(scores)

    def score(self, decision, truth):
        return next(self.scores)

    @property
    def guide(self):
        return None


def found_of(scores, levels):
    findings = Findings(Given(scores), Given(np.zeros(len(scores))), lambda point: [point["C1"]])
    for k, level in enumerate(levels):
        record = Judged(np.zeros(1), {"C1": -k}, 0.5, None, np.full((3, 1), k))
        findings.add(record, level)
    return findings, [each.decision is not None for each in findings.all]


def test_points_that_count_keep_values_by_their_scores_and_their_levels():
    findings, kept = found_of([0.1, 0.7, 0.5, 0.7 * (1 + 1e-9)], [Level.SEARCHED] * 4)
    assert kept == [False, True, False, True]
    assert findings.chosen is findings.all[3]  # of ties the smoothest
    findings, kept = found_of([0.9, 0.3, 0.2], [Level.SEARCHED, Level.FINALIST, Level.FINALIST])
    assert kept == [False, True, False]
    assert findings.chosen is findings.all[1]
    findings, kept = found_of([0.9, 0.3, 0.1], [Level.SEARCHED, Level.FINALIST, Level.FURTHER])
    assert kept == [False, False, True]
    assert findings.chosen is findings.all[2]


def test_a_clock_that_is_over_ends_every_stage_after_one_evaluation():
    clock = Clock(max_time=1e-9)
    assert clock.is_over()
    stages = [Stage(Bowl(), clock, looks_at([0, 0, 0], [1, 1, 1])) for _ in range(3)]
    work_off(stages)
    assert [len(stage.all) for stage in stages] == [1, 1, 1]
    with pytest.raises(StopSearch):
        clock.check()


def test_no_width_is_looked_for_when_the_time_is_over():
    X, y = noisy_moons(60)
    data = SelectionData(ODM, X, y, None, kernel=KernelChoice("rbf"), fit_intercept=True)
    loss, clock = HeldOutLoss(data, None, some_state()), Clock(max_time=1e-9)
    best, _ = loss(np.array([1.0, -2.0, 0.5, 0.0]), gradient=False)
    with pytest.raises(StopSearch):
        find_widths(loss, best, some_state(), clock, at_once=True)
    assert clock.done == 0


def test_a_share_of_the_time_ends_a_stage_alone(monkeypatch):
    now = iter(range(1000))
    monkeypatch.setattr(clocks.time, "monotonic", lambda: float(next(now)))
    clock = Clock(max_time=100)
    points = np.arange(60).reshape(20, 3) / 60
    first = Stage(Bowl(), clock, looks_at(*points), share_of_time=0.2)
    work_off([first, Stage(Bowl(), clock, looks_at(*points))])
    assert 1 < len(first.all) < 15
    assert not clock.is_over()


def test_a_callback_ends_the_stages_it_hears_of_and_those_after_them():
    ticks = []
    clock = Clock(tick=lambda: ticks.append(1) or len(ticks) == 2)
    points = np.arange(15).reshape(5, 3) / 15
    silent = Stage(Bowl(), clock, looks_at(*points), is_heard=False)
    heard, after = (Stage(Bowl(), clock, looks_at(*points)) for _ in range(2))
    work_off([silent, heard, after])
    assert [len(stage.all) for stage in (silent, heard, after)] == [5, 2, 1]
    assert clock.is_over()


def progress_of(model, X, y, monkeypatch, capsys):
    """Return what the lines of a search say was done and is to be done, a line per step."""
    seconds = iter(range(10**6))
    monkeypatch.setattr(clocks.time, "monotonic", lambda: float(next(seconds)))
    model.set_params(verbose=1).fit(X, y)
    *lines, fit = capsys.readouterr().err.splitlines()
    assert fit.startswith("The last fit is by")
    return np.array(
        [re.search(r"(\d+) of (\d+) evaluations", line).groups() for line in lines], int
    )


@pytest.mark.parametrize("which", ["widths", "penalty"])
def test_the_progress_is_that_of_one_job(which, monkeypatch, capsys):
    if which == "widths":
        model, (X, y) = ODMClassifierCV(relevance=True), noisy_moons()
    else:
        model, (X, y) = LinearODMClassifierCV(max_evals=10), words(2500)
        y = y > 0
    done, total = progress_of(model, X, y, monkeypatch, capsys).T
    np.testing.assert_array_equal(done, np.minimum(np.arange(done.size) + 1, done[-1]))
    assert (total >= done).all()
    assert done[-1] == total[-1] > len(model.cv_results_["params"])
    # What comes after the search is counted from the beginning.
    assert total[0] > model.max_evals


def test_data_are_not_changed_by_those_who_use_them():
    X, y = make_moons(60, noise=0.2, random_state=0)
    data = SelectionData(ODM, X, y, None, kernel=KernelChoice("rbf"), fit_intercept=True)
    with pytest.raises(FrozenInstanceError):
        data.rows = np.arange(3)
    some = data.looks(30)
    assert some.mean_distance == data.mean_distance
    assert data.mean_distance != data.sample(30, some_state()).mean_distance
    np.testing.assert_array_equal(some.X, X[some.rows])


def some_state():
    return np.random.RandomState(0)


def test_widths_that_differ_are_penalised():
    X, y = noisy_moons(60)
    data = SelectionData(ODM, X, y, None, kernel=KernelChoice("rbf"), fit_intercept=True)
    loss = HeldOutLoss(data, None, some_state(), gamma=0.2, rows=np.arange(60))
    x = np.append([1.0, -2.0, 0.2], [0.5, -0.5, 0.0, 0.0, 0.0, 0.0])
    judged, _ = loss(x)
    score = loss.guide.score(judged.decision, judged.truth)
    assert judged.loss - (1 - score) == pytest.approx(PENALTY / 60 * 0.5)
