"""The kernel large margin distribution machine against independent solvers and its own claims."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC

from optimargin import LDMClassifier
from optimargin.kernels import Kernel
from optimargin.margins import margin_distribution, margin_mean, margin_variance
from tests import ldm_oracle
from tests.cases import two_classes
from tests.oracle import features_of_kernel

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

SOLVERS = ["dcd", "interior_point"]


def random_problem(seed):
    """Return data and parameters over six decades; None where the objective has no minimum."""
    rng = np.random.default_rng(seed)
    n_samples, n_features = int(rng.integers(4, 60)), int(rng.integers(1, 6))
    X = rng.normal(size=(n_samples, n_features))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n_samples) > 0.3, 1.0, -1.0)
    y[:2] = 1, -1
    if rng.random() < 0.3:
        X[n_samples // 2 :] = X[: n_samples - n_samples // 2]
    kernel = rng.choice(["rbf", "linear", "poly"])
    weight = rng.integers(1, 5, size=n_samples).astype(float)
    C, lambda1, lambda2 = (10.0 ** rng.uniform(-3, 3, size=3)).tolist()
    lambda1 *= rng.random() > 0.15
    lambda2 *= rng.random() > 0.15
    fit_intercept = bool(rng.random() < 0.5)
    params = {"C": C, "lambda1": lambda1, "lambda2": lambda2, "fit_intercept": fit_intercept}
    gamma = float(10 ** rng.uniform(-2, 1)) if kernel == "rbf" else 0.5
    return X, y, weight, params, {"kernel": kernel, "gamma": gamma, "degree": 2, "coef0": 1.0}


def check_against_the_oracle(seed, solver):
    X, y, weight, params, kernel = random_problem(seed)
    model = LDMClassifier(**params, **kernel, solver=solver)
    share = weight[y < 0].sum() / weight.sum()
    gain = params["lambda2"] * abs(1 - 2 * share)
    if (
        params["fit_intercept"]
        and params["lambda1"] == 0
        and gain > params["C"] * min(share, 1 - share)
    ):
        with pytest.raises(ValueError, match="no minimum"):
            model.fit(X, y, weight)
        return
    model.fit(X, y, weight)
    K = Kernel(kernel["kernel"], kernel["gamma"], 2, 1.0)(X)
    features = features_of_kernel(K)
    w, b = ldm_oracle.solve(features, y, weight, **params)
    penalties = params["C"], params["lambda1"], params["lambda2"]
    best = ldm_oracle.objective(w @ w, features @ w + b, y, weight, *penalties)
    theta = np.zeros(len(y))
    theta[model.support_] = model.dual_coef_[0]
    ours = ldm_oracle.objective(
        theta @ K @ theta, model.decision_function(X), y, weight, *penalties
    )
    scale = max(abs(best), 1e-3)
    assert ours - best <= 1e-6 * scale
    assert model.objective_ == pytest.approx(ours, rel=1e-6, abs=1e-9)
    # A certificate is an upper bound of what the best known solution leaves to gain.
    assert ours - best <= model.dual_gap_ * scale * 1.01 + 1e-9 * scale
    assert model.dual_gap_ <= model.tol


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(20))
def test_no_better_solution_is_known_to_a_conic_solver(seed, solver):
    check_against_the_oracle(seed, solver)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 220))
def test_no_better_solution_is_known_to_a_conic_solver_on_many_problems(seed):
    check_against_the_oracle(seed, "auto")


@pytest.mark.parametrize("C", [0.5, 10.0, 1000.0])
def test_without_mean_and_variance_it_is_the_svm_with_intercept(C):
    X, y = two_classes(80)
    model = LDMClassifier(C, 0.0, 0.0, gamma=0.3).fit(X, y)
    peer = SVC(C=C / len(y), gamma=0.3, tol=1e-10).fit(X, y)
    dual = peer.dual_coef_[0]
    norm = dual @ Kernel("rbf", 0.3)(peer.support_vectors_) @ dual
    value = ldm_oracle.objective(norm, peer.decision_function(X), y, np.ones(80), C, 0, 0)
    assert model.objective_ == pytest.approx(value, rel=1e-5)
    assert model.objective_ <= value * (1 + 1e-9)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_objective_follows_from_the_margin_statistics(fit_intercept):
    X, y = two_classes(50)
    weight = np.random.default_rng(0).integers(1, 4, size=50)
    model = LDMClassifier(5.0, 2.0, 3.0, gamma=0.3, fit_intercept=fit_intercept).fit(X, y, weight)
    margins = margin_distribution(model, X, y, sample_weight=weight)
    dual = model.dual_coef_[0]
    norm = dual @ Kernel("rbf", 0.3)(model.support_vectors_) @ dual
    value = norm / 2
    value += 2.0 * margin_variance(model, X, y, weight) - 3.0 * margin_mean(model, X, y, weight)
    value += 5.0 * margins.weights @ np.maximum(0, 1 - margins.margins)
    assert model.objective_ == pytest.approx(value, rel=1e-10)


def test_more_weight_on_the_variance_makes_it_smaller():
    X, y = two_classes(60)
    variances = [
        margin_variance(LDMClassifier(10.0, l1, 0.0).fit(X, y), X, y) for l1 in (0, 1, 10, 100)
    ]
    assert (np.diff(variances) < 0).all()


def test_more_weight_on_the_mean_makes_it_larger():
    X, y = two_classes(60)
    means = [margin_mean(LDMClassifier(10.0, 1.0, l2).fit(X, y), X, y) for l2 in (0, 1, 10, 100)]
    assert (np.diff(means) > 0).all()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_a_weight_is_a_number_of_repetitions(solver, kernel):
    X, y = two_classes(40)
    weight = np.random.default_rng(1).integers(0, 4, size=40)
    weight[:2] = 1
    model = LDMClassifier(kernel=kernel, solver=solver).fit(X, y, weight)
    repeated = LDMClassifier(kernel=kernel, solver=solver).fit(
        np.repeat(X, weight, axis=0), np.repeat(y, weight)
    )
    assert model.objective_ == pytest.approx(repeated.objective_, rel=1e-10)
    np.testing.assert_allclose(
        model.decision_function(X), repeated.decision_function(X), rtol=1e-7, atol=1e-8
    )


def test_sparse_float32_and_permuted_data_give_the_same_model():
    X, y = two_classes(60)
    X[np.abs(X) < 0.5] = 0
    model = LDMClassifier().fit(X, y)
    sparse = LDMClassifier().fit(sp.csr_array(X), y)
    assert sparse.objective_ == pytest.approx(model.objective_, rel=1e-10)
    single = LDMClassifier().fit(X.astype(np.float32), y)
    assert single.objective_ == pytest.approx(model.objective_, rel=1e-5)
    assert single.dual_coef_.dtype == np.float32
    permuted = LDMClassifier().fit(X[::-1], y[::-1])
    assert permuted.objective_ == pytest.approx(model.objective_, rel=1e-10)


def test_several_classes_are_one_model_per_class_against_the_rest():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.repeat(["a", "b", "c"], 20)
    X[20:40] += 2
    X[40:] -= 2
    model = LDMClassifier(gamma=0.5).fit(X, y)
    assert model.decision_function(X).shape == (60, 3)
    assert model.dual_gap_.shape == (3,)
    single = LDMClassifier(gamma=0.5).fit(X, y == "b")
    assert model.objective_[1] == pytest.approx(single.objective_, rel=1e-10)
    assert model.loo_error_bound().shape == (3,)


def separable(n_samples=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 3))
    y = np.where(X[:, 0] > 0, 1, -1)
    X[:, 0] += 0.3 * y
    return X, y


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_a_hard_margin_keeps_all_margins_at_least_one(kernel, fit_intercept):
    X, y = separable()
    options = {"kernel": kernel, "fit_intercept": fit_intercept}
    svm = LDMClassifier(np.inf, 0.0, 0.0, **options).fit(X, y)
    ldm = LDMClassifier(np.inf, 10.0, 0.0, **options).fit(X, y)
    for model in (svm, ldm):
        assert (y * model.decision_function(X)).min() >= 1 - 1e-6
        assert model.dual_gap_ <= 1e-6
    assert margin_variance(ldm, X, y) <= margin_variance(svm, X, y) * (1 + 1e-9)
    features = features_of_kernel(Kernel(kernel, getattr(ldm, "gamma_", 1.0))(X))
    w, b = ldm_oracle.solve(
        features, y, np.ones(60), np.inf, 10.0, 0.0, fit_intercept=fit_intercept
    )
    margin = y * (features @ w + b)
    value = w @ w / 2 + 10 * margin.var()
    assert ldm.objective_ == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("lambda1", [0.0, 1.0])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_hard_margin_on_inseparable_data_is_refused(fit_intercept, lambda1):
    X, y = two_classes(500)
    model = LDMClassifier(np.inf, lambda1, 0.0, kernel="poly", fit_intercept=fit_intercept)
    with pytest.raises(ValueError, match="cannot be separated"):
        model.set_params(degree=2, coef0=1.0).fit(X, y)


def test_a_mean_without_variance_that_has_no_minimum_is_explained():
    X, y = two_classes(50)
    with pytest.raises(ValueError, match=r"lambda2=100 has no minimum.*class_weight"):
        LDMClassifier(1.0, 0.0, 100.0).fit(X, y)
    LDMClassifier(1.0, 0.0, 100.0, class_weight="balanced").fit(X, y)
    LDMClassifier(1.0, 0.0, 100.0, fit_intercept=False).fit(X, y)


@pytest.mark.parametrize(
    "params",
    [
        {"C": 0},
        {"C": -1.0},
        {"C": np.nan},
        {"C": 1e300},
        {"lambda1": -1},
        {"lambda1": 1e300},
        {"lambda2": np.inf},
        {"solver": "smo"},
    ],
)
def test_bad_parameters_are_named(params):
    X, y = two_classes(20)
    with pytest.raises(ValueError, match=next(iter(params))):
        LDMClassifier(**params).fit(X, y)


def test_the_printed_bound_needs_the_training_data_after_pickling():
    X, y = two_classes(40)
    model = LDMClassifier(fit_intercept=False).fit(X, y)
    bound = model.loo_error_bound(kind="printed")
    loaded = pickle.loads(pickle.dumps(model))
    with pytest.raises(ValueError, match="training data"):
        loaded.loo_error_bound()
    assert loaded.loo_error_bound(X, y) == pytest.approx(bound)


def test_the_printed_bound_is_the_formula_of_the_paper():
    X, y = two_classes(30)
    C, lambda1, lambda2 = 20.0, 2.0, 0.5
    model = LDMClassifier(C, lambda1, lambda2, gamma=0.5, fit_intercept=False).fit(X, y)
    m = len(y)
    G = Kernel("rbf", 0.5)(X)
    A = 2 * lambda1 * (m * np.eye(m) - np.outer(y, y)) / m**2
    H = np.diag(y) @ G @ np.linalg.inv(np.eye(m) + A @ G) @ np.diag(y)
    theta = np.zeros(m)
    theta[model.support_] = model.dual_coef_[0]
    alpha = y * ((np.eye(m) + A @ G) @ theta) - lambda2 / m
    assert alpha.min() > -1e-8
    assert alpha.max() < C / m + 1e-8
    inside = (alpha > 1e-7) & (alpha < C / m - 1e-7)
    expected = (alpha[inside] @ np.diagonal(H)[inside] + np.sum(alpha >= C / m - 1e-7)) / m
    assert model.loo_error_bound(kind="printed") == pytest.approx(expected, rel=1e-5)
