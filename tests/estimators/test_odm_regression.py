"""The regressors against other regressions, closed forms and refits."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.svm import LinearSVR

from optimargin import LinearODMRegressor, ODMRegressor
from optimargin.chunks import ArrayChunks
from optimargin.objectives import EPSILON_SHARE
from tests import oracle
from tests.cases import solvers_of
from tests.random_problems import KERNELS, RandomProblem, features_and_norm, random_problems

pytestmark = pytest.mark.numbers


def numbers(n_samples=60, n_features=4, *, seed=0):
    """Return rows and targets that a line fits in part."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features))
    return X, X @ rng.normal(size=n_features) + np.sin(3 * X[:, 0]) + 5.0


X, Y = numbers()
WEIGHT = np.random.default_rng(1).integers(1, 4, size=60).astype(float)
MODELS = {
    "linear": LinearODMRegressor(C1=20.0),
    "banded": LinearODMRegressor(C1=20.0, C2=5.0, epsilon=0.3),
    "rbf": ODMRegressor(C1=50.0, C2=20.0, epsilon=0.1, gamma=0.3),
    "squares": ODMRegressor(C1=50.0, gamma=0.3),
    "precomputed": ODMRegressor(C1=50.0, epsilon=0.2, kernel="precomputed"),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def given_rows(model, X, Z=None):
    """Return what a model is given for rows."""
    if getattr(model, "kernel", None) == "precomputed":
        return rbf_kernel(X, Z, gamma=0.3)
    return X


# Other regressions


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("solver", solvers_of(LinearODMRegressor))
def test_least_squares_is_ridge_regression(solver, weight):
    total = 60 if weight is None else weight.sum()
    model = LinearODMRegressor(C1=20.0, solver=solver, tol=1e-13, max_iter=20_000, random_state=0)
    model.fit(X, Y, weight)
    expected = Ridge(alpha=total / 40).fit(X, Y, sample_weight=weight)
    digits = 1e-10 if solver == "newton" else 1e-5
    np.testing.assert_allclose(model.coef_[0], expected.coef_, atol=digits)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), atol=digits)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
def test_without_an_intercept_it_is_kernel_ridge_regression(weight):
    total = 60 if weight is None else weight.sum()
    model = ODMRegressor(C1=20.0, gamma=0.3, fit_intercept=False).fit(X, Y, weight)
    expected = KernelRidge(alpha=total / 40, kernel="rbf", gamma=0.3).fit(X, Y, weight)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), atol=1e-10)


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_symmetric_penalties_are_those_of_liblinear(epsilon):
    ours = LinearODMRegressor(C1=30.0, epsilon=epsilon, fit_intercept=False).fit(X, Y)
    theirs = LinearSVR(
        C=30.0 / 60,
        epsilon=epsilon,
        loss="squared_epsilon_insensitive",
        fit_intercept=False,
        dual=False,
        tol=1e-12,
        max_iter=100_000,
    ).fit(X, Y)
    np.testing.assert_allclose(ours.coef_[0], theirs.coef_, atol=1e-6)


@pytest.mark.parametrize("make", [LinearODMRegressor, ODMRegressor])
@pytest.mark.parametrize("expectile", [0.1, 0.5, 0.9])
def test_residuals_balance_at_the_expectile(make, expectile):
    model = make(C1=100 * expectile, C2=100 * (1 - expectile)).fit(X, Y, WEIGHT)
    residual = Y - model.predict(X)
    below, above = WEIGHT @ np.maximum(residual, 0), WEIGHT @ np.maximum(-residual, 0)
    assert expectile * below == pytest.approx((1 - expectile) * above, rel=1e-8)


# A conic solver


def regression_target(problem, X):
    """Return numbers of any size for the rows of a random problem."""
    rng = np.random.default_rng(problem.seed + 1)
    y = X @ rng.normal(size=X.shape[1]) / (np.abs(X).max() + 1)
    y += problem.noise * rng.normal(size=len(X))
    return 10.0 ** rng.integers(-4, 5) * (y + rng.normal())


