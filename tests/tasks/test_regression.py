"""Numbers become targets of unit size, and scores become numbers."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from optimargin.tasks import Regression, as_numbers
from optimargin.tasks.regression import Moments

pytestmark = pytest.mark.quick

RNG = np.random.default_rng(0)
Y = 1e6 + 1e3 * RNG.normal(size=(30, 2))
WEIGHT = RNG.uniform(size=30)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_targets_have_unit_size_and_lead_back_to_y(fit_intercept):
    task = Regression.from_values(Y, WEIGHT, fit_intercept=fit_intercept)
    for k, target in enumerate(task.encode(Y, WEIGHT)):
        spread = np.sqrt(target.weight @ target.value**2)
        assert 0.5 <= spread <= 1
        assert spread == pytest.approx(target.scale.deviation)
        np.testing.assert_allclose(target.scale.restored(target.value), Y[:, k], rtol=1e-14)
        assert (target.scale.center == 0) == (not fit_intercept)


def test_moments_of_chunks_are_those_of_all():
    whole = Moments.of(Y, WEIGHT)
    joined = Moments.of(Y[:7], WEIGHT[:7]).joined(Moments.of(Y[7:], WEIGHT[7:]))
    for name in ("total", "mean", "square", "low", "high"):
        np.testing.assert_allclose(getattr(joined, name), getattr(whole, name), rtol=1e-10)
    empty = Moments.of(Y[:3], np.zeros(3))
    np.testing.assert_array_equal(empty.joined(whole).mean, whole.mean)


def test_constant_targets_are_known():
    y = np.column_stack([np.full(5, 3.0), np.arange(5.0)])
    assert Regression.from_values(y, fit_intercept=True).constant == [0]


def test_one_column_is_a_vector():
    task = Regression.from_values(Y[:, 0], fit_intercept=True)
    assert task.decode(np.zeros((4, 1))).shape == (4,)
    assert Regression.of_stream(2).decode(np.zeros((4, 2))).shape == (4, 2)


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (csr_array(np.eye(2)), TypeError, "y is sparse"),
        (np.array(["1", "2"]), ValueError, "text instead of numbers"),
        (np.array([1j]), ValueError, "complex"),
        (np.zeros((2, 0)), ValueError, "one number per sample"),
        (np.array([1.0, None, []], dtype=object), ValueError, "no numbers"),
        (np.array([np.nan]), ValueError, "NaN"),
    ],
)
def test_what_is_no_number_is_named(y, error, message):
    with pytest.raises(error, match=message):
        as_numbers(y)


def test_numbers_that_a_model_cannot_hold_are_named():
    with pytest.raises(ValueError, match="squares overflow"):
        Regression.from_values(np.array([0.0, 1e200]), fit_intercept=True)
    with pytest.raises(ValueError, match="float32 models cannot hold"):
        Regression.from_values(np.array([0.0, 1e35]), fit_intercept=True, dtype=np.float32)
    with pytest.raises(ValueError, match="different numbers of targets"):
        Moments.of(Y, WEIGHT).joined(Moments.of(Y[:, :1], WEIGHT))
