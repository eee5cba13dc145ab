"""Every solver against every other and against the conic solver, through the estimators."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from optimargin import LinearODMClassifier, ODMClassifier
from optimargin.solvers import SOLVERS
from tests import oracle
from tests.cases import (
    ESTIMATOR_SOLVERS,
    ODM_ESTIMATORS,
    CauchyKernel,
    solvers_of,
    two_classes,
)
from tests.sampling import pairwise

pytestmark = pytest.mark.numbers

every_solver = pytest.mark.parametrize(("estimator", "solver"), ESTIMATOR_SOLVERS)
# Block descent is for radial kernels that fit into memory.
every_kernel_solver = pytest.mark.parametrize(
    "solver", [solver for solver in solvers_of(ODMClassifier) if solver != "bcd"]
)
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])
PENALTIES = [(4.0, 1.0, 0.2), (8.0, 0.0, 0.0), (2.0, 2.0, 0.0), (0.5, 16.0, 0.5)]
MODELS = [
    LinearODMClassifier(),
    ODMClassifier(kernel="linear"),
    ODMClassifier(gamma=0.3),
    ODMClassifier(kernel="poly", degree=2, coef0=1.0),
    ODMClassifier(kernel=CauchyKernel()),
]
MODEL_SOLVERS = [
    (model, solver)
    for model in MODELS
    for solver in solvers_of(type(model))
    if solver != "bcd" or model.kernel == "rbf"
]


def every_model_and_solver(names, *lists):
    """Parametrise a test by model and solver, and by a sample of further values."""
    rows = [(*first, *rest) for first, *rest in pairwise(MODEL_SOLVERS, *lists)]
    return pytest.mark.parametrize(("model", "solver", *names), rows, ids=str)


def fit(model, X, y, weight=None, **parameters):
    estimator = type(model)(**{**model.get_params(), "max_iter": 5000, **parameters})
    return estimator.fit(X, y, sample_weight=weight)


def stored_objective(model, X, y, weight):
    """Return the objective of the model that predictions use."""
    if hasattr(model, "coef_"):
        norm = model.coef_[0] @ model.coef_[0]
    else:
        theta = np.zeros(len(X))
        theta[model.support_] = model.dual_coef_[0]
        norm = theta @ model._kernel(X) @ theta
    scores = model.decision_function(X)
    return oracle.objective(norm, scores, y, weight, model.C1_, model.C2_, model.D)


def test_every_solver_belongs_to_an_estimator():
    accepted = {solver for estimator in ODM_ESTIMATORS for solver in solvers_of(estimator)}
    assert accepted == set(SOLVERS)


@pytest.mark.parametrize(
    ("estimator", "solver", "penalties", "fit_intercept"),
    [
        (*each.values, penalties, fit_intercept)
        for each, penalties, fit_intercept in pairwise(ESTIMATOR_SOLVERS, PENALTIES, [True, False])
    ],
)
def test_every_solver_finds_the_objective_of_the_conic_solver(
    estimator, solver, penalties, fit_intercept
):
    X, y = two_classes(40, 3)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=40)
    features = X
    if estimator is ODMClassifier:
        features = oracle.features_of_kernel(rbf_kernel(X, gamma=0.3))
    w, b = oracle.solve(features, y, weight, *penalties, fit_intercept=fit_intercept)
    expected = oracle.objective(w @ w, features @ w + b, y, weight, *penalties)
    options = {"gamma": 0.3} if estimator is ODMClassifier else {}
    model = estimator(
        *penalties, solver=solver, fit_intercept=fit_intercept, tol=1e-8, max_iter=10_000, **options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y, sample_weight=weight)
    assert model.objective_ == pytest.approx(expected, rel=2e-8)
    assert model.solver_ == solver


@every_model_and_solver(["fit_intercept", "n_samples"], [True, False], [60, 400])
def test_every_solver_agrees_with_newton(model, solver, fit_intercept, n_samples):
    X, y = two_classes(n_samples, 5)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=n_samples)
    options = {"C1": 4.0, "C2": 1.0, "fit_intercept": fit_intercept}
    exact = fit(model, X, y, weight, solver="newton", **options)
    other = fit(model, X, y, weight, solver=solver, tol=1e-9, **options)
    assert other.dual_gap_ <= 1e-9
    assert other.objective_ == pytest.approx(exact.objective_, rel=2e-9)
    expected = exact.decision_function(X)
    np.testing.assert_allclose(other.decision_function(X), expected, atol=1e-3)


@every_model_and_solver(["fit_intercept"], [True, False])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_gap_of_a_fit_stopped_early_is_honest(model, solver, fit_intercept):
    X, y = two_classes(80, 5)
    best = fit(model, X, y, solver="newton", fit_intercept=fit_intercept).objective_
    for max_iter in (1, 2, 4):
        stopped = fit(
            model, X, y, solver=solver, fit_intercept=fit_intercept, max_iter=max_iter, tol=1e-14
        )
        assert stopped.n_iter_ <= max_iter
        possible = stopped.dual_gap_ * max(stopped.objective_, 1e-3)
        assert stopped.objective_ - best <= possible + 1e-12 * best


@every_model_and_solver(["fit_intercept", "tol"], [True, False], [1e-2, 1e-6])
def test_the_stored_model_has_the_certified_objective(model, solver, fit_intercept, tol):
    X, y = two_classes(80, 5)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=80)
    fitted = fit(model, X, y, weight, solver=solver, fit_intercept=fit_intercept, tol=tol)
    stored = stored_objective(fitted, X, y, weight)
    assert stored == pytest.approx(fitted.objective_, rel=max(1e-6, 2 * tol))


@every_solver
def test_sparse_rows_give_the_dense_solution(estimator, solver):
    X, y = two_classes(60, 5)
    X[np.abs(X) < 0.5] = 0.0
    options = {"solver": solver, "tol": 1e-10, "max_iter": 10_000, "random_state": 0}
    dense = estimator(4.0, 1.0, **options).fit(X, y)
    sparse = estimator(4.0, 1.0, **options).fit(sp.csr_array(X), y)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-9)


@every_solver
def test_single_precision_gives_nearly_the_same_solution(estimator, solver):
    X, y = two_classes(60, 5)
    double = estimator(4.0, 1.0, solver=solver).fit(X, y)
    single = estimator(4.0, 1.0, solver=solver).fit(X.astype(np.float32), y)
    assert single.objective_ == pytest.approx(double.objective_, rel=1e-5)


@every_solver
def test_the_same_seed_gives_the_same_model(estimator, solver):
    X, y = two_classes(60, 5)

    def scores(seed):
        model = estimator(4.0, 1.0, solver=solver, random_state=seed)
        return model.fit(X, y).decision_function(X)

    np.testing.assert_array_equal(scores(3), scores(3))
    np.testing.assert_allclose(scores(4), scores(3), atol=0.05)


@every_solver
@with_and_without_intercept
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_rows_that_are_all_equal_leave_a_constant_decision(estimator, solver, fit_intercept, value):
    X = np.full((12, 2), value)
    y = np.where(np.arange(12) < 8, 1.0, -1.0)
    options = {"gamma": 1.0} if estimator is ODMClassifier else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = estimator(solver=solver, fit_intercept=fit_intercept, **options).fit(X, y)
        scores = model.decision_function(X)
    assert np.isfinite(scores).all()
    assert np.ptp(scores) <= 1e-9
    assert model.dual_gap_ <= model.tol


@every_kernel_solver
@with_and_without_intercept
def test_a_kernel_matrix_of_zeros_does_not_break_a_solver(solver, fit_intercept):
    y = np.where(np.arange(12) < 8, 1.0, -1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ODMClassifier(kernel="precomputed", solver=solver, fit_intercept=fit_intercept)
        model.fit(np.zeros((12, 12)), y)
    assert np.isfinite(model.decision_function(np.zeros((1, 12)))).all()


@every_solver
def test_duplicated_rows_and_columns_do_not_break_a_solver(estimator, solver):
    X, y = two_classes(30, 3)
    X = np.column_stack([X, X, np.ones(30)])
    X, y = np.vstack([X, X]), np.append(y, y)
    y[:4] *= -1
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = estimator(4.0, 1.0, solver=solver, tol=1e-6, max_iter=5000).fit(X, y)
    newton = estimator(4.0, 1.0, solver="newton").fit(X, y)
    assert model.objective_ == pytest.approx(newton.objective_, rel=2e-6)


@every_solver
@with_and_without_intercept
@pytest.mark.parametrize("n_features", [1, 2])
def test_one_feature_is_enough(estimator, solver, fit_intercept, n_features):
    X, y = two_classes(30, n_features)
    options = {"C1": 4.0, "C2": 1.0, "fit_intercept": fit_intercept}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = estimator(solver=solver, tol=1e-6, **options).fit(X, y)
    exact = estimator(solver="newton", **options).fit(X, y)
    assert model.objective_ == pytest.approx(exact.objective_, rel=2e-6)


@every_solver
def test_two_samples_are_enough(estimator, solver):
    X, y = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array(["a", "b"])
    model = estimator(solver=solver).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)


@pytest.mark.filterwarnings("ignore:.*more than cache_size has room for")
@every_kernel_solver
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_little_memory_for_the_kernel_gives_the_same_solution(solver, make):
    X, y = two_classes(200, 5)
    options = {"solver": solver, "tol": 1e-8, "max_iter": 5000, "random_state": 0}
    ample = ODMClassifier(4.0, 1.0, **options).fit(make(X), y)
    scarce = ODMClassifier(4.0, 1.0, cache_size=0.05, **options).fit(make(X), y)
    assert scarce.objective_ == pytest.approx(ample.objective_, rel=1e-7)
    assert scarce.dual_gap_ <= 1e-8
