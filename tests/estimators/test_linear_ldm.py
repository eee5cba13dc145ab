"""The linear large margin distribution machine: every solver against every other and peers."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC

from optimargin import LDMClassifier, LinearLDMClassifier
from tests import ldm_oracle
from tests.cases import two_classes

pytestmark = pytest.mark.numbers

SOLVERS = ["dcd", "interior_point", "svrg"]


@pytest.mark.parametrize("seed", range(20))
def test_no_better_solution_is_known_to_a_conic_solver(seed):
    rng = np.random.default_rng(seed)
    X, y = two_classes(int(rng.integers(10, 80)), 4, seed=seed)
    weight = rng.integers(1, 4, size=len(y)).astype(float)
    C, lambda1, lambda2 = (10.0 ** rng.uniform(-3, 3, size=3)).tolist()
    fit_intercept = bool(seed % 2)
    w, b = ldm_oracle.solve(X, y, weight, C, lambda1, lambda2, fit_intercept=fit_intercept)
    best = ldm_oracle.objective(w @ w, X @ w + b, y, weight, C, lambda1, lambda2)
    for data in (X, sp.csr_array(X)):
        model = LinearLDMClassifier(C, lambda1, lambda2, fit_intercept=fit_intercept)
        model.fit(data, y, weight)
        w = model.coef_[0]
        ours = ldm_oracle.objective(
            w @ w, model.decision_function(X), y, weight, C, lambda1, lambda2
        )
        assert ours - best <= 1e-6 * max(abs(best), 1e-3)
        assert model.objective_ == pytest.approx(ours, rel=1e-7, abs=1e-10)


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_without_mean_and_variance_it_is_the_svm_of_liblinear(C):
    X, y = two_classes(200)
    model = LinearLDMClassifier(C, 0.0, 0.0, fit_intercept=False).fit(X, y)
    peer = LinearSVC(
        C=C / len(y), loss="hinge", fit_intercept=False, tol=1e-10, max_iter=10**6
    ).fit(X, y)
    w = peer.coef_[0]
    value = ldm_oracle.objective(w @ w, X @ w, y, np.ones(200), C, 0.0, 0.0)
    assert model.objective_ == pytest.approx(value, rel=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(("solver", "rel"), [("dcd", 1e-6), ("svrg", 3e-3)])
def test_solvers_agree(solver, rel, fit_intercept, sparse):
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    exact = LinearLDMClassifier(1.0, 1.0, 1.0, fit_intercept=fit_intercept).fit(X, y)
    model = LinearLDMClassifier(
        1.0, 1.0, 1.0, fit_intercept=fit_intercept, solver=solver, max_iter=200, random_state=0
    ).fit(sp.csr_array(X) if sparse else X, y)
    assert model.objective_ == pytest.approx(exact.objective_, rel=rel)
    # The certificate is honest: it bounds what is left to gain.
    scale_ = max(abs(exact.objective_), 1e-3)
    assert model.objective_ - exact.objective_ <= model.dual_gap_ * scale_ * 1.01 + 1e-9


@pytest.mark.parametrize("lambda1", [0.0, 1.0])
def test_descent_without_the_interior_point_method_reaches_1e_6(lambda1):
    rng = np.random.default_rng(0)
    X = sp.random(1500, 1200, density=0.01, random_state=0, format="csr")
    y = np.where(X @ rng.normal(size=1200) + 0.1 * rng.normal(size=1500) > 0, 1, -1)
    model = LinearLDMClassifier(10.0, lambda1, 0.1).fit(X, y)
    assert model.solver_ == "dcd"
    assert model.dual_gap_ <= 1e-6
    exact = LinearLDMClassifier(10.0, lambda1, 0.1, solver="interior_point").fit(X, y)
    assert model.objective_ == pytest.approx(exact.objective_, rel=2e-6)


def test_more_features_than_samples_give_the_model_of_the_linear_kernel():
    X, y = two_classes(30, 50)
    model = LinearLDMClassifier(10.0, 1.0, 1.0).fit(X, y)
    kernel = LDMClassifier(10.0, 1.0, 1.0, kernel="linear").fit(X, y)
    np.testing.assert_allclose(model.coef_, kernel.coef_, atol=1e-8)
    gram = LDMClassifier(10.0, 1.0, 1.0, kernel="precomputed").fit(X @ X.T, y)
    np.testing.assert_allclose(model.decision_function(X), gram.decision_function(X @ X.T))


def test_features_and_samples_describe_the_same_model():
    X, y = two_classes(60, 4)
    model = LinearLDMClassifier(30.0, 3.0, 0.5).fit(X, y)
    gram = LDMClassifier(30.0, 3.0, 0.5, kernel="precomputed").fit(X @ X.T, y)
    assert model.objective_ == pytest.approx(gram.objective_, rel=1e-10)
    assert model.loo_error_bound() == pytest.approx(gram.loo_error_bound(), rel=1e-4)


@pytest.mark.quick
def test_a_rough_tolerance_on_many_samples_goes_to_coordinate_descent():
    X, y = two_classes(6000)
    model = LinearLDMClassifier(tol=1e-4).fit(X, y)
    assert model.solver_ == "dcd"
    assert model.dual_gap_ <= 1e-4


def test_a_hard_margin_is_met_or_refused():
    X, y = two_classes(100, 3, noise=0.0)
    model = LinearLDMClassifier(np.inf).fit(X, y)
    assert (y * model.decision_function(X)).min() >= 1 - 1e-6
    assert LinearLDMClassifier(np.inf, solver="dcd").fit(X, y).dual_gap_ <= 1e-6
    X, y = two_classes(500, 3)
    with pytest.raises(ValueError, match="cannot be separated"):
        LinearLDMClassifier(np.inf).fit(X, y)
    with pytest.raises(ValueError, match="finite C"):
        LinearLDMClassifier(np.inf, solver="svrg").fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", SOLVERS)
def test_float32_is_used_as_it_is(solver):
    X, y = two_classes(60)
    model = LinearLDMClassifier(1.0, solver=solver, random_state=0).fit(X.astype(np.float32), y)
    double = LinearLDMClassifier(1.0, solver=solver, random_state=0).fit(X, y)
    assert model.coef_.dtype == np.float32
    assert model.objective_ == pytest.approx(
        double.objective_, rel=1e-3 if solver == "svrg" else 1e-5
    )


def test_a_fit_that_misses_tol_warns_with_its_gap():
    X, y = two_classes(60)
    with pytest.warns(ConvergenceWarning, match="duality gap"):
        LinearLDMClassifier(1e3, solver="svrg", max_iter=1).fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("size", [1e-200, 1e100, 1e137])
def test_extreme_scales_give_a_finite_model(solver, size):
    X, y = two_classes(20)
    model = LinearLDMClassifier(solver=solver, max_iter=50).fit(X * size, y)
    assert np.isfinite(model.decision_function(X * size)).all()
    assert not np.isnan(model.dual_gap_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_interior_point_that_rounding_stops_ends_soon():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 10))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=300) > 0, 1, -1)
    X[::17] *= 1e8
    X[:, 3] = 1e6
    X[:, 4] += 1e7
    model = LinearLDMClassifier(1e4, 1.0, 0.1, solver="interior_point", tol=1e-9).fit(X, y)
    assert model.n_iter_ <= 60
    assert model.dual_gap_ <= 1e-7
