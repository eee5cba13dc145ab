"""Regressors that choose their own parameters."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score
from sklearn.model_selection import GridSearchCV, KFold

from optimargin import (
    LinearODMRegressor,
    LinearODMRegressorCV,
    ODMClassifierCV,
    ODMRegressor,
    ODMRegressorCV,
)
from optimargin.held_out.outliers import far_from_held_out
from optimargin.kernels import KernelChoice
from optimargin.objectives import ODMRegression
from optimargin.selection.criteria import (
    AbsoluteError,
    ExpectileError,
    SquaredError,
    StandardisedError,
    Truth,
)
from optimargin.selection.data import SelectionData
from optimargin.selection.loss import HeldOutLoss
from optimargin.tasks import Regression

pytestmark = pytest.mark.numbers


def curve(n_samples=80, *, seed=0):
    """Return rows and targets of a noisy curve."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n_samples, 2))
    return X, 40 + 10 * np.sin(2 * X[:, 0]) + X[:, 1] + rng.normal(size=n_samples)


X, Y = curve()
SEARCHES = {
    "linear": LinearODMRegressorCV(max_evals=12),
    "kernel": ODMRegressorCV(max_evals=16),
    "banded": ODMRegressorCV(max_evals=12, epsilon="scale"),
    "expectile": ODMRegressorCV(max_evals=12, expectile=0.8),
    "grid": ODMRegressorCV(C1s=[1e2, 1e4], widths=[0.5, 1.0]),
}
every_search = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)


@every_search
@pytest.mark.parametrize("factor", [1024.0, 1000.0, 1e-5])
def test_units_of_y_change_scores_alone(search, factor):
    first, scaled = clone(search).fit(X, Y), clone(search).fit(X, factor * Y)
    power = 2 if search.expectile != 0.5 else 1
    assert scaled.best_score_ == pytest.approx(factor**power * first.best_score_, rel=1e-6)
    np.testing.assert_allclose(scaled.C1_, first.C1_, rtol=1e-9)
    if factor == 1024.0:
        np.testing.assert_array_equal(scaled.predict(X), 1024.0 * first.predict(X))


def test_a_search_beats_the_defaults_where_they_do_not_fit():
    X, y = curve(200)
    new = curve(300, seed=1)
    tuned = ODMRegressorCV().fit(X, y)
    narrow = ODMRegressor(C1=1.0).fit(X, y)
    assert mean_absolute_error(new[1], tuned.predict(new[0])) < 0.9 * mean_absolute_error(
        new[1], narrow.predict(new[0])
    )
    assert -tuned.best_score_ == pytest.approx(
        mean_absolute_error(new[1], tuned.predict(new[0])), rel=0.2
    )


@pytest.mark.parametrize("scoring", ["r2", "neg_mean_absolute_error", "neg_mean_squared_error"])
def test_exact_folds_equal_grid_search(scoring):
    folds = KFold(4, shuffle=True, random_state=0)
    grid = {"C1": [10.0, 1e3], "epsilon": [0.0, 2.0], "gamma": [0.1, 1.0]}
    ours = ODMRegressorCV(
        C1s=grid["C1"], epsilons=grid["epsilon"], gammas=grid["gamma"], cv=folds, scoring=scoring
    ).fit(X, Y)
    theirs = GridSearchCV(ODMRegressor(), grid, cv=folds, scoring=scoring).fit(X, Y)
    assert ours.best_score_ == pytest.approx(theirs.best_score_, rel=1e-6)
    for name, value in theirs.best_params_.items():
        assert getattr(ours, f"{name}_") == value


def test_a_grid_is_scored_by_leave_one_out():
    model = ODMRegressorCV(C1s=[500.0], gammas=[0.5]).fit(X, Y)
    left_out = ODMRegressor(C1=500.0, gamma=0.5).fit(X, Y).loo_prediction()
    assert model.best_score_ == pytest.approx(-mean_absolute_error(Y, left_out), rel=1e-9)
    np.testing.assert_allclose(model.loo_prediction(), left_out, rtol=1e-9)


def test_an_expectile_ties_the_penalties():
    model = LinearODMRegressorCV(expectile=0.9, max_evals=8).fit(X, Y)
    np.testing.assert_allclose(model.C1_ / (model.C1_ + model.C2_), 0.9)
    assert np.mean(model.predict(X) > Y) > 0.6
    free = LinearODMRegressorCV(C1s=[100.0], C2s=[100.0, 300.0]).fit(X, Y)
    assert free.C2_ in (100.0, 300.0)


@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("error", [AbsoluteError(), SquaredError(), ExpectileError(0.7)])
def test_gradients_are_those_of_finite_differences(kernel, error, n_targets):
    y = Y if n_targets == 1 else np.column_stack([Y, 1e-3 * Y**2])
    data = SelectionData(
        ODMRegression,
        X,
        y,
        None,
        task=Regression.from_values(y, fit_intercept=True),
        kernel=KernelChoice(kernel),
        fit_intercept=True,
        fixed={"epsilon": 0.0, "share_above": 0.5},
    )
    loss = HeldOutLoss(data, None, np.random.RandomState(0), error.guide)
    x = np.array([2.3, -0.4])[: len(loss.bounds)]
    _, gradient = loss(x)
    for k, step in enumerate(1e-5 * np.eye(x.size)):
        ends = [loss(x + sign * step, gradient=False)[0].loss for sign in (1, -1)]
        assert gradient[k] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-3, abs=1e-7)


