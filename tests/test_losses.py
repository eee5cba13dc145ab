"""What every loss promises to the problems built on it."""

import numpy as np
import pytest

from optimargin.losses import BandLoss, Loss
from optimargin.targets import Target
from tests.cases import LOSSES
from tests.python_losses import HuberLoss, LogisticLoss, PlainBand, SlopedBand

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

# A new loss is a row here.
EVERY_LOSS = [
    *LOSSES,
    PlainBand(64.0, 16.0, 0.2),
    PlainBand(4.0, 0.0, 0.3),
    HuberLoss(),
    LogisticLoss(),
]
every_loss = pytest.mark.parametrize("loss", EVERY_LOSS, ids=str)
every_band = pytest.mark.parametrize("loss", LOSSES, ids=str)


@pytest.fixture
def target():
    """Targets that are no labels, of either orientation and unequal weights."""
    rng = np.random.default_rng(1)
    weight = rng.uniform(0.1, 2.0, size=200)
    return Target(rng.normal(size=200), rng.choice([-1.0, 1.0], size=200), weight / weight.sum())


@pytest.fixture
def decision(target):
    """Decision values on both sides of every kink, none closer to one than 1e-4."""
    shortfall = np.random.default_rng(0).uniform(-3, 3, size=1000)
    kinks = np.array([k for loss in LOSSES for k in (-loss.D, loss.D)] + [-1.0, 1.0])
    shortfall = shortfall[np.abs(shortfall[:, None] - kinks).min(axis=1) > 1e-4][:200]
    return target.value - target.orientation * shortfall


def value_per_sample(loss, decision, target):
    return np.array(
        [
            loss.evaluate(decision[i : i + 1], Target(*_of_one(target, i), np.ones(1)))[0]
            for i in range(decision.size)
        ]
    )


def _of_one(target, i):
    return target.value[i : i + 1], target.orientation[i : i + 1]


def labels_of_one_class(n_samples):
    """Return a target for which a decision value is a margin."""
    return Target(np.ones(n_samples), np.ones(n_samples), np.ones(n_samples))


@every_loss
def test_value_is_the_weighted_sum_of_single_values(loss, decision, target):
    value = loss.evaluate(decision, target)[0]
    expected = target.weight @ value_per_sample(loss, decision, target)
    assert value == pytest.approx(expected, rel=1e-13)


@every_loss
def test_pull_is_minus_the_derivative(loss, decision, target):
    step = 1e-5
    rise = value_per_sample(loss, decision + step, target)
    rise -= value_per_sample(loss, decision - step, target)
    pull = loss.evaluate(decision, target)[1]
    np.testing.assert_allclose(pull, -target.weight * rise / (2 * step), rtol=1e-6, atol=1e-9)


@every_loss
def test_curvature_is_minus_the_derivative_of_pull(loss, decision, target):
    step = 1e-5
    rise = loss.evaluate(decision + step, target)[1] - loss.evaluate(decision - step, target)[1]
    curvature = loss.evaluate(decision, target)[2]
    np.testing.assert_allclose(curvature, -rise / (2 * step), rtol=1e-6, atol=1e-9)


@every_loss
def test_no_curvature_is_larger_than_the_smoothness(loss, decision, target):
    curvature = loss.evaluate(decision, target)[2]
    assert (curvature <= loss.smoothness * target.weight * (1 + 1e-14)).all()


@every_loss
def test_pull_vanishes_at_most_within_the_half_width_or_on_one_side(loss):
    slope = loss.terms(np.linspace(-5, 5, 1001))[1]
    shortfall = np.linspace(-5, 5, 1001)
    vanishes = (slope == 0) & (np.abs(shortfall) > loss.half_width + 1e-9)
    assert not (vanishes[shortfall > 0].any() and vanishes[shortfall < 0].any())


