"""Folds, and derivatives by kernel values."""

import gc

import numpy as np
import pytest

from optimargin._linalg import ThreadsafeFactor
from optimargin.designs import FeatureDesign
from optimargin.systems import FeatureSystem, Folds, Form


def test_folds_deal_out_every_class_evenly():
    encoded = np.repeat([0, 1, 2], [20, 10, 5])
    folds = Folds.stratified(encoded, 5, 3, np.random.RandomState(1))
    assert folds.fold.shape == (3, 35)
    for fold in folds.fold:
        counts = np.array([np.bincount(fold[encoded == k], minlength=5) for k in range(3)])
        np.testing.assert_array_equal(counts, np.array([[4], [2], [1]]) * np.ones((1, 5), int))
    models = list(folds.models())
    assert len(models) == 15
    assert [repeat for repeat, _ in models] == list(np.repeat([0, 1, 2], 5))
    np.testing.assert_array_equal(
        np.sort(np.concatenate([rows for _, rows in models[:5]])), range(35)
    )


def test_folds_of_some_rows_are_those_of_these_rows():
    folds = Folds.stratified(np.arange(30) % 3, 4, 2, np.random.RandomState(0))
    rows = np.array([4, 11, 29])
    some = folds.of_rows(rows)
    assert some.n_folds == 4
    np.testing.assert_array_equal(some.fold, folds.fold[:, rows])


@pytest.mark.parametrize("rows", [None, np.array([1, 4, 5])], ids=["all", "some"])
def test_a_form_contracts_what_it_adds_to(rows):
    rng = np.random.default_rng(0)
    n = 7 if rows is None else rows.size
    form = Form("samples", rng.normal(size=(3, n)), rng.normal(size=(3, n)), rows)
    dense, slope = np.zeros((7, 7)), rng.normal(size=(7, 7))
    form.add_to(dense)
    assert np.vdot(dense, slope) == pytest.approx(form.contract(slope))
    assert np.count_nonzero(dense) == n * n


@pytest.mark.parametrize("is_known", [True, False])
def test_factors_without_folds_are_kept_only_where_folds_are_known(is_known):
    rng = np.random.default_rng(0)
    folds = Folds.stratified(np.arange(30) % 2, 5, 2, np.random.RandomState(0))
    system = FeatureSystem(
        FeatureDesign(rng.normal(size=(30, 4))),
        fit_intercept=True,
        folds=folds if is_known else None,
    )
    system.move(np.ones(30), rng.normal(size=(30, 1)))
    gc.collect()
    before = {id(each) for each in gc.get_objects() if isinstance(each, ThreadsafeFactor)}
    values = system.folds(folds)
    after = {id(each) for each in gc.get_objects() if isinstance(each, ThreadsafeFactor)}
    assert len(after - before) == (10 if is_known else 0)
    assert np.isfinite(values.derivatives(values.decision).by_aim).all()
