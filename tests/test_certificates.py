"""Claimed gaps hold for the data as they were given, whatever was rounded on the way."""

import warnings
from importlib import import_module

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from optimargin import LinearODMClassifier, ODMClassifier, certificates
from tests.fuzz import exact

pytestmark = pytest.mark.numbers


def problem(n_samples, n_features, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features))
    return X, (X[:, 0] + rng.normal(size=n_samples) > 0).astype(int)


@pytest.fixture(params=["wider", "double", "many"])
def widest(request, monkeypatch):
    """Numbers of more than double precision, a computer without them, and too many values."""
    if request.param == "double":
        monkeypatch.setattr(certificates, "_LONG", np.float64)
    if request.param == "many":
        monkeypatch.setattr(certificates, "_GRAM_OPERATIONS", 0)
    return request.param


def gain(model, X, y):
    """Return by how much of itself the objective of a fitted model can be lowered, at least."""
    band = exact.Band(2.0 * y - 1, np.ones(len(y)), model.C1_, model.C2_, model.D)
    K = exact.kernel_matrix(model.kernel, X, model.gamma_, model.degree, model.coef0)
    z = np.zeros(len(y) + 1)
    z[model.support_], z[-1] = model.dual_coef_[0], model.intercept_[0]
    return exact.gain(exact.KernelProblem(K, band, model.fit_intercept), z, 6)[1]


POLY = {"kernel": "poly", "solver": "newton_cg"}


@pytest.mark.parametrize(
    ("parameters", "shape"),
    [
        ({"C1": 2.2e7, "solver": "newton_cg"}, (739, 3)),
        ({"gamma": 3e8}, (837, 50)),
        ({**POLY, "degree": 3, "gamma": 1.0, "C1": 1e4}, (900, 5)),
        ({**POLY, "degree": 5, "gamma": 0.2, "coef0": 1.0, "C1": 1e3}, (900, 5)),
        ({}, (900, 10)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounded_kernel_values_are_part_of_the_claim(parameters, shape, dtype, widest):
    X, y = problem(*shape)
    X = X.astype(dtype)
    model = ODMClassifier(**parameters)
    with warnings.catch_warnings():
        if dtype == np.float32 or widest != "wider":  # in which nothing may be precise enough
            warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert model.solver_ in ("dcd", "bcd", "newton_cg")
    assert gain(model, X, y) <= model.dual_gap_ + 1e-9
    if dtype == np.float64 and widest == "wider":
        assert model.dual_gap_ <= model.tol


@pytest.mark.parametrize("solver", ["newton_cg", "bcd"])
@pytest.mark.parametrize("C1", [None, 1e3])
def test_the_objective_that_is_told_is_as_precise_as_the_gap_says(C1, solver):
    X, y = make_classification(700, 20, n_informative=6, random_state=0)
    best = ODMClassifier(C1, solver="newton", tol=1e-11).fit(X, y).objective_
    model = ODMClassifier(C1, solver=solver, tol=1e-6).fit(X, y)
    assert abs(model.objective_ - best) <= model.dual_gap_ * model.objective_
    assert model.dual_gap_ <= 1e-6


@pytest.mark.parametrize("offset", [5e3, 1e5, 1e8])
def test_an_offset_of_sparse_columns_is_as_harmless_as_of_dense_ones(offset):
    X, y = problem(800, 6)
    X[:, 2] += offset
    dense = ODMClassifier(gamma=0.1, tol=1e-6).fit(X, y)
    sparse = ODMClassifier(gamma=0.1, tol=1e-6).fit(sp.csr_array(X), y)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-6)
    assert gain(sparse, X, y) <= sparse.dual_gap_ + 1e-9
    np.testing.assert_allclose(
        sparse.decision_function(sp.csr_array(X[:50])), dense.decision_function(X[:50]), atol=2e-3
    )


def test_columns_of_all_scales_do_not_end_in_nan():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(20, 50)) * np.logspace(-4, 4, 50)).astype(np.float32)
    y = X[:, 0] + rng.normal(size=20) > 0
    model = ODMClassifier(kernel="poly", degree=2, gamma=1.0, solver="newton_cg", C1=1e5)
    with pytest.warns(match="relative duality gap"):
        model.fit(X, y)
    assert np.isfinite(model.dual_coef_).all()
    assert np.isfinite(model.intercept_).all()


def test_sums_of_samples_that_nearly_cancel_are_part_of_the_claim():
    X, y = problem(300, 3)
    X *= [1e-6, 1.0, 1e7]
    model = ODMClassifier(C1=1e6, kernel="linear", solver="newton", fit_intercept=False)
    with pytest.warns(match="relative duality gap"):
        model.fit(X.astype(np.float32), y)
    assert model.dual_gap_ > 1e-6


@pytest.mark.parametrize("estimator", [ODMClassifier, LinearODMClassifier])
@pytest.mark.parametrize("solver", ["auto", "dcd", "newton_cg"])
def test_fits_are_the_same_from_run_to_run(estimator, solver):
    X, y = problem(1200, 8)
    first, second = (
        estimator(solver=solver, random_state=None).fit(X, y).decision_function(X) for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


def test_landmarks_are_chosen_in_bounded_time_where_rounding_is_all_that_is_left():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(38, 13)) * 10.0 ** rng.uniform(-8, 8, size=13)
    model = ODMClassifier(approximation="nystrom", gamma=1600.0).fit(X, rng.integers(0, 2, 38))
    assert np.isfinite(model.dual_coef_).all()


