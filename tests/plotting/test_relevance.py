"""Bars of relevance."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from optimargin.plotting import RelevanceDisplay

pytestmark = pytest.mark.quick


def test_bars_are_the_most_relevant_features_in_order():
    model = SimpleNamespace(feature_importances_=np.array([0.1, 0.6, 0.3]))
    display = RelevanceDisplay.from_estimator(model, max_features=2)
    assert [bar.get_width() for bar in display.bars_] == [0.6, 0.3]
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == [
        "feature 1",
        "feature 2",
    ]
    named = RelevanceDisplay.from_estimator(model, names=["a", "b", "c"], ax=display.ax_)
    assert named.names.tolist() == ["b", "c", "a"]
    assert named.ax_ is display.ax_
