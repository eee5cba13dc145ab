"""What tests of plots share."""

import pytest
from sklearn.datasets import make_moons

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def moons():
    return make_moons(60, noise=0.2, random_state=0)


@pytest.fixture(scope="session")
def legend():
    def texts(display):
        return [text.get_text() for text in display.ax_.get_legend().get_texts()]

    return texts
