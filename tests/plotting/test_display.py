"""What all plots share: matplotlib is needed only to draw, and legends cover no data."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.datasets import make_classification

from optimargin import LinearODMClassifier
from optimargin.margins import MarginDistribution
from optimargin.plotting import MarginDistributionDisplay

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def data():
    return make_classification(n_samples=80, n_features=5, flip_y=0.1, random_state=0)


@pytest.fixture(scope="module")
def odm(data):
    return LinearODMClassifier(D=0.25).fit(*data)


def test_matplotlib_is_imported_only_to_draw():
    code = "import sys, optimargin.plotting; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_missing_matplotlib_names_the_extra(monkeypatch):
    display = MarginDistributionDisplay(MarginDistribution(np.zeros(1), np.ones(1)))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    with pytest.raises(ImportError, match=r"optimargin\[plot\]"):
        display.plot()


@pytest.mark.parametrize("style", ["cumulative", "histogram"])
def test_the_legend_covers_no_data(odm, data, style):
    figure, ax = plt.subplots(layout="constrained")
    MarginDistributionDisplay.from_estimator(odm, *data, style=style, ax=ax)
    ax.set_title("A title")
    figure.canvas.draw()
    box = ax.get_legend().get_window_extent()
    assert not box.overlaps(ax.get_window_extent())
    assert not box.overlaps(ax.xaxis.label.get_window_extent())
    assert box.y0 >= 0  # within the figure


def test_without_a_layout_the_legend_is_inside(odm, data):
    figure, ax = plt.subplots()
    MarginDistributionDisplay.from_estimator(odm, *data, ax=ax)
    figure.canvas.draw()
    assert ax.get_window_extent().contains(*ax.get_legend().get_window_extent().min)
