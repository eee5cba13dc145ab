"""Criteria are not fooled by decision values that are noise."""

import numpy as np
import pytest

from optimargin import ODMClassifierCV
from optimargin.selection.criteria import NEGLIGIBLE, smooth_loss


def noisy_features(seed, n_samples=1000, n_features=500, shift=0.3):
    """Return balanced classes that eight of many features tell apart, a little."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % 2
    X = rng.normal(size=(n_samples, n_features))
    X[:, :8] += shift * (2 * y[:, None] - 1)
    return X, y


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-16, 1e-9])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_negligible_decision_values_cost_one_half(size, n_outputs):
    rng = np.random.default_rng(0)
    encoded = rng.integers(0, max(n_outputs, 2), 50)
    decision = size * rng.normal(size=(50, n_outputs))
    loss, slope = smooth_loss(decision, encoded, np.full(50, 1 / 50))
    assert loss == pytest.approx(0.5, abs=1e-2)
    assert np.isfinite(slope).all()


def test_the_slope_is_that_of_the_loss_on_both_sides_of_the_threshold():
    rng = np.random.default_rng(0)
    encoded, weight = rng.integers(0, 2, 30), np.full(30, 1 / 30)
    values = rng.normal(size=(30, 1))
    for size in (0.1 * NEGLIGIBLE, 10 * NEGLIGIBLE):
        decision = size * values
        _, slope = smooth_loss(decision, encoded, weight)
        for i in range(0, 30, 7):
            step = np.zeros((30, 1))
            step[i] = 1e-5 * size
            up, down = (smooth_loss(decision + s * step, encoded, weight)[0] for s in (1, -1))
            assert slope[i, 0] == pytest.approx((up - down) / (2e-5 * size), rel=1e-4)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_many_noise_features_do_not_lead_the_search_to_chance(seed):
    X, y = noisy_features(seed)
    model = ODMClassifierCV(max_evals=20).fit(X[:500], y[:500])
    assert model.score(X[500:], y[500:]) > 0.6
