"""Truncated Newton where its linear systems are hard."""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification

from optimargin import LinearODMClassifier, ODMClassifier

CORNERS = list(itertools.product([64.0, 1024.0], [1.0, 1024.0], [0.0, 0.5]))
every_corner = pytest.mark.parametrize("prices", CORNERS, ids=str)
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(250, 8, n_informative=5, flip_y=0.1, random_state=0)
    return (X - X.min(axis=0)) / np.ptp(X, axis=0), y


def fit_without_warning(model, data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return model.set_params(solver="newton_cg", tol=1e-8).fit(*data)


@every_corner
@with_and_without_intercept
@pytest.mark.parametrize("gamma", [0.5, 2.0, 8.0, 32.0])
def test_kernels_of_any_width_are_solved_at_large_prices(data, prices, fit_intercept, gamma):
    model = ODMClassifier(*prices, gamma=gamma, fit_intercept=fit_intercept)
    assert fit_without_warning(model, data).dual_gap_ <= 1e-8
    assert model.n_iter_ <= 40


@every_corner
@with_and_without_intercept
def test_linear_models_are_solved_at_large_prices(data, prices, fit_intercept):
    model = LinearODMClassifier(*prices, fit_intercept=fit_intercept)
    assert fit_without_warning(model, data).dual_gap_ <= 1e-8
