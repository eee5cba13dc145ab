"""Maps from decision values to probabilities."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, softmax

from optimargin.calibration import CALIBRATIONS, calibrate

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

every_kind = pytest.mark.parametrize("kind", sorted(CALIBRATIONS))


def sample(n_samples=300, n_classes=2, seed=0):
    """Return decision values whose log-odds are three times as large, less one, and classes."""
    rng = np.random.default_rng(seed)
    if n_classes == 2:
        decision = rng.normal(size=(n_samples, 1))
        return decision, (rng.uniform(size=n_samples) < expit(3 * decision[:, 0] - 1)).astype(int)
    decision = rng.normal(size=(n_samples, n_classes))
    drawn = [rng.choice(n_classes, p=p) for p in softmax(3 * decision, axis=1)]
    return decision, np.array(drawn)


def fitted(kind, decision, encoded, weight=None, **settings):
    weight = np.ones(len(encoded)) if weight is None else weight
    return calibrate(kind, decision, encoded, weight, **{"shiftable": True, **settings})


def test_a_sigmoid_finds_the_odds_that_samples_were_drawn_with():
    made = fitted("sigmoid", *sample(20_000))
    assert made.slope == pytest.approx(3, rel=0.05)
    assert made.slope * made.shift[0] == pytest.approx(-1, rel=0.1)


def test_the_sigmoid_is_that_of_platt():
    from sklearn.calibration import _SigmoidCalibration

    decision, encoded = sample()
    made = fitted("sigmoid", decision, encoded)
    expected = _SigmoidCalibration().fit(decision[:, 0], encoded).predict(decision[:, 0])
    found = made.probabilities(decision + made.shift)[:, 1]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_temperature_minimises_the_log_loss():
    decision, encoded = sample(2000, 4)
    made = fitted("temperature", decision, encoded)

    def log_loss(slope):
        return -np.log(softmax(slope * decision, axis=1)[np.arange(2000), encoded]).mean()

    best = minimize(lambda v: log_loss(v[0]), [1.0]).x[0]
    assert made.slope == pytest.approx(best, rel=0.02)
    assert not made.shift.any()


def test_several_classes_have_no_shift():
    decision, encoded = sample(300, 3)
    sigmoid, temperature = (fitted(k, decision, encoded) for k in ("sigmoid", "temperature"))
    assert sigmoid.slope == temperature.slope
    assert not sigmoid.shift.any()


def test_an_isotonic_map_follows_what_a_sigmoid_cannot():
    rng = np.random.default_rng(0)
    decision = rng.uniform(-1, 1, size=(20_000, 1))
    truth = np.where(decision[:, 0] < 0.2, 0.1, 0.95)
    encoded = (rng.uniform(size=20_000) < truth).astype(int)
    isotonic, sigmoid = (fitted(kind, decision, encoded) for kind in ("isotonic", "sigmoid"))

    def error(made):
        return np.abs(made.probabilities(decision + made.shift)[:, 1] - truth).mean()

    assert error(isotonic) < 0.02 < error(sigmoid)
    assert isotonic.shift[0] == pytest.approx(-0.2, abs=0.02)


@every_kind
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_probabilities_and_the_winner_is_the_most_probable(kind, n_classes):
    decision, encoded = sample(100, n_classes)
    made = fitted(kind, decision, encoded)
    for scale in (1e-300, 1e-8, 1.0, 1e3, 1e8):
        shifted = scale * (decision + made.shift)
        p = made.probabilities(shifted)
        assert p.shape == (100, n_classes)
        assert ((p >= 0) & (p <= 1)).all()
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
        winner = shifted[:, 0] > 0 if n_classes == 2 else shifted.argmax(axis=1)
        np.testing.assert_array_equal(p.argmax(axis=1), winner)


@every_kind
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_weight_is_a_number_of_repetitions(kind, n_classes):
    decision, encoded = sample(80, n_classes)
    times = np.random.default_rng(0).integers(0, 4, size=80)
    repeated = np.repeat(np.arange(80), times)
    weighted = fitted(kind, decision, encoded, times.astype(float))
    longer = fitted(kind, decision[repeated], encoded[repeated])
    np.testing.assert_allclose(
        weighted.probabilities(decision + weighted.shift),
        longer.probabilities(decision + longer.shift),
        atol=1e-7,
    )


@every_kind
def test_values_that_prefer_the_wrong_class_do_not_invert_the_model(kind):
    decision, encoded = sample()
    made = fitted(kind, -decision, encoded)
    assert made.slope > 0
    p = made.probabilities(np.linspace(-5, 5, 50)[:, None])[:, 1]
    assert (np.diff(p) > 0).all()


@every_kind
def test_separable_classes_get_finite_odds(kind):
    decision = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    made = fitted(kind, decision, np.array([0, 0, 1, 1]))
    p = made.probabilities(decision)[:, 1]
    assert ((p > 0) & (p < 1)).all()


@every_kind
def test_units_of_the_decision_values_do_not_matter(kind):
    decision, encoded = sample()
    expected = fitted(kind, decision, encoded).probabilities(decision)
    for unit in (1e-9, 1e9):
        made = fitted(kind, unit * decision, encoded)
        np.testing.assert_allclose(made.probabilities(unit * decision), expected, atol=1e-6)


def test_without_an_intercept_there_is_no_shift():
    assert not fitted("sigmoid", *sample(), shiftable=False).shift.any()


@pytest.mark.parametrize("kind", ["sigmoid", "isotonic", "temperature"])
def test_one_class_alone_moves_no_threshold(kind):
    decision = np.random.default_rng(0).normal(-0.5, 1.0, size=(50, 1))
    made = calibrate(kind, decision, np.zeros(50, dtype=int), np.ones(50), shiftable=True)
    assert not made.shift.any()
    assert made.slope > 0
