"""What the contract of systems is tested over: every backend, every loss, targets and weights."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from optimargin._core._small_systems import SmallSystems
from optimargin.designs import FeatureDesign, GramDesign, LinearGramDesign
from optimargin.designs.base import by_space
from optimargin.held_out.refitter import GramTest
from optimargin.held_out.search_designs import LandmarkFeatures, PlainFeatures
from optimargin.kernels import Kernel, squared_distances
from optimargin.losses import BandLoss
from optimargin.problems import AdditiveProblem
from optimargin.solvers import Newton
from optimargin.systems import Derivatives, FeatureSystem, Folds, Form, SampleSystem, Values
from optimargin.targets import Target
from tests.cases import LOSSES, make_design
from tests.extensions.test_add_loss import StiffTailLoss
from tests.python_losses import PlainBand

N_SAMPLES, N_NEW, N_FEATURES, N_WIDE, N_LANDMARKS = 24, 5, 4, 40, 7
FOLDS = Folds.stratified(np.arange(N_SAMPLES) % 2, 4, 2, np.random.RandomState(0))


def rows_of(n_features):
    """Return rows of samples and new rows, a third of their values zero."""
    rng = np.random.default_rng(n_features)
    X = rng.normal(size=(N_SAMPLES + N_NEW, n_features)) + 0.3
    X[rng.random(X.shape) < 1 / 3] = 0.0
    return X[:N_SAMPLES], X[N_SAMPLES:]


def directions(*shapes):
    """Return a random direction for each array that a design is made of."""
    rng = np.random.default_rng(5)
    return [rng.normal(size=shape) for shape in shapes]


@dataclass(frozen=True)
class Made:
    """A design, and what stands for it in plain numpy.

    Attributes
    ----------
    design : Design
    test : GramTest or FeatureSpaceDesign
    Z, new : ndarray of shape (n_samples, n_features), (n_new, n_features)
        Features whose inner products are the kernel values.
    slopes : dict
        How the kernel values change with `move` (see `Backend.make`), by the names of `Form.of`.
    """

    design: Any
    test: Any
    Z: np.ndarray
    new: np.ndarray
    slopes: dict = field(default_factory=dict)

    def coordinates(self, active):
        """Return new rows as `influence` takes them."""
        return by_space(self.design, self.new, self.new @ self.Z[active].T)


def gram(move, dtype=np.float64):
    X, new = rows_of(N_FEATURES)
    change, change_new = directions((N_SAMPLES, N_SAMPLES), (N_NEW, N_SAMPLES))
    change = change + change.T
    K, K_new = X @ X.T + move * change, new @ X.T + move * change_new
    slopes = {"samples": change, "test": change_new}
    return Made(GramDesign(K.astype(dtype)), GramTest(K_new), X, new, slopes)


def linear_gram(move):
    X, new = rows_of(N_FEATURES)
    center = X.mean(axis=0)
    Z, Z_new = X - center, new - center
    return Made(LinearGramDesign(X, center), GramTest(Z_new @ Z.T), Z, Z_new)


def some_design(name):
    """Return what makes another design of samples, by its name in `tests.cases`."""

    def make(move):
        X, new = rows_of(N_FEATURES)
        design, _ = make_design(name, X)
        return Made(design, GramTest(new @ X.T), X, new)

    return make


def features(kind, n_features=N_FEATURES):
    def make(move):
        X, new = rows_of(n_features)
        center = X.mean(axis=0) if kind is np.asarray else None
        shift = 0.0 if center is None else center
        design, test = FeatureDesign(kind(X), center), FeatureDesign(kind(new), center)
        return Made(design, test, X - shift, new - shift)

    return make


def plain_features(dtype):
    def make(move):
        X, new = (rows.astype(dtype) for rows in rows_of(N_FEATURES))
        test = PlainFeatures.of(new)
        return Made(PlainFeatures.of(X), test, X.astype(np.float64), new.astype(np.float64))

    return make


def landmarks(move, dtype=np.float64):
    X, _ = rows_of(N_FEATURES)
    kernel = Kernel("rbf", 0.1)
    change, between = directions((N_SAMPLES, N_LANDMARKS), (N_LANDMARKS, N_LANDMARKS))
    between = 0.1 * (between + between.T)
    K = kernel.of_distances(squared_distances(X, X[:N_LANDMARKS])) + move * change
    A = kernel.of_distances(squared_distances(X[:N_LANDMARKS]) + 0.0) + move * between
    design = LandmarkFeatures(K.astype(dtype), A + 0.5 * np.eye(N_LANDMARKS))
    new = np.random.default_rng(2).normal(size=(N_NEW, N_LANDMARKS))
    test = PlainFeatures.of(new)
    Z = design.feature_rows(np.arange(N_SAMPLES))
    return Made(design, test, Z, new, {"landmarks": change, "between": between})


@dataclass(frozen=True)
class Backend:
    """A design, and the system over it.

    Attributes
    ----------
    make : callable
        Given how far its kernel values are moved along a direction, it returns `Made`.
    system : type
    keeps_folds : bool
        Whether sums over folds are kept.
    digits : float
        To which values agree with those of plain numpy.
    """

    make: Callable[[float], Made]
    system: Any
    keeps_folds: bool = False
    digits: float = 1e-8

    @cached_property
    def made(self):
        """The design as it is."""
        return self.make(0.0)

    def system_over(self, design, *, fit_intercept):
        """Return a new system."""
        more = {"folds": FOLDS} if self.keeps_folds else {}
        return self.system(design, fit_intercept=fit_intercept, **more)


SYSTEMS = {
    "gram": Backend(gram, SampleSystem),
    "linear-gram": Backend(linear_gram, SampleSystem),
    "gram-float32": Backend(partial(gram, dtype=np.float32), SampleSystem, digits=5e-4),
    "panels": Backend(some_design("panels-half-kept"), SampleSystem),
    "wide-csr": Backend(features(sp.csr_array, N_WIDE), SampleSystem),
    "dense": Backend(features(np.asarray), FeatureSystem),
    "dense-folds": Backend(features(np.asarray), FeatureSystem, True),
    "csr": Backend(features(sp.csr_array), FeatureSystem),
    "csr-folds": Backend(features(sp.csr_array), FeatureSystem, True),
    "dense-wide": Backend(features(np.asarray, N_WIDE), FeatureSystem, True),
    "plain-float64": Backend(plain_features(np.float64), FeatureSystem, True),
    "plain-float32": Backend(plain_features(np.float32), FeatureSystem, True, 5e-4),
    "landmarks": Backend(landmarks, FeatureSystem, True),
    "landmarks-float32": Backend(partial(landmarks, dtype=np.float32), FeatureSystem, True, 5e-4),
}
COMPILED = "compiled"
LOSS_OF = {
    **{str(loss): loss for loss in LOSSES},
    "three outputs": LOSSES[0],
    "python": PlainBand(64.0, 16.0, 0.2),
    "stiff tail": StiffTailLoss(8.0, 1.0),
}
WEIGHTS = ("even", "uneven", "some zero")


@dataclass(frozen=True)
class Cell:
    """One entry of the table.

    Attributes
    ----------
    backend, problem, weights : str
    fit_intercept : bool
    """

    backend: str
    problem: str
    fit_intercept: bool
    weights: str

    def __str__(self):
        intercept = "intercept" if self.fit_intercept else "none"
        return f"{self.backend}-{self.problem}-{intercept}-{self.weights}"

    @property
    def of(self):
        """The backend; kernel values for the compiled one."""
        return SYSTEMS["gram" if self.backend == COMPILED else self.backend]

    @property
    def made(self):
        """The design as it is, and what stands for it."""
        return self.of.made

    @property
    def digits(self):
        """To which values agree with those of plain numpy."""
        return self.of.digits

    @property
    def loss(self):
        """The loss of every output."""
        return LOSS_OF[self.problem]

    @cached_property
    def targets(self):
        """One target per output; they have the same weights."""
        rng = np.random.default_rng(7)
        weight = np.ones(N_SAMPLES) if self.weights == "even" else rng.uniform(0.5, 2.0, N_SAMPLES)
        if self.weights == "some zero":
            weight[::7] = 0.0
        weight /= weight.sum()
        score = self.made.Z[:, :3] + 0.5 * rng.normal(size=(N_SAMPLES, 3))
        signs = np.where(score > np.median(score, axis=0), 1.0, -1.0)
        targets = [Target(s, s, weight) for s in np.ascontiguousarray(signs.T)]
        if self.problem != "three outputs":
            return targets[:1]
        targets[2] = Target(score[:, 2].copy(), targets[1].orientation, weight)  # numbers
        return targets

    def problem_of(self, target, design=None):
        """Return the problem of an output."""
        design = FeatureDesign(self.made.Z) if design is None else design
        return AdditiveProblem(self.loss, design, target, fit_intercept=self.fit_intercept)

    @cached_property
    def points(self):
        """The solution of every output in features, exact to rounding."""
        return [solution_of(self.problem_of(target)) for target in self.targets]

    @cached_property
    def curvature(self):
        """Those of the solution, which all outputs share."""
        return self.points[0].curvature

    @cached_property
    def aim(self):
        """Where pulls would vanish, of shape (n_samples, n_outputs)."""
        aim = np.stack([point.decision + point.intercept for point in self.points], axis=1)
        active = self.curvature > 0
        pull = np.stack([point.pull for point in self.points], axis=1)
        aim[active] += pull[active] / self.curvature[active, None]
        return aim

    def solved(self, move=0.0, by_aim=0.0, by_log=0.0):
        """Return what answers at the solution, or near it.

        Parameters
        ----------
        move : float
            How far kernel values are moved.
        by_aim, by_log : float or ndarray
            What is added to aims, of shape (n_samples, n_outputs), and to the logarithms of
            curvatures, of shape (n_samples, 1).
        """
        made = self.of.make(move) if move else self.made
        by_log = np.broadcast_to(by_log, (N_SAMPLES, 1))[:, 0]
        if self.backend == COMPILED:
            shift = np.broadcast_to(by_aim, (N_SAMPLES, len(self.targets)))
            targets = [
                replace(target, value=target.value + change, weight=target.weight * np.exp(by_log))
                for target, change in zip(self.targets, shift.T, strict=True)
            ]
            return Compiled(made.design.K, targets, self.loss, self.fit_intercept)
        system = self.of.system_over(made.design, fit_intercept=self.fit_intercept)
        return system.move(self.curvature * np.exp(by_log), self.aim + by_aim)

    def test(self, move=0.0):
        """Return the test samples, whose kernel values move too."""
        return (self.of.make(move) if move else self.made).test


@cache
def cell_of(backend, problem, fit_intercept, weights):
    """Return a cell, whose solution is found once."""
    return Cell(backend, problem, fit_intercept, weights)


def solution_of(problem):
    """Return the solution of a problem, exact to rounding."""
    found = Newton(tol=1e-14, max_iter=200).solve(problem)
    return problem.point(found.coef, found.intercept)


def cells(backends=tuple(SYSTEMS), problems=tuple(LOSS_OF)):
    """Return a cell per backend and problem; intercepts and weights meet each of both."""
    kinds = [(fit_intercept, weights) for weights in WEIGHTS for fit_intercept in (True, False)]
    return [
        cell_of(backend, problem, *kinds[(b + p) % len(kinds)])
        for b, backend in enumerate(backends)
        for p, problem in enumerate(problems)
    ]


def compiled_cells():
    """Return the cells of the compiled problems: all weights positive, a band loss."""
    return [
        cell_of(COMPILED, problem, fit_intercept, weights)
        for problem, loss in LOSS_OF.items()
        if isinstance(loss, BandLoss)
        for fit_intercept, weights in ((True, "uneven"), (False, "even"))
    ]


class Compiled:
    """The compiled problem of all outputs, in the words of `ActiveSystem`."""

    def __init__(self, K, targets, loss, fit_intercept):
        n_samples = targets[0].n_samples
        self.n_outputs = len(targets)
        self._systems = SmallSystems(
            [np.arange(n_samples)],
            [self.n_outputs],
            np.concatenate([target.value for target in targets]),
            np.concatenate([target.orientation for target in targets]),
            [targets[0].weight],
            fit_intercept,
        )
        self._systems.change_kernel(np.ascontiguousarray(K))
        self._systems.solve(np.array([[loss.C1, loss.C2, loss.D]]), 1)
        self.coef, self.intercept = self._columns(self._systems.theta), self._systems.intercept
        self.curvature = self._columns(self._systems.curvature())[:, 0]
        self.decision = self._columns(self._systems.decision) + self.intercept

    def _columns(self, flat):
        shape = flat.shape[:-1]
        return np.moveaxis(flat.reshape(*shape, self.n_outputs, -1), -2, -1)

    def _flat(self, values):
        flat = np.moveaxis(values, -1, -2)
        return np.ascontiguousarray(flat.reshape(*flat.shape[:-2], -1))

    def left_out(self, share=None):
        """Return the decision value of each sample for the model without (a share of) it."""
        return self._columns(self._systems.left_out(share))

    def folds(self, folds):
        """Return values for the models without each fold."""
        given = folds.fold, folds.n_folds

        def derivatives(slope):
            by_aim, by_log, left, coef = self._systems.differentiate(*given, self._flat(slope), 1)
            size = by_aim.size // self.n_outputs
            forms = [
                Form("samples", left[:, first : first + size], coef[:, first : first + size])
                for first in range(0, by_aim.size, size)
            ]
            return Derivatives(self._columns(by_aim), self._columns(by_log), forms)

        return Values(self._columns(self._systems.leave_folds_out(*given, 1)), derivatives)

    def predict(self, test):
        """Return values of test samples."""

        def derivatives(slope):
            by_theta = self._flat(test.represents(slope))
            by_aim = self._columns(self._systems.adjoint(by_theta, slope.sum(axis=0)))
            curvature = np.where(self.curvature > 0, self.curvature, 1.0)[:, None]
            forms = [Form("samples", -by_aim.T, self.coef.T), Form("test", slope.T, self.coef.T)]
            return Derivatives(by_aim, by_aim * self.coef / curvature, forms)

        return Values(test.decisions(self.coef) + self.intercept, derivatives)
