"""Fits of random problems against an independent conic solver."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.exceptions import ConvergenceWarning

from tests import oracle
from tests.random_problems import KERNELS, features_and_norm, random_problems

pytestmark = pytest.mark.numbers

FLOOR = 1e-3  # gaps and errors are relative to the objective, or to this if that is larger
PROBLEMS = random_problems([None, *KERNELS])


def check(problem):
    """Compare a full fit, and one stopped early, with the oracle's solution."""
    X, y, weight = problem.data()
    training = problem.training_input(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = problem.model().fit(training, y, sample_weight=weight)
        decision = fitted.decision_function(training)
    features, norm = features_and_norm(fitted, X, training)
    ours = oracle.objective(norm, decision, y, weight, *problem.penalties)
    w, b = oracle.solve(
        features, y, weight, *problem.penalties, fit_intercept=problem.fit_intercept
    )
    theirs = oracle.objective(w @ w, features @ w + b, y, weight, *problem.penalties)

    assert fitted.dual_gap_ <= fitted.tol
    assert fitted.objective_ == pytest.approx(ours, rel=1e-8, abs=1e-9)
    assert ours <= theirs + 1e-7 * max(theirs, FLOOR)
    assert_gap_is_honest(fitted, theirs)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        stopped = problem.model(max_iter=1).fit(training, y, sample_weight=weight)
    assert_gap_is_honest(stopped, theirs)
    return fitted, ours, theirs


def assert_gap_is_honest(fitted, theirs):
    """No known objective is further below than the certified gap says is possible.

    A relative gap below one is relative to the objective itself, or to FLOOR.
    """
    possible = fitted.dual_gap_ * max(fitted.objective_, FLOOR)
    rounding = 1e-10 * max(fitted.objective_, FLOOR)
    assert fitted.objective_ - theirs <= possible + rounding


@given(problem=PROBLEMS)
@settings(max_examples=60)
def test_no_objective_is_above_that_of_a_conic_solver(problem):
    check(problem)


@pytest.mark.slow
@given(problem=PROBLEMS)
@settings(max_examples=300)
def test_no_objective_of_three_hundred_is_above_that_of_a_conic_solver(problem):
    check(problem)


@given(problem=random_problems([{"kernel": "sigmoid", "gamma": "scale", "coef0": -0.5}]))
@settings(max_examples=20)
def test_an_indefinite_kernel_is_solved_for_its_positive_part(problem):
    X, y, weight = problem.data()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="The sigmoid kernel matrix")
        fitted = problem.model().fit(X, y, sample_weight=weight)
    root = np.sqrt(weight / weight.mean())
    K = root[:, None] * fitted._kernel(X) * root
    features = oracle.features_of_kernel(K) / root[:, None]
    w, b = oracle.solve(
        features, y, weight, *problem.penalties, fit_intercept=problem.fit_intercept
    )
    theirs = oracle.objective(w @ w, features @ w + b, y, weight, *problem.penalties)
    assert fitted.dual_gap_ <= fitted.tol
    assert fitted.objective_ <= theirs + 1e-7 * max(theirs, FLOOR)
    assert_gap_is_honest(fitted, theirs)
