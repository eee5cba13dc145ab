"""The baselines against closed forms and an independent solver."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning

from optimargin_study.baselines import (
    KernelFisherDiscriminant,
    MarginDistributionGame,
    MarginDistributionOptimizer,
    MaximalAverageMargin,
)

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

BASELINES = [
    KernelFisherDiscriminant(),
    MarginDistributionGame(),
    MarginDistributionOptimizer(),
    MaximalAverageMargin(),
]


@pytest.fixture(scope="module")
def data():
    return make_classification(60, 5, flip_y=0.1, random_state=0)


def test_average_margin_is_the_direction_of_the_mean(data):
    X, y = data
    model = MaximalAverageMargin(kernel="linear").fit(X, y)
    direction = np.where(y == 1, 1.0, -1.0) @ X
    assert_allclose(model.decision_function(X), X @ direction / np.linalg.norm(direction))


def test_average_margin_predicts_the_larger_class_alone_when_classes_are_very_uneven():
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(100, 3)))
    y = np.arange(100) < 5
    assert not MaximalAverageMargin(gamma=0.01).fit(X, y).predict(X).any()


def test_fisher_discriminant_of_the_linear_kernel_is_linear_discriminant_analysis(data):
    X, y = data
    ours = KernelFisherDiscriminant(kernel="linear", reg=1e-10).fit(X, y).decision_function(X)
    theirs = LinearDiscriminantAnalysis().fit(X, y).decision_function(X)
    slope, offset = np.polyfit(theirs, ours, 1)
    assert_allclose(ours, slope * theirs + offset, atol=1e-5 * np.abs(ours).max())
    assert slope > 0
    # The same boundary, up to the divisor of the variance.
    assert abs(offset / slope) < 0.05


@pytest.mark.parametrize("reg", [0.01, 0.5, 1.0])
def test_game_is_solved_to_its_certified_gap(data, reg):
    X, y = data
    signs = np.where(y == 1, 1.0, -1.0)
    model = MarginDistributionGame(reg, kernel="linear", tol=1e-8, max_iter=100_000).fit(X, y)
    g = cp.Variable(y.size, nonneg=True)
    norm = cp.sum_squares(X.T @ cp.multiply(signs, g))
    problem = cp.Problem(
        cp.Minimize((1 - reg) * norm + reg * cp.sum_squares(g)),
        [cp.sum(g[signs > 0]) == 1, cp.sum(g[signs < 0]) == 1],
    )
    optimum = problem.solve(solver="CLARABEL")
    weights = model.dual_coef_ * signs
    ours = (1 - reg) * np.sum((X.T @ model.dual_coef_) ** 2) + reg * np.sum(weights**2)
    assert_allclose(ours, optimum, rtol=1e-5)
    assert_allclose([weights[signs > 0].sum(), weights[signs < 0].sum()], 1.0)
    assert weights.min() >= 0


def test_optimizer_ends_where_the_cost_does_not_fall_any_more(data):
    X, y = data
    model = MarginDistributionOptimizer(alpha=5.0, beta=2.0).fit(X, y)
    scale = np.abs(X).max()
    Z = np.column_stack([X / scale, np.ones(len(X))])
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    w = np.append(model.coef_ * scale, model.intercept_)
    assert_allclose(np.linalg.norm(w), 1.0)
    signs = np.where(y == 1, 1.0, -1.0)

    def cost(w):
        margin = signs * (Z @ w) / np.linalg.norm(w)
        return np.mean(np.where(margin >= 0, np.exp(-5 * margin**2), np.exp(-2 * margin)))

    assert_allclose(model.objective_, cost(w))
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert cost(w + 1e-3 * rng.normal(size=w.size)) >= cost(w) - 1e-7


@pytest.mark.parametrize("model", BASELINES, ids=lambda m: type(m).__name__)
def test_baseline_beats_chance_on_breast_cancer_data(model):
    X, y = load_breast_cancer(return_X_y=True)
    X = X / X.max(axis=0)
    assert model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.62


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MarginDistributionGame(reg=2.0), "reg"),
        (KernelFisherDiscriminant(reg=0.0), "reg"),
        (MarginDistributionOptimizer(alpha=-1.0), "alpha"),
        (MaximalAverageMargin(kernel="poly"), "kernel"),
    ],
)
def test_bad_parameter_is_named(data, model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*data)


def test_three_classes_are_refused(data):
    X, _ = data
    with pytest.raises(ValueError, match="Only binary"):
        MaximalAverageMargin().fit(X, np.arange(60) % 3)


@pytest.mark.parametrize("model", BASELINES, ids=lambda m: type(m).__name__)
def test_features_whose_products_overflow_are_refused(data, model):
    X, y = data
    with pytest.raises(ValueError, match="products overflow"):
        model.fit(1e150 * X, y)


def test_a_game_that_stops_early_warns_at_the_line_that_fits(data):
    with pytest.warns(ConvergenceWarning, match="relative gap") as caught:
        MarginDistributionGame(0.0, max_iter=1).fit(*data)
    assert [warning.filename for warning in caught] == [__file__]


def test_a_fit_that_fails_leaves_the_model_before_as_it_was(data):
    X, y = data
    model = MaximalAverageMargin().fit(X, y)
    before = model.decision_function(X)
    with pytest.raises(ValueError, match="one class only"):
        model.fit(X[:, :2], np.ones(len(y)))
    assert_allclose(model.decision_function(X), before)
