"""The closed forms against refits."""

import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification, make_moons
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit

from optimargin import LDMClassifier, LinearODMClassifier, ODMClassifier
from optimargin.held_out import leave_one_out, models_without
from optimargin.objectives import ODM
from optimargin.solvers import Newton
from optimargin.targets import Target
from tests.cases import LOSSES, make_design, make_problem, two_classes
from tests.python_losses import PlainBand
from tests.sampling import pairwise

pytestmark = pytest.mark.numbers

PARAMETERS = [(4.0, 4.0, 0.0), (64.0, 16.0, 0.2), (1024.0, 1.0, 0.5), (16.0, 0.0, 0.3)]
ESTIMATORS = [ODMClassifier, LinearODMClassifier]
sampled = pytest.mark.parametrize(
    ("estimator", "fit_intercept", "parameters"),
    pairwise(ESTIMATORS, [True, False], PARAMETERS),
)


@pytest.fixture
def data():
    X, y = make_classification(
        n_samples=48, n_features=5, n_informative=3, flip_y=0.1, random_state=3
    )
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=48)
    return X, y, weight


def make(estimator, C1, C2, D, **parameters):
    if estimator is ODMClassifier:
        parameters.setdefault("gamma", 0.3)
    return estimator(C1=C1, C2=C2, D=D, tol=1e-12, **parameters)


def refitted_without(model, X, y, weight, rows):
    """Decision values of `rows` for a model fitted to the other rows with unchanged weights."""
    kept = np.setdiff1d(np.arange(len(y)), rows)
    scale = weight[kept].sum() / weight.sum()
    scaled = type(model)(**{**model.get_params(), "C1": model.C1_ * scale, "C2": model.C2_ * scale})
    return scaled.fit(X[kept], y[kept], sample_weight=weight[kept]).decision_function(X[rows])


@sampled
def test_exact_leave_one_out_equals_refits(data, estimator, fit_intercept, parameters):
    X, y, weight = data
    C1, C2, D = parameters
    model = make(estimator, C1, C2, D, fit_intercept=fit_intercept)
    model.fit(X, y, sample_weight=weight)
    exact = model.loo_decision_function(exact=True)
    for i in range(len(y)):
        expected = refitted_without(model, X, y, weight, [i])
        np.testing.assert_allclose(exact[i], expected[0], atol=1e-8)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_closed_form_is_exact_when_every_sample_stays_active(data, estimator, fit_intercept):
    X, y, weight = data
    # C1 = C2 and D = 0 is weighted ridge regression: the active set holds every sample.
    model = make(estimator, 8.0, 8.0, 0.0, fit_intercept=fit_intercept)
    model.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(
        model.loo_decision_function(), model.loo_decision_function(exact=True), atol=1e-9
    )
    np.testing.assert_allclose(
        model.kfold_decision_function(4),
        model.kfold_decision_function(4, exact=True),
        atol=1e-9,
    )


@sampled
def test_exact_folds_equal_refits(data, estimator, fit_intercept, parameters):
    X, y, weight = data
    C1, C2, D = parameters
    cv = KFold(4, shuffle=True, random_state=0)
    model = make(estimator, C1, C2, D, fit_intercept=fit_intercept)
    model.fit(X, y, sample_weight=weight)
    exact = model.kfold_decision_function(cv, exact=True)
    for _, test in cv.split(X):
        expected = refitted_without(model, X, y, weight, test)
        np.testing.assert_allclose(exact[test], expected, atol=1e-8)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(("C1", "C2", "D"), PARAMETERS)
def test_folds_of_one_sample_are_leave_one_out(data, estimator, C1, C2, D):
    X, y, weight = data
    model = make(estimator, C1, C2, D).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(
        model.kfold_decision_function(KFold(len(y))), model.loo_decision_function(), atol=1e-8
    )


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("C1", "C2", "D"), PARAMETERS)
def test_feature_space_and_sample_space_agree(data, fit_intercept, C1, C2, D):
    X, y, weight = data
    linear = make(LinearODMClassifier, C1, C2, D, fit_intercept=fit_intercept)
    kernel = make(ODMClassifier, C1, C2, D, fit_intercept=fit_intercept, kernel="precomputed")
    linear.fit(X, y, sample_weight=weight)
    kernel.fit(X @ X.T, y, sample_weight=weight)
    for method in ("loo_decision_function", "kfold_decision_function"):
        np.testing.assert_allclose(getattr(linear, method)(), getattr(kernel, method)(), atol=1e-7)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_multiclass_columns_are_the_binary_problems(estimator):
    X, y = make_classification(
        n_samples=60, n_features=5, n_informative=4, n_redundant=0, n_classes=3, random_state=0
    )
    model = make(estimator, 32.0, 8.0, 0.1).set_params(multi_class="ovr").fit(X, y)
    scores = model.loo_decision_function()
    assert scores.shape == (60, 3)
    for k in range(3):
        binary = make(estimator, 32.0, 8.0, 0.1).fit(X, y == k)
        np.testing.assert_allclose(scores[:, k], binary.loo_decision_function(), atol=1e-8)
    assert model.loo_error_bound().shape == (3,)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_sparse_equals_dense(data, estimator):
    X, y, weight = data
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = make(estimator, 64.0, 16.0, 0.2).fit(X, y, sample_weight=weight)
    sparse = make(estimator, 64.0, 16.0, 0.2).fit(sp.csr_matrix(X), y, sample_weight=weight)
    np.testing.assert_allclose(
        sparse.loo_decision_function(), dense.loo_decision_function(), atol=1e-7
    )


