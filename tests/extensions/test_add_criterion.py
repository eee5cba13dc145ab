"""A criterion defined here chooses among grid points and guides the search."""

from dataclasses import dataclass

import numpy as np
import pytest

from optimargin import LDMClassifierCV, LinearODMClassifierCV, ODMClassifierCV
from optimargin.kernels import KernelChoice
from optimargin.objectives import ODM
from optimargin.selection.criteria import CRITERIA, Criterion, true_margins
from optimargin.selection.data import SelectionData
from optimargin.selection.loss import HeldOutLoss
from tests.cases import two_classes

pytestmark = [pytest.mark.quick, pytest.mark.numbers]


# [criterion]
@dataclass(frozen=True)
class Closeness(Criterion):
    """Minus the mean squared distance of margins to one, with its slope."""

    has_slope = True

    def score(self, decision, truth):
        return self.score_and_slope(decision, truth)[0]

    def score_and_slope(self, decision, truth):
        margin, _ = true_margins(decision, truth.encoded)
        sign = np.where(truth.encoded == 1, 1.0, -1.0)
        slope = 2 * truth.weight * (1 - margin) * sign
        return -float(truth.weight @ (1 - margin) ** 2), slope[:, None]


# [no slope]
class WorstClass(Criterion):
    """The accuracy of the class that fares worst; it has no slope."""

    def score(self, decision, truth):
        margin, _ = true_margins(decision, truth.encoded)
        return min(float((margin[truth.encoded == k] > 0).mean()) for k in (0, 1))


# [end]
X, Y = two_classes(80, 3, noise=1.5)
Y = (Y > 0).astype(int)


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(CRITERIA, "closeness", Closeness)
    monkeypatch.setitem(CRITERIA, "worst class", WorstClass)


def data():
    return SelectionData(ODM, X, Y, None, kernel=KernelChoice("rbf"), fit_intercept=True)


@pytest.mark.parametrize("make", [ODMClassifierCV, LinearODMClassifierCV])
@pytest.mark.parametrize("scoring", ["closeness", "worst class", Closeness()])
@pytest.mark.parametrize("cv", [None, 3])
def test_the_search_follows_it(make, scoring, cv):
    followed = make(scoring=scoring, cv=cv, max_evals=25).fit(X, Y)
    plain = make(cv=cv, max_evals=25).fit(X, Y)
    others = make(scoring=scoring, cv=cv, max_evals=1).fit(X, Y)
    assert followed.best_score_ >= others.best_score_
    assert followed.best_score_ != plain.best_score_


def test_it_chooses_among_grid_points():
    model = LinearODMClassifierCV(C1s=[1, 64], C2s=[1], Ds=[0.0], scoring="worst class").fit(X, Y)
    assert model.best_score_ == model.cv_results_["mean_test_score"].max()


def test_it_guides_the_other_machine():
    model = LDMClassifierCV(scoring="worst class", max_evals=6, cv=3).fit(X, Y)
    assert 0 <= model.best_score_ <= 1


@pytest.mark.parametrize("splits", [None, [(np.arange(0, 80, 2), np.arange(1, 80, 2))]])
def test_its_slope_gives_the_gradient_of_the_search(splits):
    loss = HeldOutLoss(data(), splits, np.random.RandomState(0), Closeness())
    x = np.array([5.0, -2.0, 0.2, 0.3])
    _, gradient = loss(x)
    for k, step in enumerate(1e-6 * np.eye(4)):
        up, down = (loss(x + sign * step, gradient=False)[0].loss for sign in (1, -1))
        assert gradient[k] == pytest.approx((up - down) / 2e-6, rel=1e-4, abs=1e-7)


def test_without_a_slope_the_search_knows_that_there_is_no_gradient():
    loss = HeldOutLoss(data(), None, np.random.RandomState(0), WorstClass())
    assert not loss.has_gradient
    assert loss(np.array([5.0, -2.0, 0.2, 0.3]))[1] is None
