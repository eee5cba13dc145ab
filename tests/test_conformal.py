"""Quantiles, intervals and sets, against their definitions."""

import numpy as np
import pytest
from sklearn.base import clone

from optimargin import LinearODMClassifier, ODMClassifier
from optimargin.conformal import check_levels, conforming, conformities, intervals, quantiles

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

LEVELS = np.array([0.5, 0.8, 0.9])


def test_quantiles_count_one_more_sample():
    values = np.random.default_rng(0).permutation(19)[None].astype(float)  # 0, ..., 18
    found = quantiles(values, np.ones(19), np.array([0.5, 0.9, 0.95, 0.951]))
    np.testing.assert_array_equal(found, [[9, 17, 18, np.inf]])


def test_weights_are_repetitions():
    rng = np.random.default_rng(0)
    values, times = rng.normal(size=(5, 30)), rng.integers(1, 4, size=30)
    repeated = np.repeat(np.arange(30), times)
    np.testing.assert_array_equal(
        quantiles(values, times.astype(float), LEVELS),
        quantiles(values[:, repeated], np.ones(repeated.size), LEVELS),
    )
    new, own = rng.normal(size=(5, 30)), rng.normal(size=30)
    np.testing.assert_array_equal(
        conforming(new, own, times.astype(float), LEVELS),
        conforming(new[:, repeated], own[repeated], np.ones(repeated.size), LEVELS),
    )


@pytest.mark.parametrize("method", ["plus", "minmax", "base"])
def test_intervals_are_those_of_their_definition(method):
    rng = np.random.default_rng(1)
    points, values, residuals = rng.normal(size=4), rng.normal(size=(4, 39)), rng.uniform(size=39)
    found = intervals(method, points, values, residuals, np.ones(39), np.array([0.9]))[..., 0]
    k = 36 - 1  # ceil(0.9 * 40)
    for i in range(4):
        if method == "plus":
            low = -np.sort(-(values[i] - residuals))[k]
            high = np.sort(values[i] + residuals)[k]
        else:
            width = np.sort(residuals)[k]
            ends = (values[i].min(), values[i].max()) if method == "minmax" else (points[i],) * 2
            low, high = ends[0] - width, ends[1] + width
        np.testing.assert_allclose(found[i], [low, high])


def test_conformity_is_the_margin_of_a_class():
    np.testing.assert_array_equal(conformities(np.array([[2.0], [-1.0]])), [[-2, 2], [1, -1]])
    several = conformities(np.array([[1.0, 3.0, 2.0]]))
    np.testing.assert_array_equal(several, [[-2, 1, -1]])


def test_too_few_samples_conform_with_everything():
    own = np.arange(5.0)
    new = np.full((1, 1), -100.0)
    np.testing.assert_array_equal(
        conforming(new, own, np.ones(5), np.array([0.8, 0.9])), [[False, True]]
    )


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 2, [0.5, 1.5], np.nan, "high", None, [], True])
def test_bad_levels_are_named(level):
    with pytest.raises(ValueError, match="confidence_level"):
        check_levels(level)


def test_good_levels_become_an_array():
    assert check_levels(0.9).shape == (1,)
    assert check_levels([0.8, 0.9]).shape == (2,)


def test_ties_conform_however_they_are_rounded():
    own = np.linspace(-1, 1, 9)
    rng = np.random.default_rng(0)
    for scale in (1.0, 1e-4, 1e6):
        for digits in (1e-8, 1e-15):
            new = scale * (np.tile(own, (20, 1)) + digits * rng.uniform(-1, 1, (20, 9)))
            assert conforming(new, scale * own, np.ones(9), np.full(1, 0.1)).all()
        less = scale * (own - 1e-5)
        assert not conforming(less[None], scale * own, np.ones(9), LEVELS).any(axis=0)[:2].any()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [LinearODMClassifier, ODMClassifier])
def test_sets_of_the_samples_themselves_do_not_depend_on_rounding(kind, dtype, n_classes):
    rng = np.random.default_rng(1)
    X = rng.integers(-3, 4, size=(60, 2)) / 2.0  # many rows are equal
    y = (X[:, 0] + rng.normal(size=60) > 0).astype(int) + (X[:, 1] > 0) * (n_classes > 2)
    model = kind(C1=20.0, C2=20.0, D=0.0).fit(X.astype(dtype), y)
    expected = clone(model).fit(X, y).predict_set(X, LEVELS)[1]
    np.testing.assert_array_equal(model.predict_set(X, LEVELS)[1], expected)