def test_copies_of_rows_far_from_the_centre_are_seen_as_copies():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 5)) * [1e-8, 1.0, 1e4, 1e6, 1e8]
    X[rng.random(800) < 0.3] = 0.0  # far from the mean, in units of the width
    X[:, 4] += 1e9
    y = rng.integers(0, 2, 800)
    model = ODMClassifier(C1=1e5, gamma=100.0).fit(X, y)
    assert gain(model, X, y) <= model.dual_gap_ + 1e-9


def linear_gain(model, X, y):
    """Return by how much of itself the objective of a fitted linear model can be lowered."""
    band = exact.Band(2.0 * y - 1, np.ones(len(y)), model.C1_, model.C2_, model.D)
    z = np.append(model.coef_[0], model.intercept_)
    return exact.gain(exact.LinearProblem(X, band, model.fit_intercept), z, 12)[1]


def columns_of_all_sizes(n_samples, n_features, seed):
    X, y = problem(n_samples, n_features, seed)
    return X * 10.0 ** np.random.default_rng(seed).uniform(-8, 8, size=n_features), y


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_inner_products_that_lose_small_columns_are_replaced_by_features(
    seed, fit_intercept, widest
):
    X, y = columns_of_all_sizes(12, 20, seed)
    model = LinearODMClassifier(C1=100.0, C2=0.0, fit_intercept=fit_intercept).fit(X, y)
    assert model.dual_gap_ <= model.tol
    assert linear_gain(model, X, y) <= model.dual_gap_ + 1e-9


@pytest.mark.parametrize("offset", [1e4, 1e8])
@pytest.mark.parametrize("C1", [1e2, 1e8, 1e12])
def test_the_rounding_of_an_intercept_far_from_zero_is_part_of_the_claim(C1, offset, widest):
    X, y = problem(200, 2)
    X[:, 0] += offset
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearODMClassifier(C1=C1).fit(X, y)
    assert linear_gain(model, X, y) <= model.dual_gap_ + 1e-9


def test_data_of_ordinary_scales_need_no_extended_precision(monkeypatch):
    def fail(*_):
        raise AssertionError

    monkeypatch.setattr(certificates, "_with_long_gap", fail)
    for X, y in (problem(500, 10), problem(20, 50), problem(20_000, 3)):
        for rows in (X, sp.csr_array(X), X.astype(np.float32)):
            LinearODMClassifier().fit(rows, y)
    X, y = problem(800, 10)
    for rows in (X[:300], X, 1e3 + X * np.geomspace(1e-2, 1e3, 10)):
        ODMClassifier().fit(rows, y[: len(rows)])


@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("shape", [(300, 3), (30, 60)])
def test_numbers_kept_in_single_precision_are_part_of_the_claim(shape, offset, widest):
    X, y = problem(*shape)
    X = (X + offset).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearODMClassifier(C1=1e5).fit(X, y)
    assert linear_gain(model, X.astype(np.float64), y) <= model.dual_gap_ + 1e-9


@pytest.mark.parametrize(
    ("parameters", "n_samples", "how"),
    [
        ({}, 100, "exact"),
        ({}, 900, "estimated"),
        ({"solver": "newton_cg"}, 900, "estimated"),
        ({"kernel": "linear"}, 100, "exact"),
    ],
)
def test_a_certificate_says_how_it_is_known(parameters, n_samples, how, monkeypatch):
    found = []

    def listen(*arguments):
        found.append(certificates.certified(*arguments))
        return found[-1]

    monkeypatch.setattr(import_module("optimargin.training.train"), "certified", listen)
    X, y = problem(n_samples, 5)
    ODMClassifier(**parameters).fit(X, y)
    assert [solution.how for solution in found] == [how]


@pytest.mark.parametrize("make", [LinearODMClassifier, ODMClassifier])
def test_where_no_number_is_wider_what_rounding_can_do_is_added(make, monkeypatch):
    found = []

    def listen(*arguments):
        found.append(certificates.certified(*arguments))
        return found[-1]

    monkeypatch.setattr(import_module("optimargin.training.train"), "certified", listen)
    X, y = problem(150, 3)
    X = X * [1.0, 1e6, 1e3] + 1e6
    for widest in (np.longdouble, np.float64):
        monkeypatch.setattr(certificates, "_LONG", widest)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = make(C1=1e12).fit(X, y)
    assert found[-1].how == "with rounding"
    assert found[0].dual_gap < found[-1].dual_gap < np.inf
    if make is ODMClassifier:
        assert gain(model, X, y) <= found[-1].dual_gap


@pytest.mark.parametrize(
    "parameters",
    [
        {"gamma": 1e-9, "C1": 1e12},
        {"kernel": "poly", "degree": 4, "gamma": 1.0, "coef0": 1.0, "C1": 1e8},
        {"gamma": 1e3, "C1": 1e12, "C2": 0.0, "fit_intercept": False},
    ],
)
@pytest.mark.parametrize("shape", [(120, 3), (750, 3)])
def test_the_rounding_of_kernel_models_is_part_of_the_claim(parameters, shape, widest):
    X, y = problem(*shape)
    X *= [1.0, 30.0, 1e-3]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ODMClassifier(**parameters).fit(X, y)
    if model.dual_gap_ < 1:
        assert gain(model, X, y) <= model.dual_gap_ + 1e-9


def test_wide_sparse_rows_are_taken_by_their_values_not_by_their_features():
    X = sp.random_array((3000, 40_000), density=20 / 40_000, rng=0, format="csr")
    rows = certificates._LongRows(X, centred=False)
    assert len(list(rows._blocks())) < 4
    rng = np.random.default_rng(0)
    w, pull = rng.normal(size=X.shape[1]), rng.normal(size=X.shape[0])
    decision, shift = rows.decision(w)
    assert shift == 0
    np.testing.assert_allclose(decision.astype(float), X @ w, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(rows.represent(pull).astype(float), X.T @ pull, atol=1e-12)
