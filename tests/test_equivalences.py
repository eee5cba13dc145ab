"""Inputs that say the same thing in different ways give the same model."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from tests.cases import ODM_ESTIMATORS, models, two_classes
from tests.cases import training_input as given

pytestmark = pytest.mark.numbers

every_model = pytest.mark.parametrize("model", models())
rows_models = pytest.mark.parametrize("model", models("precomputed"))
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])
quiet = pytest.mark.filterwarnings("ignore:The sigmoid kernel matrix")


def fitted(model, X, y, weight=None, **parameters):
    return clone(model).set_params(**parameters).fit(X, y, sample_weight=weight)


@quiet
@every_model
@with_and_without_intercept
@pytest.mark.parametrize("class_weight", [None, "balanced", {-1.0: 1.0, 1.0: 3.0}])
@pytest.mark.parametrize("n_samples", [8, 60])
def test_a_weight_is_a_number_of_repetitions(model, fit_intercept, class_weight, n_samples):
    X, y = two_classes(n_samples)
    times = np.random.default_rng(1).integers(0, 4, size=n_samples)
    times[[y.argmin(), y.argmax()]] = 2
    index = np.repeat(np.arange(n_samples), times)
    options = {"fit_intercept": fit_intercept, "class_weight": class_weight}
    weighted = fitted(model, given(model, X), y, times, **options)
    repeated = fitted(model, given(model, X, index), y[index], **options)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-10)
    if model.__sklearn_tags__().input_tags.pairwise:
        return
    new = two_classes(seed=2)[0]
    expected = repeated.decision_function(new)
    np.testing.assert_allclose(weighted.decision_function(new), expected, rtol=1e-6, atol=1e-6)


@quiet
@rows_models
@with_and_without_intercept
@pytest.mark.parametrize("shape", [(60, 4), (30, 50)], ids=["tall", "wide"])
def test_sparse_rows_give_the_dense_model(model, fit_intercept, shape):
    X, y = two_classes(*shape)
    X[np.abs(X) < 0.5] = 0.0
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=shape[0])
    dense = fitted(model, X, y, weight, fit_intercept=fit_intercept)
    sparse = fitted(model, sp.csr_array(X), y, weight, fit_intercept=fit_intercept)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-10)
    expected = dense.decision_function(X)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_array(X)), expected, atol=1e-6)


@quiet
@every_model
@with_and_without_intercept
def test_the_order_of_rows_does_not_matter(model, fit_intercept):
    X, y = two_classes()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=60)
    order = np.random.default_rng(2).permutation(60)
    straight = fitted(model, given(model, X), y, weight, fit_intercept=fit_intercept)
    shuffled = fitted(
        model, given(model, X, order), y[order], weight[order], fit_intercept=fit_intercept
    )
    assert shuffled.objective_ == pytest.approx(straight.objective_, rel=1e-10)


@quiet
@every_model
@with_and_without_intercept
def test_the_names_of_the_classes_do_not_matter(model, fit_intercept):
    X, y = two_classes()
    K = given(model, X)
    one = fitted(model, K, y, fit_intercept=fit_intercept)
    other = fitted(model, K, -y, fit_intercept=fit_intercept)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-12)
    np.testing.assert_allclose(other.decision_function(K), -one.decision_function(K), atol=1e-8)


@quiet
@every_model
@with_and_without_intercept
@pytest.mark.parametrize("shape", [(60, 4), (30, 50)], ids=["tall", "wide"])
def test_single_precision_gives_nearly_the_same_objective(model, fit_intercept, shape):
    X, y = two_classes(*shape)
    K = given(model, X)
    double = fitted(model, K, y, fit_intercept=fit_intercept)
    single = fitted(model, K.astype(np.float32), y, fit_intercept=fit_intercept)
    assert single.objective_ == pytest.approx(double.objective_, rel=1e-5)


@rows_models
@quiet
def test_single_precision_sparse_rows_give_nearly_the_same_objective(model):
    X, y = two_classes()
    double = fitted(model, X, y)
    single = fitted(model, sp.csr_array(X.astype(np.float32)), y)
    assert single.objective_ == pytest.approx(double.objective_, rel=1e-5)


@pytest.mark.parametrize("estimator", ODM_ESTIMATORS)
def test_integers_and_booleans_are_numbers(estimator):
    X, y = two_classes()
    X = np.round(3 * X)
    for data in (X.astype(int), X > 0):
        plain = estimator().fit(data, y)
        numbers = estimator().fit(data.astype(float), y)
        assert plain.objective_ == pytest.approx(numbers.objective_, rel=1e-12)


@pytest.mark.parametrize("estimator", ODM_ESTIMATORS)
def test_two_fits_of_the_same_data_are_identical(estimator):
    X, y = two_classes()
    first, second = estimator().fit(X, y), estimator().fit(X, y)
    np.testing.assert_array_equal(first.decision_function(X), second.decision_function(X))
