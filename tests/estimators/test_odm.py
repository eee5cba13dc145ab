"""The kernel classifier's own attributes and kernels."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel

from optimargin import LinearODMClassifier, ODMClassifier
from optimargin.kernels import Kernel, gram_matrix, resolve_gamma
from tests import oracle
from tests.cases import CauchyKernel, models, training_input, two_classes

pytestmark = pytest.mark.numbers

kernel_models = pytest.mark.parametrize("model", models("linear"))
vector_models = pytest.mark.parametrize("model", models("linear", "precomputed"))
quiet = pytest.mark.filterwarnings("ignore:The sigmoid kernel matrix")


def kernel_of(model, X, Y):
    """Return the kernel matrix of a fitted model by scikit-learn's functions."""
    if callable(model.kernel):
        return model.kernel(X, Y)
    names = {
        "linear": (),
        "rbf": ("gamma",),
        "poly": ("gamma", "degree", "coef0"),
        "sigmoid": ("gamma", "coef0"),
    }[model.kernel]
    values = {
        "gamma": getattr(model, "gamma_", None),
        "degree": model.degree,
        "coef0": model.coef0,
    }
    return pairwise_kernels(X, Y, metric=model.kernel, **{name: values[name] for name in names})


@quiet
@vector_models
@pytest.mark.parametrize("n_classes", [2, 3])
def test_decision_is_the_kernel_with_the_support_vectors(model, n_classes):
    X, _ = two_classes()
    y = np.arange(60) % n_classes
    fitted = clone(model).set_params(multi_class="ovr").fit(X, y)
    new = two_classes(seed=1)[0]
    K = kernel_of(fitted, new, fitted.support_vectors_)
    expected = K @ fitted.dual_coef_.T + fitted.intercept_
    scores = fitted.decision_function(new).reshape(60, -1)
    np.testing.assert_allclose(scores, expected, rtol=1e-8, atol=1e-9)


@quiet
@vector_models
def test_support_indexes_the_rows_given_to_fit(model):
    X, y = two_classes()
    weight = np.where(np.arange(60) < 10, 0.0, 1.0)
    fitted = clone(model).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(fitted.support_vectors_, X[fitted.support_])
    assert fitted.support_.min() >= 10
    assert fitted.dual_coef_.shape == (1, fitted.support_.size)
    assert fitted.dual_coef_.any(axis=0).all()


@quiet
@vector_models
def test_sparse_training_data_give_sparse_support_vectors(model):
    X, y = two_classes()
    fitted = clone(model).fit(sp.csr_array(X), y)
    assert sp.issparse(fitted.support_vectors_)
    dense = clone(model).fit(X, y)
    np.testing.assert_allclose(
        fitted.decision_function(sp.csr_array(X)), dense.decision_function(X), rtol=1e-6, atol=1e-8
    )


def test_support_of_several_classes_is_their_union():
    X, _ = two_classes()
    y = np.arange(60) % 3
    joint = ODMClassifier(C2=0.0, D=0.5).fit(X, y)
    parts = [ODMClassifier(C2=0.0, D=0.5).fit(X, y == k).support_ for k in range(3)]
    np.testing.assert_array_equal(joint.support_, np.unique(np.concatenate(parts)))
    assert joint.dual_coef_.shape == (3, joint.support_.size)


def test_samples_inside_the_band_are_no_support_vectors():
    X, y = two_classes(noise=0.2)
    model = ODMClassifier(D=0.5, gamma=0.5, tol=1e-10).fit(X, y)
    margin = y * model.decision_function(X)
    inside = np.abs(margin - 1) < 0.5 - 1e-6
    assert 0 < inside.sum() < 60
    np.testing.assert_array_equal(model.support_, np.flatnonzero(~inside))


