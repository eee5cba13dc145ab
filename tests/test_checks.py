"""Data of no use are named; what is of use passes as it is."""

import numpy as np
import pytest
from scipy import sparse as sp
from sklearn.model_selection import KFold

from optimargin._checks import check_scale, check_sparse, check_weights, checked_splits

pytestmark = pytest.mark.quick

X = np.random.default_rng(0).normal(size=(6, 4))


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr"])
def test_sparse_matrices_whose_indices_lead_out_are_refused(form):
    matrix = sp.csr_array(X).asformat(form)
    assert check_sparse(matrix) is matrix
    indices = matrix.row if form == "coo" else matrix.indices
    indices[-1] = 99
    with pytest.raises(ValueError, match="indices from 0 to 99"):
        check_sparse(matrix)


def test_pointers_that_do_not_rise_are_refused():
    matrix = sp.csr_array(X)
    matrix.indptr[1] = 20
    with pytest.raises(ValueError, match="row by row"):
        check_sparse(matrix)


def test_weights_are_numbers_that_are_not_negative():
    assert check_weights(None, X) is None
    assert check_weights([1] * 6, X).dtype == np.float64
    with pytest.raises(ValueError, match="negative"):
        check_weights([-1.0] * 6, X)
    with pytest.raises(ValueError, match="a number per sample"):
        check_weights(["heavy"] * 6, X)


def test_splits_are_indices_of_samples():
    for found, expected in zip(
        checked_splits(KFold(3).split(X), 6), KFold(3).split(X), strict=True
    ):
        for rows, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(rows, wanted)
    mask = np.arange(6) < 2
    np.testing.assert_array_equal(checked_splits([(~mask, mask)], 6)[0][1], [0, 1])


@pytest.mark.parametrize(
    ("test", "message"),
    [([], "no test samples"), ([0.5], "no list of indices"), ([6], "indices are from 0 to 5")],
)
def test_splits_of_no_use_are_named(test, message):
    with pytest.raises(ValueError, match=message):
        checked_splits([([0, 1], test)], 6)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_values_whose_products_overflow_are_named(make):
    assert check_scale(make(X)) == pytest.approx(np.sum(X**2))
    with pytest.raises(ValueError, match="products overflow"):
        check_scale(make(X * 1e200))
    with pytest.raises(ValueError, match="NaN"):
        check_scale(make(np.where(X > 1, np.nan, X)))
