"""What coordinate descent certifies of itself, long before it has converged.

And over small Gram matrices in single precision, alone and for pairs of classes.
"""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification

from optimargin import ODMClassifier, ODMRegressor
from optimargin.designs import FeatureDesign, GramDesign
from optimargin.losses import BandLoss
from optimargin.problems import relative_gap
from optimargin.solvers import DualCD, Newton
from tests import cases
from tests.cases import DESIGNS, two_classes
from tests.sampling import pairwise

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

PENALTIES = [(32.0, 8.0, 0.2), (32.0, 0.0, 0.0), (500.0, 100.0, 0.1)]
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])


def make_problem(
    name="dense", penalties=(32.0, 8.0, 0.2), *, fit_intercept, dtype=np.float64, shape=(80, 6)
):
    X, y = two_classes(*shape)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, y.size)
    design = DESIGNS[name](X.astype(dtype))[0]
    return cases.make_problem(BandLoss(*penalties), design, y, weight, fit_intercept=fit_intercept)


def check(problem, found, best):
    lowest = found.objective - found.dual_gap * max(found.objective, 1e-3)
    assert lowest <= best * (1 + 1e-12)
    assert found.objective == pytest.approx(problem.point(found.coef, found.intercept).value)
    if problem.fit_intercept:
        assert abs(found.pull.sum()) <= 1e-14 * np.abs(found.pull).sum()
    if found.dual_gap > 1e-6:
        gap = found.objective - problem.dual_value(found.pull)
        assert found.dual_gap == pytest.approx(relative_gap(found.objective, gap), rel=1e-6)


@pytest.mark.parametrize(
    ("name", "n_epochs", "fit_intercept", "penalties"),
    pairwise(list(DESIGNS), [1, 2, 5, 20], [True, False], PENALTIES),
    ids=str,
)
def test_the_gap_belongs_to_a_feasible_dual_point(n_epochs, fit_intercept, penalties, name):
    problem = make_problem(name, penalties, fit_intercept=fit_intercept)
    best = Newton(tol=1e-12, max_iter=100).solve(problem).objective
    check(problem, DualCD(tol=1e-12, max_iter=n_epochs).solve(problem), best)


@with_and_without_intercept
@pytest.mark.parametrize("name", ["dense", "csr"])
def test_data_in_single_precision_and_a_start_are_certified_too(name, fit_intercept):
    problem = make_problem(name, fit_intercept=fit_intercept, dtype=np.float32)
    exact = Newton(tol=1e-12, max_iter=100).solve(problem)
    for start in (None, exact.coef, exact.coef + 0.1):
        found = DualCD(tol=1e-5, max_iter=1000).solve(problem, start, exact.intercept)
        assert found.dual_gap <= 1e-5
        check(problem, found, exact.objective)


@with_and_without_intercept
@pytest.mark.parametrize("tol", [1e-6, 1.5])
def test_a_descent_stopped_from_outside_is_certified(tol, fit_intercept):
    problem = make_problem(fit_intercept=fit_intercept)
    best = Newton(tol=1e-12, max_iter=100).solve(problem).objective
    solver = DualCD(tol=tol, max_iter=1000, on_iteration=lambda: lambda: True)
    found = solver.solve(problem)
    assert found.n_iter == 1
    check(problem, found, best)


@pytest.mark.parametrize("C1", [0.01, 0.1, 1.0, 1e4])
def test_an_intercept_takes_few_epochs_at_any_penalty(C1):
    with_intercept, without = (
        DualCD(tol=1e-6, max_iter=3000).solve(
            make_problem("csr", (C1, C1 / 4, 0.2), fit_intercept=fit_intercept)
        )
        for fit_intercept in (True, False)
    )
    assert with_intercept.n_iter <= 2 * without.n_iter + 20


def test_gaps_below_the_drift_of_w_are_reached():
    problem = make_problem(penalties=(1e8, 1e7, 0.2), fit_intercept=False, shape=(100, 400))
    found = DualCD(tol=1e-9, max_iter=100).solve(problem)
    assert found.dual_gap <= 1e-9
    check(problem, found, Newton(tol=1e-12, max_iter=100).solve(problem).objective)


FAR = [(1e6, np.float32), (1e8, np.float32), (1e8, np.float64), (1e10, np.float64)]


@pytest.mark.parametrize(("far", "dtype"), FAR, ids=str)
def test_rows_far_from_zero_are_solved_as_those_around_it(far, dtype):
    X, y = two_classes(3000, 20)
    X = (X + far).astype(dtype)
    center = X.mean(axis=0, dtype=np.float64)
    far_away, around = FeatureDesign(X, center), FeatureDesign(X.astype(np.float64) - center)
    np.testing.assert_allclose(far_away.squared_norms, around.squared_norms, rtol=1e-12)
    problem = cases.make_problem(BandLoss(1e4, 2.5e3, 0.5), far_away, y, fit_intercept=True)
    found = DualCD(tol=1e-4, max_iter=1000).solve(problem)
    assert np.isfinite(found.coef).all()
    assert found.dual_gap <= 1e-3


