"""Criteria are not fooled by noise, have the slopes they claim, and guide by smooth forms."""

import numpy as np
import pytest
from sklearn import metrics
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from optimargin import ODMClassifierCV, ODMRegressorCV
from optimargin.selection.criteria import (
    NEGLIGIBLE,
    LogLoss,
    SmoothAccuracy,
    SmoothAUC,
    SmoothBalancedAccuracy,
    SmoothF1,
    Truth,
    make_criterion,
    smooth_loss,
)
from optimargin.tasks import Classification

pytestmark = [pytest.mark.quick, pytest.mark.numbers]


def noisy_features(seed, n_samples=1000, n_features=500, shift=0.3):
    """Return balanced classes that eight of many features tell apart, a little."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % 2
    X = rng.normal(size=(n_samples, n_features))
    X[:, :8] += shift * (2 * y[:, None] - 1)
    return X, y


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-16, 1e-9])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_negligible_decision_values_cost_one_half(size, n_outputs):
    rng = np.random.default_rng(0)
    encoded = rng.integers(0, max(n_outputs, 2), 50)
    decision = size * rng.normal(size=(50, n_outputs))
    loss, slope = smooth_loss(decision, encoded, np.full(50, 1 / 50))
    assert loss == pytest.approx(0.5, abs=1e-2)
    assert np.isfinite(slope).all()


def test_the_slope_is_that_of_the_loss_on_both_sides_of_the_threshold():
    rng = np.random.default_rng(0)
    encoded, weight = rng.integers(0, 2, 30), np.full(30, 1 / 30)
    values = rng.normal(size=(30, 1))
    for size in (0.1 * NEGLIGIBLE, 10 * NEGLIGIBLE):
        decision = size * values
        _, slope = smooth_loss(decision, encoded, weight)
        for i in range(0, 30, 7):
            step = np.zeros((30, 1))
            step[i] = 1e-5 * size
            up, down = (smooth_loss(decision + s * step, encoded, weight)[0] for s in (1, -1))
            assert slope[i, 0] == pytest.approx((up - down) / (2e-5 * size), rel=1e-4)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_many_noise_features_do_not_lead_the_search_to_chance(seed):
    X, y = noisy_features(seed)
    model = ODMClassifierCV(max_evals=20).fit(X[:500], y[:500])
    assert model.score(X[500:], y[500:]) > 0.6


SMOOTH = [SmoothAccuracy(), SmoothBalancedAccuracy(), SmoothF1(), SmoothAUC(), LogLoss()]


def truth_of(encoded, weight=None):
    task = Classification.from_labels(encoded, None)
    weight = np.ones(encoded.size) if weight is None else weight
    return Truth(task, encoded, weight / weight.sum(), True, np.arange(encoded.size))


@pytest.mark.parametrize("criterion", SMOOTH, ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_slopes_of_smooth_criteria_are_those_of_finite_differences(criterion, n_classes):
    if n_classes > 2 and isinstance(criterion, SmoothF1 | SmoothAUC):
        pytest.skip("for two classes")
    rng = np.random.default_rng(0)
    encoded = rng.choice(n_classes, 40, p=[0.8, 0.2] if n_classes == 2 else [0.6, 0.3, 0.1])
    truth = truth_of(encoded, rng.uniform(0.5, 2.0, 40))
    decision = rng.normal(size=(40, 1 if n_classes == 2 else n_classes)) + 0.3
    score, slope = criterion.score_and_slope(decision, truth)
    assert score == criterion.score(decision, truth)
    for place in [(0, 0), (7, decision.shape[1] - 1), (20, 0), (39, 0)]:
        step = np.zeros_like(decision)
        step[place] = 1e-6
        up, down = (criterion.score(decision + sign * step, truth) for sign in (1, -1))
        assert slope[place] == pytest.approx((up - down) / 2e-6, rel=1e-4, abs=1e-7)


def test_smooth_forms_tend_to_what_they_stand_for():
    rng = np.random.default_rng(1)
    encoded = np.repeat([0, 1], [80, 20])
    decision = (rng.normal(size=100) + encoded - 0.5)[:, None]
    truth = truth_of(encoded)
    sharp = 1e6
    labels = decision[:, 0] > 0
    expected = {
        SmoothBalancedAccuracy: metrics.balanced_accuracy_score(encoded, labels),
        SmoothF1: metrics.f1_score(encoded, labels),
        SmoothAUC: metrics.roc_auc_score(encoded, decision[:, 0]),
    }
    for criterion, value in expected.items():
        assert criterion(sharp).score(decision, truth) == pytest.approx(value, abs=1e-6)


def test_the_log_loss_is_that_of_a_fitted_sigmoid():
    rng = np.random.default_rng(2)
    encoded = rng.integers(0, 2, 200)
    decision = (rng.normal(size=200) + encoded)[:, None]
    platt = LogisticRegression(C=np.inf).fit(decision, encoded)
    expected = -metrics.log_loss(encoded, platt.predict_proba(decision))
    assert LogLoss().score(decision, truth_of(encoded)) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("scoring", "guide"),
    [
        ("balanced_accuracy", SmoothBalancedAccuracy),
        ("f1", SmoothF1),
        ("roc_auc", SmoothAUC),
        ("neg_log_loss", LogLoss),
        ("accuracy", SmoothAccuracy),
        ("average_precision", SmoothAccuracy),
    ],
)
def test_scorers_are_guided_by_their_smooth_forms(scoring, guide):
    made = make_criterion(scoring, SmoothAccuracy(), Classification)
    assert type(made.guide) is guide
    several = make_criterion(scoring, SmoothAccuracy(), Classification, 3)
    for_two = scoring in ("f1", "roc_auc")
    assert type(several.guide) is (SmoothAccuracy if for_two else guide)


@pytest.mark.parametrize("machine", [ODMClassifierCV, ODMRegressorCV])
def test_a_scorer_may_ask_for_the_score_of_the_model_and_whether_it_is_fitted(machine):
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = X[:, 0] + X[:, 1] ** 2
    y = (y > 0).astype(int) if machine is ODMClassifierCV else y

    def scoring(model, X, y):
        check_is_fitted(model)
        return model.score(X, y)

    search = machine(C1s=[1.0, 8.0], widths=[1.0], cv=3, scoring=scoring).fit(X, y)
    expected = machine(C1s=[1.0, 8.0], widths=[1.0], cv=3).fit(X, y)
    of_chosen = search.cv_results_["mean_test_score"][expected.best_index_]
    assert of_chosen == pytest.approx(expected.held_out_score_)