def test_kernel_coefficients_are_the_dual_solution():
    X, y = two_classes()
    weight = np.linspace(1, 2, 60)
    model = ODMClassifier(8.0, 2.0, 0.2, gamma=0.5).fit(X, y, weight)
    margin = y * model.decision_function(X)
    share = weight / weight.sum()
    dual = 2 * share * (8.0 * np.maximum(0, 0.8 - margin) - 2.0 * np.maximum(0, margin - 1.2))
    theta = np.zeros(60)
    theta[model.support_] = model.dual_coef_[0]
    np.testing.assert_allclose(theta, y * dual, atol=1e-9)
    assert theta.sum() == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("shape", [(60, 4), (30, 50)], ids=["tall", "wide"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_the_linear_kernel_equals_the_linear_classifier(fit_intercept, shape, make):
    X, y = two_classes(*shape)
    X = make(X)
    kernel = ODMClassifier(64.0, 16.0, 0.2, kernel="linear", fit_intercept=fit_intercept).fit(X, y)
    linear = LinearODMClassifier(64.0, 16.0, 0.2, fit_intercept=fit_intercept).fit(X, y)
    assert kernel.objective_ == pytest.approx(linear.objective_, rel=1e-10)
    np.testing.assert_allclose(kernel.coef_, linear.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(kernel.intercept_, linear.intercept_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        kernel.decision_function(X), linear.decision_function(X), rtol=1e-6, atol=1e-8
    )


def test_coef_is_for_the_linear_kernel_alone():
    model = ODMClassifier().fit(*two_classes())
    with pytest.raises(AttributeError, match="only available with kernel='linear'"):
        _ = model.coef_
    assert not hasattr(model, "coef_")


def test_a_precomputed_kernel_equals_the_kernel_it_was_computed_with():
    X, y = two_classes()
    new = two_classes(seed=1)[0]
    direct = ODMClassifier(gamma=0.4).fit(X, y)
    given = ODMClassifier(kernel="precomputed").fit(rbf_kernel(X, gamma=0.4), y)
    assert given.objective_ == pytest.approx(direct.objective_, rel=1e-10)
    np.testing.assert_array_equal(given.support_, direct.support_)
    np.testing.assert_allclose(
        given.decision_function(rbf_kernel(new, X, gamma=0.4)),
        direct.decision_function(new),
        rtol=1e-7,
        atol=1e-9,
    )


def test_a_callable_equals_the_named_kernel():
    X, y = two_classes()
    named = ODMClassifier(gamma=0.4).fit(X, y)
    given = ODMClassifier(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.4)).fit(X, y)
    assert given.objective_ == pytest.approx(named.objective_, rel=1e-10)
    np.testing.assert_allclose(given.decision_function(X), named.decision_function(X), rtol=1e-6)


@pytest.mark.parametrize("gamma", ["scale", "auto", "mean_distance", 0.3])
def test_gamma_is_resolved_on_the_training_data(gamma):
    X, y = two_classes()
    weight = np.linspace(1, 4, 60)
    model = ODMClassifier(gamma=gamma).fit(X, y, weight)
    assert model.gamma_ == resolve_gamma(gamma, X, weight * (1 / weight.sum()))


@kernel_models
@quiet
def test_prediction_in_blocks_equals_prediction_at_once(model, monkeypatch):
    X, y = two_classes()
    K = training_input(model, X)
    fitted = clone(model).fit(K, y)
    expected = fitted.decision_function(K)
    monkeypatch.setattr("optimargin.kernels.prepared._BLOCK_ELEMENTS", 200)
    np.testing.assert_allclose(fitted.decision_function(K), expected, rtol=1e-8, atol=1e-10)


def clipped_gram(K, weight):
    """Return the positive part of K under the weighted measure."""
    root = np.sqrt(weight / weight.mean())
    factor = oracle.features_of_kernel(root[:, None] * K * root) / root[:, None]
    return factor @ factor.T, factor


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_an_indefinite_kernel_solves_its_positive_part_and_warns(fit_intercept, seed):
    X, y = two_classes(40, 3, seed=seed)
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, size=40)
    C1, C2, D = 30.0, 4.0, 0.2
    model = ODMClassifier(
        C1, C2, D, kernel="sigmoid", gamma=0.5, coef0=-1.0, fit_intercept=fit_intercept
    )
    with pytest.warns(UserWarning, match="sigmoid kernel matrix is not positive semi-definite"):
        model.fit(X, y, sample_weight=weight)
    K, features = clipped_gram(np.tanh(0.5 * X @ X.T - 1.0), weight)
    w, b = oracle.solve(features, y, weight, C1, C2, D, fit_intercept=fit_intercept)
    expected = oracle.objective(w @ w, features @ w + b, y, weight, C1, C2, D)
    assert model.objective_ == pytest.approx(expected, rel=1e-7)
    decision = model.decision_function(X)
    theta = np.linalg.lstsq(K, decision - model.intercept_, rcond=1e-10)[0]
    own = oracle.objective(theta @ K @ theta, decision, y, weight, C1, C2, D)
    assert own == pytest.approx(expected, rel=1e-6)
    assert model.dual_gap_ <= model.tol


def test_the_warning_of_an_indefinite_kernel_says_how_much_was_left_out():
    X, y = two_classes(40, 3)
    K = np.tanh(X @ X.T - 1.0)
    share = gram_matrix(Kernel("precomputed"), K, np.ones(40)).negative_share
    with pytest.warns(UserWarning, match=rf"precomputed.*{share:.1%} of its spectrum is negative"):
        ODMClassifier(kernel="precomputed").fit(K, y)
    with pytest.warns(UserWarning, match="given kernel matrix"):
        ODMClassifier(kernel=lambda A, B: np.tanh(A @ B.T - 1.0)).fit(X, y)


def test_kernels_that_are_positive_semidefinite_do_not_warn():
    X, y = two_classes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ODMClassifier(kernel=CauchyKernel()).fit(X, y)
        ODMClassifier(kernel="precomputed").fit(X @ X.T, y)
        ODMClassifier(kernel="poly", degree=2, coef0=1.0).fit(X, y)


def test_a_kernel_matrix_of_zeros_leaves_the_intercept():
    y = np.array([1, 1, 1, -1])
    model = ODMClassifier(4.0, 4.0, 0.0, kernel="precomputed").fit(np.zeros((4, 4)), y)
    np.testing.assert_allclose(model.decision_function(np.zeros((2, 4))), y.mean())
    assert model.predict(np.zeros((1, 4))) == 1
