"""Several classes by pairs: each pair is a fit to its own samples, and pairs vote."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.multiclass import _ovr_decision_function

from optimargin import (
    LinearODMClassifier,
    LinearODMClassifierCV,
    ODMClassifier,
    ODMClassifierCV,
)
from optimargin.chunks import ArrayChunks
from optimargin.io import load_model, save_model
from optimargin.kernels import KernelChoice
from optimargin.objectives import ODM
from optimargin.onnx import to_onnx
from optimargin.selection.criteria import pair_margins, smooth_loss
from optimargin.selection.data import SelectionData
from optimargin.selection.loss import HeldOutLoss
from optimargin.tasks import Classification

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

MODELS = {
    "rbf": ODMClassifier(multi_class="ovo", gamma=0.1),
    "dcd": ODMClassifier(multi_class="ovo", gamma=0.1, solver="dcd", tol=1e-11),
    "linear": LinearODMClassifier(multi_class="ovo"),
    "linear kernel": ODMClassifier(multi_class="ovo", kernel="linear"),
}
PAIRS = list(combinations(range(4), 2))


@pytest.fixture
def data():
    return make_classification(
        160, 6, n_informative=4, n_classes=4, n_clusters_per_class=1, random_state=0
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_pair_is_the_fit_to_its_samples_with_its_share_of_the_penalty(name, data):
    X, y = data
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model = clone(MODELS[name]).set_params(C1=300.0, C2=40.0).fit(X, y, weight)
    values = []
    for i, j in PAIRS:
        own = np.isin(y, [i, j])
        share = weight[own].sum() / weight.sum()
        pair = clone(MODELS[name]).set_params(C1=300 * share, C2=40 * share)
        values.append(pair.fit(X[own], y[own], weight[own]).decision_function(X))
    values = np.stack(values, axis=1)
    expected = _ovr_decision_function(values > 0, values, 4)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-5)
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X).argmax(axis=1))


@pytest.mark.parametrize("name", MODELS)
def test_there_is_a_row_per_pair(name, data):
    X, y = data
    model = clone(MODELS[name]).fit(X, y)
    assert model.decision_function(X).shape == (len(y), 4)
    assert model.intercept_.shape == model.dual_gap_.shape == model.n_iter_.shape == (6,)
    assert (model.dual_gap_ <= 1e-6).all()
    if name != "linear":
        assert model.dual_coef_.shape == (6, model.support_.size)
        np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    if "linear" in name:
        assert model.coef_.shape == (6, 6)
        values = X @ model.coef_.T + model.intercept_
        expected = _ovr_decision_function(values > 0, values, 4)
        np.testing.assert_allclose(model.decision_function(X), expected)


def test_two_classes_are_the_same_with_both(data):
    X, y = data
    y = y % 2
    one = ODMClassifier(multi_class="ovo").fit(X, y)
    np.testing.assert_array_equal(
        one.decision_function(X), ODMClassifier().fit(X, y).decision_function(X)
    )
    assert one.dual_coef_.shape[0] == 1


@pytest.mark.parametrize("name", ["rbf", "linear"])
def test_weights_are_repetitions(name, data):
    X, y = data
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    model = clone(MODELS[name]).set_params(class_weight="balanced")
    weighted = clone(model).fit(X, y, weight)
    repeated = clone(model).fit(X[rows], y[rows])
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-6
    )


@pytest.mark.parametrize("name", ["rbf", "linear"])
def test_leave_one_out_is_that_of_refits(name, data):
    X, y = data
    model = clone(MODELS[name]).fit(X, y)
    found = model.loo_decision_function(exact=True)
    for i in (0, 7, 50):
        kept = np.arange(len(y)) != i
        share = kept.mean()
        refit = clone(model).set_params(C1=share * model.C1_, C2=share * model.C2_)
        refit.fit(X[kept], y[kept])
        np.testing.assert_allclose(found[i], refit.decision_function(X[i : i + 1])[0], atol=1e-6)
    folds = model.kfold_decision_function(4)
    assert folds.shape == (len(y), 4)
    assert (folds.argmax(axis=1) == y).mean() > 0.7
    bounds = model.loo_error_bound()
    assert bounds.shape == (6,)
    assert (bounds >= 0).all()


def test_probabilities_follow_the_votes(data):
    X, y = data
    for method in ("sigmoid", "isotonic", "temperature"):
        model = ODMClassifier(multi_class="ovo", calibration=method).fit(X, y)
        shares = model.predict_proba(X)
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        np.testing.assert_array_equal(shares.argmax(axis=1), model.predict(X))
        assert model.oob_decision_function_.shape == (len(y), 4)


def test_prediction_sets_hold_the_true_class(data):
    X, y = data
    model = ODMClassifier(multi_class="ovo").fit(X[::2], y[::2])
    for method in ("plus", "base"):
        _, sets = model.predict_set(X[1::2], 0.8, method=method)
        assert sets[np.arange(80), y[1::2], 0].mean() > 0.65


@pytest.mark.parametrize("name", ["rbf", "linear"])
def test_model_files_and_onnx_carry_it(name, data, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    X, y = data
    model = clone(MODELS[name]).set_params(calibration="sigmoid").fit(X, y)
    save_model(model, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    session = onnxruntime.InferenceSession(to_onnx(model, dtype=np.float64).SerializeToString())
    label, scores, shares = session.run(None, {session.get_inputs()[0].name: X})
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(shares, model.predict_proba(X), atol=1e-9)


def test_precomputed_kernels_and_landmarks(data):
    X, y = data
    K = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2))
    expected = clone(MODELS["rbf"]).fit(X, y).decision_function(X)
    given = ODMClassifier(multi_class="ovo", kernel="precomputed").fit(K, y)
    np.testing.assert_allclose(given.decision_function(K), expected, atol=1e-6)
    near = clone(MODELS["rbf"]).set_params(approximation="nystrom", n_components=80).fit(X, y)
    np.testing.assert_allclose(near.decision_function(X), expected, atol=0.05)


def test_data_that_are_not_in_one_place_are_refused_in_words(data):
    X, y = data
    model = LinearODMClassifier(multi_class="ovo")
    with pytest.raises(ValueError, match="multi_class='ovr'"):
        model.fit_chunks(ArrayChunks(X, y, chunk_rows=50))
    with pytest.raises(ValueError, match="multi_class='ovr'"):
        model.partial_fit(X, y, classes=range(4))


def test_margins_of_pairs_have_the_slopes_of_finite_differences():
    rng = np.random.default_rng(0)
    decision, encoded = rng.standard_normal((20, 6)), rng.integers(0, 4, 20)
    weight = np.full(20, 1 / 20)
    _, slope = smooth_loss(decision, encoded, weight, margins=pair_margins)
    for i, k in [(0, 0), (3, 2), (7, 5)]:
        up, down = decision.copy(), decision.copy()
        up[i, k] += 1e-6
        down[i, k] -= 1e-6
        high, low = (smooth_loss(d, encoded, weight, margins=pair_margins)[0] for d in (up, down))
        assert slope[i, k] == pytest.approx((high - low) / 2e-6, abs=1e-8)


def test_a_class_with_a_positive_pair_margin_wins():
    rng = np.random.default_rng(0)
    decision, encoded = rng.standard_normal((200, 6)), rng.integers(0, 4, 200)
    task = Classification(np.arange(4), np.ones(4), 1.0, multi_class="ovo")
    sure = pair_margins(decision, encoded)[0] > 0
    np.testing.assert_array_equal(task.combine(decision).argmax(axis=1)[sure], encoded[sure])


@pytest.mark.parametrize("made", [ODMClassifierCV, LinearODMClassifierCV])
def test_searches_choose_for_pairs(made, data):
    X, y = data
    model = made(multi_class="ovo", max_evals=12).fit(X, y)
    assert model.decision_function(X).shape == (len(y), 4)
    assert model.intercept_.shape == (6,)
    assert model.score(X, y) > 0.8
    assert model.held_out_score_ > 0.7
    assert model.predict_proba(X).shape == (len(y), 4)
    grid = made(C1s=[10.0, 1000.0], C2s=[10.0], Ds=[0.2], multi_class="ovo", cv=3).fit(X, y)
    assert grid.held_out_score_ > 0.7
    loo = made(C1s=[10.0, 1000.0], C2s=[10.0], Ds=[0.2], multi_class="ovo").fit(X, y)
    expected = (loo.loo_decision_function().argmax(axis=1) == y).mean()
    assert loo.best_score_ == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("limit", [2000, 10])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_held_out_values_of_a_search_are_those_of_the_model(kernel, limit, data, monkeypatch):
    for name in ("_INNER_PRODUCTS_UP_TO", "_INVERTED_UP_TO"):
        monkeypatch.setattr(f"optimargin.training.plan.{name}", limit)
    X, y = data
    grid = {"C1s": [50.0], "C2s": [10.0], "Ds": [0.2], "multi_class": "ovo"}
    made = LinearODMClassifierCV(**grid)
    if kernel == "rbf":
        made = ODMClassifierCV(**grid, gammas=[0.1])
    model = clone(made).fit(X, y)
    found = model.best_estimator_.loo_decision_function()
    assert model.held_out_score_ == pytest.approx((found.argmax(axis=1) == y).mean())
    exact = made.set_params(cv=4).fit(X, y)
    assert exact.held_out_score_ == pytest.approx(model.held_out_score_, abs=0.05)


@pytest.mark.parametrize("limit", [2000, 10])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_slopes_of_the_search_are_those_of_finite_differences(kernel, limit, data, monkeypatch):
    for name in ("_INNER_PRODUCTS_UP_TO", "_INVERTED_UP_TO"):
        monkeypatch.setattr(f"optimargin.training.plan.{name}", limit)
    X, y = data
    task = Classification.from_labels(y, multi_class="ovo")
    choice = KernelChoice(kernel)
    given = SelectionData(ODM, X, y, None, task=task, kernel=choice, fit_intercept=True)
    for splits in (None, [(np.arange(0, 160, 2), np.arange(1, 160, 2))]):
        loss = HeldOutLoss(given, splits, np.random.RandomState(0))
        x = np.array([1.0, -2.0, 0.2, 0.3])[: len(loss.bounds)]
        slope = loss(x)[1]
        for j in range(x.size):
            e = np.zeros(x.size)
            e[j] = 1e-6
            difference = (loss(x + e)[0].loss - loss(x - e)[0].loss) / 2e-6
            assert slope[j] == pytest.approx(difference, rel=1e-3, abs=1e-7)


def test_auto_is_pairs_for_models_in_memory(data):
    X, y = data
    assert LinearODMClassifier().fit(X, y).intercept_.size == 6
    assert ODMClassifier(kernel="linear").fit(X, y).intercept_.size == 6
    assert ODMClassifier().fit(X, y).intercept_.size == 6
    assert ODMClassifier(approximation="nystrom").fit(X, y).intercept_.size == 4
    chunked = LinearODMClassifier().fit_chunks(ArrayChunks(X, y, chunk_rows=50))
    assert chunked.intercept_.size == 4
    np.testing.assert_array_equal(chunked.predict(X), chunked.decision_function(X).argmax(axis=1))
    streamed = LinearODMClassifier().fit(X, y).partial_fit(X, y, classes=range(4))
    assert streamed.decision_function(X).shape == (len(y), 4)
    assert streamed.intercept_.size == 4
