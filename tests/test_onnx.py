"""ONNX graphs compute what the classifiers compute."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import make_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import optimargin
from optimargin import LinearODMClassifier, ODMClassifier, ODMClassifierCV, OneClassODM

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("skl2onnx")

from optimargin.onnx import register_converters, to_onnx  # noqa: E402

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

PRECISION = {np.float32: 2e-4, np.float64: 1e-10}


def problem(n_classes=2):
    X, y = make_classification(
        80, 5, n_informative=4, n_redundant=0, n_classes=n_classes, random_state=0
    )
    return X + 3, y  # off the origin, where squared distances are most delicate


def run(model, X):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    assert names == ["label", "scores", "probabilities"][: len(names)]
    return session.run(None, {"X": X})


def check(model, X, dtype):
    label, scores, *probabilities = run(to_onnx(model, dtype=dtype), X.astype(dtype))
    assert bool(probabilities) == hasattr(model, "predict_proba")
    if probabilities:
        np.testing.assert_allclose(probabilities[0], model.predict_proba(X), rtol=0, atol=1e-5)
    expected = model.decision_function(X)
    assert scores.dtype == dtype
    assert scores.shape == expected.shape
    size = np.abs(expected).max()
    np.testing.assert_allclose(scores, expected, rtol=0, atol=PRECISION[dtype] * size)
    wide = np.abs(expected) if expected.ndim == 1 else np.ptp(np.sort(expected)[:, -2:], axis=1)
    clear = wide > 10 * PRECISION[dtype] * size
    assert clear.mean() > 0.9
    assert label[clear].tolist() == model.predict(X)[clear].tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "sigmoid"])
@pytest.mark.filterwarnings("ignore:The sigmoid kernel matrix")
def test_kernels(kernel, n_classes, dtype):
    X, y = problem(n_classes)
    check(ODMClassifier(kernel=kernel, coef0=0.5, gamma=0.05).fit(X, y), X, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "name", ["LinearODMClassifier", "LDMClassifier", "LinearLDMClassifier", "LinearODMClassifierCV"]
)
def test_other_classifiers(name, n_classes, dtype):
    X, y = problem(n_classes)
    options = {"max_evals": 4} if name.endswith("CV") else {}
    check(getattr(optimargin, name)(**options).fit(X, y), X, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ["sigmoid", "isotonic", "temperature"])
@pytest.mark.parametrize("estimator", [LinearODMClassifier, ODMClassifier])
def test_probabilities(estimator, kind, n_classes, dtype):
    X, y = problem(n_classes)
    check(estimator(calibration=kind).fit(X - 3, y), X - 3, dtype)


def test_sparse_training_data_and_an_approximation():
    X, y = problem()
    X[np.abs(X - 3) < 0.5] = 0
    check(ODMClassifier().fit(csr_matrix(X), y), X, np.float64)
    check(ODMClassifier(approximation="nystrom", n_components=20).fit(X, y), X, np.float64)


@pytest.mark.parametrize(
    "labels",
    [
        ["ant", "bee"],
        np.array(["ant", "bee"], dtype=object),
        [-1, 1],
        [0.0, 2.0],
        [False, True],
        ["ant", "bee", "cicada"],
    ],
)
def test_labels_of_all_kinds(labels):
    X, y = problem(len(labels))
    check(LinearODMClassifier().fit(X, np.asarray(labels)[y]), X, np.float64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", [{}, {"kernel": "linear"}, {"approximation": "nystrom"}])
def test_novelty_detectors(options, dtype):
    X, _ = problem()
    model = OneClassODM(**options).fit(X)
    label, scores = run(to_onnx(model, dtype=dtype), X.astype(dtype))
    digits = 1e-10 if dtype is np.float64 else 1e-5
    expected = model.decision_function(X)
    np.testing.assert_allclose(scores, expected, atol=digits * np.abs(expected).max())
    clear = np.abs(expected) > digits
    np.testing.assert_array_equal(label[clear], model.predict(X)[clear])
    assert label.dtype == np.int64


def test_pipelines_are_exported_whole():
    X, y = problem(3)
    check(make_pipeline(StandardScaler(), ODMClassifierCV(max_evals=4)).fit(X, y), X, np.float64)


def test_converters_serve_skl2onnx_itself():
    import skl2onnx

    X, y = problem()
    model = ODMClassifier().fit(X, y)
    register_converters()
    label, _ = run(skl2onnx.to_onnx(model, X[:1]), X)
    assert label.tolist() == model.predict(X).tolist()


def test_what_has_no_onnx_form_is_refused():
    X, y = problem()
    with pytest.raises(ValueError, match=r"kernel is a function.*linear, rbf, poly, sigmoid"):
        to_onnx(ODMClassifier(kernel=lambda A, B: A @ B.T).fit(X, y))
    with pytest.raises(ValueError, match="kernel is 'precomputed'"):
        to_onnx(ODMClassifier(kernel="precomputed").fit(X @ X.T, y))
    with pytest.raises(ValueError, match=r"dtype=.*float64"):
        to_onnx(ODMClassifier().fit(X, y), dtype=np.int64)
    with pytest.raises(ValueError, match="not fitted"):
        to_onnx(ODMClassifier())


REGRESSORS = ["LinearODMRegressor", "ODMRegressor", "LinearODMRegressorCV", "ODMRegressorCV"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name, n_targets, dtype):
    X, _ = problem()
    y = np.column_stack([X[:, 0] + np.sin(X[:, 1]), 100 * X[:, 2]])[:, :n_targets]
    options = {"max_evals": 4} if name.endswith("CV") else {}
    model = make_pipeline(StandardScaler(), getattr(optimargin, name)(**options)).fit(X, y)
    session = onnxruntime.InferenceSession(to_onnx(model, dtype=dtype).SerializeToString())
    assert [output.name for output in session.get_outputs()] == ["predictions"]
    (predictions,) = session.run(None, {"X": X.astype(dtype)})
    expected = model.predict(X)
    assert predictions.dtype == dtype
    assert predictions.shape == expected.shape
    atol = 10 * PRECISION[dtype] * np.abs(expected).max()
    np.testing.assert_allclose(predictions, expected, rtol=0, atol=atol)


def test_a_detector_without_novelty_has_nothing_to_predict():
    model = OneClassODM(novelty=False).fit(np.random.default_rng(0).normal(size=(60, 3)))
    with pytest.raises(ValueError, match="nothing to predict: set novelty=True"):
        to_onnx(make_pipeline(model))
