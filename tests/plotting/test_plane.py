"""The grid over two features."""

import numpy as np
import pandas as pd
import pytest

from optimargin import ODMClassifier
from optimargin.plotting import DecisionBoundaryDisplay
from optimargin.plotting._plane import grid_around

pytestmark = pytest.mark.quick


def test_the_grid_surrounds_the_samples_and_keeps_the_names_of_features():
    frame = pd.DataFrame({"long": [0.0, 2.0], "wide": [1.0, 5.0]})
    grid, rows = grid_around(frame, 3, margin=0.5)
    assert list(rows.columns) == ["long", "wide"]
    np.testing.assert_array_equal(grid["xx0"][0], [-1, 1, 3])
    np.testing.assert_array_equal(grid["xx1"][:, 0], [-1, 3, 7])
    assert grid["feature_names"] == ("long", "wide")


def test_boundary_refuses_what_is_no_plane(moons):
    X, y = moons
    model = ODMClassifier().fit(np.c_[X, X], y)
    with pytest.raises(ValueError, match="exactly two features"):
        DecisionBoundaryDisplay.from_estimator(model, np.c_[X, X])
    with pytest.raises(ValueError, match="grid_resolution=1"):
        DecisionBoundaryDisplay.from_estimator(ODMClassifier().fit(X, y), X, grid_resolution=1)
