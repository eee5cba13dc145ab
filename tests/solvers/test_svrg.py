"""Stochastic gradients with a step that is safe without tuning."""

import numpy as np
import pytest

from optimargin import LinearODMClassifier

pytestmark = [pytest.mark.quick, pytest.mark.numbers]


@pytest.mark.filterwarnings("ignore:.*stopped at iteration")
def test_no_scale_of_the_features_makes_it_diverge():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n_samples, n_features = rng.integers(30, 200), rng.integers(2, 20)
        X = rng.standard_normal((n_samples, n_features)) * 10 ** rng.uniform(-3, 3, n_features)
        y = np.where(rng.random(n_samples) < 0.4, 1, -1)
        y[:2] = 1, -1
        C1 = 10 ** rng.uniform(-1, 3)
        model = LinearODMClassifier(C1, C1 / 4, 0.2, solver="svrg", max_iter=20, random_state=seed)
        model.set_params(fit_intercept=bool(seed % 2)).fit(X, y)
        assert np.isfinite(model.coef_).all()
        assert model.objective_ <= C1 * 0.8**2 * (1 + 1e-9)  # that of w = 0
