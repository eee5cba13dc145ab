"""Which of the samples are odd: the one-class machine with `novelty=False`."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optimargin import OneClassODM
from optimargin.chunks import ArrayChunks
from optimargin.io import ModelFileError, load_model, save_model

NEW_ALONE = ("predict", "decision_function", "score_samples", "p_values")
LANDMARKS = {"approximation": "nystrom", "n_components": 40, "random_state": 0}


def rows_with_odd_ones(n_samples=300, n_odd=10, n_features=4, seed=0):
    """Return normal rows, the first ones of which are moved six standard deviations away."""
    rng = np.random.default_rng(seed)
    X, direction = rng.normal(size=(2, n_samples, n_features))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    X[:n_odd] = 6.0 * np.sqrt(n_features) * direction[:n_odd]
    return X


SETTINGS = {
    "default": {},
    "linear kernel": {"kernel": "poly", "degree": 2, "coef0": 1.0},
    "landmarks": LANDMARKS,
    "newton_cg": {"solver": "newton_cg", "tol": 1e-8},
}


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.3])
def test_odd_rows_are_found_among_the_samples(rate):
    X = rows_with_odd_ones()
    detector = OneClassODM(false_alarm_rate=rate, novelty=False)
    labels = detector.fit_predict(X)
    assert set(labels) == {-1, 1}
    assert (labels[:10] == -1).all()
    assert (labels == -1).sum() == round(300 * rate)
    if rate < 0.3:  # the model that judges new samples has seen them, and takes them for normal
        assert (OneClassODM(false_alarm_rate=rate).fit(X).predict(X)[:10] == 1).all()


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_samples_are_judged_by_their_held_out_scores(settings):
    X = rows_with_odd_ones(120)
    detector = OneClassODM(**settings, false_alarm_rate=0.1, novelty=False)
    labels = detector.fit_predict(X)
    np.testing.assert_array_equal(labels == -1, detector.held_out_scores_ < detector.offset_)
    np.testing.assert_allclose(detector.held_out_scores_, detector.loo_score_samples(), atol=1e-5)
    assert (labels == -1).sum() == 12
    in_pipeline = make_pipeline(StandardScaler(), detector)
    assert (in_pipeline.fit_predict(X) == -1).sum() == 12


def test_a_weight_is_a_number_of_rows_also_for_odd_ones():
    X, times = rows_with_odd_ones(60), np.random.default_rng(0).integers(0, 4, size=60)
    repeated = np.repeat(np.arange(60), times)
    weighted = OneClassODM(gamma=0.1, false_alarm_rate=0.2, novelty=False)
    labels = weighted.fit_predict(X, sample_weight=times)
    longer = OneClassODM(gamma=0.1, false_alarm_rate=0.2, novelty=False)
    np.testing.assert_array_equal(labels[repeated], longer.fit_predict(X[repeated]))
    np.testing.assert_allclose(
        weighted.held_out_scores_[repeated], longer.held_out_scores_, atol=1e-10
    )
    assert weighted.offset_ == pytest.approx(longer.offset_, abs=1e-10)
    # Rows of no weight take no part: their score is that of the model itself.
    itself = OneClassODM(gamma=0.1).fit(X, sample_weight=times).score_samples(X)
    np.testing.assert_allclose(weighted.held_out_scores_[times == 0], itself[times == 0])


def test_rows_of_the_same_score_are_judged_alike():
    """Far rows are like none of the others: their scores are zero, but for rounding."""
    X = rows_with_odd_ones(200)
    X[:10] *= 1e3
    for rate, n_odd in ((0.1, 20), (0.05, 10), (0.04, 10), (0.03, 10)):
        labels = OneClassODM(gamma=0.1, false_alarm_rate=rate, novelty=False).fit_predict(X)
        assert (labels == -1).sum() == n_odd
        assert (labels[:10] == -1).all()
    for odd in (X, np.ones((50, 2))):
        with pytest.warns(
            UserWarning, match=r"No sample is called odd: (10|50) have the same, lowest"
        ):
            labels = OneClassODM(gamma=0.1, false_alarm_rate=0.02, novelty=False).fit_predict(odd)
        assert (labels == 1).all()


def test_few_rows_are_told():
    X = rows_with_odd_ones(19, 0)
    with pytest.warns(UserWarning, match=r"0\.05 needs at least 20 samples, and there are 19"):
        labels = OneClassODM(novelty=False).fit_predict(X)
    assert (labels == 1).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (OneClassODM(novelty=False).fit_predict(rows_with_odd_ones(20, 1)) == -1).sum() == 1


@pytest.mark.parametrize("method", NEW_ALONE)
def test_new_samples_are_asked_about_with_novelty_alone(method):
    X = rows_with_odd_ones(60)
    detector = OneClassODM(novelty=False).fit(X)
    assert not hasattr(detector, method)
    with pytest.raises(AttributeError, match=r"held_out_scores_\. Set novelty=True"):
        getattr(detector, method)
    assert hasattr(OneClassODM(), method)


def test_rows_of_the_fit_are_asked_about_without_novelty_alone():
    model = OneClassODM().fit(rows_with_odd_ones(60))
    assert not hasattr(model, "fit_predict")
    assert not hasattr(model, "held_out_scores_")
    with pytest.raises(AttributeError, match="Set novelty=False"):
        model.fit_predict(rows_with_odd_ones(60))


def test_p_values_of_a_model_that_kept_scores_ask_for_a_fit():
    model = OneClassODM(novelty=False).fit(rows_with_odd_ones(60))
    model.set_params(novelty=True)
    assert model.score_samples(np.zeros((1, 4))).shape == (1,)
    with pytest.raises(ValueError, match="fitted with novelty=False: fit it again"):
        model.p_values(np.zeros((1, 4)))


@pytest.mark.parametrize("make", [sp.csr_array, np.float32], ids=["csr", "float32"])
def test_other_containers_have_the_same_odd_rows(make):
    X = rows_with_odd_ones(100)
    dense = OneClassODM(novelty=False).fit_predict(X)
    np.testing.assert_array_equal(OneClassODM(novelty=False).fit_predict(make(X)), dense)


def test_many_samples_are_judged_by_folds(monkeypatch):
    X = rows_with_odd_ones(200)
    exact = OneClassODM(novelty=False, tol=1e-8).fit(X)
    monkeypatch.setattr("optimargin.training.plan._INVERTED_UP_TO", 50)
    by_folds = OneClassODM(novelty=False, tol=1e-8, random_state=0)
    labels = by_folds.fit_predict(X)
    assert (labels[:10] == -1).all()
    assert by_folds.dual_coef_.shape == exact.dual_coef_.shape
    assert 0 < np.abs(by_folds.held_out_scores_ - exact.held_out_scores_).max() < 0.5


@pytest.mark.parametrize("chunk_rows", [70, 1000])
def test_rows_of_chunks_are_judged_in_their_order(chunk_rows):
    X, weight = rows_with_odd_ones(400), np.where(np.arange(400) % 9 == 0, 0.0, 1.0)
    chunks = ArrayChunks(X, sample_weight=weight, chunk_rows=chunk_rows)
    detector = OneClassODM(**LANDMARKS, novelty=False).fit_chunks(chunks)
    assert detector.held_out_scores_.shape == (400,)
    odd = detector.held_out_scores_ < detector.offset_
    assert odd[:10].all()
    assert (odd & (weight > 0)).sum() == 17  # of 355
    assert not hasattr(detector, "predict")
    whole = OneClassODM(**LANDMARKS, novelty=False).fit(X, sample_weight=weight)
    assert np.corrcoef(detector.held_out_scores_, whole.held_out_scores_)[0, 1] > 0.99
    itself = OneClassODM(**LANDMARKS).fit_chunks(chunks).score_samples(X)
    found = detector.held_out_scores_[weight == 0]
    np.testing.assert_allclose(found, itself[weight == 0], atol=1e-6)


def test_files_hold_the_scores_of_the_rows(tmp_path):
    X = rows_with_odd_ones(100)
    detector = OneClassODM(novelty=False).fit(X)
    save_model(detector, tmp_path / "model.skops")
    for loaded in (load_model(tmp_path / "model.skops"), pickle.loads(pickle.dumps(detector))):
        np.testing.assert_array_equal(loaded.held_out_scores_, detector.held_out_scores_)
        assert not hasattr(loaded, "predict")
        np.testing.assert_allclose(loaded.loo_score_samples(X), detector.held_out_scores_)
    detector.held_out_scores_[3] = np.nan
    save_model(detector, tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match="held_out_scores_"):
        load_model(tmp_path / "model.skops")


def test_files_of_before_the_parameter_hold_models_for_new_samples(tmp_path):
    X = rows_with_odd_ones(100)
    model = OneClassODM().fit(X)
    labels = model.predict(X)
    del vars(model)["novelty"]
    path = tmp_path / "model.skops"
    save_model(model, path)
    assert b'"novelty": {' not in path.read_bytes().split(b"optimargin.json")[0]
    for loaded in (load_model(path), pickle.loads(pickle.dumps(model))):
        assert loaded.get_params()["novelty"]
        np.testing.assert_array_equal(loaded.predict(X), labels)