def test_errors_are_those_of_scikit_learn():
    y = np.column_stack([Y, 1e3 * X[:, 0]])
    task = Regression.from_values(y, fit_intercept=True)
    weight = np.random.default_rng(0).uniform(size=80)
    truth = Truth(task, y, weight / weight.sum(), True, np.arange(80))
    decision = truth.values + np.random.default_rng(1).normal(size=(80, 2))
    predicted = np.column_stack(
        [s.restored(d) for s, d in zip(task.scales, decision.T, strict=True)]
    )
    absolute = mean_absolute_error(y, predicted, sample_weight=weight)
    squared = mean_squared_error(y, predicted, sample_weight=weight)
    assert AbsoluteError().score(decision, truth) == pytest.approx(-absolute)
    assert SquaredError().score(decision, truth) == pytest.approx(-squared)
    assert ExpectileError(0.5).score(decision, truth) == pytest.approx(-squared / 2)
    plain = Truth(task, y, np.full(80, 1 / 80), False, np.arange(80))
    assert StandardisedError(SquaredError()).score(decision, plain) == pytest.approx(
        r2_score(y, predicted)
    )


def test_criteria_of_another_task_are_refused():
    with pytest.raises(ValueError, match=r"SmoothAccuracy is for another task.*absolute_error"):
        ODMRegressorCV(scoring="smooth").fit(X, Y)
    with pytest.raises(ValueError, match="AbsoluteError is for another task"):
        ODMClassifierCV(scoring="absolute_error").fit(X, Y > 40)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"expectile": 1.0}, "expectile"),
        ({"outliers": "drop"}, "outliers"),
        ({"C2s": [0.0, 1.0]}, "C2s has a zero"),
        ({"C1s": "paper"}, "C1s"),
        ({"epsilons": [-1.0]}, "epsilons"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        ODMRegressorCV(**parameters).fit(X, Y)


# Gross errors


@pytest.mark.parametrize("make", [ODMRegressorCV, LinearODMRegressorCV])
def test_trimming_catches_gross_errors(make):
    X, y = curve(150)
    y = y + (30 * X[:, 1] if make is LinearODMRegressorCV else 0.0)
    wrong = np.arange(3, 150, 20)
    spoilt = y.copy()
    spoilt[wrong] += 500.0
    trimmed = make(outliers="trim", max_evals=25).fit(X, spoilt)
    assert np.isin(wrong, trimmed.outliers_).all()
    assert trimmed.outliers_.size <= wrong.size + 0.05 * y.size
    kept = np.delete(np.arange(150), wrong)
    plain = make(max_evals=12).fit(X, spoilt)
    errors = [mean_absolute_error(y[kept], m.predict(X[kept])) for m in (trimmed, plain)]
    assert errors[0] < errors[1]


@pytest.mark.quick
def test_trimming_leaves_clean_data_alone():
    model = LinearODMRegressorCV(outliers="trim", max_evals=12).fit(X, Y)
    assert model.outliers_.size == 0
    plain = LinearODMRegressorCV(max_evals=12).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


def test_a_residual_of_any_output_tells():
    y = np.zeros((20, 2))
    y[:, 0] = np.linspace(-1, 1, 20)
    y[:, 1] = np.linspace(1, -1, 20)
    y[4, 1] = 50.0
    far = far_from_held_out(y, np.zeros((20, 2)), np.ones(20))
    np.testing.assert_array_equal(np.flatnonzero(far), [4])


def test_a_large_set_is_searched_by_a_sample_and_fitted_whole():
    X, y = curve(400)
    model = LinearODMRegressorCV(max_samples=100, max_evals=8).fit(X, y)
    expected = LinearODMRegressor(C1=model.C1_).fit(X, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)


@pytest.mark.parametrize("make", [ODMRegressorCV, LinearODMRegressorCV])
def test_held_out_predictions_of_the_search_are_kept_in_the_units_of_y(make):
    X, y = curve(90)
    y = 100.0 * y + 1000.0
    folds = KFold(3, shuffle=True, random_state=0)
    model = make(cv=folds, max_evals=6).fit(X, y)
    expected = np.empty(90)
    for train, test in folds.split(X):
        part = clone(model.best_estimator_).fit(X[train], y[train])
        expected[test] = part.predict(X[test])
    np.testing.assert_allclose(model.oob_prediction_, expected, rtol=1e-5)
    assert make(cv=folds, max_evals=2).fit(X, np.c_[y, -y]).oob_prediction_.shape == (90, 2)
    assert not hasattr(make(max_evals=2, max_samples=50).fit(X, y), "oob_prediction_")
