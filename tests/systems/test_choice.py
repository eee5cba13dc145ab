"""Which system a design has, and the system of a solution."""

import numpy as np
import pytest
import scipy.sparse as sp

from optimargin.designs import FeatureDesign, GramDesign
from optimargin.solvers import Newton
from optimargin.systems import FeatureSystem, SampleSystem, make_system, system_of
from tests.cases import DESIGNS, LOSSES, make_design, make_problem, two_classes


@pytest.mark.parametrize(
    ("make", "shape", "expected"),
    [
        (FeatureDesign, (30, 4), FeatureSystem),
        (lambda X: FeatureDesign(sp.csr_array(X)), (30, 4), FeatureSystem),
        (lambda X: FeatureDesign(sp.csr_array(X)), (30, 50), SampleSystem),
        (lambda X: GramDesign(X @ X.T), (30, 4), SampleSystem),
    ],
    ids=["dense", "sparse", "wide-sparse", "gram"],
)
def test_the_system_follows_from_the_design(make, shape, expected):
    design = make(two_classes(*shape)[0])
    system = make_system(design, fit_intercept=True)
    assert type(system) is expected
    assert system.operations > 0
    assert system.n_bytes > 0


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_system_of_a_solution_has_that_solution(design, fit_intercept):
    X, y = two_classes(40, 4)
    made, _ = make_design(design, X)
    problem = make_problem(LOSSES[1], made, y, fit_intercept=fit_intercept)
    found = Newton(tol=1e-14, max_iter=100).solve(problem)
    point = problem.point(found.coef, found.intercept)
    kept = make_system(made, fit_intercept=fit_intercept)
    for system in (system_of(problem, point), system_of(problem, point, kept)):
        np.testing.assert_allclose(system.coef[:, 0], point.coef, atol=1e-9)
        np.testing.assert_allclose(system.intercept, point.intercept, atol=1e-9)
        decision = point.decision + point.intercept
        np.testing.assert_allclose(system.decision[:, 0], decision, atol=1e-9)
    assert system is kept
