"""Splits and weights: what searches and folds left out take, and what they refuse in words."""

import numpy as np
import pytest

from optimargin import (
    LDMClassifierCV,
    LinearLDMClassifierCV,
    LinearODMClassifier,
    LinearODMClassifierCV,
    LinearODMRegressorCV,
    ODMClassifier,
    ODMClassifierCV,
    ODMRegressor,
    ODMRegressorCV,
    OneClassODM,
)
from tests.cases import two_classes

SEARCHES = [
    ODMClassifierCV,
    LinearODMClassifierCV,
    LDMClassifierCV,
    LinearLDMClassifierCV,
    ODMRegressorCV,
    LinearODMRegressorCV,
]
every_search = pytest.mark.parametrize("search", SEARCHES)
X, Y = two_classes(60, 3)

NOT_ROWS = {
    "beyond the last": ([99], "{} samples of split 1 from 99 to 99, and X has 60 samples"),
    "negative": ([-1], "{} samples of split 1 from -1 to -1"),
    "none": ([], "no {} samples of split 1"),
    "no integers": ([0.5], "{} samples of split 1 that are no list of indices"),
    "a table": ([[0, 1]], "{} samples of split 1 that are no list of indices"),
    "a short mask": ([True, False], "{} samples of split 1 that are no list of indices"),
}
every_mistake = pytest.mark.parametrize(("rows", "message"), NOT_ROWS.values(), ids=NOT_ROWS)


@every_search
@every_mistake
@pytest.mark.parametrize("part", ["training", "test"])
def test_a_search_names_splits_that_are_no_rows(search, part, rows, message):
    right = (np.arange(20), np.arange(20, 60))
    wrong = (rows, right[1]) if part == "training" else (right[0], rows)
    with pytest.raises(ValueError, match=f"cv has {message.format(part)}"):
        search(cv=[right, wrong], max_evals=2).fit(X, Y)


@every_search
def test_splits_may_be_masks(search):
    is_test = np.arange(60) % 3 == 0
    masks, rows = (~is_test, is_test), (np.flatnonzero(~is_test), np.flatnonzero(is_test))
    found, expected = (search(cv=[split], max_evals=2).fit(X, Y) for split in (masks, rows))
    assert found.best_score_ == expected.best_score_


HELD_OUT = [
    (ODMClassifier, "kfold_decision_function"),
    (LinearODMClassifier, "kfold_decision_function"),
    (ODMRegressor, "kfold_prediction"),
    (OneClassODM, "kfold_score_samples"),
]


@every_mistake
@pytest.mark.parametrize(("estimator", "method"), HELD_OUT)
def test_folds_left_out_name_splits_that_are_no_rows(estimator, method, rows, message):
    model = estimator().fit(X, Y)
    splits = [(np.arange(20, 60), np.arange(20)), (np.arange(20), rows)]
    with pytest.raises(ValueError, match=f"cv has {message.format('test')}"):
        getattr(model, method)(splits)


@pytest.mark.parametrize(("estimator", "method"), HELD_OUT)
def test_folds_left_out_hold_every_sample_once(estimator, method):
    model, every = estimator().fit(X, Y), np.arange(60)
    halves = [every[:30], every[30:]]
    for tests, message in (
        ([*halves, [7]], "cv puts sample 7 into two test sets"),
        (halves[:1], "cv puts sample 30 into no test set"),
    ):
        with pytest.raises(ValueError, match=message):
            getattr(model, method)([(every, test) for test in tests])


@every_search
def test_a_weight_may_be_one_number_for_all(search):
    one, each = (search(cv=2, max_evals=2).fit(X, Y, w) for w in (2.0, np.full(60, 2.0)))
    assert one.best_params_ == each.best_params_


@pytest.mark.parametrize(("estimator", "method"), HELD_OUT)
def test_held_out_values_take_one_weight_for_all(estimator, method):
    model = estimator().fit(X, Y, sample_weight=2.0)
    given = (X,) if estimator is OneClassODM else (X, Y)
    for name in (method, method.replace("kfold", "loo")):
        folds = {"cv": 3} if name == method else {}
        expected = getattr(model, name)(**folds)
        np.testing.assert_array_equal(
            getattr(model, name)(*folds.values(), *given, sample_weight=2.0), expected
        )


@pytest.mark.parametrize("wrong", ["heavy", np.ones((60, 1)), [1.0, 2.0]])
@pytest.mark.parametrize("estimator", [*SEARCHES, ODMClassifier, OneClassODM])
def test_weights_that_are_none_are_named(estimator, wrong):
    with pytest.raises(ValueError, match="sample_weight must be a number per sample"):
        estimator().fit(X, Y, sample_weight=wrong)
