"""Plots of novelty: what is drawn is what was computed."""

import numpy as np
import pandas as pd
import pytest
from sklearn.svm import SVC

from optimargin import OneClassODM
from optimargin.plotting import NoveltyDisplay

pytestmark = pytest.mark.quick


def test_novelty_is_drawn_as_computed(moons, legend):
    X, _ = moons
    model = OneClassODM(false_alarm_rate=0.1).fit(X)
    display = NoveltyDisplay.from_estimator(model, X, grid_resolution=30, levels=(0.1, 0.5))
    grid = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    np.testing.assert_array_equal(display.p_values.ravel(), model.p_values(grid))
    np.testing.assert_array_equal(display.response.ravel(), model.decision_function(grid))
    assert display.surface_.levels.tolist() == [0.0, 0.1, 0.5, 1.0]
    assert legend(display)[:3] == ["threshold, false-alarm rate 0.1", "p-values", "normal"]
    frame = pd.DataFrame(X, columns=["width", "length"])
    named = NoveltyDisplay.from_estimator(OneClassODM().fit(frame), frame, grid_resolution=5)
    assert named.ax_.get_xlabel() == "width"


def test_odd_rows_are_drawn_with_their_numbers(moons, legend):
    X = np.vstack([moons[0], [[5.0, 5.0], [-4.0, 3.0]]])
    detector = OneClassODM(false_alarm_rate=0.03, novelty=False).fit(X)
    display = NoveltyDisplay.from_estimator(detector, X)
    odd = np.flatnonzero(detector.held_out_scores_ < detector.offset_)
    np.testing.assert_array_equal(np.flatnonzero(display.labels == -1), odd)
    assert {int(text.get_text()) for text in display.ax_.texts} == set(odd)
    assert {len(X) - 2, len(X) - 1} <= set(odd)
    assert legend(display) == ["normal", "outlier"]
    assert display.p_values is None
    with pytest.raises(ValueError, match=f"the {len(X)} samples of the fit are drawn"):
        NoveltyDisplay.from_estimator(detector, X[:-1])


def test_what_cannot_be_drawn_of_novelty_is_named(moons):
    X, y = moons
    model = OneClassODM().fit(X)
    with pytest.raises(TypeError, match="SVC has no p-values"):
        NoveltyDisplay.from_estimator(SVC().fit(X, y), X)
    with pytest.raises(ValueError, match=r"levels=.*increase"):
        NoveltyDisplay.from_estimator(model, X, levels=(0.5, 0.1))
    with pytest.raises(ValueError, match="exactly two features"):
        NoveltyDisplay.from_estimator(model, X[:, :1])
