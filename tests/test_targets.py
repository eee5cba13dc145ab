"""Targets of some samples, and values in other units."""

import numpy as np
import pytest

from optimargin.targets import Scale, Target, shared_weight

pytestmark = pytest.mark.quick

ONES = np.ones(4)
TARGET = Target(np.array([1.0, -1, 1, -1]), np.array([1.0, -1, 1, -1]), ONES / 4)


def test_shortfalls_count_in_the_direction_of_the_orientation():
    np.testing.assert_array_equal(TARGET.shortfall(np.array([0.0, 0, 3, 3])), [1, 1, -2, 4])


def test_weights_of_some_samples_sum_to_one_or_are_divided_by_a_total():
    assert TARGET.take([0, 1]).weight.tolist() == [0.5, 0.5]
    assert TARGET.take([0, 1], total=1.0).weight.tolist() == [0.25, 0.25]


def test_what_is_left_out_loses_its_share_of_the_weight():
    assert TARGET.without([1]).weight.tolist() == [0.25, 0, 0.25, 0.25]
    assert TARGET.without([1], share=0.5).weight.tolist() == [0.25, 0.125, 0.25, 0.25]
    assert TARGET.weight.tolist() == [0.25] * 4


def test_a_model_in_other_units_decides_alike():
    scale, coef, intercept = Scale(center=3.0, unit=4.0), np.array([2.0]), 5.0
    inner = scale.standardised(coef, intercept)
    assert scale.restored(inner[0] * 7.0 + inner[1]) == coef * 7.0 + intercept


def test_samples_have_the_weight_of_any_output_that_needs_them():
    assert shared_weight([TARGET, TARGET]) is TARGET.weight
    halves = [TARGET.without([0, 1]), TARGET.without([2, 3])]
    np.testing.assert_array_equal(shared_weight(halves), TARGET.weight)
