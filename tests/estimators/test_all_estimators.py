"""What every estimator promises, asked of every estimator."""

import gc
import pickle
import sys
import warnings
import weakref

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import make_scorer

from optimargin import (
    LDMClassifier,
    LinearLDMClassifier,
    LinearODMClassifier,
    LinearODMClassifierCV,
    ODMClassifier,
    ODMClassifierCV,
)
from optimargin.chunks import ArrayChunks
from optimargin_study.baselines import MaximalAverageMargin
from tests.cases import CauchyKernel, EstimatorCase, estimator_cases, two_classes, untidy_csr

every_estimator = pytest.mark.parametrize("case", estimator_cases())
weighted_estimators = pytest.mark.parametrize("case", estimator_cases("weights"))


classifiers = pytest.mark.parametrize("case", estimator_cases("classifier"))


def data(n_samples=40, *, seed=0):
    """Return rows and labels "a" and "b"."""
    X, y = two_classes(n_samples, 3, seed=seed)
    return X, np.where(y > 0, "b", "a")


def on_folds(case, fold):
    """Return the case's model; a search is given folds, for equal rows to be in equal folds."""
    model = clone(case.model)
    if not case.is_search:
        return model
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(2)]
    return model.set_params(cv=splits)


# Weights


@weighted_estimators
def test_a_weight_is_a_number_of_repetitions(case):
    X, y = case.data()
    times = np.random.default_rng(0).integers(1, 4, size=40)
    fold = np.arange(40) % 2
    repeated = np.repeat(np.arange(40), times)
    weighted = on_folds(case, fold).fit(X, y, sample_weight=times)
    longer = on_folds(case, fold[repeated]).fit(X[repeated], y[repeated])
    new = case.data(seed=1)[0]
    np.testing.assert_allclose(
        case.outputs(weighted, new), case.outputs(longer, new), atol=case.digits
    )


@weighted_estimators
def test_rows_of_zero_weight_might_as_well_be_absent(case):
    X, y = case.data()
    fold = np.arange(40) % 2
    weight = np.where(np.arange(40) % 5 == 2, 0.0, 1.5)
    kept = np.flatnonzero(weight)
    with_zeros = on_folds(case, fold).fit(X, y, sample_weight=weight)
    without = on_folds(case, fold[kept]).fit(X[kept], y[kept], sample_weight=weight[kept])
    np.testing.assert_allclose(
        case.outputs(with_zeros, X), case.outputs(without, X), atol=case.digits
    )


# Labels, precision, containers

LABELS = {
    "text": np.array(["no", "yes"]),
    "objects": np.array(["no", "yes"], dtype=object),
    "truth values": np.array([False, True]),
    "negative integers": np.array([-7, -2]),
    "small integers": np.array([1, 2], dtype=np.int8),
    "floats": np.array([-0.0, 2.0]),
}


@classifiers
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_of_any_type_come_back(case, labels):
    X, y = data()
    named = labels[(y == "b").astype(int)]
    model, reference = clone(case.model).fit(X, named), clone(case.model).fit(X, y)
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.predict(X).dtype == named.dtype
    np.testing.assert_array_equal(model.decision_function(X), reference.decision_function(X))
    np.testing.assert_array_equal(model.predict(X), labels[(model.decision_function(X) > 0) + 0])


@pytest.mark.parametrize("case", estimator_cases("several_classes"))
def test_several_classes_have_a_column_each_and_the_largest_wins(case):
    X, _ = data(60)
    y = np.array(["u", "v", "w"])[np.argmax(X, axis=1)]
    model = clone(case.model).fit(X, y)
    scores = model.decision_function(X)
    assert scores.shape == (60, 3)
    np.testing.assert_array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])
    assert model.score(X, y) > 0.7


@pytest.mark.parametrize("case", estimator_cases("any_precision"))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_precision_of_the_data_is_kept(case, dtype):
    X, y = case.data()
    model = clone(case.model).fit(X.astype(dtype), y)
    assert case.outputs(model, X.astype(dtype)).dtype == dtype
    for name, value in vars(model).items():
        if name in ("coef_", "intercept_", "dual_coef_", "support_vectors_"):
            assert value.dtype == dtype, name


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


DENSE = {
    "list": np.ndarray.tolist,
    "pandas": lambda X: pd.DataFrame(X, columns=["a", "b", "c"]),
    "polars": lambda X: pl.DataFrame(dict(zip("abc", X.T, strict=True))),
    "fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "read-only": read_only,
}
SPARSE = {
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "coo": sp.coo_array,
    "csr-matrix": sp.csr_matrix,
    "untidy": untidy_csr,
}


