"""Classifiers take part in everything that scikit-learn offers to classifiers."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import StackingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict, cross_validate
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from optimargin import (
    LDMClassifier,
    LinearLDMClassifier,
    LinearODMClassifier,
    LinearODMClassifierCV,
    ODMClassifier,
    ODMClassifierCV,
)
from optimargin.estimators import _documentation

ESTIMATORS = [
    ODMClassifier(),
    LinearODMClassifier(),
    LDMClassifier(),
    LinearLDMClassifier(),
    ODMClassifierCV(max_evals=4),
    LinearODMClassifierCV(max_evals=4),
]
every_estimator = pytest.mark.parametrize(
    "estimator", ESTIMATORS, ids=[type(estimator).__name__ for estimator in ESTIMATORS]
)
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


@pytest.fixture
def data():
    return make_classification(90, 4, n_redundant=0, class_sep=0.8, random_state=0)


def strength(estimator):
    """Return the name of a parameter that changes the model."""
    return next(name for name in ("max_evals", "C1", "C") if hasattr(estimator, name))


@every_estimator
def test_pipeline_does_its_steps_by_hand(estimator, data):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), clone(estimator)).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    by_hand = clone(estimator).fit(scaled, y)
    np.testing.assert_array_equal(pipeline.decision_function(X), by_hand.decision_function(scaled))
    assert pipeline.score(X, y) == by_hand.score(scaled, y)


@every_estimator
def test_grid_search_scores_each_point_and_refits_the_best(estimator, data):
    X, y = data
    name = f"classify__{strength(estimator)}"
    pipeline = Pipeline([("scale", StandardScaler()), ("classify", clone(estimator))])
    values = [4, 6]
    search = GridSearchCV(pipeline, {name: values}, cv=FOLDS).fit(X, y)
    for k, value in enumerate(values):
        scores = cross_validate(clone(pipeline).set_params(**{name: value}), X, y, cv=FOLDS)
        assert search.cv_results_["mean_test_score"][k] == pytest.approx(
            scores["test_score"].mean(), abs=1e-12
        )
    best = clone(pipeline).set_params(**search.best_params_).fit(X, y)
    np.testing.assert_array_equal(search.decision_function(X), best.decision_function(X))


def test_cross_validate_takes_several_scores_and_gives_the_models(data):
    X, y = data
    scoring = ["accuracy", "roc_auc", "average_precision", "f1"]
    result = cross_validate(ODMClassifier(), X, y, cv=FOLDS, scoring=scoring, return_estimator=True)
    for name in scoring:
        assert np.all(result[f"test_{name}"] > 0.6)
    assert all(model.dual_gap_ < 1e-6 for model in result["estimator"])


@pytest.mark.parametrize("estimator", ESTIMATORS[:4], ids=lambda est: type(est).__name__)
def test_one_vs_one_fits_every_pair(estimator):
    X, y = load_iris(return_X_y=True)
    y = np.array(["setosa", "versicolor", "virginica"])[y]
    model = OneVsOneClassifier(estimator).fit(X, y)
    assert len(model.estimators_) == 3
    assert model.score(X, y) > 0.9
    pair = np.isin(y, ["setosa", "versicolor"])
    alone = clone(estimator).fit(X[pair], (y[pair] == "versicolor").astype(int))
    np.testing.assert_array_equal(
        model.estimators_[0].decision_function(X), alone.decision_function(X)
    )


@every_estimator
@pytest.mark.parametrize("n_classes", [2, 3])
def test_calibrated_probabilities_follow_the_scores(estimator, n_classes):
    X, y = make_classification(
        120, 4, n_informative=4, n_redundant=0, n_classes=n_classes, random_state=0
    )
    model = CalibratedClassifierCV(clone(estimator), ensemble=False, cv=FOLDS).fit(X, y)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (120, n_classes)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert accuracy_score(y, model.predict(X)) > 0.55
    if n_classes == 2:
        scores = clone(estimator).fit(X, y).decision_function(X)
        order = np.argsort(scores)
        assert np.all(np.diff(probabilities[order, 1]) > -1e-12)


def test_a_fitted_model_is_calibrated_as_it_is(data):
    X, y = data
    model = ODMClassifier().fit(X, y)
    calibrated = CalibratedClassifierCV(FrozenEstimator(model)).fit(X, y)
    order = np.argsort(model.decision_function(X))
    assert np.all(np.diff(calibrated.predict_proba(X)[order, 1]) > -1e-12)


def test_stacking_uses_decision_values(data):
    X, y = data
    members = [(type(est).__name__, clone(est)) for est in ESTIMATORS[:4]]
    model = StackingClassifier(members, LogisticRegression(), cv=FOLDS).fit(X, y)
    assert set(model.stack_method_) == {"decision_function"}
    np.testing.assert_array_equal(
        model.transform(X)[:, 0], model.named_estimators_["ODMClassifier"].decision_function(X)
    )
    held_out = cross_val_predict(ODMClassifier(), X, y, cv=FOLDS, method="decision_function")
    assert np.corrcoef(held_out, y)[0, 1] > 0.5
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("estimator", ESTIMATORS[:4], ids=lambda est: type(est).__name__)
def test_sample_weights_are_routed_through_a_search(estimator, data):
    X, y = data
    weight = np.random.default_rng(0).integers(1, 4, size=y.size).astype(float)
    with config_context(enable_metadata_routing=True):
        weighted = clone(estimator).set_fit_request(sample_weight=True)
        assert weighted.get_metadata_routing().fit.requests["sample_weight"] is True
        pipeline = Pipeline(
            [
                ("scale", StandardScaler().set_fit_request(sample_weight=False)),
                ("classify", weighted.set_score_request(sample_weight=True)),
            ]
        )
        grid = {f"classify__{strength(estimator)}": [8.0]}
        scorer = make_scorer(accuracy_score).set_score_request(sample_weight=True)
        search = GridSearchCV(pipeline, grid, cv=FOLDS, scoring=scorer)
        search.fit(X, y, sample_weight=weight)
    by_hand = clone(estimator).set_params(**{strength(estimator): 8.0})
    scaled = StandardScaler().fit_transform(X)
    by_hand.fit(scaled, y, sample_weight=weight)
    np.testing.assert_array_equal(search.decision_function(X), by_hand.decision_function(scaled))
    unweighted = clone(by_hand).fit(scaled, y).decision_function(scaled)
    assert not np.array_equal(search.decision_function(X), unweighted)


@pytest.mark.parametrize(("library", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
@every_estimator
def test_frames_keep_their_names(estimator, library, frame, data):
    X, y = data
    names = ["length", "width", "height", "weight"]
    table = frame(dict(zip(names, X.T, strict=True)))
    pipeline = make_pipeline(StandardScaler(), clone(estimator)).set_output(transform=library)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline.fit(table, y)
        scores = pipeline.decision_function(table)
    assert list(pipeline[-1].feature_names_in_) == names
    expected = make_pipeline(StandardScaler(), clone(estimator)).fit(X, y).decision_function(X)
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="feature names should match"):
        clone(estimator).fit(table, y).predict(table[names[::-1]])


def test_labels_may_be_a_series(data):
    X, y = data
    expected = ODMClassifier().fit(X, y).predict(X)
    for series in (pd.Series(y, name="kind"), pl.Series("kind", y)):
        np.testing.assert_array_equal(ODMClassifier().fit(X, series).predict(X), expected)


@pytest.mark.quick
@every_estimator
def test_html_shows_the_parameters_and_links_to_the_page(estimator, monkeypatch):
    name = type(estimator).__name__
    assert estimator._get_doc_link() == ""
    assert name in estimator._repr_html_()
    assert 'href="https://scikit-learn.org' not in estimator._repr_html_()
    home = "https://docs.example"
    monkeypatch.setattr(_documentation, "documentation_url", lambda: home)
    page = f"{home}/generated/optimargin.{name}.html"
    assert clone(estimator)._get_doc_link() == page
    assert page in make_pipeline(StandardScaler(), clone(estimator))._repr_html_()


def test_the_address_comes_from_the_metadata(monkeypatch):
    from email.message import Message

    about = Message()
    about["Project-URL"] = "Source, https://source.example"
    about["Project-URL"] = "Documentation, https://docs.example/"
    monkeypatch.setattr(_documentation, "metadata", lambda name: about)
    assert _documentation.documentation_url.__wrapped__() == "https://docs.example"


@pytest.mark.parametrize(
    "settings",
    [
        {"assume_finite": True},
        {"skip_parameter_validation": True},
        {"transform_output": "pandas"},
        {"transform_output": "polars"},
        {"enable_metadata_routing": True},
        {"working_memory": 1},
    ],
    ids=str,
)
def test_configurations_do_not_change_the_model(settings, data):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), ODMClassifier())
    expected = clone(pipeline).fit(X, y).decision_function(X)
    with config_context(**settings):
        np.testing.assert_allclose(
            clone(pipeline).fit(X, y).decision_function(X), expected, rtol=1e-9
        )


def test_text_representation_shows_what_was_changed():
    with config_context(display="text"):
        assert repr(ODMClassifier(C1=3.0)) == "ODMClassifier(C1=3.0)"
    with config_context(print_changed_only=False):
        assert "gamma='scale'" in repr(ODMClassifier())
