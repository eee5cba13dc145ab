"""What all classifiers share: labels, classes, weights, containers, diagnostics."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optimargin import LinearODMClassifier, ODMClassifier
from tests.cases import ESTIMATOR_SOLVERS, ODM_ESTIMATORS, models, training_input, two_classes

every_estimator = pytest.mark.parametrize("estimator", ODM_ESTIMATORS)
every_model = pytest.mark.parametrize("model", models())
every_solver = pytest.mark.parametrize(("estimator", "solver"), ESTIMATOR_SOLVERS)
quiet = pytest.mark.filterwarnings("ignore:The sigmoid kernel matrix")


@pytest.fixture
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X[::2]), y[::2]


@quiet
@every_model
def test_one_vs_rest_equals_separate_binary_fits(model, iris):
    X, y = iris
    K = training_input(model, X)
    joint = clone(model).set_params(multi_class="ovr").fit(K, y)
    scores = joint.decision_function(K)
    assert scores.shape == (len(X), 3)
    for k in range(3):
        single = clone(model).fit(K, y == k)
        assert joint.objective_[k] == pytest.approx(single.objective_, rel=1e-10)
        assert joint.n_iter_[k] == single.n_iter_
        np.testing.assert_allclose(scores[:, k], single.decision_function(K), rtol=1e-9, atol=1e-9)


@every_estimator
def test_many_classes_give_one_diagnostic_per_class(estimator, iris):
    model = estimator(C1=256.0).fit(*iris)
    for name in ("n_iter_", "objective_", "dual_gap_"):
        assert getattr(model, name).shape == (3,)
    assert model.intercept_.shape == (3,)
    np.testing.assert_array_equal(
        model.predict(iris[0]), model.classes_[model.decision_function(iris[0]).argmax(axis=1)]
    )
    assert model.score(*iris) > 0.9


@every_estimator
def test_two_classes_give_plain_numbers(estimator):
    model = estimator().fit(*two_classes())
    assert type(model.n_iter_) is int
    assert type(model.objective_) is float
    assert type(model.dual_gap_) is float
    assert model.n_iter_ >= 1
    assert model.decision_function(two_classes()[0]).shape == (60,)


@every_estimator
@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes"],
        np.array(["no", "yes"], dtype=object),
        [False, True],
        [3, 7],
        [-1.0, 2.0],
        [np.int8(1), np.int8(2)],
    ],
    ids=["str", "object", "bool", "int", "float", "int8"],
)
def test_labels_of_any_type_come_back(estimator, labels):
    X, y = two_classes()
    labels = np.asarray(labels)
    named = labels[(y > 0).astype(int)]
    model = estimator().fit(X, named)
    reference = estimator().fit(X, y)
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.predict(X).dtype == named.dtype
    np.testing.assert_array_equal(model.predict(X), labels[(reference.predict(X) > 0).astype(int)])
    np.testing.assert_array_equal(model.decision_function(X), reference.decision_function(X))


@every_estimator
def test_positive_decision_values_mean_the_second_class(estimator):
    X, y = two_classes(noise=0.0)
    model = estimator().fit(X, np.where(y > 0, "up", "down"))
    assert list(model.classes_) == ["down", "up"]
    np.testing.assert_array_equal(model.predict(X) == "up", model.decision_function(X) > 0)
    assert model.score(X, np.where(y > 0, "up", "down")) > 0.9


@every_estimator
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_data_frames_give_the_array_fit_and_their_feature_names(estimator, make):
    X, y = two_classes()
    names = ["a", "b", "c", "d"]
    frame = make(dict(zip(names, X.T, strict=True)))
    model = estimator().fit(frame, y)
    assert list(model.feature_names_in_) == names
    assert model.n_features_in_ == 4
    reference = estimator().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = model.decision_function(frame)
    np.testing.assert_allclose(scores, reference.decision_function(X), rtol=1e-10)


@every_estimator
def test_labels_and_weights_may_be_series(estimator):
    X, y = two_classes()
    weight = np.linspace(1, 2, 60)
    series = estimator().fit(X, pd.Series(y, index=range(100, 160)), pd.Series(weight))
    plain = estimator().fit(X, y, weight)
    np.testing.assert_array_equal(series.decision_function(X), plain.decision_function(X))


@quiet
@every_model
def test_pickling_keeps_predictions_and_drops_the_training_data(model):
    X, y = two_classes()
    K = training_input(model, X)
    fitted = clone(model).fit(K, y)
    marker = 123456.789
    heavy = clone(model).fit(K, y, sample_weight=np.full(60, marker))
    restored = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(restored.decision_function(K), fitted.decision_function(K))
    # Kernel models keep the weights of their support vectors: intervals and sets need them.
    assert hasattr(heavy, "_kept") or np.float64(marker).tobytes() not in pickle.dumps(heavy)
    assert fitted._training_data[0] is K
    assert not hasattr(restored, "_training_data")


@every_estimator
def test_copies_and_clones_behave(estimator):
    X, y = two_classes()
    model = estimator(C1=3.0, D=0.1, tol=1e-9).fit(X, y)
    twin = copy.deepcopy(model)
    np.testing.assert_array_equal(twin.decision_function(X), model.decision_function(X))
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "classes_")
    assert estimator().set_params(C2=0.5).C2 == 0.5


@quiet
@every_model
def test_inputs_are_not_modified_and_may_be_read_only(model):
    X, y = two_classes()
    weight = np.linspace(0.5, 2.0, 60)
    K = training_input(model, X)
    before = [a.copy() for a in (K, y, weight)]
    for array in (K, y, weight):
        array.flags.writeable = False
    clone(model).fit(K, y, sample_weight=weight).predict(K)
    for array, copied in zip((K, y, weight), before, strict=True):
        np.testing.assert_array_equal(array, copied)


@quiet
@every_model
def test_fortran_ordered_and_strided_arrays_give_the_same_fit(model):
    X, y = two_classes()
    K = training_input(model, X)
    reference = clone(model).fit(K, y)
    strided = np.repeat(np.repeat(K, 2, axis=0), 2, axis=1)[::2, ::2]
    for other in (np.asfortranarray(K), strided):
        fitted = clone(model).fit(other, y)
        assert fitted.objective_ == pytest.approx(reference.objective_, rel=1e-12)
        np.testing.assert_allclose(
            fitted.decision_function(other), reference.decision_function(K), rtol=1e-9, atol=1e-11
        )


@quiet
@every_model
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fitted_arrays_have_the_precision_of_the_data(model, dtype):
    X, y = two_classes()
    K = training_input(model, X).astype(dtype)
    fitted = clone(model).fit(K, y)
    assert fitted.decision_function(K).dtype == dtype
    assert fitted.intercept_.dtype == dtype


@quiet
@every_model
def test_samples_of_zero_weight_are_ignored(model):
    X, y = two_classes()
    weight = np.where(np.arange(60) % 4 == 0, 0.0, 1.0)
    kept = np.flatnonzero(weight)
    K = training_input(model, X)
    K_kept = K[np.ix_(kept, kept)] if model.__sklearn_tags__().input_tags.pairwise else K[kept]
    X_spoilt = K.copy()
    if not model.__sklearn_tags__().input_tags.pairwise:
        X_spoilt[weight == 0] += 1e3
        X_spoilt[0] = 1e200  # whose square overflows
    with_zeros = clone(model).fit(X_spoilt, y, sample_weight=weight)
    without = clone(model).fit(K_kept, y[kept])
    assert with_zeros.objective_ == pytest.approx(without.objective_, rel=1e-12)
    if hasattr(without, "support_"):
        np.testing.assert_array_equal(with_zeros.support_, kept[without.support_])


@every_estimator
def test_weights_of_any_scale_give_the_same_fit(estimator):
    X, y = two_classes()
    weight = np.random.default_rng(0).uniform(0.2, 2.0, size=60)
    reference = estimator(C1=16.0).fit(X, y, weight)
    for scale in (1e-300, 1e-3, 1e6, 1e300):
        scaled = estimator(C1=16.0).fit(X, y, scale * weight)
        assert scaled.objective_ == pytest.approx(reference.objective_, rel=1e-12)


@every_estimator
def test_default_penalties_are_two_per_sample_in_units_of_the_data(estimator):
    X, y = two_classes()
    weight = np.where(y > 0, 5.0, 2.0)

    def penalty(weight):
        mean = np.average(X, axis=0, weights=weight)
        variance = np.average(np.square(X - mean), axis=0, weights=weight).sum()
        unit = {LinearODMClassifier: variance, ODMClassifier: 1.0}[estimator]
        return 2.0 * weight.sum() / unit

    assert pytest.approx(penalty(np.ones(60)), rel=1e-12) == estimator().fit(X, y).C1_
    by_class = estimator(class_weight={-1.0: 2.0, 1.0: 5.0}).fit(X, y)
    by_sample = estimator().fit(X, y, weight)
    explicit = estimator(penalty(weight), penalty(weight) / 4).fit(X, y, weight)
    for model in (by_class, by_sample):
        assert pytest.approx((explicit.C1, explicit.C2), rel=1e-12) == (model.C1_, model.C2_)
        assert model.objective_ == pytest.approx(explicit.objective_, rel=1e-12)
    assert estimator(C1=2.0).fit(X, y).C2_ == 0.5
    assert estimator(C2=0.0).fit(X, y).C2_ == 0.0


@every_estimator
@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_weights_that_are_no_sensible_penalty_are_refused(estimator, scale):
    X, y = two_classes()
    with pytest.raises(ValueError, match=r"give C1 a value, or scale sample_weight to a mean"):
        estimator().fit(X, y, np.full(60, scale))


@pytest.mark.parametrize("model", [LinearODMClassifier(), ODMClassifier(kernel="linear")])
def test_default_linear_models_do_not_depend_on_the_units_of_the_features(model):
    X, y = two_classes()
    reference = model.fit(X, y).decision_function(X)
    for scale, shift in ((1e-4, 0.0), (1e4, 0.0), (1.0, 10.0)):
        Z = scale * X + shift
        np.testing.assert_allclose(model.fit(Z, y).decision_function(Z), reference, rtol=1e-6)


def test_features_that_are_constant_have_a_default_penalty():
    y = np.array([0, 0, 1])
    for X in (np.ones((3, 2)), np.zeros((3, 2)), csr_array(np.ones((3, 2)))):
        assert LinearODMClassifier().fit(X, y).C1_ == 6.0


@every_estimator
def test_class_weight_multiplies_sample_weight(estimator):
    X, y = two_classes()
    weight = np.linspace(1, 3, 60)
    joint = estimator(class_weight={-1.0: 2.0, 1.0: 5.0}).fit(X, y, weight)
    explicit = estimator().fit(X, y, weight * np.where(y > 0, 5.0, 2.0))
    assert joint.objective_ == pytest.approx(explicit.objective_, rel=1e-12)


@every_estimator
def test_balanced_classes_have_equal_weight(estimator):
    X, y = two_classes()
    weight = np.linspace(1, 3, 60)
    balanced = estimator(C1=16.0, class_weight="balanced").fit(X, y, weight)
    total = np.where(y > 0, weight[y > 0].sum(), weight[y < 0].sum())
    explicit = estimator(C1=16.0).fit(X, y, weight / total)
    assert balanced.objective_ == pytest.approx(explicit.objective_, rel=1e-12)


@every_solver
def test_a_fit_that_misses_tol_warns_with_its_gap_and_with_advice(estimator, solver):
    X, y = make_classification(200, 10, n_informative=6, flip_y=0.1, random_state=0)
    message = r"(?s)stopped at iteration 1.*relative duality gap of .*above tol=1e-12"
    with pytest.warns(ConvergenceWarning, match=message) as caught:
        model = estimator(1e4, 1e3, 0.1, solver=solver, tol=1e-12, max_iter=1).fit(X, y)
    text = str(caught[0].message)
    assert f"{model.dual_gap_:.2g}" in text
    assert model.dual_gap_ > 1e-12
    assert all(advice in text for advice in ("Scale the features", "max_iter", "tol"))


@every_solver
def test_a_fit_that_reaches_tol_is_silent_and_certified(estimator, solver):
    X, y = two_classes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = estimator(1.0, 0.5, solver=solver, tol=1e-7).fit(X, y)
    assert 0 <= model.dual_gap_ <= 1e-7
    assert model.solver_ == solver


@every_estimator
def test_models_work_in_pipelines_searches_and_calibration(estimator):
    X, y = two_classes(80)
    pipeline = make_pipeline(StandardScaler(), estimator())
    search = GridSearchCV(pipeline, {f"{estimator.__name__.lower()}__C1": [1.0, 64.0]}, cv=3)
    assert search.fit(X, y).score(X, y) > 0.7
    calibrated = CalibratedClassifierCV(estimator(), ensemble=False, cv=3).fit(X, y)
    assert calibrated.predict_proba(X).shape == (80, 2)


@pytest.mark.parametrize("model", [LinearODMClassifier(), ODMClassifier()])
def test_refitting_with_other_classes_forgets_the_old_ones(model):
    X, y = two_classes()
    labels = np.array(["a", "b", "c"])[np.arange(60) % 3]
    refitted = clone(model).fit(X, labels).fit(X, y)
    np.testing.assert_array_equal(
        refitted.decision_function(X), clone(model).fit(X, y).decision_function(X)
    )


@pytest.mark.parametrize("estimator", ODM_ESTIMATORS)
def test_wrong_arguments_are_named_with_what_is_allowed(estimator):
    with pytest.raises(TypeError, match=rf"{estimator.__name__}.*from 1 to 4 positional"):
        estimator(1.0, 1.0, 0.5, "rbf")
    with pytest.raises(TypeError, match=rf"{estimator.__name__}.*'penalty'"):
        estimator(penalty=1.0)