def data(n_samples=400, n_classes=2, seed=0, **settings):
    return make_classification(
        n_samples,
        6,
        n_informative=5,
        n_redundant=0,
        n_classes=n_classes,
        random_state=seed,
        **settings,
    )


def check_claims(found, exact):
    """Check that objectives are within their gaps of each other."""
    allowed = (np.asarray(found.dual_gap_) + exact.dual_gap_) * exact.objective_
    assert (np.abs(np.asarray(found.objective_) - exact.objective_) <= allowed).all()


@pytest.mark.parametrize("tol", [1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    "penalties", [{}, {"C1": 400.0, "C2": 0.0}, {"C1": 400.0, "C2": 400.0, "D": 0.0}]
)
def test_the_optimum_is_within_the_claimed_gap(tol, fit_intercept, penalties):
    X, y = data()
    settings = {"fit_intercept": fit_intercept, **penalties}
    found = ODMClassifier(solver="dcd", tol=tol, **settings).fit(X, y)
    exact = ODMClassifier(solver="newton", tol=1e-10, **settings).fit(X, y)
    assert found.dual_gap_ <= tol
    check_claims(found, exact)


def test_weights_and_sparse_rows():
    X, y = data(500)
    weight = np.random.default_rng(0).uniform(0.1, 3, size=500)
    X[np.abs(X) < 0.5] = 0.0
    exact = ODMClassifier(solver="newton", tol=1e-10).fit(X, y, sample_weight=weight)
    for rows in (X, sparse.csr_array(X), X.astype(np.float32)):
        found = ODMClassifier(solver="dcd", gamma=exact.gamma_).fit(rows, y, sample_weight=weight)
        assert found.dual_gap_ <= 1e-4
        check_claims(found, exact)


def test_newton_steps_go_on_where_rounding_or_slowness_ends_the_descent(monkeypatch):
    steps = []
    solve = Newton.solve
    monkeypatch.setattr(Newton, "solve", lambda *args: steps.append(1) or solve(*args))
    monkeypatch.setattr("optimargin.solvers.dcd._MOST_ROUNDED_EPOCHS", 2)
    X, y = data()
    model = ODMClassifier(solver="dcd").fit(X, y)
    assert steps
    assert model.dual_gap_ <= 1e-4
    assert 2 < model.n_iter_ < 20


def test_iterations_are_told_one_by_one():
    X, y = data()
    quiet = ODMClassifier(solver="dcd").fit(X, y)
    stopped = ODMClassifier(solver="dcd", max_iter=3)
    with pytest.warns(UserWarning, match="max_iter"):
        stopped.fit(X, y)
    assert stopped.n_iter_ == 3
    assert stopped.dual_gap_ > quiet.dual_gap_


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_pairs_of_classes_are_those_of_newton_steps(weighted, fit_intercept):
    X, y = data(1200, n_classes=5, weights=[0.3, 0.3, 0.2, 0.1, 0.1])
    weight = np.random.default_rng(0).integers(0, 3, size=1200) if weighted else None
    settings = {"multi_class": "ovo", "fit_intercept": fit_intercept}
    found = ODMClassifier(**settings).fit(X, y, sample_weight=weight)
    exact = ODMClassifier(solver="newton", tol=1e-10, **settings).fit(X, y, sample_weight=weight)
    assert found.solver_ == "dcd"
    assert found.dual_gap_.shape == found.n_iter_.shape == (10,)
    assert (found.dual_gap_ <= 1e-4).all()
    check_claims(found, exact)
    assert np.mean(found.predict(X) == exact.predict(X)) > 0.99


def test_pairs_do_not_depend_on_threads_or_on_who_listens():
    X, y = data(1200, n_classes=4)
    first, second = (ODMClassifier().fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.dual_coef_, second.dual_coef_)


def test_a_rounded_gram_matrix_knows_a_precise_one():
    X, _ = data(350)
    regressor = ODMRegressor(C1=350.0, solver="dcd", tol=1e-6).fit(X, X[:, 0])
    assert regressor.dual_gap_ <= 1e-6
    K = np.eye(3, dtype=np.float32)
    design = GramDesign(K, precise_kernel=lambda: None, scale=np.ones(3))
    assert design.is_rounded
    np.testing.assert_array_equal(design.decision(np.arange(3.0)), np.arange(3.0))