def check_against_conic_solver(problem: RandomProblem):
    X, _, weight = problem.data()
    y = regression_target(problem, X)
    C1, C2, D = problem.penalties
    C2 = C2 or C1  # with an intercept both must be positive
    epsilon = D * y.std()
    make = LinearODMRegressor if problem.kernel is None else ODMRegressor
    model = make(C1, C2, epsilon, fit_intercept=problem.fit_intercept, **(problem.kernel or {}))
    rows = problem.training_input(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="y is constant")
        fitted = model.fit(rows, y, weight)
    features, norm = features_and_norm(fitted, X, rows)
    ones, unit = np.ones(len(y)), max(np.abs(y).max(), 1e-300)

    def objective(norm_squared, decision):
        return oracle.objective(norm_squared, decision, y, weight, C1, C2, epsilon, ones)

    # The conic solver has tolerances of its own: it is given targets of unit size.
    w, b = oracle.solve(
        features, y / unit, weight, C1, C2, epsilon / unit,
        fit_intercept=problem.fit_intercept, orientation=ones,
    )  # fmt: skip
    theirs = objective(unit**2 * w @ w, unit * (features @ w + b))
    ours = objective(norm, fitted.predict(rows))
    constant = np.average(y, weights=weight) if problem.fit_intercept else 0.0
    best_constant = objective(0.0, np.full(len(y), constant))
    assert fitted.dual_gap_ <= fitted.tol
    assert fitted.objective_ == pytest.approx(ours, rel=1e-7, abs=1e-9 * best_constant)
    assert ours <= theirs + 1e-7 * max(theirs, 1e-3 * best_constant)
    # No known objective is further below than the gap says is possible.
    assert ours - theirs <= (fitted.dual_gap_ + 1e-8) * best_constant


PROBLEMS = random_problems([None, *KERNELS])


@given(problem=PROBLEMS)
@settings(max_examples=60)
def test_no_objective_is_above_that_of_a_conic_solver(problem):
    check_against_conic_solver(problem)


@pytest.mark.slow
@given(problem=PROBLEMS)
@settings(max_examples=300)
def test_no_objective_of_three_hundred_is_above_that_of_a_conic_solver(problem):
    check_against_conic_solver(problem)


# Units of y


@every_model
@pytest.mark.parametrize("factor", [1024.0, 2.0**-40])
def test_a_power_of_two_scales_predictions_to_the_last_bit(model, factor):
    rows = given_rows(model, X)
    scaled = clone(model).set_params(epsilon=factor * model.epsilon)
    expected = clone(model).fit(rows, Y).predict(rows)
    np.testing.assert_array_equal(scaled.fit(rows, factor * Y).predict(rows), factor * expected)


@every_model
@pytest.mark.parametrize("solver", ["newton", "newton_cg", "dcd"])
@pytest.mark.parametrize("factor", [1000.0, 1e-6])
def test_other_units_scale_predictions(model, solver, factor):
    rows = given_rows(model, X)
    settings = {"solver": solver, "tol": 1e-12, "max_iter": 20_000, "random_state": 0}
    first = clone(model).set_params(**settings).fit(rows, Y)
    scaled = clone(model).set_params(**settings, epsilon=factor * model.epsilon)
    scaled.fit(rows, factor * Y)
    np.testing.assert_allclose(scaled.predict(rows) / factor, first.predict(rows), rtol=1e-8)
    assert scaled.dual_gap_ <= 1e-12
    assert scaled.objective_ == pytest.approx(factor**2 * first.objective_, rel=1e-9)


def test_a_large_mean_does_no_harm():
    near = LinearODMRegressor(C1=50.0, epsilon=0.1).fit(X, Y)
    far = LinearODMRegressor(C1=50.0, epsilon=0.1).fit(X, Y + 1e9)
    np.testing.assert_allclose(far.coef_, near.coef_, rtol=1e-5)
    np.testing.assert_allclose(far.predict(X) - 1e9, near.predict(X), atol=1e-5)


