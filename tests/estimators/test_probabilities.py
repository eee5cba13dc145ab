"""Probabilities of classifiers: from values that are held out, in one fit."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, TunedThresholdClassifierCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optimargin import LinearODMClassifier, LinearODMClassifierCV, ODMClassifier, ODMClassifierCV
from optimargin.chunks import ArrayChunks
from optimargin.io import ModelFileError, load_model, save_model
from optimargin.training import plan

pytestmark = pytest.mark.numbers

CALIBRATED = {
    "ODM": ODMClassifier(calibration="sigmoid"),
    "ODM-isotonic": ODMClassifier(calibration="isotonic"),
    "ODM-temperature": ODMClassifier(calibration="temperature"),
    "ODM-nystrom": ODMClassifier(
        calibration="sigmoid", approximation="nystrom", n_components=30, random_state=0
    ),
    "LinearODM": LinearODMClassifier(calibration="sigmoid"),
    "ODM-CV": ODMClassifierCV(max_evals=4),
    "ODM-CV-folds": ODMClassifierCV(C1s=[1, 16], C2s=[4], Ds=[0.2], widths=[1], cv=3),
    "LinearODM-CV": LinearODMClassifierCV(max_evals=4, calibration="isotonic"),
}
every_model = pytest.mark.parametrize("model", CALIBRATED.values(), ids=CALIBRATED)


def data(n_samples=200, n_classes=2, seed=0):
    return make_classification(
        n_samples, 5, n_informative=4, n_redundant=0, n_classes=n_classes, flip_y=0.1,
        random_state=seed,
    )  # fmt: skip


@every_model
@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_decisions_and_probabilities_agree(model, n_classes):
    X, y = data(n_classes=n_classes)
    model = clone(model).fit(X[:150], y[:150])
    p, decision = model.predict_proba(X), model.decision_function(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(p))
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    if n_classes == 2:
        assert (np.diff(p[np.argsort(decision), 1]) >= 0).all()
    assert log_loss(y, p) < np.log(n_classes)


@every_model
def test_held_out_values_are_kept(model):
    X, y = data()
    model = clone(model).fit(X, y)
    assert model.oob_decision_function_.shape == y.shape
    if not hasattr(model, "cv"):
        np.testing.assert_allclose(
            model.oob_decision_function_, model.loo_decision_function(), atol=1e-9
        )


@pytest.mark.parametrize("estimator", [ODMClassifier, LinearODMClassifier])
def test_the_shift_is_in_the_intercept_and_in_held_out_values(estimator):
    X, y = data()
    plain = estimator().fit(X, y)
    model = estimator(calibration="sigmoid").fit(X, y)
    shift = model.calibration_["shift"][0]
    assert shift != 0
    np.testing.assert_allclose(model.intercept_, plain.intercept_ + shift)
    np.testing.assert_allclose(
        model.loo_decision_function(), plain.loo_decision_function() + shift, atol=1e-9
    )
    assert model.objective_ == plain.objective_
    assert model.loo_error_bound() == pytest.approx(plain.loo_error_bound())


@pytest.mark.parametrize("estimator", [ODMClassifier, LinearODMClassifier])
def test_one_fit_is_as_good_as_six(estimator):
    differences = []
    for seed in range(6):
        X, y = data(400, seed=seed)
        ours = estimator(calibration="sigmoid").fit(X[:200], y[:200])
        theirs = CalibratedClassifierCV(estimator(), ensemble=False).fit(X[:200], y[:200])
        losses = [log_loss(y[200:], m.predict_proba(X[200:])) for m in (ours, theirs)]
        differences.append(losses[0] - losses[1])
    assert np.mean(differences) < 0.01


@pytest.mark.parametrize("kind", ["sigmoid", "isotonic", "temperature"])
@pytest.mark.parametrize("estimator", [ODMClassifier, LinearODMClassifier])
def test_identical_samples_leave_together(estimator, kind):
    X, y = data(60)
    times = np.random.default_rng(0).integers(0, 4, size=60)
    repeated = np.repeat(np.arange(60), times)
    weighted = estimator(calibration=kind).fit(X, y, sample_weight=times)
    longer = estimator(calibration=kind).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(weighted.predict_proba(X), longer.predict_proba(X), atol=1e-7)
    np.testing.assert_allclose(
        weighted.oob_decision_function_[repeated], longer.oob_decision_function_, atol=1e-7
    )


def test_identical_sparse_rows_and_kernel_rows_leave_together():
    X, y = data(60)
    X[np.abs(X) < 0.5] = 0
    twice = np.tile(np.arange(60), 2)
    expected = ODMClassifier(calibration="sigmoid", gamma=0.1).fit(X[twice], y[twice])
    sparse = clone(expected).fit(csr_array(X)[twice], y[twice])
    K = np.exp(-0.1 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    known = clone(expected).set_params(kernel="precomputed").fit(K[np.ix_(twice, twice)], y[twice])
    for model in (sparse, known):
        np.testing.assert_allclose(
            model.oob_decision_function_, expected.oob_decision_function_, atol=1e-7
        )


@pytest.mark.parametrize(
    "model",
    [
        ODMClassifier(),
        ODMClassifier(kernel="linear"),
        ODMClassifier(kernel="precomputed"),
        LinearODMClassifier(),
    ],
    ids=str,
)
def test_past_a_size_folds_are_fitted(model, monkeypatch):
    X, y = data(150)
    X = X @ X.T if getattr(model, "kernel", None) == "precomputed" else X
    closed = clone(model).set_params(calibration="sigmoid").fit(X, y)
    monkeypatch.setattr(plan, "_INVERTED_ONCE_UP_TO", 10)
    monkeypatch.setattr(plan, "_INVERTED_UP_TO", 2)
    folds = clone(model).set_params(calibration="sigmoid").fit(X, y)
    difference = np.abs(folds.oob_decision_function_ - closed.oob_decision_function_)
    assert 0 < np.median(difference) < 0.3
    np.testing.assert_allclose(folds.predict_proba(X), closed.predict_proba(X), atol=0.1)


def test_values_of_folds_are_like_those_of_other_folds(monkeypatch):
    monkeypatch.setattr(plan, "_INVERTED_UP_TO", 2)
    X, y = data(100)
    model = LinearODMClassifier(calibration="temperature", tol=1e-12).fit(X, y)
    monkeypatch.undo()
    exact = model.kfold_decision_function(StratifiedKFold(5, shuffle=True, random_state=0))
    assert np.corrcoef(exact, model.oob_decision_function_)[0, 1] > 0.95
    assert not np.allclose(model.oob_decision_function_, model.loo_decision_function())


def test_searches_calibrate_on_the_folds_they_were_given():
    X, y = data()
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    grid = {"C1s": [16], "C2s": [4], "Ds": [0.2], "gammas": [0.1]}
    model = ODMClassifierCV(**grid, cv=cv, calibration="temperature").fit(X, y)
    expected = np.empty(len(y))
    for train, test in cv.split(X, y):
        part = ODMClassifier(C1=16, C2=4, D=0.2, gamma=0.1, tol=1e-12).fit(X[train], y[train])
        expected[test] = part.decision_function(X[test])
    np.testing.assert_allclose(model.oob_decision_function_, expected, atol=1e-6)
    searched = ODMClassifierCV(max_evals=4, cv=cv, calibration="temperature").fit(X, y)
    assert searched.oob_decision_function_.shape == y.shape
    assert np.corrcoef(searched.oob_decision_function_, y)[0, 1] > 0.5


def test_a_search_in_a_part_of_the_samples_calibrates_on_all():
    X, y = data(300)
    # Widths per feature would be confirmed, and calibrated, by the samples searched.
    model = ODMClassifierCV(max_evals=4, max_samples=100, relevance=False).fit(X, y)
    assert model.oob_decision_function_.shape == (300,)
    np.testing.assert_allclose(model.oob_decision_function_, model.loo_decision_function())


def test_samples_that_are_never_held_out_have_no_value():
    X, y = data()
    splits = [(np.arange(100), np.arange(100, 200))]
    model = ODMClassifierCV(max_evals=2, cv=splits).fit(X, y)
    assert not hasattr(model, "oob_decision_function_")
    assert model.predict_proba(X).shape == (200, 2)


# What scikit-learn offers


def test_soft_voting_and_stacking():
    X, y = data()
    members = [("odm", ODMClassifierCV(max_evals=4)), ("logistic", LogisticRegression())]
    voting = VotingClassifier(members, voting="soft").fit(X, y)
    mean = np.mean([m.predict_proba(X) for m in voting.estimators_], axis=0)
    np.testing.assert_allclose(voting.predict_proba(X), mean)
    stacking = StackingClassifier(members, stack_method="predict_proba", cv=3).fit(X, y)
    assert stacking.score(X, y) > 0.7


@pytest.mark.parametrize("scoring", ["roc_auc", "neg_log_loss", "neg_brier_score"])
def test_scorers_of_probabilities(scoring):
    X, y = data()
    pipeline = make_pipeline(StandardScaler(), ODMClassifier(calibration="sigmoid"))
    assert np.isfinite(cross_val_score(pipeline, X, y, cv=3, scoring=scoring)).all()


def test_several_classes_have_a_roc_auc():
    X, y = load_iris(return_X_y=True)
    model = ODMClassifier(calibration="sigmoid")
    scores = cross_val_score(model, X, y, cv=3, scoring="roc_auc_ovr")
    assert scores.mean() > 0.9


def test_calibration_display_and_tuned_thresholds():
    pytest.importorskip("matplotlib")
    X, y = data()
    model = ODMClassifier(calibration="sigmoid").fit(X, y)
    display = CalibrationDisplay.from_estimator(model, X, y, n_bins=5)
    np.testing.assert_array_equal(display.y_prob, model.predict_proba(X)[:, 1])
    tuned = TunedThresholdClassifierCV(
        ODMClassifier(calibration="sigmoid"), scoring="balanced_accuracy", cv=3,
        response_method="predict_proba",
    ).fit(X, y)  # fmt: skip
    assert 0 < tuned.best_threshold_ < 1


# Files


@every_model
def test_a_new_process_finds_the_same_probabilities(model, tmp_path):
    X, y = data(80, n_classes=3)
    model = clone(model).fit(X, y)
    save_model(model, tmp_path / "model.skops")
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    np.save(tmp_path / "X.npy", X)
    code = """if True:
        import pickle, sys
        from pathlib import Path
        import numpy as np
        from optimargin.io import load_model
        folder = Path(sys.argv[1])
        X = np.load(folder / "X.npy")
        models = [load_model(folder / "model.skops")]
        models.append(pickle.loads((folder / "model.pickle").read_bytes()))
        np.save(folder / "p.npy", [model.predict_proba(X) for model in models])
    """
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)
    expected = model.predict_proba(X)
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), [expected, expected])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("slope", np.float64(-1.0)),
        ("slope", np.float64(np.nan)),
        ("shift", np.zeros(2)),
        ("knots", np.array([1.0, 0.0])),
        ("log_odds", np.array([0.0, np.inf])),
    ],
)
def test_a_file_with_a_broken_map_is_refused(name, value, tmp_path):
    X, y = data()
    model = ODMClassifier(calibration="sigmoid").fit(X, y)
    model.calibration_ = {**model.calibration_, name: value}
    save_model(model, tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match="calibration_"):
        load_model(tmp_path / "model.skops")


# Words


def test_without_calibration_there_are_no_probabilities():
    X, y = data()
    for model in (ODMClassifier(), ODMClassifierCV(max_evals=2, calibration=None)):
        model.fit(X, y)
        assert not hasattr(model, "predict_proba")
        with pytest.raises(AttributeError) as error:
            model.predict_proba(X)
        assert "calibration='sigmoid'" in str(error.value)
    with pytest.raises(ValueError, match="fit it again"):
        ODMClassifier().fit(X, y).set_params(calibration="sigmoid").predict_proba(X)


def test_a_refit_without_calibration_leaves_nothing_of_it():
    X, y = data()
    model = ODMClassifier(calibration="sigmoid").fit(X, y).set_params(calibration=None).fit(X, y)
    assert not hasattr(model, "calibration_")
    assert not hasattr(model, "oob_decision_function_")


def test_chunks_and_streams_say_that_they_cannot_calibrate():
    X, y = data()
    model = LinearODMClassifier(calibration="sigmoid")
    with pytest.raises(ValueError, match="calibration='sigmoid' needs all data"):
        model.fit_chunks(ArrayChunks(X, y, chunk_rows=50))
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError) as error:
        model.partial_fit(X, y, classes=[0, 1])
    assert "calibration=None" in str(error.value)


def test_bad_values_are_named():
    X, y = data()
    with pytest.raises(ValueError, match="'calibration' parameter"):
        ODMClassifier(calibration="platt").fit(X, y)
    with pytest.raises(ValueError, match=r"isotonic.*fit_intercept=True"):
        ODMClassifier(calibration="isotonic", fit_intercept=False).fit(X, y)
    model = ODMClassifier(calibration="sigmoid", fit_intercept=False).fit(X, y)
    assert not model.intercept_.any()
