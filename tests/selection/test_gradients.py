"""Every engine of held-out values has the gradient of every smooth criterion, for every task."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

from optimargin.designs import FeatureDesign, GramDesign
from optimargin.held_out.compiled import CompiledRefitter
from optimargin.held_out.engine import make_refitter
from optimargin.held_out.refitter import GramTest, NewtonRefitter
from optimargin.held_out.search_designs import LandmarkFeatures, PlainFeatures
from optimargin.kernels import KernelChoice
from optimargin.objectives import ODM, ODMRegression
from optimargin.selection.criteria import (
    AbsoluteError,
    ExpectileError,
    LogLoss,
    SmoothAccuracy,
    SmoothAUC,
    SmoothBalancedAccuracy,
    SmoothF1,
    SquaredError,
)
from optimargin.selection.data import SelectionData
from optimargin.selection.loss import HeldOutLoss
from optimargin.tasks import Classification, Regression
from optimargin.training.plan import FoldsPlan

pytestmark = pytest.mark.numbers

N_SAMPLES, N_FEATURES = 60, 4
OF_CLASSES = (SmoothAccuracy(), SmoothBalancedAccuracy(), LogLoss())
OF_NUMBERS = tuple(error.guide for error in (AbsoluteError(), SquaredError(), ExpectileError(0.7)))
CRITERIA_OF = {
    "two classes": (*OF_CLASSES, SmoothF1(), SmoothAUC()),
    "classes": OF_CLASSES,
    "pairs": OF_CLASSES,
    "numbers": OF_NUMBERS,
}


def shown(criterion):
    """Return the name of a criterion."""
    return type(getattr(criterion, "error", criterion)).__name__


def by_newton(data, objective_type, targets, fit_intercept):
    """Return refitters over samples where the plan would take compiled ones."""
    test = None if data.K_test is None else GramTest(data.K_test)
    return NewtonRefitter(GramDesign(data.K), targets, fit_intercept, test)


def by_features(data, objective_type, targets, fit_intercept):
    """Return refitters over features where the plan would take inner products."""
    test = None
    if data.X_test is not None:
        test = FeatureDesign(data.X_test, data.center)
    return NewtonRefitter(FeatureDesign(data.X, data.center), targets, fit_intercept, test)


@dataclass(frozen=True)
class Engine:
    """How held-out values are found.

    Attributes
    ----------
    kernel : str
    backend : type
        What has to solve.
    design : type, default=None
        What it has to solve over.
    plan : FoldsPlan, default=None
        In place of that of the data.
    wide : bool
        Whether there are more features than samples.
    sparse : bool
    exact : bool
        Whether folds are fitted without, or left out in closed form.
    quadratic : bool
    refit : callable
    """

    kernel: str
    backend: type
    design: type | None = None
    plan: FoldsPlan | None = None
    wide: bool = False
    sparse: bool = False
    exact: bool = False
    quadratic: bool = False
    refit: object = make_refitter


LANDMARKS = FoldsPlan(True, 20)
ENGINES = {
    "kernel": Engine("rbf", CompiledRefitter),
    "kernel, newton": Engine("rbf", NewtonRefitter, GramDesign, refit=by_newton),
    "kernel, quadratic": Engine("rbf", CompiledRefitter, quadratic=True),
    "kernel, exact folds": Engine("rbf", CompiledRefitter, exact=True),
    "kernel, exact folds, quadratic": Engine("rbf", CompiledRefitter, exact=True, quadratic=True),
    "kernel, newton, exact folds": Engine("rbf", NewtonRefitter, exact=True, refit=by_newton),
    "landmarks": Engine("rbf", NewtonRefitter, LandmarkFeatures, LANDMARKS),
    "landmarks, quadratic": Engine(
        "rbf", NewtonRefitter, LandmarkFeatures, LANDMARKS, quadratic=True
    ),
    "few features": Engine("linear", NewtonRefitter, PlainFeatures, FoldsPlan(True)),
    "features": Engine(
        "linear", NewtonRefitter, FeatureDesign, FoldsPlan(False), refit=by_features
    ),
    "inner products": Engine("linear", CompiledRefitter, plan=FoldsPlan(False), wide=True),
    "sparse features": Engine(
        "linear", NewtonRefitter, FeatureDesign, sparse=True, refit=by_features
    ),
    "features, exact folds": Engine(
        "linear", NewtonRefitter, FeatureDesign, exact=True, refit=by_features
    ),
    "inner products, exact folds": Engine("linear", CompiledRefitter, wide=True, exact=True),
}
CASES = [
    pytest.param(engine, task, criterion, id=f"{name}-{task}-{shown(criterion)}")
    for name, engine in ENGINES.items()
    for task, criteria in CRITERIA_OF.items()
    for criterion in criteria
]


def make_data(task, engine):
    """Return weighted samples, their classes of unequal sizes."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N_SAMPLES, 2 * N_SAMPLES if engine.wide else N_FEATURES))
    X += 0.1  # so that centring matters
    value = 2 * X[:, 0] + X[:, 1] ** 2 + 0.8 * rng.standard_normal(N_SAMPLES)
    weight = rng.uniform(0.5, 2.0, N_SAMPLES)
    weight[:2] = 0.0
    settings = {"kernel": KernelChoice(engine.kernel), "fit_intercept": True, "refit": engine.refit}
    if task == "numbers":
        settings["fixed"] = {"epsilon": 0.2, "share_above": 0.5}
        if engine.quadratic:
            settings["fixed"] = {"epsilon": 0.0, "share_above": 1.0}
        made = Regression.from_values(value, weight, fit_intercept=True)
        y, objective = value, ODMRegression
    else:
        shares = [0.7] if task == "two classes" else [0.5, 0.75, 0.9]
        y = np.searchsorted(np.quantile(value, shares), value)
        multi_class = "ovo" if task == "pairs" else "ovr"
        made = Classification.from_labels(y, weight, multi_class=multi_class)
        objective = ODM
    X = sp.csr_array(X) if engine.sparse else X
    return SelectionData(objective, X, y, weight, task=made, **settings)


