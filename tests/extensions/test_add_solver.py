"""A solver defined here is found by its name, in every form of model, and refuses in words."""

import numpy as np
import pytest

from optimargin import LinearODMClassifier, ODMClassifier
from optimargin.designs import FeatureDesign
from optimargin.objectives import LDM
from optimargin.solvers import SOLVERS, Solution, Solver, UnsuitableProblemError
from tests.cases import labels_target, two_classes

pytestmark = [pytest.mark.quick, pytest.mark.numbers]


# [solver]
class SteepestDescent(Solver):
    """Follow the gradient in w, with an exact line search."""

    def _solve(self, problem, coef, intercept):
        point = problem.point(coef, intercept)
        n_iter = 1
        for n_iter in self.iterations():  # noqa: B007
            if point.relative_gap <= self.tol:
                break
            point, length = problem.step(point, -point.residual, 0.0)
            if length == 0:
                break
        return Solution.from_point(point, n_iter)


# [end]
X, Y = two_classes(70, 3)


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(SOLVERS, "steepest", SteepestDescent)


@pytest.mark.parametrize("make", [LinearODMClassifier, ODMClassifier])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_it_finds_the_model_of_the_other_solvers(make, fit_intercept):
    settings = {"C1": 2.0, "C2": 0.5, "D": 0.1, "fit_intercept": fit_intercept}
    exact = make(**settings).fit(X, Y)
    model = make(**settings, solver="steepest", tol=1e-10).fit(X, Y)
    assert model.solver_ == "steepest"
    assert model.dual_gap_ <= 1e-10
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-4)


def test_closed_forms_start_from_its_model():
    model = LinearODMClassifier(2.0, 0.5, 0.1, solver="steepest", tol=1e-9).fit(X, Y)
    exact = LinearODMClassifier(2.0, 0.5, 0.1).fit(X, Y)
    left_out = model.loo_decision_function()
    np.testing.assert_allclose(left_out, exact.loo_decision_function(), atol=1e-6)


def test_it_stops_when_a_listener_asks_for_that():
    solver = SteepestDescent(tol=1e-14, max_iter=50, on_iteration=lambda: lambda: True)
    problem_of = LinearODMClassifier(2.0, 0.5, 0.1)._objective().resolve(1.0).problem
    problem = problem_of(FeatureDesign(X), labels_target(Y), fit_intercept=True)
    assert solver.solve(problem).n_iter == 1


def test_a_problem_of_another_kind_is_refused_in_words():
    hinge = LDM(1.0, 1.0, 1.0).problem(FeatureDesign(X), labels_target(Y), fit_intercept=True)
    with pytest.raises(UnsuitableProblemError, match="problems of type AdditiveProblem, not LDM"):
        SteepestDescent(tol=1e-6, max_iter=10).solve(hinge)


def test_an_unknown_name_is_still_refused():
    with pytest.raises(ValueError, match="'solver' parameter"):
        LinearODMClassifier(solver="steepestt").fit(X, Y)
