"""Plots of predictions and curves: what is drawn is what was computed."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optimargin import LinearODMRegressor, ODMRegressor
from optimargin.plotting import RegressionDisplay, plot_curves

pytestmark = pytest.mark.quick


RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(60, 1))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=60)


@pytest.mark.parametrize("style", ["predictions", "residuals"])
def test_points_are_predictions_against_targets_or_residuals(style):
    model = ODMRegressor(epsilon=0.1).fit(X, Y)
    display = RegressionDisplay.from_estimator(model, X, Y, style=style)
    drawn = display.points_.get_offsets()
    predicted = model.predict(X)
    np.testing.assert_allclose(drawn[:, 0], predicted)
    np.testing.assert_allclose(drawn[:, 1], Y if style == "predictions" else Y - predicted)
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert "band, epsilon = 0.1" in labels
    assert any("ODMRegressor, mean absolute error" in label for label in labels)


def test_held_out_predictions_can_be_drawn():
    model = make_pipeline(StandardScaler(), ODMRegressor()).fit(X, Y)
    display = RegressionDisplay.from_estimator(model, X, Y, held_out=True)
    np.testing.assert_allclose(
        display.points_.get_offsets()[:, 0], model[-1].loo_prediction(), rtol=1e-9
    )
    with pytest.raises(ValueError, match="held_out=True"):
        RegressionDisplay.from_estimator(Ridge().fit(X, Y), X, Y, held_out=True)


def test_one_of_several_targets_is_drawn():
    both = np.column_stack([Y, 5 * Y])
    model = LinearODMRegressor(epsilon="scale").fit(X, both)
    display = RegressionDisplay.from_estimator(model, X, both, target=1)
    assert display.epsilon == pytest.approx(model.epsilon_[1])
    np.testing.assert_allclose(display.points_.get_offsets()[:, 1], 5 * Y)


def test_an_unknown_style_is_named():
    with pytest.raises(ValueError, match="style='both' is unknown"):
        RegressionDisplay.from_predictions(Y, Y, style="both")


def test_curves_are_predictions_over_the_feature():
    models = [LinearODMRegressor(C1=t, C2=1 - t).fit(X, Y) for t in (0.2, 0.8)]
    ax = plot_curves([*models, Ridge().fit(X, Y)], X, Y, n_points=5)
    lines = ax.get_lines()
    assert [line.get_label() for line in lines] == ["expectile 0.2", "expectile 0.8", "Ridge"]
    grid = np.linspace(X.min(), X.max(), 5)[:, None]
    np.testing.assert_allclose(lines[0].get_ydata(), models[0].predict(grid))
    assert len({line.get_color() for line in lines}) == 3
    named = plot_curves(models, X, Y, names=["low", "high"])
    assert [line.get_label() for line in named.get_lines()] == ["low", "high"]
    with pytest.raises(ValueError, match="one feature"):
        plot_curves(models, np.ones((3, 2)), np.ones(3))
