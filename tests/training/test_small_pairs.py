"""Pairs of classes that are solved side by side: their certificates are those of what is kept."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from optimargin import ODMClassifier
from optimargin.training.plan import plan_small_pairs

pytestmark = pytest.mark.numbers


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gaps_hold_for_the_coefficients_that_a_model_keeps(dtype, monkeypatch):
    asked = []

    def plan(*arguments):
        asked.append(plan_small_pairs(*arguments))
        return asked[-1]

    monkeypatch.setattr("optimargin.training.own_rows.plan_small_pairs", plan)
    rng = np.random.default_rng(0)
    X = (1e3 + rng.normal(size=(450, 4))).astype(dtype)  # far from zero: norms cancel
    y = (X[:, 0] + 0.5 * rng.normal(size=450) > 1e3).astype(int) + (X[:, 1] > 1e3 + 0.5)
    model = ODMClassifier(gamma=0.3, tol=1e-5).fit(X, y)
    assert asked == [True]
    problems = model._rebuilt(X, y, None).problems
    exact = ODMClassifier(gamma=0.3, solver="newton", tol=1e-12).fit(X.astype(np.float64), y)
    assert len(problems) == 3
    for k, problem in enumerate(problems):
        coef = np.zeros(450)
        coef[model.support_] = model.dual_coef_[k]
        kept = problem.objective_at(coef, float(model.intercept_[k]))
        claim = model.dual_gap_[k] * max(abs(kept), problem.gap_floor)
        assert kept - exact.objective_[k] <= 1.001 * claim
        assert model.dual_gap_[k] <= 1e-4


def test_pairs_that_miss_the_tolerance_go_on_and_count_all_their_iterations(monkeypatch):
    X, y = make_classification(600, 8, n_informative=5, n_classes=3, random_state=0)
    usual = ODMClassifier(multi_class="ovo").fit(X, y)
    monkeypatch.setattr("optimargin.solvers.dcd._MOST_ROUNDED_EPOCHS", 5)
    model = ODMClassifier(multi_class="ovo").fit(X, y)
    assert usual.solver_ == model.solver_ == "dcd"
    assert (model.n_iter_ > 5).all()
    assert (model.dual_gap_ <= model.tol).all()
    np.testing.assert_allclose(model.objective_, usual.objective_, rtol=1e-4)
    with pytest.warns(ConvergenceWarning):
        stopped = ODMClassifier(multi_class="ovo", max_iter=6).fit(X, y)
    assert (stopped.n_iter_ <= 6).all()
