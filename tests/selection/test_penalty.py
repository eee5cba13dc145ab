"""The penalty that all samples choose after a search of some of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import balanced_accuracy_score

from optimargin import (
    LinearODMClassifierCV,
    LinearODMRegressorCV,
    ODMClassifierCV,
    ODMRegressorCV,
)
from optimargin.kernels import KernelChoice
from optimargin.objectives import ODM
from optimargin.selection import penalty
from optimargin.selection.criteria import Criterion, SmoothAccuracy
from optimargin.selection.data import SelectionData
from optimargin.selection.stages import Clock, Judged, Stage
from optimargin.training import Options

pytestmark = pytest.mark.numbers


def words(n_samples, n_features=1500, seed=0):
    """Return sparse rows and what a linear function of them says, with noise."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n_samples, n_features), density=15 / n_features, rng=rng, format="csr")
    score = X @ np.random.default_rng(1).normal(size=n_features)
    return X, score + 0.3 * score.std() * rng.normal(size=n_samples)


def make_data(X, y):
    return SelectionData(ODM, X, y, None, kernel=KernelChoice("linear"), fit_intercept=True)


def record(x):
    """Return the record of a point that was chosen."""
    return Judged(np.array(x), {}, 0.0, None, None)


@pytest.mark.quick
@pytest.mark.parametrize("start", [-8.0, 0.0, 6.0])
def test_the_best_penalty_is_found_from_anywhere(start):
    X, score = words(600)
    data = make_data(X, (score > 0).astype(int))
    best = record([start, -2.0, 0.5])
    given = SmoothAccuracy(), Options(), np.random.RandomState(0)
    found = penalty.find_penalty(data, *given[:2], best, given[2], Clock())
    loss = penalty.PenaltyLoss(data, *given[:2], np.random.RandomState(0))
    every = Stage(loss, Clock(), None, 100)
    on_a_grid = max(-every(np.array([at, -2.0, 0.5]))[0].loss for at in np.arange(-8.0, 9.0, 2.0))
    assert -found.loss >= on_a_grid - 0.005
    assert set(found.truth.rows) <= set(range(600))
    assert found.decision.shape == (found.truth.rows.size, 1)


class Rounded(Criterion):
    """A score that is the same everywhere, but for rounding."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)

    def score(self, decision, truth):
        return 0.9 * (1 + 1e-9 * self._rng.uniform(-1, 1))


def penalty_of(X, score, x, criterion, clock):
    """Return the penalty that is found for two classes."""
    data = make_data(X, (score > 0).astype(int))
    state = np.random.RandomState(0)
    return penalty.find_penalty(data, criterion, Options(), record(x), state, clock)


@pytest.mark.parametrize("seed", range(3))
def test_of_equal_scores_the_smallest_penalty_that_was_tried_is_taken(seed):
    clock = Clock()
    found = penalty_of(*words(300), [-2.0, -2.0, 0.5], Rounded(seed), clock)
    assert found.x.tolist() == [-4.0, -2.0, 0.5]
    assert clock.done == 3  # one step each way


def test_fits_are_limited(monkeypatch):
    monkeypatch.setattr(penalty, "MAX_FITS", 3)
    clock = Clock()
    penalty_of(*words(300), [-8.0, -2.0, 0.5], SmoothAccuracy(), clock)
    assert clock.done == 3


@pytest.mark.parametrize("n_classes", [2, 3])
def test_all_samples_choose_the_penalty_of_wide_sparse_rows(n_classes):
    X, score = words(2500)
    y = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    model = LinearODMClassifierCV(max_evals=10).fit(X, y)
    assert model.best_index_ == len(model.cv_results_["params"]) - 1
    assert model.calibration_ is not None
    X_test, score_test = words(1000, seed=2)
    y_test = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score_test)
    assert model.held_out_score_ == pytest.approx(model.score(X_test, y_test), abs=0.06)


def test_numbers_are_scored_in_the_units_of_the_search():
    X, score = words(2500)
    model = LinearODMRegressorCV(max_evals=10).fit(X, 1e4 + 1e3 * score)
    assert 0.5 < model.held_out_score_ < 1
    X_test, score_test = words(1000, seed=2)
    assert model.score(X_test, 1e4 + 1e3 * score_test) == pytest.approx(
        model.held_out_score_, abs=0.06
    )


def test_time_ends_it():
    X, score = words(2500)
    model = LinearODMClassifierCV(max_time=1e-9).fit(X, score > 0)
    assert len(model.cv_results_["params"]) < 4


def test_time_that_ends_it_keeps_what_was_found():
    clock = Clock(tick=lambda: clock.done == 3)
    x = [-8.0, -2.0, 0.5]
    assert penalty_of(*words(300), x, SmoothAccuracy(), clock).x[0] > x[0]
    assert clock.done == 3
    assert penalty_of(*words(300), x, SmoothAccuracy(), clock) is None


def test_classes_that_a_fold_may_lack_are_not_scored():
    X, _ = words(2500)
    X, y, rare = X.tolil(), np.zeros(2500, dtype=int), [3, 700, 1500, 2400]
    y[rare], X[rare, 0] = 1, 30.0
    X = X.tocsr()
    assert not penalty.can_find_penalty(make_data(X, y))
    model = LinearODMClassifierCV(max_evals=6).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)


@pytest.mark.parametrize(
    ("kernel", "linear"),
    [(ODMClassifierCV, LinearODMClassifierCV), (ODMRegressorCV, LinearODMRegressorCV)],
)
def test_the_linear_kernel_is_searched_as_linear_models_are(kernel, linear):
    X, score = words(2200)
    y = score > 0 if kernel is ODMClassifierCV else score
    models = [kernel(kernel="linear", max_evals=6), linear(max_evals=6)]
    found = [model.fit(X, y).best_params_ for model in models]
    assert found[0]["C1"] == pytest.approx(found[1]["C1"])


def test_class_weights_count_for_many_samples_too(monkeypatch):
    monkeypatch.setattr("optimargin.estimators.cv.MANY", 100)
    X, score = words(2500)
    y = (score > np.quantile(score, 0.9)).astype(int)
    model = LinearODMClassifierCV(max_evals=6, class_weight="balanced").fit(X, y)
    assert balanced_accuracy_score(y, model.predict(X)) > 0.75
    plain = LinearODMClassifierCV(max_evals=6).fit(X, y)
    assert model.best_params_ != plain.best_params_
