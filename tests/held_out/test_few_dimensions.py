"""Held-out values in few dimensions: those of all dimensions where nothing is left out of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.datasets import make_moons

from optimargin.held_out.compiled import GramRefitter
from optimargin.held_out.engine import LinearData, make_refitter
from optimargin.held_out.few_dimensions import FewDimensionsRefitter, FewFeatures, LandmarkData
from optimargin.held_out.refitter import Folds
from optimargin.kernels import Kernel, KernelChoice, gamma_of_width, squared_distances
from optimargin.objectives import ODM
from optimargin.selection.data import SelectionData
from optimargin.selection.search import HeldOutLoss
from optimargin.targets import Target
from optimargin.training.plan import plan_folds
from tests.cases import labels_target, two_classes

N_SAMPLES = 40
OBJECTIVES = [ODM(64.0, 16.0, 0.2), ODM(8.0, 8.0, 0.0), ODM(256.0, 0.0, 0.4)]
every_objective = pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])


@pytest.fixture
def data():
    """Return rows, targets of three outputs, the last of them numbers, and folds."""
    X, y = two_classes(N_SAMPLES, 4)
    rng = np.random.default_rng(7)
    weight = rng.uniform(0.5, 2.0, size=N_SAMPLES)
    targets = [labels_target(s, weight) for s in (y, np.where(X[:, 0] > 0.5, 1.0, -1.0))]
    orientation = rng.choice([-1.0, 1.0], N_SAMPLES)
    targets.append(Target(rng.normal(size=N_SAMPLES), orientation, targets[0].weight))
    folds = Folds.stratified(np.arange(N_SAMPLES) % 2, 5, 2, np.random.RandomState(0))
    return X, targets, folds


def landmark_refitter(data, rows, fit_intercept, log_width=0.0, dtype=np.float64):
    X, targets, folds = data
    distances = LandmarkData(
        squared_distances(X, X[rows]).astype(dtype), squared_distances(X[rows]), folds
    )
    refitter = FewDimensionsRefitter(distances, targets, fit_intercept)
    refitter.change_width(Kernel("rbf", gamma_of_width(np.exp(log_width))), gradient=True)
    return refitter


def smooth(decision):
    """Return a smooth function of decision values, and its derivatives."""
    phase = np.arange(decision.size).reshape(decision.shape)
    return float(np.sin(decision + phase).sum()), np.cos(decision + phase)


def found_by(refitter, objective, folds):
    solved = refitter.solve(objective)
    held_out = solved.leave_folds_out(folds)
    derivatives = held_out.derivatives(smooth(held_out.decision)[1])
    return held_out.decision, np.append(derivatives.by_loss, derivatives.by_width), solved.objective


@every_objective
@with_and_without_intercept
def test_with_all_samples_as_landmarks_nothing_changes(data, objective, fit_intercept):
    X, targets, folds = data
    kernel = Kernel("rbf", gamma_of_width(1.0))
    distances = squared_distances(X)
    K = kernel.of_distances(distances)
    exact = GramRefitter(np.eye(N_SAMPLES), targets, fit_intercept)
    exact.change_kernel(K, slope=kernel.width_slope(distances, K))
    expected = found_by(exact, objective, folds)
    found = found_by(landmark_refitter(data, np.arange(N_SAMPLES), fit_intercept), objective, folds)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * max(1.0, np.abs(theirs).max()))


@every_objective
@with_and_without_intercept
def test_derivatives_with_few_landmarks_are_those_of_finite_differences(
    data, objective, fit_intercept
):
    rows = np.arange(0, N_SAMPLES, 4)
    folds = data[2]

    def value(moved, log_width=0.0):
        refitter = landmark_refitter(data, rows, fit_intercept, log_width)
        return smooth(refitter.solve(moved).leave_folds_out(folds).decision)[0]

    def difference(function, step=1e-6):
        return (function(step) - function(-step)) / (2 * step)

    expected = [
        difference(lambda t: value(replace(objective, C1=objective.C1 * np.exp(t)))),
        difference(lambda t: value(replace(objective, C2=objective.C2 * np.exp(t)))),
        difference(lambda t: value(objective, t)),
    ]
    _, derivatives, _ = found_by(landmark_refitter(data, rows, fit_intercept), objective, folds)
    np.testing.assert_allclose(derivatives[[0, 1, 3]], expected, rtol=1e-4, atol=1e-5)
    if objective.D > 0:  # at zero the band cannot become narrower
        by_D = difference(lambda t: value(replace(objective, D=objective.D + t)))
        assert derivatives[2] == pytest.approx(by_D, rel=1e-4, abs=1e-5)


@every_objective
@with_and_without_intercept
def test_few_features_have_the_values_of_other_linear_refitters(data, objective, fit_intercept):
    X, targets, folds = data
    center = X.T @ targets[0].weight if fit_intercept else np.zeros(X.shape[1])
    other = make_refitter(LinearData(X, center), ODM, targets, fit_intercept)
    expected = found_by(other, objective, folds)
    refitter = make_refitter(FewFeatures(X - center, folds), ODM, targets, fit_intercept)
    for ours, theirs in zip(found_by(refitter, objective, folds), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-8 * max(1.0, np.abs(theirs).max()))


@every_objective
def test_single_precision_is_enough_to_search(data, objective):
    rows, folds = np.arange(0, N_SAMPLES, 3), data[2]
    expected = found_by(landmark_refitter(data, rows, True), objective, folds)
    found = found_by(landmark_refitter(data, rows, True, dtype=np.float32), objective, folds)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=5e-3 * max(1.0, np.abs(theirs).max()))


def test_the_next_solve_goes_on_from_the_last_and_ends_as_a_first_one(data):
    rows, folds = np.arange(0, N_SAMPLES, 3), data[2]
    warm = landmark_refitter(data, rows, True)
    for objective in OBJECTIVES:
        found = found_by(warm, objective, folds)
        cold = found_by(landmark_refitter(data, rows, True), objective, folds)
        for ours, theirs in zip(found, cold, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-8 * max(1.0, np.abs(theirs).max()))


def test_other_folds_than_its_own_are_refused(data):
    solved = landmark_refitter(data, np.arange(10), True).solve(OBJECTIVES[0])
    others = Folds.stratified(np.zeros(N_SAMPLES, int), 4, 1, np.random.RandomState(1))
    with pytest.raises(ValueError, match="folds must be those"):
        solved.leave_folds_out(others)
    with pytest.raises(TypeError, match="no test samples"):
        solved.predict_test()


def test_the_plan_takes_landmarks_for_many_samples_of_a_radial_kernel():
    rbf, linear = KernelChoice("rbf").kind, KernelChoice("linear").kind
    assert not plan_folds(ODM, np.empty((250, 3)), [250], rbf).in_few_dimensions
    many = plan_folds(ODM, np.empty((2000, 3)), [2000], rbf)
    assert many.in_few_dimensions
    assert 100 < many.n_landmarks < 1000
    assert many.dtype == np.float32
    assert not plan_folds(
        ODM, np.empty((2000, 3)), [2000], KernelChoice("poly").kind
    ).in_few_dimensions
    assert plan_folds(ODM, np.empty((200, 3)), [200], linear).in_few_dimensions
    assert not plan_folds(ODM, np.empty((20, 30)), [20], linear).in_few_dimensions


def test_rounding_does_not_lead_searches_of_some_samples_elsewhere():
    rbf = KernelChoice("rbf").kind
    for n_samples in (350, 1500):
        plan = plan_folds(ODM, np.empty((n_samples, 3)), [n_samples], rbf)
        assert plan.in_few_dimensions
        assert plan.dtype == np.float64


def test_points_rank_as_they_do_without_landmarks(monkeypatch):
    X, y = make_moons(300, noise=0.3, random_state=0)
    choice = KernelChoice("rbf")
    losses = []
    for up_to in (1000, 100):
        monkeypatch.setattr("optimargin.training.plan._ALL_LANDMARKS_UP_TO", up_to)
        data = SelectionData(ODM, X, y, None, kernel=choice, fit_intercept=True)
        losses.append(HeldOutLoss(data, None, np.random.RandomState(0)))
    assert isinstance(losses[1].parts[0].refitter, FewDimensionsRefitter)
    rng = np.random.default_rng(0)
    low, high = losses[0].spread.T
    points = low + rng.random((30, low.size)) * (high - low)
    exact, cheap = ([f(x, gradient=False)[0].loss for x in points] for f in losses)
    assert spearmanr(exact, cheap)[0] > 0.95
