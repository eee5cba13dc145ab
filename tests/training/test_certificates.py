"""Sums in extended precision."""

import numpy as np
import pytest
import scipy.sparse as sp

from optimargin.training.certificates import _LongRows

pytestmark = pytest.mark.numbers


def test_wide_sparse_rows_are_taken_by_their_values_not_by_their_features():
    X = sp.random_array((3000, 40_000), density=20 / 40_000, rng=0, format="csr")
    rows = _LongRows(X, None)
    assert len(list(rows._blocks(None))) < 4
    rng = np.random.default_rng(0)
    w, pull = rng.normal(size=X.shape[1]), rng.normal(size=X.shape[0])
    decision, shift = rows.decision(w)
    assert shift == 0
    np.testing.assert_allclose(decision.astype(float), X @ w, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(rows.represent(pull).astype(float), X.T @ pull, atol=1e-12)
