"""The plot of the margin distribution: what is drawn, and that it can be told apart."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from optimargin import LinearODMClassifier, ODMClassifier
from optimargin.margins import MarginDistribution, margin_distribution
from optimargin.plotting import MarginDistributionDisplay

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(scope="module")
def data():
    return make_classification(n_samples=80, n_features=5, flip_y=0.1, random_state=0)


@pytest.fixture(scope="module")
def odm(data):
    return LinearODMClassifier(D=0.25).fit(*data)


def bands(ax):
    return [artist for artist in ax.patches if "band" in str(artist.get_gid())]


def test_cumulative_curve_is_the_distribution(odm, data):
    display = MarginDistributionDisplay.from_estimator(odm, *data)
    margins, shares = margin_distribution(odm, *data).cumulative()
    x, y = display.line_.get_data()
    np.testing.assert_allclose(np.unique(x), np.unique(margins))
    np.testing.assert_allclose(np.unique(y), np.append(0, shares), atol=1e-12)
    assert display.figure_ is display.ax_.figure
    assert display.ax_.get_xlabel() == "Margin (functional)"


def test_histogram_holds_all_weight_and_marks_the_mean(odm, data):
    weight = np.random.default_rng(0).uniform(size=80)
    display = MarginDistributionDisplay.from_estimator(
        odm, *data, style="histogram", bins=7, sample_weight=weight
    )
    _, heights = display.line_.get_data()
    assert heights[1::2].sum() == pytest.approx(1.0)
    mean = margin_distribution(odm, *data, sample_weight=weight).mean
    assert any(np.allclose(line.get_xdata(), mean) for line in display.ax_.lines)


def test_legend_tells_mean_variance_and_band(odm, data, legend):
    display = MarginDistributionDisplay.from_estimator(odm, *data)
    distribution = display.distribution
    numbers = f"mean {distribution.mean:.2f}, variance {distribution.variance:.3g}"
    assert legend(display) == [f"LinearODMClassifier ({numbers})", "band 1 ± D, D = 0.25"]


def test_band_spans_one_minus_to_one_plus_D(odm, data):
    (band,) = bands(MarginDistributionDisplay.from_estimator(odm, *data).ax_)
    assert band.get_x() == pytest.approx(0.75)
    assert band.get_width() == pytest.approx(0.5)


def test_band_is_drawn_only_where_it_has_a_meaning(odm, data):
    assert not bands(MarginDistributionDisplay.from_estimator(odm, *data, kind="geometric").ax_)
    assert not bands(MarginDistributionDisplay.from_estimator(SVC().fit(*data), *data).ax_)
    X, y = make_blobs(centers=3, random_state=0)
    est = LinearODMClassifier().fit(X, y)
    assert not bands(MarginDistributionDisplay.from_estimator(est, X, y).ax_)


@pytest.mark.parametrize("style", ["cumulative", "histogram"])
def test_several_classifiers_share_axes_with_their_own_looks(style, odm, data, legend):
    display = MarginDistributionDisplay.from_estimator(odm, *data, style=style)
    looks = {(display.line_.get_color(), str(display.line_.get_linestyle()))}
    for est in (ODMClassifier(D=0.25), SVC(), SVC(kernel="linear")):
        name = f"{type(est).__name__} {est.kernel}"
        other = MarginDistributionDisplay.from_estimator(
            est.fit(*data), *data, ax=display.ax_, style=style, name=name
        )
        looks.add((other.line_.get_color(), other.line_._unscaled_dash_pattern))
        assert other.ax_ is display.ax_
    assert len(looks) == 4
    assert len(bands(display.ax_)) == 1  # the same D, once
    assert legend(display)[-1].startswith("band")
    assert legend(display)[3].startswith("SVC linear")


def test_estimator_inside_a_pipeline_gives_name_and_band(data):
    pipe = make_pipeline(StandardScaler(), ODMClassifier(D=0.3)).fit(*data)
    display = MarginDistributionDisplay.from_estimator(pipe, *data)
    assert display.name == "ODMClassifier"
    assert display.D == 0.3


@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_give_the_same_plot(n_classes, legend):
    X, y = make_blobs(n_samples=60, centers=n_classes, cluster_std=4.0, random_state=0)
    est = LinearODMClassifier().fit(X, y)
    expected = MarginDistributionDisplay.from_estimator(est, X, y)
    display = MarginDistributionDisplay.from_predictions(y, est.decision_function(X), D=0.1)
    np.testing.assert_allclose(display.line_.get_data(), expected.line_.get_data())
    assert legend(display)[0].startswith("mean")


def test_plot_draws_again_and_passes_options_on():
    display = MarginDistributionDisplay(MarginDistribution(np.arange(4.0), np.full(4, 0.25)))
    display.plot(color="red")
    assert display.line_.get_color() == "red"
    first = display.ax_
    assert display.plot().ax_ is not first


def test_unknown_style_is_refused(odm, data):
    with pytest.raises(ValueError, match="style='pie' is unknown"):
        MarginDistributionDisplay.from_estimator(odm, *data, style="pie")


def test_few_samples_get_few_bins():
    y = np.arange(100) % 2
    scores = np.where(y == 1, 1.0, -1.0) * np.linspace(0.1, 2, 100)
    display = MarginDistributionDisplay.from_predictions(y, scores, style="histogram")
    n_edges = len(display.line_.get_xdata()) // 2
    assert n_edges == 11
