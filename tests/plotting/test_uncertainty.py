"""Plots of probabilities and intervals: what is drawn is what was computed."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs

from optimargin import (
    LinearODMClassifier,
    ODMClassifier,
    ODMRegressor,
)
from optimargin.plotting import (
    IntervalDisplay,
    ReliabilityDisplay,
)

pytestmark = pytest.mark.quick


def test_reliability_of_probabilities_beside_scores(moons, legend):
    X, y = moons
    model = ODMClassifier(calibration="sigmoid").fit(X, y)
    display = ReliabilityDisplay.from_estimator(model, X, y, n_bins=5)
    p = np.sort(model.predict_proba(X)[:, 1])
    np.testing.assert_allclose(display.predicted[0], p[: len(y) // 5].mean())
    assert legend(display) == ["perfect", "ODMClassifier", "ODMClassifier, scores as they are"]
    again = ReliabilityDisplay.from_estimator(model, X, y, name="again", ax=display.ax_)
    assert again.line_.get_color() != display.line_.get_color()
    assert legend(again).count("perfect") == 1
    with pytest.raises(ValueError, match="n_bins=0"):
        ReliabilityDisplay.from_estimator(model, X, y, n_bins=0)


def test_reliability_of_several_classes():
    X, y = make_blobs(90, centers=3, cluster_std=3, random_state=0)
    model = LinearODMClassifier(calibration="temperature").fit(X, y)
    display = ReliabilityDisplay.from_estimator(model, X, y, n_bins=3)
    np.testing.assert_allclose(display.observed.mean(), model.score(X, y))


def test_intervals_along_a_feature_and_by_width(legend):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["long", "wide"])
    y = frame["long"].to_numpy() + 0.1 * rng.normal(size=60)
    model = ODMRegressor().fit(frame, y)
    along = IntervalDisplay.from_estimator(model, frame, y, feature="long", confidence_level=0.8)
    assert (np.diff(along.x) >= 0).all()
    assert along.ax_.get_xlabel() == "long"
    assert legend(along)[:2] == ["80% interval", "prediction"]
    np.testing.assert_array_equal(
        IntervalDisplay.from_estimator(model, frame, feature=0).x, along.x
    )
    by_width = IntervalDisplay.from_estimator(model, frame, y)
    assert (np.diff(np.ptp(by_width.intervals, axis=1)) >= -1e-12).all()
    assert not by_width.points.any()
    with pytest.raises(ValueError, match="one number"):
        IntervalDisplay.from_estimator(model, frame, confidence_level=[0.5, 0.8])