@every_estimator
@pytest.mark.parametrize("make", DENSE.values(), ids=DENSE)
def test_dense_containers_give_the_fit_of_the_array(case, make):
    X, y = case.data()
    reference = clone(case.model).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model = clone(case.model).fit(make(X), y)
        scores = case.outputs(model, make(X))
    np.testing.assert_allclose(scores, case.outputs(reference, X), rtol=1e-9, atol=1e-10)
    assert hasattr(model, "feature_names_in_") == (make in (DENSE["pandas"], DENSE["polars"]))


@pytest.mark.parametrize("case", estimator_cases("sparse"))
@pytest.mark.parametrize("make", SPARSE.values(), ids=SPARSE)
def test_sparse_containers_give_the_fit_of_the_array(case, make):
    X, y = case.data()
    X[np.arange(40), np.arange(40) % 3] = 0.0
    before = make(X)
    given = before.copy()
    model = clone(case.model).fit(given, y)
    scores = case.outputs(model, given)
    reference = clone(case.model).fit(X, y)
    np.testing.assert_allclose(scores, case.outputs(reference, X), atol=max(1e-6, case.digits))
    assert abs(given - before).sum() == 0
    assert given.nnz == before.nnz


# Bad input


def spoilt(value):
    X = data()[0]
    X[3, 1] = value
    return X


BAD_DATA = {
    "nan": (spoilt(np.nan), data()[1], "X contains NaN"),
    "infinity": (spoilt(np.inf), data()[1], "X contains infinity"),
    "overflow": (data()[0] * 1e300, data()[1], "overflow|too large|infinity"),
    "one class": (data()[0], np.full(40, "a"), "one class only"),
    "lengths": (data()[0], data()[1][:-1], "inconsistent numbers of samples"),
    "no y": (data()[0], None, "requires y"),
    "no rows": (data()[0][:0], data()[1][:0], "0 sample"),
    "no columns": (data()[0][:, :0], data()[1], "0 feature"),
    "one dimension": (data()[0][:, 0], data()[1], "Expected 2D array"),
    "text": (np.full((40, 2), "x", dtype=object), data()[1], "could not convert string"),
    "complex": (data()[0] * 1j, data()[1], "Complex data not supported"),
    "regression": (data()[0], data()[0][:, 0], "Unknown label type"),
    "two columns of labels": (data()[0], np.ones((40, 2)), "1d array|multilabel|Unknown label"),
}
BAD_WEIGHTS = {
    "negative": (np.where(np.arange(40) == 3, -1.0, 1.0), "negative"),
    "nan": (np.full(40, np.nan), "NaN"),
    "short": (np.ones(39), "sample_weight"),
    "all zero": (np.zeros(40), "zero"),
    "overflow": (np.full(40, 1e308), "overflows"),
}


@pytest.mark.filterwarnings("error")
@classifiers
@pytest.mark.parametrize(("X", "y", "message"), BAD_DATA.values(), ids=BAD_DATA)
def test_bad_data_are_named(case, X, y, message):
    model = clone(case.model)
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
        model.fit(X, y)
    assert vars(model).keys() == model.get_params().keys()


NUMBERS = data()[0][:, 0] + 3.0


def spoilt_numbers(value):
    y = NUMBERS.astype(type(value)) if isinstance(value, complex) else NUMBERS.copy()
    y[3] = value
    return y


