"""Coordinate descent without the interpreter: small problems, alone and in pairs of classes."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification

from optimargin import ODMClassifier, ODMRegressor
from optimargin.designs import RoundedGramDesign
from optimargin.solvers import Newton

pytestmark = [pytest.mark.quick, pytest.mark.numbers]


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
    monkeypatch.setattr("optimargin.solvers._small_cd._MOST_EPOCHS", 2)
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
    design = RoundedGramDesign(K, precise_kernel=None, scale=np.ones(3))
    assert design.is_rounded
    np.testing.assert_array_equal(design.decision(np.arange(3.0)), np.arange(3.0))
