"""Normal samples: every target is one."""

import numpy as np
import pytest

from optimargin.tasks import OneClass

pytestmark = pytest.mark.quick


def test_one_output_more_per_fold_whose_samples_it_does_not_see():
    task = OneClass.from_parts([4.0, 6.0], n_folds=3, seed=1)
    whole, *without = task.encode(range(10))
    assert task.n_outputs == 4
    assert (whole.value == 1).all()
    assert whole.weight.sum() == pytest.approx(1.0)
    fold = task.fold(10)
    for k, target in enumerate(without):
        np.testing.assert_array_equal(target.weight == 0, fold == k)
    np.testing.assert_array_equal(task.fold(10), fold)


def test_negative_scores_are_outliers():
    assert OneClass.of(1).decode(np.array([[0.1], [-0.1], [0.0]])).tolist() == [1, -1, 1]


def test_errors_are_what_scores_lack():
    (target,) = OneClass.of(2).encode(range(2))
    assert OneClass.held_out_error(target, np.array([0.5, 2.0])) == pytest.approx(0.25)