BAD_NUMBERS = {
    **{
        name: (BAD_DATA[name][0], NUMBERS, BAD_DATA[name][2])
        for name in ("nan", "infinity", "overflow", "no columns", "one dimension", "text")
    },
    "nan in y": (data()[0], spoilt_numbers(np.nan), "y contains NaN"),
    "infinity in y": (data()[0], spoilt_numbers(np.inf), "y contains infinity"),
    "complex y": (data()[0], spoilt_numbers(1j), "(?i)complex"),
    "text in y": (data()[0], np.full(40, "a"), "y has text"),
    "objects in y": (data()[0], np.full(40, "a", dtype=object), "y has text"),
    "numbers as text": (data()[0], np.full(40, "1.5"), "y has text"),
    "huge y": (data()[0], NUMBERS * 1e300, "y has values as large as .*divide y"),
    "tiny y": (data()[0], NUMBERS * 1e-300, "Multiply y by a constant"),
    "lengths": (data()[0], NUMBERS[:-1], "inconsistent numbers of samples"),
    "no y": (data()[0], None, "requires y"),
    "no targets": (data()[0], np.empty((40, 0)), "0 feature|y has shape"),
    "three dimensions": (data()[0], np.ones((40, 2, 2)), "dim 3|y has shape"),
    "sparse y": (data()[0], sp.csr_array(NUMBERS[:, None]), "y is sparse|[Ss]parse"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", estimator_cases("regressor"))
@pytest.mark.parametrize(("X", "y", "message"), BAD_NUMBERS.values(), ids=BAD_NUMBERS)
def test_bad_numbers_are_named(case, X, y, message):
    model = clone(case.model)
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
        model.fit(X, y)
    assert vars(model).keys() == model.get_params().keys()


BAD_ROWS = [
    "nan",
    "infinity",
    "overflow",
    "no rows",
    "no columns",
    "one dimension",
    "text",
    "complex",
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", estimator_cases("outlier_detector"))
@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_are_named(case, name):
    X, _, message = BAD_DATA[name]
    model = clone(case.model)
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
        model.fit(X)
    assert vars(model).keys() == model.get_params().keys()


@pytest.mark.parametrize("case", estimator_cases("weights", "classifier"))
def test_a_class_without_weight_is_named(case):
    X, y = data()
    with pytest.raises(ValueError, match="class 'b' have zero weight"):
        clone(case.model).fit(X, y, sample_weight=(y == "a") * 1.0)


@weighted_estimators
@pytest.mark.parametrize(("weight", "message"), BAD_WEIGHTS.values(), ids=BAD_WEIGHTS)
def test_bad_weights_are_named(case, weight, message):
    X, y = case.data()
    with pytest.raises((ValueError, TypeError), match=f"(?si){message}"):
        clone(case.model).fit(X, y, sample_weight=weight)


@every_estimator
def test_sparse_data_are_taken_or_refused_in_words(case):
    X, y = case.data()
    if case.sparse:
        spoilt = sp.csr_array(X)
        spoilt.indices = spoilt.indices.copy()
        spoilt.indices[0] = 7
        with pytest.raises(ValueError, match="3 columns with indices from"):
            clone(case.model).fit(spoilt, y)
    else:
        with pytest.raises(TypeError, match=r"(?i)sparse data was passed"):
            clone(case.model).fit(sp.csr_array(X), y)


@every_estimator
def test_an_unfitted_model_and_other_features_are_refused(case):
    X, y = case.data()
    for ask in (lambda model: model.predict(X), lambda model: case.outputs(model, X)):
        with pytest.raises(NotFittedError):
            ask(clone(case.model))
    model = clone(case.model).fit(X, y)
    with pytest.raises(ValueError, match=r"2 features.*expecting 3"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        model.predict(spoilt(np.nan))


@pytest.mark.parametrize(
    "model",
    [m.values[0].model for m in estimator_cases("classifier") if not m.values[0].several_classes],
)
def test_a_classifier_of_two_classes_refuses_three(model):
    X, _ = data()
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        clone(model).fit(X, np.arange(40) % 3)


# Copies and what is left behind


@every_estimator
def test_pickling_keeps_the_decisions_and_drops_the_training_data(case):
    X, y = case.data()
    mark = 123456.789
    options = {"sample_weight": np.full(40, mark)} if case.weights else {}
    model = clone(case.model).fit(X, y, **options)
    stored = pickle.dumps(model)
    restored = pickle.loads(stored)
    np.testing.assert_array_equal(case.outputs(restored, X), case.outputs(model, X))
    np.testing.assert_array_equal(restored.predict(X), model.predict(X))
    # Kernel models keep targets and weights of their samples, for intervals and sets.
    keeps = hasattr(getattr(model, "best_estimator_", model), "_kept")
    assert keeps or np.float64(mark).tobytes() not in stored
    if not hasattr(model, "support_vectors_"):
        assert X[0].tobytes() not in stored
    for part in (restored, getattr(restored, "best_estimator_", restored)):
        assert not hasattr(part, "_training_data")


@every_estimator
def test_a_clone_fits_to_the_same_model(case):
    X, y = case.data()
    model = clone(case.model).fit(X, y)
    twin = clone(model)
    assert vars(twin).keys() == twin.get_params().keys()
    np.testing.assert_array_equal(case.outputs(twin.fit(X, y), X), case.outputs(model, X))


def fitted_names(model):
    return vars(model).keys() - model.get_params(deep=False).keys()


ROWS, Y = data()
FRAME = pd.DataFrame(ROWS, columns=["a", "b", "c"])
THREE = np.arange(40) % 3
GRID = {"C1s": [4.0], "C2s": [1.0], "Ds": [0.2]}
# What is fitted first, how it is changed, and what is fitted then.
REFITS = {
    "rbf, linear": (ODMClassifier(), {"kernel": "linear"}),
    "rbf, landmarks": (
        ODMClassifier(random_state=0),
        {"approximation": "nystrom", "n_components": 9},
    ),
    "landmarks, rbf": (ODMClassifier(approximation="nystrom"), {"approximation": None}),
    "rbf, callable": (ODMClassifier(), {"kernel": CauchyKernel()}),
    "LDM rbf, linear": (LDMClassifier(), {"kernel": "linear"}),
    "interior point, dcd": (LinearLDMClassifier(random_state=0), {"solver": "dcd"}),
    "search, grid": (ODMClassifierCV(max_evals=3), GRID),
    "rbf search, linear search": (ODMClassifierCV(max_evals=3), {"kernel": "linear"}),
    "folds, closed form": (ODMClassifierCV(**GRID, widths=[1], cv=3), {"cv": None}),
    "five folds, two folds": (LinearODMClassifierCV(**GRID, cv=5), {"cv": 2}),
    "baseline": (MaximalAverageMargin(), {"kernel": "linear"}),
}


@pytest.mark.parametrize(("model", "changes"), REFITS.values(), ids=REFITS)
def test_a_refit_leaves_nothing_of_the_fit_before(model, changes):
    model = clone(model).fit(FRAME, Y).set_params(**changes).fit(ROWS, Y)
    fresh = clone(model).fit(ROWS, Y)
    assert fitted_names(model) == fitted_names(fresh)
    np.testing.assert_array_equal(model.decision_function(ROWS), fresh.decision_function(ROWS))
    if getattr(model, "kernel", None) == "linear":
        assert not hasattr(model, "gamma_")
    assert not hasattr(model, "feature_names_in_")
    for name, value in getattr(fresh, "cv_results_", {}).items():
        if name != "params":
            np.testing.assert_array_equal(model.cv_results_[name], value)


@pytest.mark.parametrize("case", estimator_cases("several_classes"))
def test_a_refit_to_other_classes_leaves_nothing_of_those_before(case):
    model = clone(case.model).fit(ROWS, THREE).fit(ROWS, Y)
    fresh = clone(case.model).fit(ROWS, Y)
    assert fitted_names(model) == fitted_names(fresh)
    np.testing.assert_array_equal(model.decision_function(ROWS), fresh.decision_function(ROWS))


def test_fits_to_arrays_chunks_and_streams_replace_each_other():
    stream = LinearODMClassifier().partial_fit(ROWS, Y, classes=["a", "b"])
    assert stream.fit(ROWS, Y).objective_ > 0
    assert not hasattr(stream, "t_")
    stream.partial_fit(ROWS, Y, classes=["a", "b"])
    assert not hasattr(stream, "objective_")
    assert not hasattr(stream, "_training_data")
    low_rank = ODMClassifier(approximation="nystrom", n_components=9).fit(ROWS, Y)
    assert hasattr(low_rank, "support_")
    low_rank.fit_chunks(ArrayChunks(ROWS, Y, chunk_rows=11))
    assert not hasattr(low_rank, "support_")
    assert not hasattr(low_rank, "_training_data")


# Fits that fail


class Failure(Exception):
    """Raised in the middle of a fit."""


class FailingKernel:
    """A kernel that works until it is told to fail."""

    def __init__(self):
        self.error = None

    def __call__(self, X, Z):
        if self.error is not None:
            raise self.error
        return CauchyKernel()(X, Z)


def fail_once(model, fit, error):
    """Check that a failing fit leaves a model as it was, able to be saved, and without data."""
    before = dict(vars(model))
    X, y = EstimatorCase(model).data(seed=3)
    held = weakref.ref(X)
    with pytest.raises(type(error)):
        fit(model, X, y)
    del X
    error.__traceback__ = None
    if held() is not None:  # but by a cycle
        gc.collect()
    assert held() is None, "the data of the failed fit are held"
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)


ERRORS = [Failure("in the middle"), KeyboardInterrupt()]
every_error = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)


@every_error
@pytest.mark.parametrize("fitted", [True, False], ids=["fitted", "fresh"])
@pytest.mark.parametrize("case", estimator_cases("takes_functions"))
def test_a_kernel_that_fails_leaves_the_model_as_it_was(case, fitted, error):
    kernel = FailingKernel()
    model = clone(case.model).set_params(kernel=kernel)
    if case.is_search:
        model.set_params(widths=None)
    if fitted:
        model.fit(ROWS, case.data()[1])
    model.kernel.error = error
    fail_once(model, lambda m, X, y: m.fit(X, y), error)
    if fitted:
        model.kernel.error = None
        expected = case.outputs(model, ROWS)
        np.testing.assert_array_equal(
            case.outputs(pickle.loads(pickle.dumps(model)), ROWS), expected
        )


@every_error
@every_estimator
def test_a_solver_that_fails_leaves_the_model_as_it_was(case, error, monkeypatch):
    model = clone(case.model).fit(ROWS, case.data()[1])
    expected = case.outputs(model, ROWS)

    def fail(*args, **kwargs):
        raise error

    if case.callbacks:
        monkeypatch.setattr(sys.modules["optimargin.training.train"], "solve_all", fail)
    else:
        monkeypatch.setattr(type(model), "_fit", fail)
    fail_once(model, lambda m, X, y: m.fit(X, y), error)
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(case.outputs(restored, ROWS), expected)


class FailingScore:
    """A score that fails at its n-th call."""

    def __init__(self, n_calls, error):
        self.n_left, self.error = n_calls, error

    def __call__(self, y, predicted):
        self.n_left -= 1
        if self.n_left == 0:
            raise self.error
        return float(np.mean(y == predicted))


@pytest.mark.parametrize("n_calls", [1, 2])
@pytest.mark.parametrize("case", estimator_cases("is_search"))
def test_a_scorer_that_fails_leaves_the_model_as_it_was(case, n_calls):
    model = clone(case.model).fit(ROWS, case.data()[1])
    expected = case.outputs(model, ROWS)
    model.set_params(scoring=make_scorer(FailingScore(n_calls, Failure("no such luck"))))
    fail_once(model, lambda m, X, y: m.fit(X, y), model.scoring._score_func.error)
    np.testing.assert_array_equal(case.outputs(model, ROWS), expected)
    pickle.dumps(model)


@pytest.mark.parametrize("n_calls", [1, 2])
@pytest.mark.parametrize("case", estimator_cases("is_search"))
def test_an_interrupted_search_keeps_the_model_it_had(case, n_calls):
    model = clone(case.model).fit(ROWS, case.data()[1])
    error = KeyboardInterrupt()
    model.set_params(scoring=make_scorer(FailingScore(n_calls, error)))
    fail_once(model, lambda m, X, y: m.fit(X, y), error)


@pytest.mark.parametrize("case", estimator_cases("is_search"))
def test_an_interrupted_search_without_a_model_keeps_what_it_found(case):
    first = 2 if getattr(case.model, "widths", None) is None else 3  # grids score two at a time
    scoring = make_scorer(FailingScore(first, KeyboardInterrupt()))
    model = clone(case.model).set_params(scoring=scoring)
    with pytest.raises(KeyboardInterrupt):
        model.fit(ROWS, case.data()[1])
    assert not hasattr(model, "best_estimator_")
    assert np.isfinite(model.cv_results_["mean_test_score"]).any()


@pytest.mark.parametrize("fit", ["fit_chunks", "partial_fit"])
def test_chunks_and_streams_that_fail_leave_the_model_as_it_was(fit, monkeypatch):
    error = Failure("in the middle")

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr("optimargin.training.chunks.serve", fail)
    monkeypatch.setattr("optimargin.estimators._stream.follow", fail)

    def refit(model, X, y):
        if fit == "partial_fit":
            model.partial_fit(X, y, classes=["a", "b"])
        else:
            model.fit_chunks(ArrayChunks(X, y, chunk_rows=10))

    fail_once(LinearODMClassifier(), refit, error)
    fail_once(LinearODMClassifier().fit(ROWS, Y), refit, error)
    if fit == "fit_chunks":  # whose solvers of several classes run in threads
        fail_once(LinearODMClassifier().fit(ROWS, THREE), refit, error)
