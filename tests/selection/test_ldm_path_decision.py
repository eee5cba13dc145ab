"""Decision values of test samples over a grid are those of the path."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from optimargin import ldm_path, ldm_path_decision
from tests.cases import two_classes

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

GRID = {"Cs": [1.0, 100.0], "lambda1s": [0.0, 0.1, 10.0], "lambda2s": [0.0, 0.5]}


@pytest.fixture(scope="module")
def data():
    X, y = two_classes(60)
    X, X_test = X[:45], X[45:]
    return X @ X.T, y[:45], X_test @ X.T


@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_point_predicts_as_the_model_of_the_path(data, n_classes):
    K, y, K_test = data
    if n_classes == 3:
        y = np.repeat(["a", "b", "c"], 15)
    path = ldm_path(K, y, **GRID, kernel="precomputed", fit_intercept=False, tol=1e-10)
    decision = ldm_path_decision(K, y, K_test, **GRID)
    assert decision.shape == (2, 3, 2, 15, 1 if n_classes == 2 else 3)
    for point, coef in zip(path.params, path.coef, strict=True):
        at = tuple(GRID[f"{name}s"].index(point[name]) for name in ("C", "lambda1", "lambda2"))
        expected = K_test @ coef.T
        assert_allclose(decision[at], expected, atol=1e-3 * np.abs(expected).max())


def test_by_default_the_grid_is_the_papers(data):
    assert ldm_path_decision(*data).shape == (3, 7, 7, 15, 1)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"Cs": [0]}, "Cs has values"),
        ({"Cs": [np.inf]}, "Cs has values"),
        ({"Cs": [1e300]}, "C=1e\\+300 is too large"),
        ({"lambda1s": []}, "lambda1s must be a list"),
        ({"lambda2s": "all"}, "lambda2s='all' is unknown"),
        ({"K": np.ones((45, 44))}, "must be square"),
        ({"K_test": np.ones((2, 44))}, "K_test has 44 columns"),
        ({"K_test": np.full((2, 45), np.nan)}, "NaN"),
        ({"y": np.zeros(45)}, "one class only"),
        ({"margin_tol": 0.0}, "margin_tol must be positive"),
    ],
)
def test_bad_arguments_are_named(data, bad, message):
    K, y, K_test = data
    with pytest.raises(ValueError, match=message):
        ldm_path_decision(**{"K": K, "y": y, "K_test": K_test, **bad})