def test_samples_of_zero_weight_get_the_value_of_the_model(data):
    X, y, weight = data
    weight[:5] = 0.0
    model = make(ODMClassifier, 64.0, 16.0, 0.2).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(
        model.loo_decision_function()[:5], model.decision_function(X[:5]), atol=1e-10
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(("C1", "C2", "D"), PARAMETERS)
def test_valid_bounds_are_above_the_error_without_intercept(data, estimator, C1, C2, D):
    X, y, _ = data
    model = make(estimator, C1, C2, D, fit_intercept=False).fit(X, y)
    error = np.mean((model.loo_decision_function(exact=True) > 0) != (y == 1))
    count, valid = (model.loo_error_bound(kind=kind) for kind in ("count", "valid"))
    assert error <= count <= valid <= 1
    assert np.isfinite(model.loo_error_bound(kind="printed"))


def test_printed_bound_can_be_below_the_error_and_the_valid_ones_are_not():
    # Many margins just above the band make negative terms, and one sample is always an error.
    y = np.tile([1, -1], 11)
    X = (y * np.r_[np.ones(20), 0.3, -0.01])[:, None]
    model = LinearODMClassifier(C1=1e4, C2=0.01, D=0.5, fit_intercept=False).fit(X, y)
    error = np.mean(np.sign(model.loo_decision_function(exact=True)) != y)
    assert error == pytest.approx(1 / 22)
    assert model.loo_error_bound(kind="printed") < 0
    assert error <= model.loo_error_bound(kind="count") <= model.loo_error_bound(kind="valid")


def test_bound_with_intercept_is_the_share_of_small_margins(data):
    X, y, weight = data
    model = make(ODMClassifier, 64.0, 16.0, 0.2).fit(X, y, sample_weight=weight)
    margin = np.where(y == 1, 1, -1) * model.decision_function(X)
    expected = weight[margin < 0.8].sum() / weight.sum()
    assert model.loo_error_bound(kind="count") == pytest.approx(expected)


def test_pickled_model_asks_for_its_training_data(data):
    X, y, weight = data
    model = make(ODMClassifier, 64.0, 16.0, 0.2).fit(X, y, sample_weight=weight)
    loaded = pickle.loads(pickle.dumps(model))
    with pytest.raises(ValueError, match="pass X, y"):
        loaded.loo_decision_function()
    with pytest.raises(ValueError, match="without y"):
        loaded.loo_decision_function(X)
    np.testing.assert_allclose(
        loaded.loo_decision_function(X, y, weight), model.loo_decision_function()
    )


@pytest.mark.parametrize("model", [ODMClassifier(), LDMClassifier()])
def test_other_data_than_those_of_the_fit_are_refused(data, model):
    X, y, weight = data
    model.fit(X, y)
    last = model.support_[-1]
    with pytest.raises(ValueError, match="pass the training data"):
        model.loo_error_bound(X[:last], y[:last])
    weight = weight.copy()
    weight[model.support_[0]] = 0.0
    with pytest.raises(ValueError, match="pass the training data"):
        model.loo_error_bound(X, y, weight)


def test_any_partition_works_as_folds(data):
    X, y, _ = data
    model = make(ODMClassifier, 64.0, 16.0, 0.2).fit(X, y)
    groups = np.arange(len(y)) // 4
    scores = model.kfold_decision_function(GroupKFold(3), groups=groups, exact=True)
    for _, test in GroupKFold(3).split(X, y, groups):
        expected = refitted_without(model, X, y, np.ones(len(y)), test)
        np.testing.assert_allclose(scores[test], expected, atol=1e-8)
    with pytest.raises(ValueError, match="partition"):
        model.kfold_decision_function(ShuffleSplit(2, test_size=0.7, random_state=0))
    with pytest.raises(ValueError, match="partition"):
        model.kfold_decision_function(ShuffleSplit(1, test_size=0.5, random_state=0))


def test_bound_kind_is_checked(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="kind"):
        ODMClassifier().fit(X, y).loo_error_bound(kind="tight")


def test_a_fold_with_every_active_sample_leaves_the_intercept():
    # Two samples can be fitted exactly within the band, so that S may become very small.
    X = np.array([[-1.0], [1.0], [-1.1], [1.1]])
    y = np.array([0, 1, 0, 1])
    model = ODMClassifier(C1=1024.0, C2=1024.0, D=0.9, kernel="linear").fit(X, y)
    assert np.isfinite(model.loo_decision_function()).all()
    assert np.isfinite(model.kfold_decision_function(2)).all()


def test_closed_form_stays_within_the_memory_limit_of_the_fit():
    X, y = make_moons(3000, noise=0.2, random_state=0)
    model = ODMClassifier(2.0**16, 0.0, 0.2, gamma=10.0, random_state=0)
    expected = model.fit(X, y).loo_decision_function()
    model.set_params(solver="newton_cg", cache_size=20).fit(X, y)
    tracemalloc.start()
    scores = model.loo_decision_function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 20e6  # the whole matrix has 72 MB
    np.testing.assert_allclose(scores, expected, atol=1e-5)


@pytest.mark.parametrize("penalties", [(2.0**14, 16.0, 0.3), (2.0**10, 2.0**8, 0.1)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_exact_form_with_a_memory_limit_is_that_without(penalties, fit_intercept):
    X, y = make_moons(100, noise=0.3, random_state=1)
    model = ODMClassifier(*penalties, gamma=5.0, fit_intercept=fit_intercept, random_state=0)
    expected = model.fit(X, y).loo_decision_function(exact=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that little fits
        limited = model.set_params(solver="newton_cg", cache_size=0.02, tol=1e-9).fit(X, y)
        scores = limited.loo_decision_function(exact=True)
    np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_closed_form_beyond_the_memory_limit_says_what_to_set():
    X, y = make_moons(2000, noise=0.2, random_state=0)
    model = ODMClassifier(256, 64, 0.2, gamma=10.0, solver="newton_cg", cache_size=7)
    with pytest.warns(UserWarning, match="more than cache_size has room for"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="set cache_size to that"):
        model.loo_decision_function()


@pytest.mark.parametrize("design", ["dense-centred", "csr", "gram", "panels-half-kept"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("exact", [True, False])
def test_samples_left_out_of_a_loss_in_python_are_those_of_the_compiled_one(
    design, fit_intercept, exact
):
    X, y = two_classes(40, 4)
    band = LOSSES[1]
    folds = np.array_split(np.random.default_rng(0).permutation(40), 4)
    found = []
    for loss in (band, PlainBand(band.C1, band.C2, band.D)):
        made = make_design(design, X)[0]
        problem = make_problem(loss, made, y, fit_intercept=fit_intercept)
        best = Newton(tol=1e-14, max_iter=100).solve(problem)
        fit = (problem, best.coef, best.intercept)
        models = models_without(*fit, folds, exact=exact)
        without = [made.decision(w)[k] + b for k, (w, b) in zip(folds, models, strict=True)]
        found.append((leave_one_out(*fit, exact=exact), np.concatenate(without)))
    for compiled, python in zip(*found, strict=True):
        np.testing.assert_allclose(python, compiled, atol=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("design", ["dense", "gram"])
def test_the_closed_form_of_numbers_as_targets_is_that_of_refits(design, fit_intercept):
    """Ridge regression: no sample enters or leaves, so that the closed form is exact."""
    X, _ = two_classes(25, 3)
    rng = np.random.default_rng(1)
    target = Target(rng.normal(size=25), rng.choice([-1.0, 1.0], 25), np.full(25, 1 / 25))
    made = make_design(design, X)[0]
    objective = ODM(8.0, 8.0, 0.0)
    problem = objective.problem(made, target, fit_intercept=fit_intercept)
    best = Newton(tol=1e-14, max_iter=50).solve(problem)
    left_out = leave_one_out(problem, best.coef, best.intercept)
    for i in range(25):
        refitted = Newton(tol=1e-14, max_iter=50).solve(problem.without([i]))
        decision = made.decision(refitted.coef)[i] + refitted.intercept
        assert left_out[i] == pytest.approx(decision, abs=1e-9)
