"""The solvers against the paper's algorithms as printed."""

import numpy as np
import pytest

from optimargin import LinearODMClassifier, ODMClassifier
from optimargin.designs import FeatureDesign, GramDesign
from optimargin.kernels import Kernel
from optimargin.losses import BandLoss
from tests.cases import make_problem, two_classes
from tests.paper_algorithms import (
    algorithm_1,
    stochastic_gradient,
    stochastic_gradient_descent,
)

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

PARAMETERS = (8.0, 2.0, 0.2)


@pytest.fixture
def data():
    X, y = two_classes(60, 4)
    return X, np.where(y == y[0], 1.0, -1.0)


@pytest.mark.parametrize("solver", ["dcd", "newton", "newton_cg"])
def test_algorithm_1_leads_to_the_same_classifier(data, solver):
    X, y = data
    K = Kernel("rbf", gamma=0.5)(X)
    problem = make_problem(BandLoss(*PARAMETERS), GramDesign(K), y, fit_intercept=False)
    printed = problem.point(y * algorithm_1(K, y, *PARAMETERS, n_epochs=300))
    model = ODMClassifier(
        *PARAMETERS, gamma=0.5, fit_intercept=False, solver=solver, tol=1e-10, random_state=0
    ).fit(X, y)
    assert model.objective_ == pytest.approx(printed.value, rel=1e-7)
    np.testing.assert_allclose(model.decision_function(X), printed.decision, atol=1e-4)


def test_the_two_variables_of_a_sample_are_never_both_positive(data):
    X, y = data
    K = Kernel("rbf", gamma=0.5)(X)
    problem = make_problem(BandLoss(*PARAMETERS), GramDesign(K), y, fit_intercept=False)
    pull = y * algorithm_1(K, y, *PARAMETERS, n_epochs=300)
    # Were both positive, their difference would not attain the optimum of the signed dual.
    assert problem.dual_value(pull) == pytest.approx(problem.point(pull).value, rel=1e-7)


def test_the_stochastic_gradient_is_unbiased(data):
    X, y = data
    w = np.random.default_rng(3).standard_normal(X.shape[1])
    problem = make_problem(BandLoss(*PARAMETERS), FeatureDesign(X), y, fit_intercept=False)
    mean = np.mean([stochastic_gradient(X, y, *PARAMETERS, w, i) for i in range(y.size)], axis=0)
    np.testing.assert_allclose(mean, problem.point(w).residual, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("solver", ["svrg", "dcd", "newton"])
def test_stochastic_gradient_descent_comes_close_and_never_below(data, solver):
    X, y = data
    w = stochastic_gradient_descent(X, y, *PARAMETERS, n_passes=100)
    model = LinearODMClassifier(
        *PARAMETERS, fit_intercept=False, solver=solver, max_iter=5000, random_state=0
    ).fit(X, y)
    problem = make_problem(BandLoss(*PARAMETERS), FeatureDesign(X), y, fit_intercept=False)
    reached = problem.point(w).value
    assert model.objective_ * (1 - 1e-9) <= reached <= 1.01 * model.objective_
