"""Objective, gradient, intercept and certificate, once over all losses and designs."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

from optimargin import LinearODMClassifier
from optimargin.certificates import gap_floor_of_labels
from optimargin.losses import BandLoss
from optimargin.problems import AdditiveProblem, relative_gap
from optimargin.solvers import Newton
from optimargin.targets import Target
from tests.cases import DESIGNS, LOSSES, make_design, make_problem, two_classes
from tests.sampling import pairwise

pytestmark = pytest.mark.numbers

every_problem = pytest.mark.parametrize(
    ("loss", "design", "fit_intercept"), pairwise(LOSSES, list(DESIGNS), [True, False]), ids=str
)
with_intercept = pytest.mark.parametrize(
    ("loss", "design", "fit_intercept"), pairwise(LOSSES, list(DESIGNS), [True]), ids=str
)
without_an_intercept = pytest.mark.parametrize(
    ("loss", "design", "fit_intercept"), pairwise(LOSSES, list(DESIGNS), [False]), ids=str
)


@pytest.fixture
def problem(loss, design, fit_intercept):
    X, y = two_classes(40, 4)
    weight = np.random.default_rng(5).uniform(0.2, 3.0, size=40)
    return make_problem(loss, make_design(design, X)[0], y, weight, fit_intercept=fit_intercept)


def random_points(problem, n_points=4):
    rng = np.random.default_rng(6)
    size = problem.design.n_coef
    start = 0.4 if problem.fit_intercept else 0.0
    return [problem.point(rng.normal(size=size) * 3.0**k, start) for k in range(-2, n_points - 2)]


def without_intercept(problem):
    return AdditiveProblem(problem.loss, problem.design, problem.target, fit_intercept=False)


def best_value(problem):
    return Newton(tol=1e-14, max_iter=200).solve(problem).objective


@every_problem
def test_value_is_half_the_squared_norm_plus_the_loss(problem):
    for point in random_points(problem):
        design = problem.design
        norm = point.coef @ design.metric(point.coef)
        decision = design.decision(point.coef) + point.intercept
        loss = problem.loss.evaluate(decision, problem.target)[0]
        assert point.value == pytest.approx(norm / 2 + loss, rel=1e-12)


@every_problem
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


@every_problem
def test_gap_is_value_minus_dual_value(problem):
    for point in random_points(problem):
        dual_value = problem.dual_value(point.pull)
        assert point.gap == pytest.approx(point.value - dual_value, rel=1e-9)


@every_problem
def test_gap_is_never_below_the_true_suboptimality(problem):
    best = best_value(problem)
    for point in random_points(problem):
        assert point.gap >= (point.value - best) * (1 - 1e-10)
        assert problem.dual_value(point.pull) <= best * (1 + 1e-10)


@every_problem
def test_gap_vanishes_at_the_solution(problem):
    solution = Newton(tol=1e-14, max_iter=200).solve(problem)
    assert problem.point(solution.coef, solution.intercept).relative_gap <= 1e-13


@with_intercept
def test_intercept_is_the_exact_minimiser(problem):
    for start in (0.0, -3.0, 50.0):
        point = problem.point(np.full(problem.design.n_coef, 0.3), start)
        assert abs(point.pull.sum()) <= 1e-12 * max(np.abs(point.pull).sum(), 1e-3)
        fixed = without_intercept(problem)
        for shift in (-1e-3, 1e-3, -0.5, 0.5):
            moved = fixed.point(point.coef, point.intercept + shift)
            assert moved.value >= point.value * (1 - 1e-13)


@without_an_intercept
def test_intercept_that_is_not_fitted_stays(problem):
    assert problem.point(np.ones(problem.design.n_coef), 0.25).intercept == 0.25


@every_problem
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


@pytest.mark.parametrize(
    ("loss", "design", "fit_intercept"), pairwise(LOSSES[:2], list(DESIGNS), [True, False]), ids=str
)
def test_step_uphill_has_length_zero(problem):
    point = problem.point(np.full(problem.design.n_coef, 0.2))
    moved, length = problem.step(point, point.residual, 0.0)
    assert (moved, length) == (point, 0.0)


@every_problem
def test_default_point_is_the_origin(problem):
    origin = problem.point()
    explicit = problem.point(np.zeros(problem.design.n_coef))
    assert (origin.value, origin.intercept) == (explicit.value, explicit.intercept)
    assert not origin.decision.any()


@pytest.mark.parametrize("design", ["dense"])
@pytest.mark.parametrize("loss", LOSSES[3:], ids=str)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_C2_the_dual_is_feasible(problem):
    for point in random_points(problem):
        assert (problem.target.orientation * point.pull >= 0).all()
        assert np.isfinite(problem.dual_value(point.pull))


@every_problem
def test_curvature_after_a_step_is_that_of_the_point_there(problem):
    point = problem.point(np.full(problem.design.n_coef, 0.2))
    step = np.random.default_rng(8).normal(size=problem.design.n_coef)
    moved = without_intercept(problem).point(point.coef + step, point.intercept + 0.1)
    curvature = problem.curvature_after(point, step, 0.1)
    np.testing.assert_allclose(curvature, moved.curvature, rtol=1e-13)


@pytest.mark.parametrize("loss", LOSSES[:2], ids=str)
@pytest.mark.parametrize("design", ["dense", "gram"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_problem_without_samples_keeps_the_weights_of_the_others(problem):
    rows = np.array([0, 3, 7])
    reduced = problem.without(rows)
    kept = np.setdiff1d(np.arange(40), rows)
    assert not reduced.target.weight[rows].any()
    np.testing.assert_array_equal(reduced.target.weight[kept], problem.target.weight[kept])
    assert reduced.target.weight[kept].sum() < 1 == pytest.approx(problem.target.weight.sum())
    assert not reduced.point(np.ones(problem.design.n_coef)).pull[rows].any()


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_part_of_the_samples_is_a_problem_of_its_own(fit_intercept):
    X, y = two_classes(40, 4)
    weight = np.random.default_rng(5).uniform(0.2, 3.0, size=40)
    rows = np.arange(0, 40, 3)
    whole = make_problem(
        LOSSES[1], make_design("dense", X)[0], y, weight, fit_intercept=fit_intercept
    )
    part = whole.over(whole.design.take(rows), rows)
    alone = make_problem(
        LOSSES[1],
        make_design("dense", X[rows])[0],
        y[rows],
        weight[rows],
        fit_intercept=fit_intercept,
    )
    assert part.target.weight.sum() == pytest.approx(1.0, rel=1e-14)
    coef = np.ones(4)
    assert part.point(coef).value == pytest.approx(alone.point(coef).value, rel=1e-13)
    again = whole.over(make_design("gram", X)[0])
    assert best_value(again) == pytest.approx(best_value(whole), rel=1e-12)


@pytest.mark.parametrize("design", ["dense", "gram"])
@pytest.mark.parametrize("orientation", [1.0, -1.0])
def test_targets_need_not_be_labels(design, orientation):
    """Numbers as targets, with equal penalties and no band: weighted ridge regression."""
    X, _ = two_classes(40, 4)
    rng = np.random.default_rng(3)
    value = X @ rng.normal(size=4) + rng.normal(size=40)
    weight = rng.uniform(0.5, 2.0, size=40)
    target = Target(value, np.full(40, orientation), weight / weight.sum())
    made, _ = make_design(design, X)
    problem = AdditiveProblem(BandLoss(8.0, 8.0, 0.0), made, target, fit_intercept=True)
    found = Newton(tol=1e-12, max_iter=50).solve(problem)
    Z = np.column_stack([X, np.ones(40)])
    ridge = np.diag([1.0, 1.0, 1.0, 1.0, 0.0])
    w = np.linalg.solve(
        ridge + 16 * Z.T @ (target.weight[:, None] * Z), 16 * Z.T @ (target.weight * value)
    )
    np.testing.assert_allclose(made.decision(found.coef) + found.intercept, Z @ w, atol=1e-9)


def test_relative_gap_stays_meaningful_when_the_objective_is_near_zero():
    X = np.array([[1.0], [-1.0]])
    design = make_design("dense", X)[0]
    problem = make_problem(LOSSES[1], design, X[:, 0], fit_intercept=False)
    point = problem.point(np.array([1e-9]))
    assert point.relative_gap == point.gap / max(point.value, abs(point.value - point.gap))
    loss = BandLoss(1e-9, 1e-9, 0.0)
    tiny = make_problem(loss, design, X[:, 0], fit_intercept=False).point()
    floor = max(tiny.value, abs(tiny.value - tiny.gap), gap_floor_of_labels(loss))
    assert tiny.relative_gap == tiny.gap / floor


@pytest.mark.parametrize("value", [1.0, np.inf])
@pytest.mark.parametrize("gap", [np.inf, np.nan])
def test_a_gap_that_is_no_number_is_infinite_relative_to_any_objective(value, gap):
    assert relative_gap(value, gap) == np.inf


@pytest.mark.parametrize("solver", ["newton_cg", "dcd"])
def test_small_penalties_are_met_to_the_same_relative_gap(solver):
    # Features in large units have small default penalties; the model must not depend on that.
    X, y = make_classification(400, 6, random_state=0)
    expected = LinearODMClassifier(solver=solver, tol=1e-10).fit(X, y).decision_function(X)
    model = LinearODMClassifier(solver=solver, tol=1e-10).fit(1e6 * X, y)
    assert model.C1_ < 1e-6
    np.testing.assert_allclose(model.decision_function(1e6 * X), expected, atol=1e-4)
