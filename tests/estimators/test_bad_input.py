"""Every bad input ends in an error that names the culprit and what to do about it."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from optimargin import (
    LDMClassifier,
    LinearLDMClassifier,
    LinearODMClassifier,
    LinearODMClassifierCV,
    ODMClassifier,
    ODMClassifierCV,
    ODMRegressor,
    OneClassODM,
)
from optimargin_study.baselines import MaximalAverageMargin
from tests.cases import ODM_ESTIMATORS, models, two_classes, untidy_csr, with_wide_indices

X, Y = two_classes(20, 3)

every_estimator = pytest.mark.parametrize("estimator", ODM_ESTIMATORS)
ODM_PARAMETERS = [
    ("C1", 0, "range (0.0, 1e+30]"),
    ("C1", -1.0, "range (0.0, 1e+30]"),
    ("C1", np.nan, "range (0.0, 1e+30]"),
    ("C1", np.inf, "range (0.0, 1e+30]"),
    ("C1", "1", "must be a float"),
    ("C2", -1e-9, "range [0.0, 1e+30]"),
    ("C2", np.inf, "range [0.0, 1e+30]"),
    ("D", -0.1, "range [0.0, 1.0)"),
    ("D", 1.0, "range [0.0, 1.0)"),
    ("solver", "simplex", "'newton'"),
    ("tol", 0.0, "range (0.0, inf)"),
    ("max_iter", 0, "range [1, inf)"),
    ("max_iter", 10.5, "must be an int"),
    ("fit_intercept", "yes", "bool"),
    ("class_weight", "equal", "'balanced'"),
    ("random_state", "seed", "int"),
]
KERNEL_PARAMETERS = [
    ("kernel", "gaussian", "'rbf'"),
    ("kernel", None, "callable"),
    ("gamma", "wide", "'mean_distance'"),
    ("gamma", 0.0, "range (0.0, inf)"),
    ("gamma", -1.0, "range (0.0, inf)"),
    ("gamma", np.nan, "range (0.0, inf)"),
    ("degree", -1, "range [0.0, inf)"),
    ("coef0", np.inf, "range (-inf, inf)"),
    ("cache_size", 0, "range (0.0, inf)"),
]


def spoilt(value):
    bad = X.copy()
    bad[3, 1] = value
    return bad


@every_estimator
@pytest.mark.parametrize(("name", "value", "fix"), ODM_PARAMETERS)
def test_a_parameter_out_of_range_is_named_with_its_range(estimator, name, value, fix):
    pattern = f"'{name}' parameter of {estimator.__name__}.*{re.escape(fix)}"
    with pytest.raises((ValueError, TypeError), match=pattern):
        estimator(**{name: value}).fit(X, Y)


@pytest.mark.parametrize(("name", "value", "fix"), KERNEL_PARAMETERS)
def test_a_kernel_parameter_out_of_range_is_named_with_its_range(name, value, fix):
    with pytest.raises(ValueError, match=f"'{name}' parameter of ODM.*{re.escape(fix)}"):
        ODMClassifier(**{name: value}).fit(X, Y)


BAD_DATA = {
    "nan": (spoilt(np.nan), Y, "X contains NaN"),
    "inf": (spoilt(np.inf), Y, "X contains infinity"),
    "sparse nan": (sp.csr_array(spoilt(np.nan)), Y, "X contains NaN"),
    "nan in y": (X, np.where(Y > 0, np.nan, 1.0), "y contains NaN"),
    "no samples": (X[:0], Y[:0], "0 sample"),
    "no features": (X[:, :0], Y, r"0 feature\(s\).*minimum of 1"),
    "one class": (X, np.zeros(20), "one class.*two classes"),
    "lengths differ": (X, Y[:-1], r"inconsistent numbers of samples: \[20, 19\]"),
    "one dimension": (X[:, 0], Y, "Expected 2D array.*\n*.*Reshape"),
    "y missing": (X, None, "requires y"),
    "y with two columns": (X, np.column_stack([Y, Y]), "y should be a 1d array"),
    "a regression target": (X, X[:, 0], "Unknown label type: continuous"),
    "complex": (X * 1j, Y, "Complex data not supported"),
    "text": (np.full((20, 2), "a", dtype=object), Y, "could not convert string to float"),
    "objects": (np.array([[{}, 1]] * 20, dtype=object), Y, "must be a string or a real number"),
    "overflow": (X * 1e300, Y, "e.300.*overflow.*scale the features.*StandardScaler"),
    "sparse overflow": (sp.csr_array(X * 1e300), Y, "overflow.*scale the features"),
}


@every_estimator
@pytest.mark.parametrize(("data", "labels", "message"), BAD_DATA.values(), ids=BAD_DATA)
def test_bad_data_are_refused_in_plain_words(estimator, data, labels, message):
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
        estimator().fit(data, labels)


BAD_WEIGHTS = {
    "negative": (np.where(np.arange(20) == 4, -1.0, 1.0), "sample_weight has negative values"),
    "all zero": (np.zeros(20), "(?i)sample.weight.*zero"),
    "nan": (np.full(20, np.nan), "sample_weight contains NaN"),
    "a class without weight": (
        np.where(Y > 0, 1.0, 0.0),
        "class.*-1.*zero weight.*positive weight",
    ),
    "wrong length": (np.ones(19), "sample_weight"),
    "two columns": (np.ones((20, 2)), "(?i)sample.weights must be 1D"),
    "overflow": (np.full(20, 1e308), "sample_weight overflows.*smaller weights"),
}


@every_estimator
@pytest.mark.parametrize(("weight", "message"), BAD_WEIGHTS.values(), ids=BAD_WEIGHTS)
def test_bad_weights_are_refused_in_plain_words(estimator, weight, message):
    with pytest.raises(ValueError, match=message):
        estimator().fit(X, Y, sample_weight=weight)


BAD_CLASS_WEIGHTS = {
    "negative": ({-1.0: -1.0}, "class_weight has negative"),
    "infinite": ({-1.0: np.inf}, "class_weight has.*non-finite"),
    "zero": ({-1.0: 0.0}, "class.*-1.*zero weight.*class_weight.*positive weight"),
    "unknown label": ({7: 1.0}, "class_weight"),
}


@every_estimator
@pytest.mark.parametrize(("weight", "message"), BAD_CLASS_WEIGHTS.values(), ids=BAD_CLASS_WEIGHTS)
def test_bad_class_weights_are_refused_in_plain_words(estimator, weight, message):
    with pytest.raises(ValueError, match=message):
        estimator(class_weight=weight).fit(X, Y)


@every_estimator
@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_prediction_before_fit_says_so(estimator, method):
    with pytest.raises(NotFittedError, match=r"not fitted yet. Call 'fit'"):
        getattr(estimator(), method)(X)


@every_estimator
def test_prediction_with_another_number_of_features_names_both(estimator):
    with pytest.raises(ValueError, match=r"X has 2 features.*expecting 3 features"):
        estimator().fit(X, Y).predict(X[:, :2])


@every_estimator
def test_prediction_with_other_feature_names_lists_them(estimator):
    frame = pd.DataFrame(X, columns=["height", "width", "depth"])
    model = estimator().fit(frame, Y)
    with pytest.raises(ValueError, match=r"(?s)feature names should match.*weight"):
        model.predict(frame.rename(columns={"width": "weight"}))


@every_estimator
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_prediction_on_bad_values_is_refused(estimator, value):
    with pytest.raises(ValueError, match="X contains"):
        estimator().fit(X, Y).predict(spoilt(value))


def test_a_precomputed_matrix_must_be_square():
    with pytest.raises(ValueError, match=r"(?s)(?=.*precomputed)(?=.*square)(?=.*20, ?3)"):
        ODMClassifier(kernel="precomputed").fit(X, Y)


def test_a_precomputed_matrix_must_be_symmetric():
    with pytest.raises(ValueError, match=r"not symmetric.*\(K \+ K.T\) / 2"):
        ODMClassifier(kernel="precomputed").fit(X @ np.ones((3, 20)), Y)


def test_a_precomputed_matrix_for_prediction_must_have_a_column_a_training_sample():
    model = ODMClassifier(kernel="precomputed").fit(X @ X.T, Y)
    with pytest.raises(ValueError, match=r"X has 19 features.*expecting 20"):
        model.predict((X @ X.T)[:, 1:])


def test_a_sparse_precomputed_matrix_is_refused_with_the_fix():
    with pytest.raises(TypeError, match=r"Sparse data.*toarray"):
        ODMClassifier(kernel="precomputed").fit(sp.csr_array(X @ X.T), Y)


@pytest.mark.parametrize("scale", [1e200, 1e300])
def test_a_precomputed_matrix_whose_products_overflow_is_refused(scale):
    with pytest.raises(ValueError, match="overflow"):
        ODMClassifier(kernel="precomputed").fit(scale * (X @ X.T), Y)


def test_a_kernel_that_overflows_asks_for_scaling():
    with pytest.raises(ValueError, match=r"'poly' overflows.*scale the features"):
        ODMClassifier(kernel="poly", degree=9, gamma=1.0).fit(X * 1e40, Y)


@pytest.mark.parametrize("model", models("precomputed", "callable"))
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_a_single_precision_overflow_asks_for_scaling(model, make):
    with pytest.raises(ValueError, match=r"overflow.*scale the features"):
        clone(model).fit(make((X * 1e25).astype(np.float32)), Y)


def test_a_fractional_degree_of_negative_products_is_explained():
    with pytest.raises(ValueError, match="degree"):
        ODMClassifier(kernel="poly", degree=2.5).fit(X - X.mean(axis=0), Y)


BAD_CALLABLES = {
    "shape": (lambda A, B: np.ones((2, 2)), r"callable returned.*\(2, 2\).*must return \(20, 20\)"),
    "nan": (lambda A, B: np.full((len(A), len(B)), np.nan), "(?i)callable.*(NaN|finite)"),
    "asymmetric": (lambda A, B: A @ B.T + np.arange(len(B)), "not symmetric.*must satisfy"),
    "complex": (lambda A, B: 1j * (A @ B.T), "(?i)complex"),
}


@pytest.mark.parametrize(("kernel", "message"), BAD_CALLABLES.values(), ids=BAD_CALLABLES)
def test_a_callable_that_is_no_kernel_is_refused(kernel, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ODMClassifier(kernel=kernel).fit(X, Y)


@every_estimator
@pytest.mark.parametrize("make", [with_wide_indices, untidy_csr])
def test_unusual_sparse_matrices_work_and_are_not_modified(estimator, make):
    sparse = make(X)
    parts = [part.copy() for part in (sparse.data, sparse.indices, sparse.indptr)]
    model = estimator().fit(sparse, Y)
    scores = model.decision_function(sparse)
    for before, after in zip(parts, (sparse.data, sparse.indices, sparse.indptr), strict=True):
        np.testing.assert_array_equal(before, after)
        assert before.dtype == after.dtype
    dense = estimator().fit(X, Y)
    assert model.objective_ == pytest.approx(dense.objective_, rel=1e-10)
    np.testing.assert_allclose(scores, dense.decision_function(X), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(np.float64, 1e-25), (np.float64, 1e20), (np.float32, 1e-20), (np.float32, 1e10)],
)
def test_the_scale_of_the_features_does_not_change_the_rbf_model(scale, dtype):
    X, y = two_classes(750)
    for solver in ("dcd", "bcd"):
        plain = ODMClassifier(tol=1e-6, solver=solver).fit(X.astype(dtype), y)
        scaled = ODMClassifier(tol=1e-6, solver=solver).fit((X * scale).astype(dtype), y)
        assert scaled.objective_ == pytest.approx(plain.objective_, rel=1e-4)


def test_class_weights_that_overflow_are_named():
    X, y = two_classes(20)
    model = ODMClassifier(class_weight=dict.fromkeys(np.unique(y), 1e300))
    with pytest.raises(ValueError, match="class_weight overflows"):
        model.fit(X, y, sample_weight=np.full(20, 1e10))


@pytest.mark.parametrize("gamma", ["scale", "mean_distance"])
@pytest.mark.parametrize("size", [1e-200, 1e160, 1e306])
def test_the_scale_of_the_weights_does_not_change_gamma(gamma, size):
    X, y = two_classes(20)
    expected = ODMClassifier(gamma=gamma).fit(X, y).gamma_
    model = ODMClassifier(C1=16, gamma=gamma).fit(X, y, sample_weight=np.full(20, size))
    assert model.gamma_ == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("model", [ODMClassifier(), LDMClassifier(), LinearLDMClassifier()])
def test_labels_unknown_to_the_model_cannot_be_left_out(model):
    X, y = two_classes(20)
    model.fit(X, y)
    with pytest.raises(ValueError, match="labels the model was not fitted with"):
        model.loo_error_bound(X, np.where(y == y[0], "a", "b"))


@every_estimator
@pytest.mark.parametrize(
    "change",
    [lambda X, y: (X, -y), lambda X, y: (X[::-1], y), lambda X, y: (X[:30], y[:30])],
    ids=["other labels", "other order", "part"],
)
@pytest.mark.parametrize("n_features", [4, 100])
def test_other_data_than_those_of_the_fit_cannot_be_left_out(estimator, change, n_features):
    X, y = two_classes(60, n_features)
    model = estimator().fit(X, y)
    with pytest.raises(ValueError, match="training data"):
        model.loo_decision_function(*change(X, y))


@pytest.mark.parametrize("model", [ODMClassifier(), LinearODMClassifier(), LinearLDMClassifier()])
def test_training_data_that_overflow_cannot_be_left_out(model):
    X, y = two_classes(20)
    with pytest.raises(ValueError, match="overflow"):
        model.fit(X, y).loo_error_bound(X * 1e200, y)


@pytest.mark.parametrize("model", [ODMClassifier(kernel="poly"), LinearODMClassifier(C1=1e9)])
def test_predictions_that_overflow_are_refused(model):
    X, y = two_classes(20)
    X /= 1e3  # for coefficients above one
    with pytest.raises(ValueError, match=r"overflow on X .*scale the features"):
        model.fit(X, y).predict(np.full_like(X[:1], 1e308))


@pytest.mark.parametrize(
    "fit",
    [
        lambda: LinearODMClassifier(max_iter=1).fit(1e3 * X, Y),
        lambda: ODMClassifier(kernel="sigmoid", gamma=1.0).fit(X, Y),
        lambda: ODMClassifier(solver="newton_cg", cache_size=1e-3).fit(X, Y),
    ],
    ids=["convergence", "indefinite", "memory"],
)
def test_warnings_point_at_the_line_of_the_user(fit):
    with pytest.warns() as caught:
        fit()
    assert {warning.filename for warning in caught} == {__file__}


def test_warnings_need_no_module_around_them():
    code = "LinearODMClassifier(max_iter=1).fit(1e3 * X, Y)"
    with pytest.warns(ConvergenceWarning):
        exec(code, {"LinearODMClassifier": LinearODMClassifier, "X": X, "Y": Y})


@pytest.mark.parametrize("label", ["a", 1, True])
def test_labels_are_named_as_they_were_written(label):
    for model in (LinearODMClassifier(), LinearODMClassifierCV(), MaximalAverageMargin()):
        with pytest.raises(ValueError, match=re.escape(f"one class only ({label!r})")):
            model.fit(X, np.array([label] * len(X)))


@every_estimator
@pytest.mark.parametrize("index", [-1, 3, 10**6])
def test_sparse_matrices_with_columns_they_do_not_have_are_refused(estimator, index):
    spoilt = sp.csr_array(X)
    spoilt.indices = spoilt.indices.copy()
    spoilt.indices[0] = index
    with pytest.raises(ValueError, match="3 columns with indices from"):
        estimator().fit(spoilt, Y)
    with pytest.raises(ValueError, match="3 columns with indices from"):
        estimator().fit(X, Y).predict(spoilt)


def spoilt_matrices():
    """Sparse matrices whose inner arrays do not fit together."""
    filled = sp.csr_array(np.ones((40, 6)))

    def changed(matrix, name, change):
        part = getattr(matrix, name).copy()
        setattr(matrix, name, change(part))
        return matrix

    def put(place, value):
        def change(part):
            part[place] = value
            return part

        return change

    return {
        "column in the middle of a row": changed(filled.copy(), "indices", put(14, 5000)),
        "huge column in the middle": changed(filled.copy(), "indices", put(15, 2 * 10**9)),
        "negative column in the middle": changed(filled.copy(), "indices", put(15, -3)),
        "few values": changed(filled.copy(), "data", lambda data: data[:-7]),
        "falling rows": changed(filled.copy(), "indptr", put(3, 0)),
        "rows past the end": changed(filled.copy(), "indptr", put(-1, 10**6)),
        "rows before the start": changed(filled.copy(), "indptr", put(0, -4)),
        "missing row": changed(filled.copy(), "indptr", lambda indptr: indptr[:-1]),
        "csc": changed(filled.tocsc(), "indices", put(50, 10**6)),
        "bsr": changed(filled.tobsr((2, 2)), "indices", put(5, 10**6)),
        "coo": changed(filled.tocoo(), "col", put(5, 10**6)),
    }


@pytest.mark.parametrize("name", spoilt_matrices())
@pytest.mark.parametrize("model", [LinearODMClassifier(), ODMClassifier(), LinearODMClassifierCV()])
def test_sparse_matrices_whose_parts_do_not_fit_are_refused_before_they_are_read(name, model):
    spoilt, y = spoilt_matrices()[name], np.arange(40) % 2
    with pytest.raises(ValueError, match="X is a sparse matrix"):
        model.fit(spoilt, y)
    fitted = LinearODMClassifier().fit(np.ones((40, 6)), y)
    with pytest.raises(ValueError, match="X is a sparse matrix"):
        fitted.predict(spoilt)


@every_estimator
def test_indices_of_two_types_are_one_matrix(estimator):
    mixed = sp.csr_array(X)
    mixed.indptr = mixed.indptr.astype(np.int64)
    plain = sp.csr_array(X)
    np.testing.assert_array_equal(
        estimator().fit(mixed, Y).decision_function(mixed),
        estimator().fit(plain, Y).decision_function(plain),
    )


def test_a_sparse_matrix_without_entries_has_no_wrong_columns():
    model = LinearODMClassifier().fit(sp.csr_array(X.shape), Y)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        (LinearODMClassifier(), "set calibration='sigmoid' before fit"),
        (ODMClassifierCV(calibration=None), "set calibration='sigmoid' before fit"),
        (LDMClassifier(), r"CalibratedClassifierCV\(\w+\(\), ensemble=False"),
    ],
)
def test_missing_probabilities_are_explained(model, advice):
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match=advice):
        model.predict_proba(X)


@pytest.mark.filterwarnings("ignore:The number of unique classes")  # scikit-learn's own words
def test_measurements_as_labels_are_warned_about():
    rng = np.random.default_rng(0)
    measured, samples = rng.integers(0, 100, 90), rng.normal(size=(90, 2))
    with pytest.warns(UserWarning, match=r"different numbers in 90 samples.*ODMRegressor"):
        LinearODMClassifier(max_iter=20).fit(samples, measured)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearODMClassifier().fit(samples, measured % 3)


class OwnError(Exception):
    """An error of the user's code."""


def own_kernel_fails(X, Y):
    raise OwnError("in the kernel")


@pytest.mark.parametrize(
    "model",
    [ODMClassifier(), ODMRegressor(), OneClassODM(), LDMClassifier(), ODMClassifierCV()],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("n_samples", [40, 900])
def test_errors_of_a_callable_kernel_are_not_changed(model, n_samples):
    X, y = two_classes(n_samples, 3)
    model = clone(model).set_params(kernel=own_kernel_fails)
    with pytest.raises(OwnError, match=r"^in the kernel$"):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]