@every_loss
def test_an_offset_is_added_to_the_decision_values(loss, decision, target):
    value, pull, curvature = loss.evaluate(decision - 0.3, target, 0.3)
    expected = loss.evaluate(decision, target)
    assert value == pytest.approx(expected[0], rel=1e-13)
    np.testing.assert_allclose(pull, expected[1], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(curvature, expected[2], rtol=1e-13)


@every_loss
@pytest.mark.parametrize("t", [0.0, 0.3, -2.0])
def test_derivatives_along_a_line_follow_from_those_of_the_samples(loss, decision, target, t):
    step = np.random.default_rng(2).standard_normal(decision.size)
    for given in (
        {"step": step},
        {"step": step, "offset": 0.2, "step_offset": -0.7},
        {"offset": 0.2, "step_offset": 1.0},
    ):
        along = loss.derivatives(decision, target, t, **given)
        default = Loss.derivatives(loss, decision, target, t, **given)
        np.testing.assert_allclose(along, default, rtol=1e-12)
        moved = given.get("step", 0.0) + np.full(decision.size, given.get("step_offset", 0.0))
        at = decision + given.get("offset", 0.0) + t * moved
        _, pull, curvature = loss.evaluate(at, target)
        expected = [-pull @ moved, np.abs(pull * moved).sum(), curvature @ moved**2]
        np.testing.assert_allclose(along, expected, rtol=1e-12)


@every_loss
def test_loss_is_convex(loss):
    grid = np.linspace(-3, 4, 400)
    value = value_per_sample(loss, grid, labels_of_one_class(400))
    assert (value[1:-1] <= (value[:-2] + value[2:]) / 2 + 1e-12 * value.max()).all()


@every_loss
def test_curvature_is_never_negative(loss, decision, target):
    assert (loss.evaluate(decision, target)[2] >= 0).all()


@every_loss
def test_fenchel_inequality_is_tight_at_the_pull_of_a_decision(loss, decision, target):
    value, pull, _ = loss.evaluate(decision, target)
    conjugate = loss.conjugate(pull, target)
    assert value + conjugate == pytest.approx(-pull @ decision, rel=1e-12)


@every_loss
def test_fenchel_inequality_holds_at_any_pull(loss, decision, target):
    value, pull, _ = loss.evaluate(decision, target)
    rng = np.random.default_rng(2)
    for largest in (3, 1):
        for _ in range(20):
            other = pull * rng.uniform(0, largest, size=pull.size)
            assert value + loss.conjugate(other, target) >= -other @ decision - 1e-9 * value


@every_loss
def test_a_sample_without_weight_allows_no_pull_and_costs_nothing(loss):
    target = Target(np.array([1.0, -1.0]), np.array([1.0, -1.0]), np.array([1.0, 0.0]))
    value, pull, curvature = loss.evaluate(np.array([0.2, 5.0]), target)
    assert value == pytest.approx(loss.terms(np.array([0.8]))[0][0], rel=1e-14)
    assert (pull[1], curvature[1]) == (0, 0)
    assert np.isfinite(loss.conjugate(pull, target))


@every_band
def test_a_loss_on_many_samples_equals_the_sum_over_its_parts(loss):
    rng = np.random.default_rng(3)
    decision, value, weight = rng.normal(0, 2, size=(3, 300_001))
    orientation, weight = rng.choice([-1.0, 1.0], size=300_001), np.abs(weight)
    total, pull, curvature = loss.evaluate(decision, Target(value, orientation, weight))
    parts = [
        loss.evaluate(decision[k], Target(value[k], orientation[k], weight[k]))
        for k in np.array_split(np.arange(300_001), 7)
    ]
    assert total == pytest.approx(sum(part[0] for part in parts), rel=1e-12)
    np.testing.assert_array_equal(pull, np.concatenate([part[1] for part in parts]))
    np.testing.assert_array_equal(curvature, np.concatenate([part[2] for part in parts]))


@every_loss
def test_inputs_are_not_modified(loss, decision, target):
    for array in (decision, target.value, target.orientation, target.weight):
        array.flags.writeable = False
    _, pull, _ = loss.evaluate(decision, target, 0.1)
    loss.derivatives(decision, target, 0.5, step=decision, step_offset=0.1)
    pull.flags.writeable = False
    loss.conjugate(pull, target)
    loss.coordinate_step(target)


@every_band
def test_compiled_passes_equal_the_defaults_of_a_loss(loss, decision, target):
    plain = PlainBand(loss.C1, loss.C2, loss.D)
    for found, expected in zip(
        loss.evaluate(decision, target, 0.1), plain.evaluate(decision, target, 0.1), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    step = np.random.default_rng(4).normal(size=decision.size)
    along = {"offset": 0.1, "step": step, "step_offset": -0.2}
    np.testing.assert_allclose(
        loss.derivatives(decision, target, 0.7, **along),
        plain.derivatives(decision, target, 0.7, **along),
        rtol=1e-12,
    )
    pull = plain.evaluate(decision, target, 0.1)[1]
    assert loss.conjugate(pull, target) == pytest.approx(plain.conjugate(pull, target), rel=1e-12)
    for found, expected in zip(
        loss.terms(target.shortfall(decision)), plain.terms(target.shortfall(decision)), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-13)


@every_band
def test_parameters_move_the_quadratic_pieces_as_their_slopes_say(loss, decision, target):
    if loss.C2 == 0:
        loss = BandLoss(loss.C1, 1e-3, loss.D)
    step = 1e-6

    def pieces(log_C1=0.0, log_C2=0.0, D=0.0):
        moved = BandLoss(loss.C1 * np.exp(log_C1), loss.C2 * np.exp(log_C2), loss.D + D)
        _, pull, curvature = moved.evaluate(decision, target)
        active = curvature > 0
        aim = decision[active] + pull[active] / curvature[active]
        return active, np.log(curvature[active]), aim

    active = pieces()[0]
    _, pull, curvature = loss.evaluate(decision, target)
    of_active = Target(target.value[active], target.orientation[active], target.weight[active])
    log_curvature, aim = loss.parameter_slopes(pull[active], curvature[active], of_active)
    assert loss.parameters == ("log C1", "log C2", "D")
    for k, name in enumerate(["log_C1", "log_C2", "D"]):
        ahead, behind = pieces(**{name: step}), pieces(**{name: 0.0 if name == "D" else -step})
        np.testing.assert_array_equal(ahead[0], active)
        width = step if name == "D" else 2 * step
        rises = [(a - b) / width for a, b in zip(ahead[1:], behind[1:], strict=True)]
        np.testing.assert_allclose(log_curvature[k], rises[0], atol=1e-7)
        np.testing.assert_allclose(aim[k], rises[1], atol=1e-7)


def test_a_loss_without_parameters_has_no_slopes(decision, target):
    _, pull, curvature = HuberLoss().evaluate(decision, target)
    for slopes in HuberLoss().parameter_slopes(pull, curvature, target):
        assert slopes.shape == (0, decision.size)
    assert SlopedBand(1.0, 1.0, 0.1).parameters == BandLoss.parameters


def test_band_loss_is_zero_on_the_closed_band_alone():
    loss = BandLoss(C1=3.0, C2=5.0, D=0.25)
    margin = np.array([0.75 - 1e-9, 0.75, 1.0, 1.25, 1.25 + 1e-9])
    value = value_per_sample(loss, margin, labels_of_one_class(5))
    np.testing.assert_array_equal(value == 0, [False, True, True, True, False])
    curvature = loss.evaluate(margin, labels_of_one_class(5))[2]
    np.testing.assert_array_equal(curvature, [6, 0, 0, 0, 10])


def test_band_loss_matches_its_formula():
    loss = BandLoss(C1=3.0, C2=5.0, D=0.25)
    margin = np.linspace(-2, 3, 41)
    below, above = np.maximum(0, 0.75 - margin), np.maximum(0, margin - 1.25)
    value = value_per_sample(loss, margin, labels_of_one_class(41))
    np.testing.assert_allclose(value, 3 * below**2 + 5 * above**2)


def test_without_C2_a_margin_above_the_band_costs_nothing():
    value, pull, curvature = BandLoss(2.0, 0.0, 0.1).evaluate(
        np.array([5.0]), labels_of_one_class(1)
    )
    assert (value, pull[0], curvature[0]) == (0, 0, 0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_without_C2_a_pull_against_the_orientation_is_infeasible(sign):
    signs = np.full(2, sign)
    target = Target(signs, signs, np.ones(2))
    for loss in (BandLoss(2.0, 0.0, 0.1), PlainBand(2.0, 0.0, 0.1)):
        assert loss.conjugate(sign * np.array([1.0, -1e-12]), target) == np.inf
        assert np.isfinite(loss.conjugate(sign * np.array([1.0, 0.0]), target))


def test_a_pull_on_a_sample_without_weight_is_infeasible():
    target = Target(np.ones(2), np.ones(2), np.array([1.0, 0.0]))
    for loss in (BandLoss(2.0, 1.0, 0.1), PlainBand(2.0, 1.0, 0.1)):
        assert loss.conjugate(np.array([1.0, 1e-12]), target) == np.inf
        assert np.isfinite(loss.conjugate(np.array([1.0, 0.0]), target))


def test_equal_penalties_without_band_are_the_square_loss():
    margin = np.linspace(-3, 5, 50)
    weight = np.full(50, 0.02)
    target = Target(np.ones(50), np.ones(50), weight)
    value, pull, curvature = BandLoss(7.0, 7.0, 0.0).evaluate(margin, target)
    assert value == pytest.approx(7 * weight @ (1 - margin) ** 2, rel=1e-14)
    np.testing.assert_allclose(pull, 14 * weight * (1 - margin), atol=1e-15)
    np.testing.assert_allclose(curvature, 14 * weight)
