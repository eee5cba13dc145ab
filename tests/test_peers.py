"""Where the problem is also another method's problem, the answers agree."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

from optimargin import LinearODMClassifier, ODMClassifier
from tests import oracle, regular_sets
from tests.cases import models, two_classes

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

vector_models = pytest.mark.parametrize("model", models("linear", "precomputed", "sigmoid"))


def data_of(name):
    if name == "normal":
        X, y = two_classes(200, 12)
        return X, y
    X, y = regular_sets.load(name)
    return X, np.where(y == np.unique(y)[1], 1.0, -1.0)


@pytest.mark.parametrize("C1", [1.0, 64.0, 4096.0])
@pytest.mark.parametrize(
    "name",
    ["normal", *(pytest.param(n, marks=regular_sets.needed) for n in regular_sets.NAMES[1:7])],
)
def test_without_C2_and_D_the_objective_is_that_of_liblinear(name, C1):
    X, y = data_of(name)
    m = len(y)
    peer = LinearSVC(
        loss="squared_hinge", C=C1 / m, fit_intercept=False, dual=False, tol=1e-12, max_iter=10_000
    ).fit(X, y)
    model = LinearODMClassifier(C1, 0.0, 0.0, fit_intercept=False).fit(X, y)
    weight = np.ones(m)

    def objective(coef):
        return oracle.objective(coef @ coef, X @ coef, y, weight, C1, 0.0, 0.0)

    theirs, ours = objective(peer.coef_[0]), objective(model.coef_[0])
    assert ours <= theirs * (1 + 1e-12)
    assert ours == pytest.approx(theirs, rel=1e-6)
    assert model.objective_ == pytest.approx(ours, rel=1e-12)


def ridge_objective(residual, weight, norm_squared, C):
    return norm_squared / 2 + C * (weight / weight.sum()) @ residual**2


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("shape", [(60, 4), (30, 50)], ids=["tall", "wide"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_equal_prices_without_band_are_weighted_ridge_regression(fit_intercept, shape, make):
    X, y = two_classes(*shape)
    weight = np.random.default_rng(3).uniform(0.2, 3.0, size=len(y))
    C = 20.0
    ridge = Ridge(
        alpha=weight.sum() / (2 * C), fit_intercept=fit_intercept, solver="cholesky", tol=1e-14
    ).fit(X, y, sample_weight=weight)
    model = LinearODMClassifier(C, C, 0.0, fit_intercept=fit_intercept)
    model.fit(make(X), y, sample_weight=weight)
    np.testing.assert_allclose(model.coef_[0], ridge.coef_, rtol=1e-9, atol=1e-11)
    expected = ridge_objective(y - ridge.predict(X), weight, ridge.coef_ @ ridge.coef_, C)
    assert model.objective_ == pytest.approx(expected, rel=1e-10)


@vector_models
def test_equal_prices_without_band_are_weighted_kernel_ridge_regression(model):
    X, y = two_classes()
    weight = np.random.default_rng(3).uniform(0.2, 3.0, size=len(y))
    C = 20.0
    fitted = clone(model).set_params(C1=C, C2=C, D=0.0, fit_intercept=False)
    fitted.fit(X, y, sample_weight=weight)
    K = fitted._kernel(X)
    # KernelRidge leaves its weights unscaled: alpha is the penalty on the norm beside them.
    ridge = KernelRidge(alpha=weight.sum() / (2 * C), kernel="precomputed")
    theta = ridge.fit(K, y, sample_weight=weight).dual_coef_
    expected = ridge_objective(y - K @ theta, weight, theta @ K @ theta, C)
    assert fitted.objective_ == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(fitted.decision_function(X), K @ theta, rtol=1e-7, atol=1e-9)


def test_equal_prices_with_intercept_solve_the_bordered_ridge_system():
    X, y = two_classes()
    weight = np.random.default_rng(3).uniform(0.2, 3.0, size=60)
    C = 20.0
    model = ODMClassifier(C, C, 0.0, gamma=0.4).fit(X, y, sample_weight=weight)
    K = model._kernel(X)
    system = np.zeros((61, 61))
    system[:60, :60] = K + np.diag(weight.sum() / (2 * C * weight))
    system[60, :60] = system[:60, 60] = 1.0
    solution = np.linalg.solve(system, np.append(y, 0.0))
    theta, b = solution[:60], solution[60]
    expected = ridge_objective(y - K @ theta - b, weight, theta @ K @ theta, C)
    assert model.objective_ == pytest.approx(expected, rel=1e-10)
    assert model.intercept_[0] == pytest.approx(b, rel=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_one_step_suffices_where_the_problem_is_ridge_regression(fit_intercept):
    X, y = two_classes()
    for model in (LinearODMClassifier(5.0, 5.0, 0.0), ODMClassifier(5.0, 5.0, 0.0)):
        assert model.set_params(fit_intercept=fit_intercept).fit(X, y).n_iter_ == 1
