"""The linear classifier's own attributes, warm starts and use of memory."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification

from optimargin import LinearODMClassifier
from optimargin.designs import FeatureDesign, LinearGramDesign
from optimargin.objectives import ODM
from optimargin.training import Options, plan_fit
from optimargin.training.designs import make_design
from tests.cases import EXACT_SOLVERS, solvers_of, two_classes

pytestmark = pytest.mark.numbers

every_solver = pytest.mark.parametrize("solver", solvers_of(LinearODMClassifier))


@pytest.fixture
def hard():
    """Overlapping classes on which a cold start takes several steps."""
    return make_classification(400, 12, n_informative=8, flip_y=0.1, random_state=0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_decision_is_the_product_with_coef_plus_intercept(n_classes):
    X, _ = two_classes()
    model = LinearODMClassifier(multi_class="ovr").fit(X, np.arange(60) % n_classes)
    n_rows = 1 if n_classes == 2 else n_classes
    assert model.coef_.shape == (n_rows, 4)
    assert model.intercept_.shape == (n_rows,)
    expected = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X).reshape(60, -1), expected)


@pytest.mark.parametrize(
    ("shape", "make", "solver", "design"),
    [
        ((9, 5), np.asarray, "newton", FeatureDesign),
        ((5, 9), np.asarray, "newton", LinearGramDesign),
        ((5, 9), sp.csr_array, "newton", FeatureDesign),
        ((5, 9), np.asarray, "dcd", FeatureDesign),
    ],
)
def test_newton_works_in_samples_where_dense_rows_are_wide(shape, make, solver, design):
    X, weight = make(np.ones(shape)), np.full(shape[0], 1 / shape[0])
    plan = plan_fit(X, ODM(1.0, 1.0), None, Options(solver=solver))
    made = make_design(plan, None, X, weight, fit_intercept=True, notify=pytest.fail)
    assert type(made.design) is design


def sparse_rows(n_samples, n_features, length):
    """Return rows with so many ones each."""
    columns = np.arange(n_samples * length) % n_features
    indptr = np.arange(0, n_samples * length + 1, length)
    return sp.csr_array((np.ones(columns.size), columns, indptr), shape=(n_samples, n_features))


@pytest.mark.parametrize(
    ("X", "C", "tol", "solver"),
    [
        (np.ones((5000, 20)), 1.0, 1e-6, "newton"),
        (np.ones((20, 5000)), 1.0, 1e-6, "newton"),
        (np.ones((1500, 1500)), 1.0, 1e-6, "newton_cg"),
        (np.ones((1200, 5000)), 1.0, 1e-6, "newton"),
        (sparse_rows(5000, 100, 10), 1.0, 1e-6, "newton"),
        (sparse_rows(5000, 100, 20), 1.0, 1e-6, "newton"),
        (sparse_rows(20_000, 100, 20), 1.0, 1e-6, "newton_cg"),
        (sparse_rows(5000, 2000, 10), 1.0, 1e-6, "newton_cg"),
        (sparse_rows(1000, 20_000, 50), 0.5, 1e-6, "newton_cg"),
        (sparse_rows(1000, 20_000, 50), 50.0, 1e-6, "dcd"),
        (sparse_rows(1000, 20_000, 50), 5000.0, 1e-1, "dcd"),
        (sparse_rows(1000, 20_000, 50), 5000.0, 1e-6, "dcd"),
        (sparse_rows(6000, 20_000, 50), 5000.0, 1e-6, "dcd"),
        (sparse_rows(6000, 20_000, 50), 50_000.0, 1e-6, "dcd"),
    ],
)
def test_auto_knows_where_each_solver_is_fast(X, C, tol, solver):
    assert plan_fit(X, ODM(C, C), None, Options(tol=tol)).solver == solver


@pytest.mark.parametrize("shape", [(60, 4), (20, 40)], ids=["tall", "wide"])
def test_moving_all_samples_moves_the_intercept_alone(shape):
    X, y = two_classes(*shape)
    here = LinearODMClassifier().fit(X, y)
    there = LinearODMClassifier().fit(X + 1e4, y)
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-8)
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-5, atol=1e-8)
    assert there.dual_gap_ <= 1e-9


def test_the_intercept_is_not_penalised():
    X, y = two_classes(noise=0.0)
    X[:, 0] += 100.0
    model = LinearODMClassifier().fit(X, y)
    assert abs(model.intercept_[0]) > 10
    assert model.score(X, y) > 0.95


def test_without_intercept_the_decision_of_the_origin_is_zero():
    X, y = two_classes()
    model = LinearODMClassifier(fit_intercept=False).fit(X, y)
    assert model.intercept_ == 0
    assert model.decision_function(np.zeros((1, 4))) == 0


@every_solver
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_warm_start_takes_fewer_iterations(solver, fit_intercept, hard):
    cold = LinearODMClassifier(64.0, solver=solver, fit_intercept=fit_intercept)
    warm = LinearODMClassifier(
        60.0, solver=solver, fit_intercept=fit_intercept, warm_start=True, random_state=0
    )
    cold.fit(*hard)
    warm.fit(*hard).set_params(C1=64.0).fit(*hard)
    assert warm.n_iter_ < cold.n_iter_
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-6)


@every_solver
@pytest.mark.parametrize("shape", [(60, 4), (30, 50)], ids=["tall", "wide"])
def test_a_warm_start_at_the_solution_stays_there(solver, shape):
    X, y = two_classes(*shape)
    model = LinearODMClassifier(4.0, 1.0, solver=solver, warm_start=True).fit(X, y)
    objective, coef, cold = model.objective_, model.coef_, model.n_iter_
    model.fit(X, y)
    assert model.n_iter_ == 1 if solver in EXACT_SOLVERS else model.n_iter_ <= cold
    assert model.objective_ == pytest.approx(objective, rel=2e-6)
    np.testing.assert_allclose(model.coef_, coef, atol=1e-2 * np.abs(coef).max())


def test_a_warm_start_of_several_classes_starts_each_of_them(hard):
    X, _ = hard
    y = X[:, :3].argmax(axis=1)
    cold = LinearODMClassifier(C1=64.0).fit(X, y)
    warm = LinearODMClassifier(C1=62.0, warm_start=True).fit(X, y).set_params(C1=64.0).fit(X, y)
    np.testing.assert_allclose(warm.objective_, cold.objective_, rtol=1e-9)
    assert warm.n_iter_.sum() < cold.n_iter_.sum()


def test_a_warm_start_on_other_features_or_classes_starts_afresh(hard):
    X, y = hard
    for other_X, other_y in [(X[:, :5], y), (X, X[:, :3].argmax(axis=1))]:
        warm = LinearODMClassifier(warm_start=True).fit(X, y).fit(other_X, other_y)
        cold = LinearODMClassifier().fit(other_X, other_y)
        np.testing.assert_allclose(warm.coef_, cold.coef_, rtol=1e-9)


@every_solver
def test_a_warm_start_forgets_an_intercept_that_is_no_longer_fitted(solver, hard):
    X, y = hard
    warm = LinearODMClassifier(solver=solver, warm_start=True).fit(X + 1.0, y)
    warm.set_params(fit_intercept=False).fit(X + 1.0, y)
    cold = LinearODMClassifier(solver=solver, fit_intercept=False).fit(X + 1.0, y)
    assert warm.intercept_ == 0
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-6)


# The solver's vectors are in double precision, so their share is larger beside float32 data.
@pytest.mark.parametrize(("dtype", "share"), [(np.float64, 0.5), (np.float32, 0.75)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_large_dense_fit_makes_no_copy_of_its_data(dtype, share, fit_intercept):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 54)).astype(dtype)
    y = X[:, 0] + X[:, 1] + rng.normal(size=60_000) > 0
    model = LinearODMClassifier(fit_intercept=fit_intercept)
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < share * X.nbytes


def test_a_fit_on_a_subsample_first_ends_at_the_same_solution(monkeypatch):
    X, y = make_classification(3000, 6, n_informative=5, n_redundant=0, flip_y=0.1, random_state=1)
    plain = LinearODMClassifier().fit(X, y)
    monkeypatch.setattr("optimargin.solvers.newton._SUBSAMPLE_FROM", 1000)
    started = LinearODMClassifier().fit(X, y)
    assert started.objective_ == pytest.approx(plain.objective_, rel=1e-12)
    np.testing.assert_allclose(started.coef_, plain.coef_, rtol=1e-7)
    assert started.n_iter_ <= plain.n_iter_


@pytest.mark.filterwarnings("ignore:.*relative duality gap")
@pytest.mark.parametrize("C1", [None, 1e3, 1e9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("calibration", [None, "sigmoid"])
def test_wide_data_are_those_of_the_fit_whatever_penalty_and_shift(C1, dtype, calibration):
    rng = np.random.default_rng(0)
    X = (10.0 * rng.normal(size=(60, 200)) + 5.0).astype(dtype)
    y = X[:, 0] + 0.5 * rng.normal(size=60) > 9.0  # rare: probabilities move the intercept far
    model = LinearODMClassifier(C1=C1, calibration=calibration).fit(X, y)
    precise = LinearODMClassifier(C1=C1, tol=1e-12).fit(X.astype(np.float64), y)
    shift = model.intercept_ - LinearODMClassifier(C1=C1).fit(X, y).intercept_
    assert (shift[0] != 0) == (calibration is not None)
    expected = precise.loo_decision_function(exact=True) + shift
    found = model.loo_decision_function(exact=True)
    np.testing.assert_allclose(found, expected, atol=1e-5 * max(np.abs(shift[0]), 1.0))
