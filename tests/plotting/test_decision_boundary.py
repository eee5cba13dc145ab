"""Plots of boundaries: what is drawn is what was computed."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from sklearn.datasets import make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from optimargin import (
    LinearODMClassifier,
    ODMClassifier,
)
from optimargin.plotting import DecisionBoundaryDisplay

pytestmark = pytest.mark.quick


def pixels(display):
    display.figure_.canvas.draw()
    return np.asarray(display.figure_.canvas.buffer_rgba())[..., :3].astype(int)


def test_boundary_shows_decision_values_and_the_band(moons, legend):
    X, y = moons
    model = ODMClassifier(D=0.25).fit(X, y)
    display = DecisionBoundaryDisplay.from_estimator(model, X, y, grid_resolution=20)
    grid = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    np.testing.assert_array_equal(display.response.ravel(), model.decision_function(grid))
    assert legend(display) == [
        "boundary",
        "margin 0.75",
        "margin 1.25",
        "0",
        "1",
        "support vectors",
    ]
    assert (grid.min(axis=0) < X.min(axis=0)).all()
    assert (grid.max(axis=0) > X.max(axis=0)).all()


def test_both_regions_are_coloured_differently(moons):
    X, y = moons
    image = pixels(DecisionBoundaryDisplay.from_estimator(ODMClassifier().fit(X, y), X))
    colours, counts = np.unique(image.reshape(-1, 3), axis=0, return_counts=True)
    large = colours[counts > 0.08 * counts.sum()]
    assert len(large) >= 3  # white, and one for each class
    luminance = large @ [0.3, 0.59, 0.11]
    assert (luminance > 180).all()  # pale enough to print on


def test_boundary_of_several_classes_frames_and_pipelines(legend):
    X, y = make_blobs(60, centers=3, random_state=0)
    frame = pd.DataFrame(X, columns=["long", "wide"])
    model = make_pipeline(StandardScaler(), LinearODMClassifier()).fit(frame, y)
    display = DecisionBoundaryDisplay.from_estimator(model, frame, y, grid_resolution=15)
    assert set(np.unique(display.response)) == {0, 1, 2}
    assert legend(display) == ["0", "1", "2"]
    assert display.ax_.get_xlabel() == "long"


def test_svm_gets_its_margin_line(moons, legend):
    display = DecisionBoundaryDisplay.from_estimator(SVC().fit(*moons), *moons, grid_resolution=10)
    assert legend(display)[:2] == ["boundary", "margin 1"]


def test_an_unknown_option_leaves_no_figure_behind(moons):
    display = DecisionBoundaryDisplay.from_estimator(LinearODMClassifier().fit(*moons), *moons)
    n_figures = len(plt.get_fignums())
    with pytest.raises(TypeError, match=r"DecisionBoundaryDisplay.plot\(\) .*'color'"):
        display.plot(color="red")
    assert len(plt.get_fignums()) == n_figures
