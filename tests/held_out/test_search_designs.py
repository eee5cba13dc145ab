"""Designs of a search: where nothing is left out of them, their values are those of others."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.datasets import make_moons

from optimargin.held_out.engine import FoldedData, KernelData, LinearData, make_refitter
from optimargin.held_out.search_designs import LandmarkFeatures, PlainFeatures
from optimargin.kernels import Kernel, KernelChoice, gamma_of_width, squared_distances
from optimargin.objectives import ODM
from optimargin.selection.data import SelectionData
from optimargin.selection.loss import HeldOutLoss
from optimargin.selection.widths import Widths
from optimargin.systems import Folds
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


class OfLandmarks:
    """A refitter over landmarks that can be told another width."""

    def __init__(self, data, rows, fit_intercept, dtype=np.float64):
        X, targets, folds = data
        self.folds = folds
        self.refitter = make_refitter(FoldedData(None, folds, dtype), ODM, targets, fit_intercept)
        distances = {
            "landmarks": squared_distances(X, X[rows]).astype(dtype),
            "between": squared_distances(X[rows]),
        }
        self._width = Widths(KernelChoice("rbf"), distances)

    def found(self, objective, log_width=0.0):
        """Return held-out values, derivatives of a function of them, and objectives."""
        gamma = gamma_of_width(np.exp(log_width))
        self._width.change(self.refitter, gamma, gradient=True)
        return found_by(self.refitter, objective, self.folds, self._width.slopes)


def smooth(decision):
    """Return a smooth function of decision values, and its derivatives."""
    phase = np.arange(decision.size).reshape(decision.shape)
    return float(np.sin(decision + phase).sum()), np.cos(decision + phase)


def found_by(refitter, objective, folds, slopes=None):
    solved = refitter.solve(objective)
    held_out = solved.leave_folds_out(folds)
    derivatives = held_out.derivatives(smooth(held_out.decision)[1])
    slope = derivatives.by_loss
    if slopes is not None:
        slope = np.append(slope, derivatives.by_width(slopes))
    return held_out.decision, slope, solved.objective


def check_same(found, expected, atol):
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=atol * max(1.0, np.abs(theirs).max()))


@every_objective
@with_and_without_intercept
def test_with_all_samples_as_landmarks_nothing_changes(data, objective, fit_intercept):
    X, targets, folds = data
    kernel = Kernel("rbf", gamma_of_width(1.0))
    distances = squared_distances(X)
    K = kernel.of_distances(distances)
    exact = make_refitter(KernelData(K), ODM, targets, fit_intercept)
    expected = found_by(exact, objective, folds, {"samples": kernel.width_slope(distances, K)})
    landmarks = OfLandmarks(data, np.arange(N_SAMPLES), fit_intercept)
    check_same(landmarks.found(objective), expected, 1e-5)


@every_objective
@with_and_without_intercept
def test_derivatives_with_few_landmarks_are_those_of_finite_differences(
    data, objective, fit_intercept
):
    landmarks = OfLandmarks(data, np.arange(0, N_SAMPLES, 4), fit_intercept)

    def value(moved, log_width=0.0):
        return smooth(landmarks.found(moved, log_width)[0])[0]

    def difference(function, step=1e-6):
        return (function(step) - function(-step)) / (2 * step)

    expected = [
        difference(lambda t: value(replace(objective, C1=objective.C1 * np.exp(t)))),
        difference(lambda t: value(replace(objective, C2=objective.C2 * np.exp(t)))),
        difference(lambda t: value(objective, t)),
    ]
    _, derivatives, _ = landmarks.found(objective)
    np.testing.assert_allclose(derivatives[[0, 1, 3]], expected, rtol=1e-4, atol=1e-5)
    if objective.D > 0:  # at zero the band cannot become narrower
        by_D = difference(lambda t: value(replace(objective, D=objective.D + t)))
        assert derivatives[2] == pytest.approx(by_D, rel=1e-4, abs=1e-5)


@every_objective
@with_and_without_intercept
def test_plain_features_have_the_values_of_other_linear_refitters(data, objective, fit_intercept):
    X, targets, folds = data
    center = X.T @ targets[0].weight if fit_intercept else np.zeros(X.shape[1])
    other = make_refitter(LinearData(X, center), ODM, targets, fit_intercept)
    design = PlainFeatures.of(X - center)
    refitter = make_refitter(FoldedData(design, folds, np.float64), ODM, targets, fit_intercept)
    check_same(found_by(refitter, objective, folds), found_by(other, objective, folds), 1e-8)


@every_objective
def test_single_precision_is_enough_to_search(data, objective):
    rows = np.arange(0, N_SAMPLES, 3)
    expected = OfLandmarks(data, rows, True).found(objective)
    check_same(OfLandmarks(data, rows, True, np.float32).found(objective), expected, 5e-3)


@pytest.mark.parametrize("log_width", [0.0, 0.3])
def test_the_next_solve_goes_on_from_the_last_and_ends_as_a_first_one(data, log_width):
    rows = np.arange(0, N_SAMPLES, 3)
    warm = OfLandmarks(data, rows, True)
    for k, objective in enumerate(OBJECTIVES):
        cold = OfLandmarks(data, rows, True).found(objective, k * log_width)
        check_same(warm.found(objective, k * log_width), cold, 1e-8)


def test_other_folds_than_those_whose_sums_are_kept_are_left_out_as_well(data):
    X, targets, _ = data
    others = Folds.stratified(np.zeros(N_SAMPLES, int), 4, 1, np.random.RandomState(1))
    folded = FoldedData(PlainFeatures.of(X), data[2], np.float64)
    refitter = make_refitter(folded, ODM, targets, True)
    expected = make_refitter(LinearData(X), ODM, targets, True)
    for objective in OBJECTIVES:
        check_same(
            found_by(refitter, objective, others), found_by(expected, objective, others), 1e-8
        )


def test_inner_products_of_landmark_features_are_kernel_values_on_the_landmarks():
    X, _ = two_classes(30, 3)
    kernel = Kernel("rbf", 0.2)
    K = kernel.of_distances(squared_distances(X))
    design = LandmarkFeatures(K[:, :12].copy(), K[:12, :12].copy())
    Z = design.feature_rows(np.arange(30))
    np.testing.assert_allclose(Z @ Z[:12].T, K[:, :12], atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_plain_features_are_those_of_their_rows(dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3)).astype(dtype)
    design, Z = PlainFeatures.of(X), np.column_stack([X, np.ones(20)]).astype(np.float64)
    digits = {"atol": 1e-4 if dtype == np.float32 else 1e-12}
    weight = rng.normal(size=20) * (np.arange(20) % 3 > 0)
    np.testing.assert_allclose(
        np.tril(design.weighted_gram(weight)), np.tril(Z.T @ (weight[:, None] * Z)), **digits
    )
    np.testing.assert_allclose(
        np.tril(design.weighted_gram(weight**2)),
        np.tril(Z.T @ (weight[:, None] ** 2 * Z)),
        **digits,
    )
    V, R, rows = rng.normal(size=(3, 2)), rng.normal(size=(20, 2)), np.array([4, 1])
    few = R * (np.arange(20) == 7)[:, None]
    np.testing.assert_allclose(design.decisions(V), X @ V, **digits)
    np.testing.assert_allclose(design.decisions(V, rows), X[rows] @ V, **digits)
    np.testing.assert_allclose(design.decision(V[:, 0]), X @ V[:, 0], **digits)
    np.testing.assert_allclose(design.represents(R), X.T @ R, **digits)
    np.testing.assert_allclose(design.represents(few), X.T @ few, **digits)
    np.testing.assert_allclose(design.represent(few[:, 0]), X.T @ few[:, 0], **digits)


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
        monkeypatch.setattr("optimargin.training.plan._INNER_PRODUCTS_UP_TO", up_to)
        data = SelectionData(ODM, X, y, None, kernel=choice, fit_intercept=True)
        losses.append(HeldOutLoss(data, None, np.random.RandomState(0)))
    rng = np.random.default_rng(0)
    low, high = losses[0].spread.T
    points = low + rng.random((30, low.size)) * (high - low)
    exact, cheap = ([f(x, gradient=False)[0].loss for x in points] for f in losses)
    assert isinstance(losses[1].parts[0].refitter.design, LandmarkFeatures)
    assert spearmanr(exact, cheap)[0] > 0.95
