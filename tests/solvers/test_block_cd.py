"""Block coordinate descent: the same optimum, for one output and for many, with honest claims."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from optimargin import ODMClassifier, ODMRegressor, OneClassODM
from optimargin.designs.kernel import Triangle
from optimargin.solvers import BlockCD, NewtonCG, Solution

pytestmark = pytest.mark.numbers


def data(n_samples=900, n_classes=2, seed=0):
    return make_classification(
        n_samples, 6, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=seed
    )


@pytest.mark.parametrize("tol", [1e-3, 1e-4, 1e-6])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    "penalties", [{}, {"C1": 900.0, "C2": 0.0}, {"C1": 900.0, "C2": 900.0, "D": 0.0}]
)
def test_the_optimum_is_within_the_claimed_gap(tol, fit_intercept, penalties):
    X, y = data()
    exact = ODMClassifier(solver="newton", tol=1e-10, fit_intercept=fit_intercept, **penalties).fit(
        X, y
    )
    found = ODMClassifier(solver="bcd", tol=tol, fit_intercept=fit_intercept, **penalties)
    found.fit(X, y)
    assert found.dual_gap_ <= tol
    difference = abs(found.objective_ - exact.objective_)
    assert difference <= (found.dual_gap_ + exact.dual_gap_) * exact.objective_
    assert np.mean(found.predict(X) == exact.predict(X)) > 0.99


@pytest.mark.parametrize("n_classes", [3, 6])
def test_all_classes_at_a_time_give_the_models_of_one_at_a_time(n_classes):
    X, y = data(n_classes=n_classes)
    model = ODMClassifier(solver="bcd", multi_class="ovr").fit(X, y)
    newton = ODMClassifier(solver="newton", tol=1e-10, multi_class="ovr").fit(X, y)
    assert (model.dual_gap_ <= 1e-4).all()
    excess = objectives(model, X, y) / newton.objective_ - 1
    assert (excess >= -1e-9).all()
    assert (excess <= model.dual_gap_).all()
    np.testing.assert_allclose(model.objective_, newton.objective_, rtol=1e-4)


def objectives(model, X, y):
    """Return the objective per class of a fitted model, in double precision."""
    K = rbf_kernel(X, gamma=model.gamma_)
    coef = np.zeros((len(model.classes_), len(y)))
    coef[:, model.support_] = model.dual_coef_
    sign = np.where(y == model.classes_[:, None], 1.0, -1.0)
    shortfall = 1 - sign * (coef @ K + model.intercept_[:, None])
    loss = model.C1_ * np.maximum(shortfall - model.D, 0) ** 2
    loss += model.C2_ * np.maximum(-shortfall - model.D, 0) ** 2
    return 0.5 * np.einsum("ij,jk,ik->i", coef, K, coef) + loss.mean(axis=1)


def test_weights_are_repetitions():
    X, y = data(800)
    weight = np.random.default_rng(0).integers(0, 3, size=800)
    weighted = ODMClassifier(solver="bcd", tol=1e-6, gamma=0.1).fit(X, y, sample_weight=weight)
    repeated = ODMClassifier(solver="bcd", tol=1e-6, gamma=0.1)
    repeated.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=2e-6)


def test_few_samples_are_inside_the_band_without_a_trace():
    X, y = data(1500)
    model = ODMClassifier(solver="bcd", tol=1e-6).fit(X, y)
    exact = ODMClassifier(solver="newton", tol=1e-10).fit(X, y)
    assert model.support_.size <= 1.02 * exact.support_.size


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("tol", [1e-4, 1e-6])
def test_samples_that_stray_from_the_band_are_taken_in(fit_intercept, tol, monkeypatch):
    kept = []

    def keep(self, samples):
        if self.tiles.dtype != np.float64:  # which precise values have
            kept.append(len(samples))
        keep_more(self, samples)

    keep_more = Triangle.keep
    monkeypatch.setattr(Triangle, "keep", keep)
    X, y = make_classification(
        3000, 12, n_informative=8, class_sep=2.0, flip_y=0.02, random_state=0
    )
    found = ODMClassifier(solver="bcd", tol=tol, fit_intercept=fit_intercept).fit(X, y)
    assert len(kept) > 1
    assert sum(kept) < 3000
    assert found.dual_gap_ <= tol
    exact = ODMClassifier(solver="newton", tol=1e-10, fit_intercept=fit_intercept).fit(X, y)
    difference = abs(found.objective_ - exact.objective_)
    assert difference <= (found.dual_gap_ + exact.dual_gap_) * exact.objective_


@pytest.mark.parametrize("ended_by", ["max_iter", "slowness"])
def test_claims_hold_where_samples_outside_were_not_looked_at(ended_by, monkeypatch):
    X, y = make_classification(
        3000, 12, n_informative=8, class_sep=2.0, flip_y=0.02, random_state=0
    )
    max_iter = 1000
    if ended_by == "max_iter":
        max_iter = 2
    else:
        monkeypatch.setattr("optimargin.solvers.block_cd._SLOW_AFTER", 1)
        monkeypatch.setattr("optimargin.solvers.block_cd._RECENT", 1)
        monkeypatch.setattr("optimargin.solvers.block_cd.MOST_CYCLES", 3)
        monkeypatch.setattr(NewtonCG, "solve", lambda self, problem, *start: stop(problem, *start))

    def stop(problem, coef, intercept):
        return Solution.from_point(problem.point(coef, intercept), 0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = ODMClassifier(solver="bcd", max_iter=max_iter).fit(X, y)
    exact = ODMClassifier(solver="newton", tol=1e-10).fit(X, y)
    assert found.dual_gap_ > 1e-4
    assert found.objective_ - exact.objective_ <= found.dual_gap_ * found.objective_
    K = rbf_kernel(X, X[found.support_], gamma=found.gamma_)
    decision = K @ found.dual_coef_[0] + found.intercept_[0]
    np.testing.assert_allclose(found._kept["decision"][:, 0], decision, atol=1e-2)


def test_outputs_that_ended_are_not_forgotten_when_others_go_on():
    X, y = data(3000, n_classes=3)
    model = ODMClassifier(solver="bcd", multi_class="ovr").fit(X, y)
    assert (model.dual_gap_ <= 1e-4).all()
    K = rbf_kernel(X, X[model.support_], gamma=model.gamma_)
    decision = K @ model.dual_coef_.T + model.intercept_
    np.testing.assert_allclose(model._kept["decision"], decision, atol=1e-2)


def test_regression_and_novelty_detection():
    X, _ = data(1200)
    y = np.sin(X[:, 0]) + 0.1 * X[:, 1]
    for make, target in ((ODMRegressor, y), (OneClassODM, None)):
        found = make(solver="bcd", tol=1e-6).fit(X, target)
        exact = make(solver="newton", tol=1e-10).fit(X, target)
        assert found.dual_gap_ <= 1e-6
        # Gaps are shares of the objective of the best constant, for regressors, or of the model.
        unit = exact.objective_ if target is None else exact.C1_ * np.var(target)
        allowed = (found.dual_gap_ + exact.dual_gap_) * unit
        assert found.objective_ == pytest.approx(exact.objective_, rel=1e-9, abs=allowed)


def test_large_penalties_are_left_to_newton_steps():
    X, y = data()
    hard = ODMClassifier(1e6, solver="bcd").fit(X, y)
    assert hard.dual_gap_ <= 1e-4
    assert ODMClassifier(1e6).fit(X, y).solver_ == "newton"
    assert ODMClassifier(50.0 * len(y)).fit(X, y).solver_.startswith("newton")
    assert ODMClassifier().fit(X, y).solver_ == "dcd"
    assert ODMClassifier().fit(*data(2600)).solver_ == "bcd"


@pytest.mark.quick
def test_results_do_not_depend_on_chance_or_threads():
    X, y = data(1000)
    first, second = (ODMClassifier(solver="bcd").fit(X, y).dual_coef_ for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_what_it_cannot_do_is_said_in_words():
    X, y = data(200)
    with pytest.raises(ValueError, match="works with radial kernels"):
        ODMClassifier(solver="bcd", kernel="poly").fit(X, y)
    with pytest.raises(ValueError, match="set cache_size"):
        ODMClassifier(solver="bcd", cache_size=0.01).fit(X, y)
    assert BlockCD.solves_together
