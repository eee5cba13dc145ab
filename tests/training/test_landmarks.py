"""Low-rank kernels: landmarks, their design, and the estimator that uses them."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.utils.estimator_checks import parametrize_with_checks

from optimargin import ODMClassifier
from optimargin.designs import LandmarkDesign, RandomPivots
from optimargin.kernels import Kernel
from optimargin.tasks import Classification
from tests.cases import two_classes

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

KERNELS = [
    Kernel("rbf", 0.5),
    Kernel("linear"),
    Kernel("poly", gamma=0.5, degree=2, coef0=1.0),
]


def moons(n_samples=600, seed=0):
    return make_moons(n_samples, noise=0.25, random_state=seed)


def pivots(kernel, X, n_landmarks, *, weight=None, dtype=np.float64, seed=0):
    weight = np.ones(X.shape[0]) if weight is None else weight
    return RandomPivots(kernel, X, weight, n_landmarks, dtype=dtype, seed=seed)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@given(seed=st.integers(0, 2**31 - 1), size=st.integers(1, 40))
def test_factor_is_the_cholesky_factor_of_the_landmarks(kernel, seed, size):
    X = two_classes(50, 4, seed=seed % 1000)[0]
    found = pivots(kernel, X, size, seed=seed).first(size)
    assert np.unique(found.rows).size == found.rows.size <= size
    K = kernel(X[found.rows])
    np.testing.assert_allclose(found.factor @ found.factor.T, K, atol=1e-9 * np.abs(K).max())
    np.testing.assert_array_equal(found.factor, np.tril(found.factor))
    assert found.complete or found.rows.size == size


def test_more_landmarks_begin_with_the_first_ones():
    X = two_classes(80, 5)[0]
    chooser = pivots(KERNELS[0], X, 60)
    few, many = chooser.first(10), chooser.first(60)
    np.testing.assert_array_equal(many.rows[:10], few.rows)
    np.testing.assert_array_equal(many.factor[:10, :10], few.factor)
    np.testing.assert_array_equal(chooser.first(10).rows, few.rows)


def test_landmarks_stop_at_the_rank_of_the_kernel():
    X = two_classes(300, 4)[0]
    found = pivots(Kernel("linear"), X, 50).first(50)
    assert found.complete
    assert found.rows.size == 4


def test_pivots_leave_little_of_the_kernel():
    """On clusters, pivots find each of them where uniform choices repeat some."""
    rng = np.random.default_rng(0)
    centres = 10 * rng.normal(size=(30, 3))
    sizes = np.r_[np.full(25, 5), np.full(5, 300)]
    X = np.repeat(centres, sizes, axis=0) + 1e-3 * rng.normal(size=(sizes.sum(), 3))
    kernel = Kernel("rbf", 1.0)
    K = kernel(X)

    def left_over(rows):
        part = K[:, rows]
        return np.trace(K - part @ np.linalg.pinv(K[np.ix_(rows, rows)], 1e-10) @ part.T)

    chosen = left_over(pivots(kernel, X, 30).first(30).rows)
    uniform = left_over(rng.choice(len(X), 30, replace=False))
    assert chosen < 0.2 * uniform


def test_samples_of_larger_weight_are_chosen_more_often():
    X = np.arange(200.0)[:, None]
    weight = np.where(np.arange(200) < 100, 1.0, 9.0)
    heavy = [
        pivots(Kernel("rbf", 100.0), X, 1, weight=weight, seed=seed).first(1).rows[0] >= 100
        for seed in range(200)
    ]
    assert 0.8 < np.mean(heavy) < 0.98


@pytest.mark.parametrize("kept", [0.0, 0.4, 1.0], ids="kept-{}".format)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_design_is_that_of_whitened_features(monkeypatch, kept, make, dtype):
    monkeypatch.setattr("optimargin.designs.landmarks.FILLED_ELEMENTS", 300)
    X, kernel = two_classes(120, 4)[0], KERNELS[0]
    found = pivots(kernel, X, 20, dtype=dtype).first(20)
    design = LandmarkDesign(
        kernel,
        make(X),
        make(X[found.rows]),
        found.factor,
        dtype=dtype,
        max_bytes=kept * 120 * 20 * np.dtype(dtype).itemsize,
    )
    features = np.linalg.solve(found.factor, kernel(X, X[found.rows]).T).T
    rng = np.random.default_rng(1)
    v, r, weight = rng.normal(size=20), rng.normal(size=120), rng.normal(size=120)
    r[::3] = weight[::2] = 0.0
    Z = np.column_stack([features, np.ones(120)])
    atol = 1e-3 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(design.decision(v), features @ v, atol=atol)
    np.testing.assert_allclose(design.represent(r), features.T @ r, atol=atol)
    gram = np.tril(design.weighted_gram(weight))
    np.testing.assert_allclose(gram, np.tril(Z.T @ (weight[:, None] * Z)), atol=10 * atol)
    np.testing.assert_allclose(design.feature_rows(np.array([3, 5])), features[[3, 5]], atol=atol)
    np.testing.assert_allclose(design.squared_norms, (features**2).sum(axis=1), atol=atol)
    b = design.landmark_coefficients(v)
    np.testing.assert_allclose(design.from_landmark_coefficients(b), v, atol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_landmarks_that_span_everything_give_the_exact_model(kernel, fit_intercept):
    X, y = moons(120)
    parameters = {"kernel": kernel, "coef0": 1.0, "fit_intercept": fit_intercept}
    exact = ODMClassifier(**parameters).fit(X, y)
    # The rank of a smooth kernel is below the number of samples, and found.
    low = ODMClassifier(approximation="nystrom", n_components=120, **parameters).fit(X, y)
    assert low.objective_ == pytest.approx(exact.objective_, rel=1e-6)
    np.testing.assert_allclose(low.decision_function(X), exact.decision_function(X), atol=1e-3)
    assert low.support_.size <= 120


def test_the_objective_falls_with_more_landmarks_to_the_exact_one():
    X, y = moons()
    exact = ODMClassifier(gamma=5.0, tol=1e-8).fit(X, y).objective_
    objectives = [
        ODMClassifier(gamma=5.0, approximation="nystrom", n_components=n, random_state=0)
        .fit(X, y)
        .objective_
        for n in (5, 20, 80, 320)
    ]
    assert objectives == sorted(objectives, reverse=True)
    assert objectives[-1] == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("cache_size", [1e-6, 0.1, 100])
def test_the_memory_limit_does_not_change_the_model(cache_size):
    X, y = moons()
    model = ODMClassifier(approximation="nystrom", n_components=64, random_state=0)
    expected = clone(model).fit(X, y)
    limited = clone(model).set_params(cache_size=cache_size).fit(X, y)
    assert limited.objective_ == pytest.approx(expected.objective_, rel=1e-10)


def test_the_model_is_its_landmarks():
    X, y = moons()
    model = ODMClassifier(approximation="nystrom", n_components=40, random_state=0).fit(X, y)
    assert model.dual_coef_.shape == (1, 40)
    assert model.solver_ == "newton"
    assert model.dual_gap_ < 1e-6
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    K = Kernel("rbf", model.gamma_)(X, model.support_vectors_)
    expected = K @ model.dual_coef_[0] + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-9)


def test_auto_stops_where_more_landmarks_do_not_help():
    X, y = moons(2000)
    model = ODMClassifier(approximation="nystrom", random_state=0).fit(X, y)
    assert model.support_.size <= 256
    assert model.score(X, y) > 0.93
    rng = np.random.default_rng(0)
    hard = rng.uniform(-3, 3, size=(1000, 2))
    checkers = np.floor(hard).sum(axis=1) % 2
    wavy = ODMClassifier(C1=1e5, gamma=30.0, approximation="nystrom", random_state=0)
    assert wavy.fit(hard, checkers).support_.size >= 512


@pytest.mark.parametrize("digit", [-1e-15, 0.0, 1e-15])
def test_a_fall_of_the_error_by_the_least_share_is_not_worth_more_landmarks(monkeypatch, digit):
    errors = iter([20 / 720, 19 / 720 * (1 + digit), 0.0])
    monkeypatch.setattr(Classification, "held_out_error", lambda *given: next(errors))
    X, y = moons(1000)
    model = ODMClassifier(gamma=30.0, approximation="nystrom", random_state=0).fit(X, y)
    assert model.support_.size == 256


def test_several_classes_weights_and_sparse_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.digitize(X[:, 0] + X[:, 1] ** 2, [0.2, 1.5])
    weight = rng.integers(0, 3, 300).astype(float)
    model = ODMClassifier(approximation="nystrom", n_components=100, random_state=0)
    dense = clone(model).fit(X, y, weight)
    sparse = clone(model).fit(sp.csr_array(X), y, weight)
    assert dense.dual_coef_.shape == (3, 100)
    assert dense.score(X, y) > 0.9
    assert weight[dense.support_].all()
    np.testing.assert_allclose(dense.objective_, sparse.objective_, rtol=1e-6)


def test_left_out_decisions_are_those_of_refits_with_the_same_landmarks():
    X, y = moons(200)
    model = ODMClassifier(approximation="nystrom", n_components=30, random_state=0).fit(X, y)
    left_out = model.loo_decision_function(exact=True)
    exact = ODMClassifier().fit(X, y).loo_decision_function(exact=True)
    # Thirty landmarks nearly span these samples, so the exact model is a close relative.
    assert np.corrcoef(left_out, exact)[0, 1] > 0.99
    assert ((left_out > 0) == y).mean() > 0.9


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "sigmoid"}, "positive semi-definite"),
        ({"kernel": "precomputed"}, "positive semi-definite"),
        ({"kernel": lambda A, B: A @ B.T}, "positive semi-definite"),
        ({"solver": "dcd"}, "solver='dcd' does not work with approximation"),
        ({"n_components": 0}, "n_components"),
    ],
)
def test_what_an_approximation_cannot_do_is_said(parameters, message):
    X, y = moons(40)
    if parameters.get("kernel") == "precomputed":
        X = X @ X.T
    with pytest.raises(ValueError, match=message):
        ODMClassifier(approximation="nystrom", **parameters).fit(X, y)


def test_too_many_samples_for_the_exact_solver_are_told_of_the_approximation(monkeypatch):
    monkeypatch.setattr("optimargin.training.plan._EXACT_UP_TO", 500)
    X, y = moons(600)
    with pytest.raises(ValueError, match="approximation='nystrom'"):
        ODMClassifier().fit(X, y)
    ODMClassifier(solver="newton_cg").fit(X, y)


@parametrize_with_checks([ODMClassifier(approximation="nystrom", random_state=0)])
def test_scikit_learn_check_passes(estimator, check):
    check(estimator)
