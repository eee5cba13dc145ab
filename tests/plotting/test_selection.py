"""Plots of searches: what is drawn is what was evaluated."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from optimargin import (
    ODMClassifier,
    ODMClassifierCV,
)
from optimargin.plotting import SelectionDisplay

pytestmark = pytest.mark.quick


def test_grid_becomes_a_map_of_the_best_cells(moons, legend):
    search = ODMClassifierCV(C1s=[1, 8, 64], C2s=[1, 8], Ds=[0.1, 0.2], widths=[1.0]).fit(*moons)
    display = SelectionDisplay.from_estimator(search)
    image = np.asarray(display.surface_.get_array())
    assert image.shape == (2, 3)
    assert image.min() == pytest.approx(1 - search.best_score_)
    assert display.names == ("C1", "C2")
    assert legend(display) == [f"chosen: {1 - search.best_score_:.4f}"]


def test_search_without_a_grid_becomes_points(moons):
    search = ODMClassifierCV(max_evals=6).fit(*moons)
    display = SelectionDisplay.from_estimator(search, params=("C1", "gamma"))
    assert len(display.surface_.get_offsets()) == len(search.cv_results_["params"])
    assert display.ax_.get_xlabel() == "C1"
    with pytest.raises(ValueError, match="must name two numerical parameters out of C1"):
        SelectionDisplay.from_estimator(search, params=("C1", "height"))


def test_grid_search_of_scikit_learn_is_drawn(moons):
    grid = {"C": [1, 10], "gamma": [0.1, 1.0], "kernel": ["rbf"]}
    display = SelectionDisplay.from_estimator(GridSearchCV(SVC(), grid, cv=3).fit(*moons))
    assert display.names == ("C", "gamma")


def test_selection_looks_into_pipelines_and_says_what_is_missing(moons):
    search = ODMClassifierCV(max_evals=4)
    pipeline = make_pipeline(StandardScaler(), search)
    with pytest.raises(NotFittedError):
        SelectionDisplay.from_estimator(pipeline)
    pipeline.fit(*moons)
    display = SelectionDisplay.from_estimator(pipeline)
    assert display.best == pipeline[-1].best_index_
    with pytest.raises(TypeError, match="ODMClassifier made no search"):
        SelectionDisplay.from_estimator(ODMClassifier().fit(*moons))
    with pytest.raises(TypeError, match="StandardScaler made no search"):
        SelectionDisplay.from_estimator(make_pipeline(StandardScaler()).fit(*moons))