def check_gradient(value, x, gradient, places, step=1e-6):
    for place in places:
        moved = np.zeros(x.size)
        moved[place] = step
        expected = (value(x + moved) - value(x - moved)) / (2 * step)
        assert gradient[place] == pytest.approx(expected, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(("engine", "task", "criterion"), CASES)
def test_gradients_are_those_of_finite_differences(engine, task, criterion, monkeypatch):
    if engine.plan is not None:
        monkeypatch.setattr("optimargin.selection.data.plan_folds", lambda *_: engine.plan)
    data = make_data(task, engine)
    splits = None
    if engine.exact:
        splits = [(np.arange(k, N_SAMPLES, 2), np.arange(1 - k, N_SAMPLES, 2)) for k in (0, 1)]
    loss = HeldOutLoss(data, splits, np.random.RandomState(0), criterion)
    refitter = loss.parts[0].refitter
    assert type(refitter) is engine.backend
    x = np.array([1.5] if task == "numbers" else [1.5, -2.0, 0.2])
    places = range(x.size + loss.has_width)
    if engine.quadratic and task != "numbers":
        x = np.array([1.5, 0.0, 0.0])
        places = [0, 3]  # within which losses stay quadratic
    x = np.append(x, 0.3)[: len(loss.bounds)]
    _, gradient = loss(x)
    assert engine.design is None or isinstance(refitter.design, engine.design)
    assert np.abs(gradient).max() > 1e-4
    check_gradient(lambda at: loss(at, gradient=False)[0].loss, x, gradient, places)


@pytest.mark.parametrize("engine", ["kernel", "kernel, newton"])
@pytest.mark.parametrize(
    ("task", "criterion"),
    [(task, each) for task in CRITERIA_OF for each in CRITERIA_OF[task]],
    ids=lambda value: value if isinstance(value, str) else shown(value),
)
def test_gradients_by_widths_per_feature_are_those_of_finite_differences(task, criterion, engine):
    data = make_data(task, ENGINES[engine])
    used = np.flatnonzero(data.weight)
    loss = HeldOutLoss(data, None, np.random.RandomState(0), criterion, gamma=0.2, rows=used)
    x = np.append([1.5] if task == "numbers" else [1.5, -2.0, 0.2], [0.3, -0.2, 0.1, 0.4])
    _, gradient = loss(x)
    check_gradient(lambda at: loss(at)[0].loss, x, gradient, range(x.size))
