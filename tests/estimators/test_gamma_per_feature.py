"""One gamma per feature is the kernel of scaled features, wherever a kernel goes."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from optimargin import LDMClassifier, ODMClassifier, ODMRegressor, OneClassODM
from optimargin.chunks import ArrayChunks
from optimargin.io import load_model, read_model_header, save_model
from optimargin.margins import margin_distribution
from optimargin.onnx import to_onnx

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

ESTIMATORS = {
    "classifier": ODMClassifier(kernel="rbf"),
    "newton_cg": ODMClassifier(solver="newton_cg", tol=1e-10),
    "dcd": ODMClassifier(solver="dcd", tol=1e-10),
    "landmarks": ODMClassifier(approximation="nystrom", n_components=20, random_state=0),
    "regressor": ODMRegressor(),
    "one-class": OneClassODM(),
    "ldm": LDMClassifier(),
}
GAMMAS = np.array([0.5, 0.02, 1.5, 0.3])


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 4)) + 3.0
    return X, (X[:, 0] + np.sin(2 * X[:, 2]) > 3.2).astype(int)


def scores(model, X):
    method = "decision_function" if hasattr(model, "decision_function") else "predict"
    return getattr(model, method)(X)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_is_gamma_one_of_scaled_features(name, sparse, data):
    X, y = data
    scaled = X * np.sqrt(GAMMAS)
    if sparse:
        X, scaled = csr_array(X), csr_array(scaled)
    expected = clone(ESTIMATORS[name]).set_params(gamma=1.0).fit(scaled, y)
    found = clone(ESTIMATORS[name]).set_params(gamma=GAMMAS).fit(X, y)
    np.testing.assert_allclose(scores(found, X), scores(expected, scaled), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found.gamma_, GAMMAS)


def test_equal_values_are_one_value(data):
    X, y = data
    one = ODMClassifier(gamma=0.3).fit(X, y)
    each = ODMClassifier(gamma=[0.3] * 4).fit(X, y)
    np.testing.assert_allclose(
        each.decision_function(X), one.decision_function(X), rtol=1e-10, atol=1e-12
    )


def test_a_feature_of_gamma_zero_does_not_count(data):
    X, y = data
    rng = np.random.default_rng(1)
    gammas = [0.5, 0.0, 1.0, 0.2]
    model = ODMClassifier(gamma=gammas).fit(X, y)
    other = X.copy()
    other[:, 1] = rng.standard_normal(len(X))
    np.testing.assert_allclose(model.decision_function(other), model.decision_function(X))


def test_float32_keeps_its_type(data):
    X, y = data
    model = ODMClassifier(gamma=GAMMAS).fit(X.astype(np.float32), y)
    assert model.dual_coef_.dtype == np.float32
    expected = ODMClassifier(gamma=GAMMAS).fit(X, y).decision_function(X)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-4)


def test_leave_one_out_and_margins_follow(data):
    X, y = data
    scaled = X * np.sqrt(GAMMAS)
    expected = ODMClassifier(gamma=1.0).fit(scaled, y)
    found = ODMClassifier(gamma=GAMMAS).fit(X, y)
    np.testing.assert_allclose(
        found.loo_decision_function(), expected.loo_decision_function(), rtol=1e-6
    )
    np.testing.assert_allclose(
        margin_distribution(found, X, y, kind="geometric").mean,
        margin_distribution(expected, scaled, y, kind="geometric").mean,
    )


def test_model_files_carry_it(data, tmp_path):
    X, y = data
    model = ODMClassifier(gamma=GAMMAS).fit(X, y)
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert read_model_header(tmp_path / "model.skops")["parameters"]["gamma"] == GAMMAS.tolist()


def test_onnx_carries_it(data):
    onnxruntime = pytest.importorskip("onnxruntime")
    X, y = data
    model = ODMClassifier(gamma=GAMMAS).fit(X, y)
    session = onnxruntime.InferenceSession(to_onnx(model, dtype=np.float64).SerializeToString())
    outputs = session.run(None, {session.get_inputs()[0].name: X})
    np.testing.assert_allclose(np.ravel(outputs[1]), model.decision_function(X), atol=1e-9)


def test_chunks_carry_it(data):
    X, y = data
    model = ODMClassifier(gamma=GAMMAS, approximation="nystrom", n_components=80, tol=1e-6)
    chunked = clone(model).fit_chunks(ArrayChunks(X, y, chunk_rows=30))
    np.testing.assert_allclose(
        chunked.decision_function(X),
        ODMClassifier(gamma=GAMMAS).fit(X, y).decision_function(X),
        atol=2e-3,
    )


@pytest.mark.parametrize(
    ("gamma", "kernel", "words"),
    [
        ([1.0, 2.0], "rbf", "gamma has 2 values and X has 4 features"),
        ([1.0, -1.0, 1.0, 1.0], "rbf", "at least zero"),
        ([0.0] * 4, "rbf", "positive for one"),
        ([np.inf] * 4, "rbf", "finite"),
        ([1.0] * 4, "poly", "kernel='rbf'"),
    ],
)
def test_bad_values_are_refused_in_words(gamma, kernel, words, data):
    with pytest.raises(ValueError, match=words):
        ODMClassifier(gamma=gamma, kernel=kernel).fit(*data)
    chunks = ArrayChunks(*data, chunk_rows=40)
    model = ODMClassifier(gamma=gamma, kernel=kernel, approximation="nystrom", n_components=5)
    with pytest.raises(ValueError, match=words):
        model.fit_chunks(chunks)
