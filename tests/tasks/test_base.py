"""What all tasks share."""

import numpy as np
import pytest

from optimargin.tasks import Classification, OneClass, Regression
from optimargin.tasks.base import checked_total

pytestmark = pytest.mark.quick

Y = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
WEIGHT = np.array([1.0, 2.0, 0.0, 1.0, 3.0])


@pytest.mark.parametrize(
    "task",
    [
        Classification.from_labels(Y, WEIGHT),
        Regression.from_values(Y, WEIGHT, fit_intercept=True),
        OneClass.of(len(Y), WEIGHT),
    ],
    ids=lambda task: type(task).__name__,
)
def test_weights_sum_to_one_and_no_target_is_larger_than_said(task):
    targets = task.encode(Y, WEIGHT)
    assert len(targets) == task.n_outputs == len(task.scales)
    for target in targets:
        assert target.weight.sum() == pytest.approx(1.0)
        assert np.abs(target.value).max() <= task.largest_target
    part = task.part(Y[:4], WEIGHT[:4])
    for target in part.encode(Y[:4], WEIGHT[:4]):
        assert target.weight.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("total", "message"), [(0.0, "zero for every"), (np.inf, "overflows")])
def test_sums_of_weights_that_are_of_no_use_are_named(total, message):
    with pytest.raises(ValueError, match=message):
        checked_total(total)