def test_the_gap_is_relative_to_the_best_constant_model():
    model = LinearODMRegressor(C1=50.0, solver="dcd", max_iter=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stopped = model.fit(X, 1e-6 * Y)
    best = LinearODMRegressor(C1=50.0, tol=1e-14).fit(X, 1e-6 * Y).objective_
    constant = 50.0 * np.var(1e-6 * Y)
    assert stopped.objective_ - best <= stopped.dual_gap_ * constant
    assert stopped.dual_gap_ > 1e-8


def test_scale_is_a_share_of_the_deviation():
    model = LinearODMRegressor(epsilon="scale").fit(X, Y)
    assert model.epsilon_ == pytest.approx(EPSILON_SHARE * Y.std(), rel=1e-12)
    given = LinearODMRegressor(epsilon=EPSILON_SHARE * Y.std()).fit(X, Y)
    np.testing.assert_allclose(model.coef_, given.coef_, rtol=1e-10)
    through_zero = LinearODMRegressor(epsilon="scale", fit_intercept=False).fit(X, Y)
    assert through_zero.epsilon_ == pytest.approx(EPSILON_SHARE * np.sqrt(np.mean(Y**2)))


def test_a_band_leaves_samples_out_of_the_model():
    wide = ODMRegressor(epsilon=0.5, C1=1e4).fit(X, Y)
    assert wide.support_.size < 60
    residual = np.abs(Y - wide.predict(X))
    np.testing.assert_array_equal(wide.support_, np.flatnonzero(residual > 0.5))


# Samples left out


@every_model
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
def test_leave_one_out_equals_refits(model, weight):
    fitted = clone(model).set_params(tol=1e-13).fit(given_rows(model, X), Y, weight)
    left_out = fitted.loo_prediction(exact=True)
    weights = np.ones(60) if weight is None else weight
    for i in range(0, 60, 7):
        rest = np.arange(60) != i
        share = (weights.sum() - weights[i]) / weights.sum()
        refit = clone(fitted).set_params(C1=share * fitted.C1_, C2=share * fitted.C2_)
        rows = given_rows(model, X[rest])
        refit.fit(rows, Y[rest], None if weight is None else weight[rest])
        row = given_rows(model, X[[i]], X[rest])
        assert left_out[i] == pytest.approx(refit.predict(row)[0], abs=1e-6)


@pytest.mark.parametrize("make", [LinearODMRegressor, ODMRegressor])
def test_defaults_grow_with_the_samples_so_that_refits_are_plain(make):
    kernel = {"gamma": 0.3} if make is ODMRegressor else {"C1": None}
    model = make(**kernel)
    if make is LinearODMRegressor:  # whose default depends on the rows that are left
        model.set_params(C1=60 * 8.0)
    left_out = model.fit(X, Y).loo_prediction()
    rest = np.arange(60) != 5
    refit = clone(model).set_params(C1=None if make is ODMRegressor else 59 * 8.0)
    assert left_out[5] == pytest.approx(refit.fit(X[rest], Y[rest]).predict(X[[5]])[0], abs=1e-8)


def test_closed_forms_are_exact_for_squares():
    model = ODMRegressor(gamma=0.3).fit(X, Y)
    np.testing.assert_allclose(model.loo_prediction(), model.loo_prediction(exact=True), atol=1e-9)
    folds = KFold(6, shuffle=True, random_state=0)
    expected = cross_val_predict(ODMRegressor(gamma=0.3), X, Y, cv=folds)  # C1 is per sample
    np.testing.assert_allclose(model.kfold_prediction(folds), expected, atol=1e-8)


def test_data_of_another_fit_are_refused():
    model = LinearODMRegressor().fit(X, Y)
    with pytest.raises(ValueError, match="objective"):
        model.loo_prediction(X, Y + np.arange(60))


# Several targets


@every_model
@pytest.mark.parametrize("epsilon", [0.0, "scale"])
def test_several_targets_are_the_models_of_each(model, epsilon):
    rows = given_rows(model, X)
    both = np.column_stack([Y, -1000 * Y**2])
    model = clone(model).set_params(epsilon=epsilon)
    joint = clone(model).fit(rows, both, WEIGHT)
    assert joint.predict(rows).shape == (60, 2)
    assert np.shape(joint.dual_gap_) == (2,)
    for k in range(2):
        alone = clone(model).fit(rows, both[:, k], WEIGHT)
        np.testing.assert_allclose(joint.predict(rows)[:, k], alone.predict(rows), rtol=1e-9)
        np.testing.assert_allclose(joint.loo_prediction()[:, k], alone.loo_prediction(), rtol=1e-7)


def test_one_column_is_one_target():
    column = LinearODMRegressor().fit(X, Y[:, None]).predict(X)
    np.testing.assert_array_equal(column, LinearODMRegressor().fit(X, Y).predict(X))


# Targets of other kinds


def test_integers_and_booleans_are_numbers():
    y = np.round(Y).astype(int)
    expected = LinearODMRegressor().fit(X, y.astype(float)).predict(X)
    for kind in (int, np.int8, object, np.float32):
        model = LinearODMRegressor().fit(X, y.astype(kind))
        np.testing.assert_array_equal(model.predict(X), expected)
    truth = LinearODMRegressor().fit(X, y > 5).predict(X)
    np.testing.assert_array_equal(truth, LinearODMRegressor().fit(X, (y > 5) * 1.0).predict(X))


@pytest.mark.parametrize("make", [LinearODMRegressor, ODMRegressor])
@pytest.mark.parametrize("value", [0.1, -3.0, 1e12])
def test_a_constant_is_predicted_everywhere(make, value):
    with pytest.warns(UserWarning, match="y is constant"):
        model = make().fit(X, np.full(60, value))
    np.testing.assert_array_equal(model.predict(X), np.full(60, value))
    assert model.objective_ == 0
    assert model.dual_gap_ <= 1e-15


def test_a_constant_column_is_named():
    with pytest.warns(UserWarning, match=r"constant in columns \[1\]"):
        model = LinearODMRegressor().fit(X, np.column_stack([Y, np.ones(60)]))
    np.testing.assert_array_equal(model.predict(X)[:, 1], np.ones(60))


@pytest.mark.parametrize("make", [LinearODMRegressor, ODMRegressor])
def test_no_penalty_above_is_refused_with_an_intercept(make):
    with pytest.raises(ValueError, match=r"C2=0 .*fit_intercept=False"):
        make(C2=0.0).fit(X, Y)
    one_sided = make(C1=50.0, C2=0.0, fit_intercept=False).fit(X, Y)
    assert np.isfinite(one_sided.predict(X)).all()


@pytest.mark.parametrize("epsilon", [-0.1, np.inf, np.nan, "wide", None])
def test_bad_bands_are_named(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        LinearODMRegressor(epsilon=epsilon).fit(X, Y)


def test_float32_models_refuse_numbers_they_cannot_hold():
    rows = X.astype(np.float32)
    with pytest.raises(ValueError, match="float32 models"):
        LinearODMRegressor().fit(rows, 1e35 * Y)
    assert np.isfinite(LinearODMRegressor().fit(rows, 1e20 * Y).predict(rows)).all()


def test_rows_of_zero_weight_do_not_decide_about_units():
    weight = np.ones(60)
    weight[:3] = 0.0
    spoilt = Y.copy()
    spoilt[:3] = 1e30
    expected = LinearODMRegressor().fit(X[3:], Y[3:])
    np.testing.assert_allclose(
        LinearODMRegressor().fit(X, spoilt, weight).coef_, expected.coef_, rtol=1e-10
    )


# Chunks and streams


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("targets", [1, 2])
def test_chunks_lead_to_the_model_of_all_rows(make, targets):
    y = Y if targets == 1 else np.column_stack([Y, 1000 * X[:, 0] ** 2])
    model = LinearODMRegressor(C2=500.0, epsilon="scale", tol=1e-12)
    whole = clone(model).fit(make(X), y, WEIGHT)
    parts = clone(model).fit_chunks(ArrayChunks(make(X), y, WEIGHT, chunk_rows=17))
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), rtol=1e-7)
    np.testing.assert_allclose(parts.objective_, whole.objective_, rtol=1e-9)
    np.testing.assert_allclose(parts.epsilon_, whole.epsilon_, rtol=1e-12)
    assert np.max(parts.dual_gap_) <= 1e-12


