"""Truncated Newton where its linear systems are hard."""

import itertools
import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_classification, make_moons

from optimargin import LinearODMClassifier, ODMClassifier, ODMRegressor
from optimargin.solvers import newton_cg
from tests.sampling import pairwise

pytestmark = pytest.mark.numbers

CORNERS = list(itertools.product([64.0, 1024.0], [1.0, 1024.0], [0.0, 0.5]))
every_corner = pytest.mark.parametrize("penalties", CORNERS, ids=str)
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(250, 8, n_informative=5, flip_y=0.1, random_state=0)
    return (X - X.min(axis=0)) / np.ptp(X, axis=0), y


def fit_without_warning(model, data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return model.set_params(solver="newton_cg", tol=1e-8).fit(*data)


@pytest.mark.parametrize(
    ("penalties", "fit_intercept", "gamma"),
    pairwise(CORNERS, [True, False], [0.5, 2.0, 8.0, 32.0]),
    ids=str,
)
def test_kernels_of_any_width_are_solved_at_large_penalties(data, penalties, fit_intercept, gamma):
    model = ODMClassifier(*penalties, gamma=gamma, fit_intercept=fit_intercept)
    assert fit_without_warning(model, data).dual_gap_ <= 1e-8
    assert model.n_iter_ <= 40


@every_corner
@with_and_without_intercept
def test_linear_models_are_solved_at_large_penalties(data, penalties, fit_intercept):
    model = LinearODMClassifier(*penalties, fit_intercept=fit_intercept)
    assert fit_without_warning(model, data).dual_gap_ <= 1e-8


FEW, MOST = (2.0**16, 0.0, 0.2), (256.0, 64.0, 0.2)  # samples that are active


@pytest.fixture(scope="module")
def moons():
    return make_moons(2000, noise=0.2, random_state=0)


@pytest.fixture(scope="module")
def whole_models(moons):
    """Return the model without a memory limit, fitted once."""

    @cache
    def fit(make, penalties, fit_intercept):
        model = ODMClassifier(*penalties, gamma=10.0, fit_intercept=fit_intercept)
        return model.set_params(solver="newton_cg", tol=1e-6).fit(make(moons[0]), moons[1])

    return fit


@pytest.mark.filterwarnings("ignore:.*more than cache_size has room for")
@pytest.mark.parametrize(
    ("make", "penalties", "fit_intercept", "seed"),
    pairwise([np.asarray, sp.csr_array], [FEW, MOST], [True, False], [0, 2, 4]),
)
def test_a_working_set_ends_at_the_same_model(
    moons, whole_models, make, penalties, fit_intercept, seed
):
    """With few active samples, or most; the limit is far below the whole matrix, of 8 MB."""
    X, y = moons
    whole = whole_models(make, penalties, fit_intercept)
    limited = clone(whole).set_params(cache_size=7, random_state=seed).fit(make(X), y)
    assert limited.dual_gap_ <= 1e-6
    assert limited.objective_ == pytest.approx(whole.objective_, rel=1e-5)
    assert np.mean(limited.predict(X) == whole.predict(X)) > 0.999
    # A support vector is a sample outside the band: no coefficient lingers.
    margin = np.where(y == 1, 1, -1) * limited.decision_function(X)
    active = np.count_nonzero(np.abs(margin - 1) > penalties[2]) if penalties[1] else None
    active = np.count_nonzero(margin < 1 - penalties[2]) if active is None else active
    assert limited.support_.size <= 1.05 * active


def test_systems_of_one_matrix_share_a_preconditioner(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X[:, 0] * X[:, 1] + 0.4 * rng.normal(size=300)
    made, make = [], newton_cg._woodbury
    monkeypatch.setattr(newton_cg, "_woodbury", lambda A: made.append(A.shape) or make(A))
    model = ODMRegressor(1000.0, gamma=0.3, solver="newton_cg", tol=1e-6).fit(X, y)
    assert model.n_iter_ > 1
    assert len(made) == 1  # without a band all samples stay active
