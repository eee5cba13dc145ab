"""All models without one sample each, at new points, against refits."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from optimargin import LinearODMClassifier, LinearODMRegressor, ODMClassifier, ODMRegressor
from optimargin.held_out.of_fit import SampleModels

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

FORMS = {
    "rbf": (ODMRegressor, {"gamma": 0.3}),
    "linear kernel": (ODMRegressor, {"kernel": "linear"}),
    "precomputed": (ODMRegressor, {"kernel": "precomputed"}),
    "landmarks": (
        ODMRegressor,
        {"gamma": 0.3, "approximation": "nystrom", "n_components": 48, "random_state": 0},
    ),
    "linear": (LinearODMRegressor, {}),
}


def data(n_samples=48, n_features=5):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n_samples + 7, n_features)) + 1
    y = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n_samples + 7)
    weight = rng.uniform(0.5, 2.0, size=n_samples)
    return X[:n_samples], y[:n_samples], weight, X[n_samples:]


def left_out(model, new):
    """Return the values of new samples for every model, active or not, and of each sample."""
    X, y, weight = model._training_data
    models = SampleModels.of(model._trained_on(X, y, weight))
    rows = np.arange(len(y)) if weight is None else np.flatnonzero(weight)
    return models.values(new, model._scores(new))[..., 0], models.own[:, 0], rows


def refitted_without(model, X, y, weight, i, new):
    kept = np.delete(np.arange(len(y)), i)
    share = weight[kept].sum() / weight.sum()
    again = type(model)(**{**model.get_params(), "C1": model.C1_ * share, "C2": model.C2_ * share})
    X_kept = X[np.ix_(kept, kept)] if X.shape[0] == X.shape[1] else X[kept]
    again.fit(X_kept, y[kept], sample_weight=weight[kept])
    return again.predict(new[:, kept] if X.shape[0] == X.shape[1] else new)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_every_model_equals_its_refit_where_all_samples_are_active(form, fit_intercept):
    estimator, parameters = FORMS[form]
    X, y, weight, new = data()
    if form == "precomputed":
        X, new = X @ X.T, new @ X.T
    model = estimator(C1=30.0, fit_intercept=fit_intercept, tol=1e-13, **parameters)
    model.fit(X, y, sample_weight=weight)
    values, own, _ = left_out(model, new)
    np.testing.assert_allclose(own, model.loo_prediction(), rtol=1e-9)
    if form == "landmarks":  # those of a refit are others
        return
    for i in (0, 5, 17):
        expected = refitted_without(model, X, y, weight, i, new)
        np.testing.assert_allclose(values[:, i], expected, atol=1e-7)


def test_landmarks_that_are_all_samples_are_the_kernel_itself():
    X, y, weight, new = data()
    parameters = {"C1": 30.0, "gamma": 0.3, "tol": 1e-13}
    exact = ODMRegressor(**parameters).fit(X, y, weight)
    landmarks = ODMRegressor(
        approximation="nystrom", n_components=48, random_state=0, **parameters
    ).fit(X, y, weight)
    np.testing.assert_allclose(left_out(landmarks, new)[0], left_out(exact, new)[0], atol=1e-5)


@pytest.mark.parametrize("estimator", [ODMRegressor, LinearODMRegressor])
def test_samples_inside_the_band_do_not_matter(estimator):
    X, y, weight, new = data()
    model = estimator(C1=30.0, epsilon=0.3, tol=1e-13).fit(X, y, weight)
    values, own, _ = left_out(model, new)
    inside = np.flatnonzero(np.abs(y - model.predict(X)) < 0.29)
    assert inside.size > 5
    predicted = model.predict(new)
    np.testing.assert_allclose(
        values[:, inside], np.tile(predicted[:, None], inside.size), atol=1e-9
    )
    np.testing.assert_allclose(own[inside], model.predict(X)[inside], atol=1e-9)


def test_sparse_rows_and_samples_of_no_weight():
    X, y, weight, new = data()
    weight[::5] = 0
    dense = LinearODMRegressor(C1=30.0, tol=1e-13).fit(X, y, weight)
    sparse = LinearODMRegressor(C1=30.0, tol=1e-13).fit(csr_array(X), y, weight)
    expected, _, rows = left_out(dense, new)
    assert rows.size == np.count_nonzero(weight)
    np.testing.assert_allclose(left_out(sparse, csr_array(new))[0], expected, atol=1e-7)


@pytest.mark.parametrize("kind", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_more_features_than_samples(kind):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(20, 60)), rng.normal(size=(5, 60))
    y = X[:, 0] + 0.1 * rng.normal(size=20)
    model = LinearODMRegressor(C1=30.0, tol=1e-13).fit(kind(X), y)
    values, _, _ = left_out(model, kind(new))
    for i in (0, 11):
        expected = refitted_without(model, X, y, np.ones(20), i, new)
        np.testing.assert_allclose(values[:, i], expected, atol=1e-7)
    assert np.isfinite(model.predict_interval(kind(new))[1]).all()


@pytest.mark.parametrize("estimator", [ODMClassifier, LinearODMClassifier])
def test_classifiers_too(estimator):
    X, y, weight, new = data()
    labels = y > np.median(y)
    model = estimator(C1=8.0, C2=8.0, D=0.0, tol=1e-13).fit(X, labels, weight)
    values, own, _ = left_out(model, new)
    np.testing.assert_allclose(own, model.loo_decision_function(), atol=1e-9)
    kept = np.arange(1, len(y))
    share = weight[kept].sum() / weight.sum()
    gamma = {"gamma": model.gamma_} if estimator is ODMClassifier else {}
    again = estimator(C1=8.0 * share, C2=8.0 * share, D=0.0, tol=1e-13, **gamma)
    again.fit(X[kept], labels[kept], weight[kept])
    np.testing.assert_allclose(values[:, 0], again.decision_function(new), atol=1e-7)