@pytest.mark.parametrize("gamma", ["rms_distance", "scale", 0.2])
def test_landmarks_in_chunks_are_near_the_exact_kernel_model(gamma):
    X, y = numbers(200, 3)
    exact = ODMRegressor(gamma=gamma).fit(X, y)
    model = ODMRegressor(gamma=gamma, approximation="nystrom", n_components=200, random_state=0)
    model.fit_chunks(ArrayChunks(X, y, chunk_rows=70))
    assert model.gamma_ == pytest.approx(exact.gamma_, rel=1e-10)
    np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=1e-3)


def test_chunks_of_different_widths_of_y_are_refused():
    class Uneven(ArrayChunks):
        def load(self, k):
            X, y, weight = super().load(k)
            return X, y if k else np.column_stack([y, y]), weight

    with pytest.raises(ValueError, match="different numbers of targets"):
        LinearODMRegressor().fit_chunks(Uneven(X, Y, chunk_rows=20))


def test_a_stream_comes_near_the_fit():
    X, y = numbers(4000, 3)
    model = LinearODMRegressor(C1=4.0, random_state=0)
    for first in range(0, 4000, 500):
        model.partial_fit(X[first : first + 500], y[first : first + 500])
    assert model.t_ == 4000
    fitted = LinearODMRegressor(C1=4.0).fit(X, y)
    assert np.abs(model.predict(X) - fitted.predict(X)).mean() < 0.05 * y.std()
    with pytest.raises(ValueError, match="2 targets"):
        model.partial_fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="epsilon='scale'"):
        LinearODMRegressor(epsilon="scale").partial_fit(X, y)


def test_a_warm_start_begins_at_the_model():
    model = LinearODMRegressor(solver="newton_cg", warm_start=True).fit(X, Y)
    assert model.fit(X, Y).n_iter_ == 1


def test_landmarks_of_all_rows_are_the_exact_model():
    exact = ODMRegressor(C1=50.0, epsilon=0.1).fit(X, Y)
    model = ODMRegressor(
        C1=50.0, epsilon=0.1, approximation="nystrom", n_components=60, random_state=0
    ).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=1e-4)
    np.testing.assert_allclose(model.loo_prediction(), exact.loo_prediction(), atol=1e-3)
