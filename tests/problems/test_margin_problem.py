"""Objective, gradient, intercept and certificate, once over all losses and designs."""

import numpy as np
import pytest

from optimargin.problems import MarginProblem
from optimargin.solvers import Newton
from tests.cases import DESIGNS, LOSSES, make_design, two_classes

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
every_design = pytest.mark.parametrize("design", DESIGNS)
with_and_without_intercept = pytest.mark.parametrize(
    "fit_intercept", [True, False], ids=["intercept", "no-intercept"]
)


@pytest.fixture
def problem(loss, design, fit_intercept):
    X, y = two_classes(40, 4)
    weight = np.random.default_rng(5).uniform(0.2, 3.0, size=40)
    return MarginProblem(
        loss, make_design(design, X)[0], y, weight / weight.sum(), fit_intercept=fit_intercept
    )


def random_points(problem, n_points=4):
    rng = np.random.default_rng(6)
    size = problem.design.n_coef
    start = 0.4 if problem.fit_intercept else 0.0
    return [problem.point(rng.normal(size=size) * 3.0**k, start) for k in range(-2, n_points - 2)]


def without_intercept(problem):
    return MarginProblem(
        problem.loss, problem.design, problem.y, problem.weight, fit_intercept=False
    )


def best_value(problem):
    return Newton(tol=1e-14, max_iter=200).solve(problem).objective


@every_loss
@every_design
@with_and_without_intercept
def test_value_is_half_the_squared_norm_plus_the_loss(problem):
    for point in random_points(problem):
        design = problem.design
        norm = point.coef @ design.metric(point.coef)
        margin = problem.y * (design.decision(point.coef) + point.intercept)
        loss = problem.loss.evaluate(margin, problem.weight)[0]
        assert point.value == pytest.approx(norm / 2 + loss, rel=1e-12)


@every_loss
@every_design
@with_and_without_intercept
def test_residual_is_the_gradient(problem):
    direction = np.random.default_rng(7).normal(size=problem.design.n_coef)
    step = 1e-6
    for point in random_points(problem):
        ahead = problem.point(point.coef + step * direction, point.intercept)
        behind = problem.point(point.coef - step * direction, point.intercept)
        slope = (ahead.value - behind.value) / (2 * step)
        expected = direction @ problem.design.metric(point.residual)
        scale = np.linalg.norm(direction) * np.linalg.norm(point.residual_image)
        assert slope == pytest.approx(expected, abs=1e-5 * scale + 1e-8 * point.value)


@every_loss
@every_design
@with_and_without_intercept
def test_gap_is_value_minus_dual_value(problem):
    for point in random_points(problem):
        dual_value = problem.dual_value(point.dual)
        assert point.gap == pytest.approx(point.value - dual_value, rel=1e-9)


@every_loss
@every_design
@with_and_without_intercept
def test_gap_is_never_below_the_true_suboptimality(problem):
    best = best_value(problem)
    for point in random_points(problem):
        assert point.gap >= (point.value - best) * (1 - 1e-10)
        assert problem.dual_value(point.dual) <= best * (1 + 1e-10)


@every_loss
@every_design
@with_and_without_intercept
def test_gap_vanishes_at_the_solution(problem):
    solution = Newton(tol=1e-14, max_iter=200).solve(problem)
    assert problem.point(solution.coef, solution.intercept).relative_gap <= 1e-13


@every_loss
@every_design
@pytest.mark.parametrize("fit_intercept", [True])
def test_intercept_is_the_exact_minimiser(problem):
    for start in (0.0, -3.0, 50.0):
        point = problem.point(np.full(problem.design.n_coef, 0.3), start)
        assert abs(problem.y @ point.dual) <= 1e-12 * max(np.abs(point.dual).sum(), 1e-3)
        fixed = without_intercept(problem)
        for shift in (-1e-3, 1e-3, -0.5, 0.5):
            moved = fixed.point(point.coef, point.intercept + shift)
            assert moved.value >= point.value * (1 - 1e-13)


@every_loss
@every_design
@pytest.mark.parametrize("fit_intercept", [False])
def test_intercept_that_is_not_fitted_stays(problem):
    assert problem.point(np.ones(problem.design.n_coef), 0.25).intercept == 0.25


@every_loss
@every_design
@with_and_without_intercept
def test_step_ends_at_the_minimum_on_its_line(problem):
    point = problem.point(np.full(problem.design.n_coef, 0.2))
    direction, shift = -point.residual, 0.1 if problem.fit_intercept else 0.0
    moved, length = problem.step(point, direction, shift)
    assert length > 0
    assert moved.value < point.value
    fixed = without_intercept(problem)
    others = [
        fixed.point(point.coef + t * direction, point.intercept + t * shift).value
        for t in length * np.array([0.5, 0.9, 1.1, 2.0])
    ]
    # The search ends at a slope of 1e-3 of the first; the intercept is then moved as well.
    assert moved.value <= min(others) + 1e-5 * (point.value - moved.value)


@every_design
@with_and_without_intercept
@pytest.mark.parametrize("loss", LOSSES[:2], ids=str)
def test_step_uphill_has_length_zero(problem):
    point = problem.point(np.full(problem.design.n_coef, 0.2))
    moved, length = problem.step(point, point.residual, 0.0)
    assert (moved, length) == (point, 0.0)


@every_loss
@every_design
@with_and_without_intercept
def test_default_point_is_the_origin(problem):
    origin = problem.point()
    explicit = problem.point(np.zeros(problem.design.n_coef))
    assert (origin.value, origin.intercept) == (explicit.value, explicit.intercept)
    assert not origin.decision.any()


@pytest.mark.parametrize("design", ["dense"])
@pytest.mark.parametrize("loss", LOSSES[3:], ids=str)
@with_and_without_intercept
def test_without_C2_the_dual_is_feasible(problem):
    for point in random_points(problem):
        assert (point.dual >= 0).all()
        assert np.isfinite(problem.dual_value(point.dual))


def test_relative_gap_stays_meaningful_when_the_objective_is_near_zero():
    X = np.array([[1.0], [-1.0]])
    problem = MarginProblem(
        LOSSES[1], make_design("dense", X)[0], X[:, 0], np.full(2, 0.5), fit_intercept=False
    )
    point = problem.point(np.array([1e-9]))
    assert point.relative_gap == point.gap / max(point.value, abs(point.value - point.gap))
    tiny = MarginProblem(
        type(LOSSES[1])(1e-9, 1e-9, 0.0),
        problem.design,
        problem.y,
        problem.weight,
        fit_intercept=False,
    ).point()
    assert tiny.relative_gap == tiny.gap / 1e-3
