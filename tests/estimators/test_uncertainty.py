"""Prediction intervals and sets of estimators, against refits."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import make_classification, make_friedman1

from optimargin import (
    LinearODMClassifier,
    LinearODMRegressor,
    LinearODMRegressorCV,
    ODMClassifier,
    ODMClassifierCV,
    ODMRegressor,
    ODMRegressorCV,
)
from optimargin.conformal import conformities
from optimargin.io import ModelFileError, load_model, save_model
from optimargin.training import plan

pytestmark = [pytest.mark.quick, pytest.mark.numbers]


def numbers(n_samples=60, seed=0):
    X, y = make_friedman1(n_samples + 20, 5, noise=1.0, random_state=seed)
    return X[:n_samples], y[:n_samples], X[n_samples:], y[n_samples:]


def labels(n_samples=60, n_classes=2, seed=0):
    X, y = make_classification(
        n_samples + 200, 4, n_informative=4, n_redundant=0, n_classes=n_classes, flip_y=0.1,
        random_state=seed,
    )  # fmt: skip
    return X[:n_samples], y[:n_samples], X[n_samples:], y[n_samples:]


def refitted(model, X, y, new, method):
    """Return values of new samples for the models without each sample, and of each sample."""
    n, values, own = len(y), [], []
    share = (n - 1) / n
    again = clone(model).set_params(C1=model.C1_ * share, C2=model.C2_ * share)
    for i in range(n):
        kept = np.delete(np.arange(n), i)
        part = again.fit(X[kept], y[kept])
        values.append(getattr(part, method)(new))
        own.append(getattr(part, method)(X[i : i + 1])[0])
    return np.moveaxis(np.array(values), 0, 1), np.array(own)


def jackknife_plus(values, residuals, level):
    k = int(np.ceil(level * (len(residuals) + 1))) - 1
    low = -np.sort(residuals - values, axis=1)[:, k]
    return np.stack([low, np.sort(values + residuals, axis=1)[:, k]], axis=1)


REGRESSORS = {
    "kernel": ODMRegressor(gamma=0.5, tol=1e-12),
    "kernel, band": ODMRegressor(gamma=0.5, epsilon=0.5, tol=1e-12),
    "expectile": ODMRegressor(C1=900.0, C2=100.0, gamma=0.5, tol=1e-12),
    "linear": LinearODMRegressor(tol=1e-12),
    "linear, band": LinearODMRegressor(epsilon=0.5, tol=1e-12),
    "no intercept": ODMRegressor(gamma=0.5, fit_intercept=False, tol=1e-12),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_exact_intervals_are_those_of_refits(name):
    X, y, new, _ = numbers()
    model = clone(REGRESSORS[name]).fit(X, y)
    values, own = refitted(model, X, y, new, "predict")
    expected = jackknife_plus(values, np.abs(y - own), 0.9)
    points, exact = model.predict_interval(new, exact=True)
    np.testing.assert_array_equal(points, model.predict(new))
    np.testing.assert_allclose(exact[..., 0], expected, rtol=1e-8)
    closed = model.predict_interval(new)[1]
    if name in ("kernel", "linear", "no intercept"):  # every sample stays active
        np.testing.assert_allclose(closed, exact, rtol=1e-8)
    else:
        assert np.abs(closed - exact).max() < 0.5


def test_all_levels_at_once_are_one_by_one():
    X, y, new, _ = numbers()
    model = ODMRegressor().fit(X, y)
    for method in ("plus", "minmax", "base"):
        together = model.predict_interval(new, [0.5, 0.8], method=method)[1]
        assert together.shape == (20, 2, 2)
        for k, level in enumerate([0.5, 0.8]):
            alone = model.predict_interval(new, level, method=method)[1]
            np.testing.assert_array_equal(alone[..., 0], together[..., k])


def test_minmax_is_wider_and_intervals_are_ordered():
    X, y, new, _ = numbers()
    model = ODMRegressor().fit(X, y)
    plus, minmax = (model.predict_interval(new, 0.8, method=m)[1] for m in ("plus", "minmax"))
    assert (minmax[:, 0] <= plus[:, 0]).all()
    assert (minmax[:, 1] >= plus[:, 1]).all()


def test_too_few_samples_have_infinite_ends():
    X, y, new, _ = numbers(8)
    intervals = ODMRegressor().fit(X, y).predict_interval(new, [0.85, 0.95])[1]
    assert np.isfinite(intervals[..., 0]).all()
    assert (intervals[:, 0, 1] == -np.inf).all()
    assert (intervals[:, 1, 1] == np.inf).all()


@pytest.mark.parametrize("estimator", [ODMRegressor, LinearODMRegressor])
def test_intervals_cover(estimator):
    covered = []
    for seed in range(10):
        X, y, new, truth = numbers(100, seed)
        intervals = estimator().fit(X, y).predict_interval(new, 0.8)[1][..., 0]
        covered.append(((intervals[:, 0] <= truth) & (truth <= intervals[:, 1])).mean())
    assert 0.72 < np.mean(covered) < 0.9


@pytest.mark.parametrize("estimator", [ODMRegressor, LinearODMRegressor])
def test_a_weight_is_a_number_of_repetitions(estimator):
    X, y, new, _ = numbers()
    times = np.random.default_rng(0).integers(0, 4, size=60)
    repeated = np.repeat(np.arange(60), times)
    weighted = estimator().fit(X, y, sample_weight=times).predict_interval(new)[1]
    longer = estimator().fit(X[repeated], y[repeated]).predict_interval(new)[1]
    np.testing.assert_allclose(weighted, longer, rtol=1e-7)


@pytest.mark.parametrize("search", [ODMRegressorCV, LinearODMRegressorCV])
def test_searches_have_intervals(search):
    X, y, new, _ = numbers()
    model = search(max_evals=4).fit(X, y)
    expected = model.best_estimator_.predict_interval(new)[1]
    np.testing.assert_array_equal(model.predict_interval(new)[1], expected)


@pytest.mark.parametrize("band", [0.0, 0.5])
@pytest.mark.parametrize("kind", ["pickle", "file"])
def test_a_kernel_model_that_was_saved_has_the_same_intervals(band, kind, tmp_path):
    X, y, new, _ = numbers()
    model = ODMRegressor(epsilon=band).fit(X, y, sample_weight=np.arange(60) % 3)
    if kind == "pickle":
        loaded = pickle.loads(pickle.dumps(model))
    else:
        save_model(model, Path(tmp_path, "model.skops"))
        loaded = load_model(Path(tmp_path, "model.skops"))
    expected = model.predict_interval(new)[1]
    np.testing.assert_array_equal(loaded.predict_interval(new)[1], expected)
    given = (X, y, np.arange(60) % 3)
    np.testing.assert_allclose(
        model.predict_interval(new, training_data=given)[1], expected, rtol=1e-6
    )


@pytest.mark.parametrize(
    "model",
    [
        LinearODMRegressor(),
        ODMRegressor(approximation="nystrom", n_components=20, random_state=0),
        ODMRegressor(kernel="precomputed"),
    ],
    ids=["linear", "landmarks", "precomputed"],
)
def test_other_forms_ask_for_the_training_data_after_pickling(model):
    X, y, new, _ = numbers()
    if getattr(model, "kernel", None) == "precomputed":
        X, new = X @ X.T, new @ X.T
    model = clone(model).fit(X, y)
    expected = model.predict_interval(new)[1]
    loaded = pickle.loads(pickle.dumps(model))
    with pytest.raises(ValueError, match="pass training_data"):
        loaded.predict_interval(new)
    again = loaded.predict_interval(new, training_data=(X, y))[1]
    np.testing.assert_allclose(again, expected)


def test_exact_intervals_ask_for_the_training_data_after_pickling():
    X, y, new, _ = numbers()
    loaded = pickle.loads(pickle.dumps(ODMRegressor().fit(X, y)))
    with pytest.raises(ValueError, match="pass training_data"):
        loaded.predict_interval(new, exact=True)
    assert loaded.predict_interval(new, exact=True, training_data=(X, y))[1].shape == (20, 2, 1)


def test_past_a_size_models_are_those_of_folds(monkeypatch):
    X, y, new, truth = numbers(200)
    models = [ODMRegressor(), LinearODMRegressor(), ODMClassifier(calibration="sigmoid")]
    closed = [model.fit(X, y) for model in models[:2]]
    expected = [model.predict_interval(new)[1] for model in closed]
    monkeypatch.setattr(plan, "_INVERTED_ONCE_UP_TO", 10)
    monkeypatch.setattr(plan, "_INVERTED_UP_TO", 2)
    for model, by_samples in zip(closed, expected, strict=True):
        by_folds = model.predict_interval(new)[1]
        assert 0 < np.abs(by_folds - by_samples).mean() < 0.5
        with pytest.raises(ValueError, match="exact=False"):
            model.predict_interval(new, exact=True)
    model = models[2].fit(X, y > y.mean())
    covered = model.predict_set(new)[1][np.arange(20), (truth > y.mean()).astype(int)]
    assert covered.mean() > 0.7


def test_bad_arguments_of_intervals_are_named():
    X, y, new, _ = numbers()
    model = ODMRegressor().fit(X, y)
    with pytest.raises(ValueError, match="confidence_level=1"):
        model.predict_interval(new, 1.0)
    with pytest.raises(ValueError, match="'method' parameter"):
        model.predict_interval(new, method="jackknife")
    with pytest.raises(ValueError, match="training_data must be a tuple"):
        model.predict_interval(new, training_data=X)
    with pytest.raises(ValueError, match="features"):
        model.predict_interval(new[:, :2])
    several = ODMRegressor().fit(X, np.column_stack([y, -y]))
    with pytest.raises(ValueError, match="one target"):
        several.predict_interval(new)
    with pytest.raises(ValueError, match="not fitted"):
        ODMRegressor().predict_interval(new)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rows", np.arange(3)),
        ("weight", np.full(60, np.nan)),
        ("decision", np.zeros((60, 2))),
        ("rows", np.arange(60) + 1000),
    ],
)
def test_a_file_whose_kept_samples_do_not_belong_together_is_refused(name, value, tmp_path):
    X, y, _, _ = numbers()
    model = ODMRegressor().fit(X, y)
    model._kept = {**model._kept, name: value}
    save_model(model, Path(tmp_path, "model.skops"))
    with pytest.raises(ModelFileError, match="kept"):
        load_model(Path(tmp_path, "model.skops"))


# Sets


def conformal_sets(values, own, y, n_classes, level):
    """Return the sets of the definition, class by class."""
    new = conformities(values.reshape(*values.shape[:2], -1))
    of_samples = conformities(own.reshape(len(own), -1))[np.arange(len(y)), y]
    sets = np.empty((len(values), n_classes), dtype=bool)
    for k in range(n_classes):
        rows = y == k
        above = (of_samples[rows] > new[:, rows, k]).sum(axis=1)
        sets[:, k] = above < level * (rows.sum() + 1)
    return sets


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("estimator", [ODMClassifier, LinearODMClassifier])
def test_exact_sets_are_those_of_refits(estimator, n_classes):
    X, y, new, _ = labels(45, n_classes)
    gamma = {"gamma": 0.3} if estimator is ODMClassifier else {}
    model = estimator(tol=1e-12, **gamma).fit(X, y)
    values, own = refitted(model, X, y, new[:30], "decision_function")
    expected = conformal_sets(values, own, y, n_classes, 0.85)
    predicted, sets = model.predict_set(new[:30], 0.85, exact=True)
    np.testing.assert_array_equal(predicted, model.predict(new[:30]))
    np.testing.assert_array_equal(sets[..., 0], expected)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("class_wise", [True, False])
@pytest.mark.parametrize("method", ["plus", "base"])
def test_sets_cover(method, class_wise, n_classes):
    covered = []
    for seed in range(5):
        X, y, new, truth = labels(120, n_classes, seed)
        sets = (
            ODMClassifier().fit(X, y).predict_set(new, 0.8, method=method, class_wise=class_wise)[1]
        )
        covered.append(sets[np.arange(200), truth, 0].mean())
    assert 0.72 < np.mean(covered) < 0.9


def test_class_wise_sets_do_not_forget_a_small_class():
    worst = {True: [], False: []}
    for seed in range(6):
        X, y = make_classification(
            600, 4, n_informative=4, n_redundant=0, weights=[0.85], class_sep=0.5, random_state=seed
        )
        model = ODMClassifier().fit(X[:300], y[:300])
        small = y[300:] == 1
        for class_wise, found in worst.items():
            sets = model.predict_set(X[300:], 0.9, class_wise=class_wise)[1]
            found.append(sets[small, 1, 0].mean())
    assert np.mean(worst[True]) > 0.84
    assert np.mean(worst[False]) < 0.8


def test_calibration_does_not_change_class_wise_sets():
    X, y, new, _ = labels()
    plain = ODMClassifier().fit(X, y).predict_set(new, [0.7, 0.9])[1]
    shifted = ODMClassifier(calibration="sigmoid").fit(X, y).predict_set(new, [0.7, 0.9])[1]
    assert (plain == shifted).mean() > 0.999


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_saved_classifier_has_the_same_sets(n_classes):
    X, y, new, _ = labels(60, n_classes)
    y = np.array(["a", "b", "c"])[y]
    model = ODMClassifierCV(max_evals=4).fit(X, y)
    predicted, sets = model.predict_set(new)
    again = pickle.loads(pickle.dumps(model)).predict_set(new)
    np.testing.assert_array_equal(again[0], predicted)
    np.testing.assert_array_equal(again[1], sets)
    linear = pickle.loads(pickle.dumps(LinearODMClassifier().fit(csr_array(X), y)))
    with pytest.raises(ValueError, match="pass training_data"):
        linear.predict_set(csr_array(new))
    assert linear.predict_set(csr_array(new), training_data=(csr_array(X), y))[1].any()


def test_bad_arguments_of_sets_are_named():
    X, y, new, _ = labels()
    model = ODMClassifier().fit(X, y)
    with pytest.raises(ValueError, match="confidence_level"):
        model.predict_set(new, 0)
    with pytest.raises(ValueError, match="'method' parameter"):
        model.predict_set(new, method="minmax")


@pytest.mark.parametrize("make", [LinearODMRegressor, ODMRegressor])
def test_other_training_data_than_those_of_the_fit_are_refused(make):
    X, y = make_friedman1(80, random_state=0)
    model = pickle.loads(pickle.dumps(make().fit(X, y)))
    right = make().fit(X, y).predict_interval(X[:5])[1]
    np.testing.assert_allclose(model.predict_interval(X[:5], training_data=(X, y))[1], right)
    for other in ((X[:50], y[:50]), (X, y[::-1])):
        with pytest.raises(ValueError, match="training data"):
            model.predict_interval(X[:5], training_data=other)


@pytest.mark.parametrize(("solver", "tol"), [("newton", 1e-6), ("dcd", 1e-9), ("bcd", 1e-6)])
def test_what_is_kept_of_calibrated_classifiers_knows_of_no_shift(solver, tol):
    """Held-out values from support vectors and from the training data are the same."""
    X, y = make_classification(
        300, 4, n_informative=3, n_redundant=0, weights=[0.8], random_state=0
    )
    model = ODMClassifier(calibration="sigmoid", solver=solver, tol=tol).fit(X, y)
    kept = pickle.loads(pickle.dumps(model))._left_out_models(None, exact=False)
    given = model._left_out_models((X, y), exact=False)
    assert len(model.support_) < 290  # the others are in the band
    np.testing.assert_allclose(np.sort(kept.own, axis=0), np.sort(given.own, axis=0), atol=1e-5)
