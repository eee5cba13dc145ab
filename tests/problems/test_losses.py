"""What every loss promises to the problems built on it."""

import numpy as np
import pytest

from optimargin.problems import ODMLoss
from optimargin.problems.losses import Loss
from tests.cases import LOSSES

every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)


@pytest.fixture
def margin():
    """Margins on both sides of every kink, none closer to one than 1e-4."""
    values = np.random.default_rng(0).uniform(-3, 4, size=200)
    kinks = np.array([k for loss in LOSSES for k in (1 - loss.D, 1 + loss.D)])
    return values[np.abs(values[:, None] - kinks).min(axis=1) > 1e-4]


@pytest.fixture
def weight(margin):
    weight = np.random.default_rng(1).uniform(0.1, 2.0, size=margin.size)
    return weight / weight.sum()


def value_per_sample(loss, margin):
    one = np.ones(1)
    return np.array([loss.evaluate(np.array([g]), one)[0] for g in margin])


@every_loss
def test_value_is_the_weighted_sum_of_single_values(loss, margin, weight):
    value = loss.evaluate(margin, weight)[0]
    assert value == pytest.approx(weight @ value_per_sample(loss, margin), rel=1e-13)


@every_loss
def test_dual_is_minus_the_derivative(loss, margin, weight):
    step = 1e-5
    rise = value_per_sample(loss, margin + step) - value_per_sample(loss, margin - step)
    dual = loss.evaluate(margin, weight)[1]
    np.testing.assert_allclose(dual, -weight * rise / (2 * step), rtol=1e-6, atol=1e-9)


@every_loss
def test_curvature_is_minus_the_derivative_of_dual(loss, margin, weight):
    step = 1e-5
    rise = loss.evaluate(margin + step, weight)[1] - loss.evaluate(margin - step, weight)[1]
    curvature = loss.evaluate(margin, weight)[2]
    np.testing.assert_allclose(curvature, -rise / (2 * step), rtol=1e-6, atol=1e-9)


@every_loss
@pytest.mark.parametrize("t", [0.0, 0.3, -2.0])
def test_derivatives_along_a_line_follow_from_those_of_the_samples(loss, margin, weight, t):
    slope = np.random.default_rng(2).standard_normal(margin.size)
    along = loss.derivatives(margin, slope, weight, t)
    np.testing.assert_allclose(along, Loss.derivatives(loss, margin, slope, weight, t), rtol=1e-12)
    _, dual, curvature = loss.evaluate(margin + t * slope, weight)
    expected = [-dual @ slope, np.abs(dual * slope).sum(), curvature @ slope**2]
    np.testing.assert_allclose(along, expected, rtol=1e-12)


@every_loss
def test_loss_is_convex(loss):
    grid = np.linspace(-3, 4, 400)
    value = value_per_sample(loss, grid)
    assert (value[1:-1] <= (value[:-2] + value[2:]) / 2 + 1e-12 * value.max()).all()


@every_loss
def test_curvature_is_never_negative(loss, margin, weight):
    assert (loss.evaluate(margin, weight)[2] >= 0).all()


@every_loss
def test_fenchel_inequality_is_tight_at_the_dual_of_a_margin(loss, margin, weight):
    value, dual, _ = loss.evaluate(margin, weight)
    conjugate = loss.conjugate(dual, weight)
    assert value + conjugate == pytest.approx(-dual @ margin, rel=1e-12)


@every_loss
def test_fenchel_inequality_holds_at_any_dual(loss, margin, weight):
    value, dual, _ = loss.evaluate(margin, weight)
    rng = np.random.default_rng(2)
    for _ in range(20):
        other = dual * rng.uniform(0, 3, size=dual.size)
        assert value + loss.conjugate(other, weight) >= -other @ margin - 1e-9 * value


@every_loss
def test_a_loss_on_many_samples_equals_the_sum_over_its_parts(loss):
    rng = np.random.default_rng(3)
    margin, weight = rng.normal(1, 2, size=300_001), rng.uniform(size=300_001)
    value, dual, curvature = loss.evaluate(margin, weight)
    parts = [loss.evaluate(*part) for part in np.array_split(np.array([margin, weight]), 7, axis=1)]
    assert value == pytest.approx(sum(part[0] for part in parts), rel=1e-12)
    np.testing.assert_array_equal(dual, np.concatenate([part[1] for part in parts]))
    np.testing.assert_array_equal(curvature, np.concatenate([part[2] for part in parts]))


@every_loss
def test_inputs_are_not_modified(loss, margin, weight):
    margin.flags.writeable = weight.flags.writeable = False
    _, dual, _ = loss.evaluate(margin, weight)
    dual.flags.writeable = False
    loss.conjugate(dual, weight)


def test_odm_loss_is_zero_on_the_closed_band_alone():
    loss = ODMLoss(C1=3.0, C2=5.0, D=0.25)
    margin = np.array([0.75 - 1e-9, 0.75, 1.0, 1.25, 1.25 + 1e-9])
    value = value_per_sample(loss, margin)
    np.testing.assert_array_equal(value == 0, [False, True, True, True, False])
    np.testing.assert_array_equal(loss.evaluate(margin, np.ones(5))[2], [6, 0, 0, 0, 10])


def test_odm_loss_matches_its_formula():
    loss = ODMLoss(C1=3.0, C2=5.0, D=0.25)
    margin = np.linspace(-2, 3, 41)
    below, above = np.maximum(0, 0.75 - margin), np.maximum(0, margin - 1.25)
    np.testing.assert_allclose(value_per_sample(loss, margin), 3 * below**2 + 5 * above**2)


def test_without_C2_a_margin_above_the_band_costs_nothing():
    value, dual, curvature = ODMLoss(2.0, 0.0, 0.1).evaluate(np.array([5.0]), np.ones(1))
    assert (value, dual[0], curvature[0]) == (0, 0, 0)


def test_without_C2_a_negative_dual_is_infeasible():
    loss = ODMLoss(2.0, 0.0, 0.1)
    assert loss.conjugate(np.array([1.0, -1e-12]), np.ones(2)) == np.inf
    assert np.isfinite(loss.conjugate(np.array([1.0, 0.0]), np.ones(2)))


def test_equal_prices_without_band_are_the_square_loss():
    margin = np.linspace(-3, 5, 50)
    weight = np.full(50, 0.02)
    value, dual, curvature = ODMLoss(7.0, 7.0, 0.0).evaluate(margin, weight)
    assert value == pytest.approx(7 * weight @ (1 - margin) ** 2, rel=1e-14)
    np.testing.assert_allclose(dual, 14 * weight * (1 - margin), atol=1e-15)
    np.testing.assert_allclose(curvature, 14 * weight)
