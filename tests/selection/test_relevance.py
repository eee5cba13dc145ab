"""Widths per feature: exact gradients, restraint, and what estimators tell of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_moons

from optimargin import LDMClassifierCV, ODMClassifier, ODMClassifierCV, ODMRegressorCV
from optimargin.designs import GramDesign
from optimargin.held_out.refitter import NewtonRefitter
from optimargin.io import load_model, save_model
from optimargin.kernels import KernelChoice, gamma_of_width
from optimargin.objectives import ODM
from optimargin.plotting import RelevanceDisplay
from optimargin.selection import relevance
from optimargin.selection.criteria import SmoothAccuracy
from optimargin.selection.data import SelectionData
from optimargin.selection.loss import HeldOutLoss
from optimargin.selection.stages import Clock

pytestmark = pytest.mark.numbers


def noisy_moons(n_samples=240, n_noise=4, seed=0):
    """Return two moons, and features that say nothing."""
    X, y = make_moons(n_samples, noise=0.15, random_state=seed)
    noise = np.random.default_rng(seed).standard_normal((n_samples, n_noise))
    return np.column_stack([X / X.std(axis=0), noise]), y


def newton_refitter(data, objective_type, targets, fit_intercept):
    return NewtonRefitter(GramDesign(data.K), targets, fit_intercept)


def make_data(X, y, weight=None, **settings):
    return SelectionData(
        ODM, X, y, weight, kernel=KernelChoice("rbf"), fit_intercept=True, **settings
    )


def loss_of(data, gamma=0.2):
    used = np.flatnonzero(data.weight)
    settings = {"n_repeats": 2, "gamma": gamma, "rows": used}
    return HeldOutLoss(data, None, np.random.RandomState(0), **settings)


def search_of(data, gamma=0.2, x=(1.0, 0.0, 0.0)):
    """Return a search for widths from a tuned point."""
    state = np.random.RandomState(0)
    return relevance.WidthsSearch(np.array(x), gamma, SmoothAccuracy(), state, Clock())


@pytest.mark.parametrize("refit", ["compiled", "newton"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_gradients_are_those_of_finite_differences(n_classes, refit):
    X, y = noisy_moons(60)
    rng = np.random.default_rng(1)
    if n_classes == 3:
        y = y + (X[:, 2] > 0.5)
    settings = {"refit": newton_refitter} if refit == "newton" else {}
    loss = loss_of(make_data(X, y, rng.uniform(0.5, 2, 60), **settings))
    x = np.concatenate([[1.0, -2.0, 0.2], 0.3 * rng.standard_normal(6)])
    _, slope = loss(x)
    for j in range(x.size):
        e = np.zeros(x.size)
        e[j] = 1e-6
        difference = (loss(x + e)[0].loss - loss(x - e)[0].loss) / 2e-6
        assert slope[j] == pytest.approx(difference, rel=1e-4, abs=1e-8)


def test_one_factor_of_all_widths_is_the_slope_of_the_common_width():
    X, y = noisy_moons(60)
    data = make_data(X, y)
    loss, wider = loss_of(data, 0.2), loss_of(data, 0.2 / 4**0.5)
    x = np.array([1.0, -2.0, 0.2])
    np.testing.assert_allclose(
        loss(np.concatenate([x, np.full(6, 0.5)]))[0].loss,
        wider(np.concatenate([x, np.zeros(6)]))[0].loss,
    )


def test_irrelevant_features_become_wide():
    X, y = noisy_moons()
    model = ODMClassifierCV().fit(X, y)
    assert model.widths_.shape == model.gamma_.shape == (6,)
    assert model.widths_[:2].max() < 0.7 * model.widths_[2:].min()
    assert model.feature_importances_[:2].sum() > 0.7
    assert model.feature_importances_.sum() == pytest.approx(1)
    X_test, y_test = noisy_moons(1000, seed=1)
    common = ODMClassifierCV(relevance=False).fit(X, y)
    assert model.score(X_test, y_test) > common.score(X_test, y_test) + 0.01


def test_the_model_is_that_of_the_widths():
    X, y = noisy_moons()
    model = ODMClassifierCV(calibration=None, tol=1e-10).fit(X, y)
    same = ODMClassifier(**model.best_params_, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), same.decision_function(X))
    np.testing.assert_allclose(model.widths_, 1 / np.sqrt(2 * model.gamma_))
    table = model.cv_results_
    assert model.best_index_ == len(table["params"]) - 1
    assert table["rank_test_score"][-1] == 1
    assert (table["rank_test_score"][:-1] > 1).all()
    assert table["param_gamma"][-1] == pytest.approx(np.exp(np.log(model.gamma_).mean()))


def test_labels_of_chance_keep_the_common_width():
    rng = np.random.default_rng(0)
    taken = 0
    for _ in range(5):
        X, y = rng.standard_normal((60, 20)), rng.integers(0, 2, 60)
        taken += np.ndim(ODMClassifierCV().fit(X, y).gamma_)
    assert taken <= 1


WITHOUT_WIDTHS = {
    "not looked for": (ODMClassifierCV(relevance=False, max_evals=8), "relevance=True, without"),
    "a grid": (ODMClassifierCV(C1s=[8.0], widths=[1.0]), "relevance=True, without"),
    "folds": (ODMClassifierCV(cv=3, max_evals=8), "relevance=True, without"),
    "not found": (
        ODMClassifierCV(relevance=True, cv=3, max_evals=8),
        "about them. Use permutation",
    ),
    "linear": (ODMClassifierCV(kernel="linear", max_evals=8), "relevance=True, without"),
    "regression": (ODMRegressorCV(max_evals=8), "about them. Use permutation"),
    "LDM": (LDMClassifierCV(max_evals=4, cv=2), "about them. Use permutation"),
    "not fitted": (None, "relevance=True, without"),
}


@pytest.mark.parametrize(("model", "way"), WITHOUT_WIDTHS.values(), ids=WITHOUT_WIDTHS)
def test_without_widths_there_is_no_relevance(model, way):
    X, y = noisy_moons(60)
    model = ODMClassifierCV() if model is None else model.fit(X, y)
    assert not hasattr(model, "feature_importances_")
    with pytest.raises(AttributeError, match=f"feature_importances_ is there .*{way}"):
        RelevanceDisplay.from_estimator(model)
    if model.kernel == "rbf" and hasattr(model, "best_estimator_"):
        np.testing.assert_allclose(model.widths_, np.full(6, 1 / np.sqrt(2 * model.gamma_)))


def test_a_search_fitted_again_without_widths_has_no_relevance(tmp_path):
    model = ODMClassifierCV(relevance=True).fit(*noisy_moons())
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.feature_importances_, model.feature_importances_)
    assert not hasattr(
        model.set_params(relevance=False).fit(*noisy_moons()), "feature_importances_"
    )


def test_weights_are_repetitions():
    X, y = noisy_moons(80)
    weight = np.random.default_rng(0).integers(0, 3, 80)
    data = make_data(X, y, weight.astype(float))
    rows = np.repeat(np.arange(80), weight)
    gained = []
    for some in (data, make_data(X[rows], y[rows])):
        used = np.flatnonzero(some.weight)
        loss = search_of(some).loss(some, used, used[:5])
        at = np.concatenate([[1.0, -2.0, 0.2], np.ones(6)])
        gained.append(loss(at)[0].decision)
    np.testing.assert_allclose(gained[0][0], gained[1][0])


def test_sparse_data_have_the_same_widths():
    X, y = noisy_moons()
    X[np.abs(X) < 0.1] = 0
    dense, sparse = (ODMClassifierCV().fit(A, y) for A in (X, csr_array(X)))
    assert np.ndim(dense.gamma_) == 1
    np.testing.assert_allclose(sparse.widths_, dense.widths_, rtol=1e-3)
    np.testing.assert_allclose(sparse.feature_importances_, dense.feature_importances_, rtol=1e-3)


def test_many_samples_are_drawn_from_and_all_of_them_seen_at_the_end(monkeypatch):
    monkeypatch.setattr(relevance, "MAX_SAMPLES", 200)
    X, y = noisy_moons(300)
    model = ODMClassifierCV().fit(X, y)
    assert model.feature_importances_[:2].sum() > 0.7


def test_widths_whose_gain_is_rounding_are_not_taken(monkeypatch):
    scores = iter(np.tile([0.9 + 1e-9, 0.9], 100))  # with widths, and without
    monkeypatch.setattr(
        relevance.WidthsSearch, "descend", lambda self, loss, start, *given, **more: loss(start)[0]
    )
    monkeypatch.setattr(relevance, "_score", lambda *given: next(scores))
    X, y = noisy_moons(90)
    tuned = HeldOutLoss(make_data(X, y), None, np.random.RandomState(0))
    best, _ = tuned(np.array([1.0, -2.0, 0.5, 0.0]), gradient=False)
    state = np.random.RandomState(0)
    assert relevance.find_widths(tuned, best, state, Clock(), at_once=True) is None


@pytest.mark.parametrize("digit", [-1e-15, 0.0, 1e-15])
def test_a_width_of_two_mean_distances_is_nearly_linear_on_no_processor(digit):
    data = make_data(*noisy_moons(60))
    gamma = gamma_of_width(data.mean_distance * 2.0**1.0) * (1 + digit)
    assert len(search_of(data, gamma).starts(data)) == 1
    assert len(search_of(data, gamma / 4**0.01).starts(data)) == 2


def test_other_kernels_and_splitters_do_without():
    X, y = noisy_moons(60)
    linear = ODMClassifierCV(kernel="linear", max_evals=10).fit(X, y)
    assert not hasattr(linear, "widths_")
    assert np.ndim(ODMClassifierCV(cv=3, max_evals=10).fit(X, y).gamma_) == 0
    assert np.ndim(ODMClassifierCV(C1s=[1.0], widths=[1.0]).fit(X, y).gamma_) == 0


def searches_for_widths(monkeypatch, X, y, **settings):
    """Return how many descents of the steps that confirm widths a search made."""
    started = []
    whole = relevance._confirmed
    monkeypatch.setattr(relevance, "_confirmed", lambda *given: started.append(1) or whole(*given))
    ODMClassifierCV(**settings).fit(X, y)
    return len(started)


def test_widths_are_looked_for_where_halves_promise_a_gain(monkeypatch):
    X, y = noisy_moons()
    assert searches_for_widths(monkeypatch, X, y) == 1
    assert searches_for_widths(monkeypatch, X[:, :2], y) == 0
    assert searches_for_widths(monkeypatch, X[:, :2], y, relevance=True) == 1


def test_no_promise_is_told_from_a_class_that_a_half_lacks():
    X, y = noisy_moons(60)
    y[0] = 2
    data = make_data(X, y)
    assert not search_of(data).promise(data)


def test_time_ends_the_search_for_widths():
    X, y = noisy_moons()
    model = ODMClassifierCV(relevance=True, max_time=1e-9).fit(X, y)
    assert np.ndim(model.gamma_) == 0


def test_scaled_data_with_one_width_are_the_data_with_widths():
    X, y = noisy_moons(60)
    data = make_data(X, y)
    gamma = np.array([0.5, 0.4, 0.1, 0.2, 0.05, 0.1])
    factors = np.sqrt(gamma)
    widths = loss_of(data, gamma)(np.concatenate([[1.0, 0.0, 0.0], np.zeros(6)]))[0].loss
    for scaled in (data.scaled(factors), make_data(csr_array(X), y).scaled(factors)):
        one = loss_of(scaled, 1.0)(np.concatenate([[1.0, 0.0, 0.0], np.zeros(6)]))[0].loss
        assert one == pytest.approx(widths)


def test_held_out_values_of_widths_are_those_of_the_chosen_loss():
    X, y = noisy_moons()
    data = make_data(X, y)
    tuned = HeldOutLoss(data, None, np.random.RandomState(0))
    best, _ = tuned(np.array([1.0, -2.0, 0.5, 0.0]), gradient=False)
    found = relevance.find_widths(tuned, best, np.random.RandomState(0), Clock())
    model = ODMClassifier(**found.point).fit(X, y)
    of_model = np.abs(model.decision_function(X)).mean()
    assert np.abs(found.decision).mean() == pytest.approx(of_model, rel=0.15)


def widths_of_many(monkeypatch):
    """Return the widths of more samples than they are found on, all samples, and those drawn."""
    monkeypatch.setattr(relevance, "MAX_SAMPLES", 150)
    X, y = noisy_moons(400)
    drawn = []
    plain = SelectionData.sample

    def sample(data, *given):
        part = plain(data, *given)
        drawn.append(part.rows)
        return part

    monkeypatch.setattr(SelectionData, "sample", sample)
    tuned = HeldOutLoss(make_data(X, y), None, np.random.RandomState(0))
    best, _ = tuned(np.array([1.0, -2.0, 0.5, 0.0]), gradient=False)
    found = relevance.find_widths(tuned, best, np.random.RandomState(0), Clock(), at_once=True)
    return found, drawn[0]


def test_samples_that_widths_were_not_found_on_confirm_and_score_them(monkeypatch):
    found, drawn = widths_of_many(monkeypatch)
    assert drawn.size == 150
    assert sorted(set(found.truth.rows)) == sorted(set(range(400)) - set(drawn))
    assert found.decision.shape == (found.truth.rows.size, 1)


def test_widths_that_do_not_help_other_samples_are_not_taken(monkeypatch):
    last_steps = relevance.WidthsSearch.last_steps

    def spoilt(*given):
        loss, last = last_steps(*given)
        return loss, replace(last, decision=-last.decision)

    monkeypatch.setattr(relevance.WidthsSearch, "last_steps", spoilt)
    assert widths_of_many(monkeypatch)[0] is None


def test_values_that_lack_a_class_do_not_calibrate(monkeypatch):
    X, y = noisy_moons(300)
    y[:3] = 2
    whole = relevance.find_widths

    def without_the_rare_class(*given, **settings):
        found = whole(*given, **settings)
        kept = np.flatnonzero(found.truth.rows > 2)
        truth = given[0].data.truth(found.truth.rows[kept])
        return replace(found, truth=truth, decision=found.decision[kept])

    monkeypatch.setattr("optimargin.estimators.cv.find_widths", without_the_rare_class)
    model = ODMClassifierCV(relevance=True).fit(X, y)
    assert np.ndim(model.gamma_) == 1
    assert np.isfinite(model.predict_proba(X)).all()
    assert len(model.oob_decision_function_) == 300  # of fits without each sample
