"""What coordinate descent certifies of itself, long before it has converged."""

import numpy as np
import pytest

from optimargin.kernels import Kernel
from optimargin.problems import FeatureDesign, KernelDesign, MarginProblem, ODMLoss
from optimargin.solvers import DualCD, Newton
from tests.cases import two_classes


@pytest.mark.parametrize("n_epochs", [1, 2, 5, 20])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("prices", [(32.0, 8.0, 0.2), (32.0, 0.0, 0.0), (500.0, 100.0, 0.1)])
@pytest.mark.parametrize("in_features", [True, False])
def test_the_gap_belongs_to_a_feasible_dual_point(n_epochs, fit_intercept, prices, in_features):
    X, y = two_classes(80, 6)
    y = np.where(y == y[0], 1.0, -1.0)
    design = FeatureDesign(X + 1.0) if in_features else KernelDesign(Kernel("rbf", gamma=0.5)(X))
    weight = np.random.default_rng(0).uniform(0.5, 2.0, y.size)
    problem = MarginProblem(
        ODMLoss(*prices), design, y, weight / weight.sum(), fit_intercept=fit_intercept
    )
    found = DualCD(tol=1e-12, max_iter=n_epochs).solve(problem)
    best = Newton(tol=1e-12, max_iter=100).solve(problem).objective
    lowest = found.objective - found.dual_gap * max(found.objective, 1e-3)
    assert lowest <= best * (1 + 1e-12)
    assert found.objective == pytest.approx(problem.point(found.coef, found.intercept).value)
    if fit_intercept:
        assert abs(y @ found.dual) <= 1e-14 * np.abs(found.dual).sum()
    if found.dual_gap > 1e-6:
        gap = found.objective - problem.dual_value(found.dual)
        assert found.dual_gap * found.objective == pytest.approx(gap, rel=1e-6)
