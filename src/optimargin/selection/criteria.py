"""What held-out decision values are worth.

A criterion gives a score, larger is better, and, where it can, its slope in the decision values.
Any criterion can choose among points, and any can guide the search: by gradients where it has a
slope, by simplices where it has none. One that is a poor guide, as the error count is with its
plateaus, names a better one. A new criterion is a subclass of `Criterion` and a row of `CRITERIA`,
or is passed to the search itself.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property, singledispatch
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer

from optimargin.tasks import Classification, Regression, Task, winning_class

# How sharply the smooth 0-1 loss falls at margin 0, in units of the mean absolute margin.
SHARPNESS = 2.0
# Mean absolute margin below which decision values are noise, where targets are -1 and +1: rounding
# errors must not be scaled up to predictions.
NEGLIGIBLE = 1e-6


@dataclass(frozen=True)
class Truth:
    """What decision values are compared with.

    Attributes
    ----------
    task : Task
        What y means.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        As the user gave it.
    weight : ndarray of shape (n_samples,)
        Scoring weights, summing to one.
    is_weighted : bool
        Whether the user gave weights.
    rows : ndarray of shape (n_samples,)
        Indices of the samples in the data given by the user.
    params : dict
        What to pass to a scorer: arrays with one value per sample of the user's data.
    """

    task: Task
    y: np.ndarray
    weight: np.ndarray
    is_weighted: bool
    rows: np.ndarray
    params: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def encoded(self):
        """Indices of the true classes, of shape (n_samples,)."""
        return self.task.strata(self.y)

    @cached_property
    def values(self):
        """The targets that decision values should equal, of shape (n_samples, n_outputs)."""
        return np.stack([target.value for target in self.task.encode(self.y)], axis=1)

    def scales(self, name):
        """Return a number of the scale of each output, of shape (n_outputs,)."""
        return np.array([getattr(scale, name) for scale in self.task.scales])


class Criterion(ABC):
    """A number, larger is better, for held-out decision values."""

    has_slope: ClassVar[bool] = False
    task_type: ClassVar[Any] = Task
    """The task whose decision values it can judge."""

    @abstractmethod
    def score(self, decision, truth: Truth) -> float:
        """Return the score of decision values of shape (n_samples, n_outputs)."""

    def score_and_slope(self, decision, truth: Truth):
        """Return the score and, if `has_slope`, its derivatives by the decision values."""
        return self.score(decision, truth), None

    def score_path(self, decisions, truth: Truth):
        """Yield the scores of several models, given decision values of all of them.

        One by one, so that an error is known to be that of the model whose turn it is.
        """
        for decision in decisions:
            yield self.score(decision, truth)

    @property
    def guide(self) -> "Criterion":
        """The criterion that the search should follow where this one chooses."""
        return self


@dataclass(frozen=True)
class SmoothAccuracy(Criterion):
    """One minus the mean of ``sigmoid(-sharpness margin / mean|margin|)``.

    It counts errors like the accuracy, but changes smoothly with the decision values and does
    not depend on their scale.
    """

    sharpness: float = SHARPNESS

    has_slope = True
    task_type = Classification

    def score(self, decision, truth):
        """Return one minus the smooth loss."""
        return 1.0 - smooth_loss(decision, truth.encoded, truth.weight, self.sharpness)[0]

    def score_and_slope(self, decision, truth):
        """Return one minus the smooth loss, and its derivatives."""
        loss, slope = smooth_loss(decision, truth.encoded, truth.weight, self.sharpness)
        return 1.0 - loss, -slope


class Accuracy(Criterion):
    """The share of samples whose class wins."""

    task_type = Classification

    def score(self, decision, truth):
        """Return the accuracy; the plain mean is that of scikit-learn's scorer, to the last bit."""
        right = winning_class(decision) == truth.encoded
        return float(truth.weight @ right if truth.is_weighted else right.mean())

    def score_path(self, decisions, truth):
        """Return the accuracies of several models at once."""
        if truth.is_weighted:
            return super().score_path(decisions, truth)
        return (winning_class(decisions) == truth.encoded).mean(axis=1)

    @property
    def guide(self):
        """Its smooth form."""
        return SmoothAccuracy()


class ErrorCriterion(Criterion):
    """Minus a mean cost of residuals, in the units of y; several outputs count alike.

    A subclass says what a residual costs, and by which power of the units of y.
    """

    task_type = Regression
    power: ClassVar[int]

    @abstractmethod
    def cost(self, residual):
        """Return what residuals ``y - f`` cost, and the derivatives of that by them."""

    def score(self, decision, truth):
        """Return minus the mean cost."""
        residual = truth.scales("unit") * (truth.values - decision)
        return -float((truth.weight @ self.cost(residual)[0]).mean())

    @property
    def guide(self):
        """The same in standard deviations of y."""
        return StandardisedError(self)


@dataclass(frozen=True)
class AbsoluteError(ErrorCriterion):
    """Minus the mean absolute error."""

    power = 1

    def cost(self, residual):
        """Return absolute values and signs."""
        return np.abs(residual), np.sign(residual)


@dataclass(frozen=True)
class SquaredError(ErrorCriterion):
    """Minus the mean squared error."""

    power = 2

    def cost(self, residual):
        """Return squares."""
        return residual**2, 2 * residual


@dataclass(frozen=True)
class ExpectileError(ErrorCriterion):
    """Minus the mean squared error with separate weights below and above y.

    The expectile of a distribution minimises its expectation.

    Parameters
    ----------
    expectile : float
        The weight of predictions that are too low; one minus it is that of too high ones.
    """

    expectile: float = 0.5

    power = 2

    def cost(self, residual):
        """Return weighted squares."""
        weight = np.where(residual > 0, self.expectile, 1 - self.expectile)
        return weight * residual**2, 2 * weight * residual


@dataclass(frozen=True)
class StandardisedError(Criterion):
    """One minus a mean cost of residuals in standard deviations of y: free of its units."""

    error: ErrorCriterion

    has_slope = True
    task_type = Regression

    def score(self, decision, truth):
        """Return one minus the mean cost."""
        return self.score_and_slope(decision, truth)[0]

    def score_and_slope(self, decision, truth):
        """Return one minus the mean cost, and its derivatives."""
        deviation = truth.scales("deviation")
        deviation = np.where(deviation > 0, deviation, 1.0)  # constant targets have none
        cost, slope = self.error.cost((truth.values - decision) / deviation)
        share = truth.weight[:, None] / deviation.size
        return 1.0 - float((share * cost).sum()), share * slope / deviation


class ScoreError(ValueError):
    """A scorer did not return a number."""


class ScorerCriterion(Criterion):
    """A scorer of scikit-learn that works on decision values, labels or predictions.

    Parameters
    ----------
    scoring : str or callable
    guide : Criterion
        What the search follows.
    """

    def __init__(self, scoring, guide):
        self.name = _shown(scoring)
        self._scorer = get_scorer(scoring)
        self._guide = guide

    def score(self, decision, truth):
        """Return what the scorer returns, checked."""
        params = {key: np.asarray(value)[truth.rows] for key, value in truth.params.items()}
        model = _decided(truth.task, decision)
        try:
            value = self._scorer(model, truth.rows[:, None], truth.y, **params)
        except Exception as error:  # the user's own error, unchanged
            error.add_note(
                f"The scorer {self.name} failed. It is given held-out decision values, so it must "
                "need no more than decision_function or predict."
            )
            raise
        if not (isinstance(value, Real) and math.isfinite(value)):
            raise ScoreError(
                f"The scorer {self.name} returned {value}: it must return a finite number."
            )
        return float(value)

    @property
    def guide(self):
        """A smooth criterion of the same task."""
        return self._guide


CRITERIA: dict[str, type[Criterion]] = {
    "smooth": SmoothAccuracy,
    "accuracy": Accuracy,
    "absolute_error": AbsoluteError,
    "neg_mean_absolute_error": AbsoluteError,
    "squared_error": SquaredError,
    "neg_mean_squared_error": SquaredError,
}
# Scorers that squares of residuals are a better guide for than the default of the task.
_OF_SQUARES = ("r2", "neg_root_mean_squared_error", "explained_variance")


def make_criterion(scoring, default: Criterion, task_type: type[Task]) -> Criterion:
    """Return the criterion of a name, of a scorer, or the default for None.

    Parameters
    ----------
    scoring : str, callable, Criterion or None
    default : Criterion
        It also guides the search for scorers of scikit-learn.
    task_type : type
        What the criterion has to judge.
    """
    if scoring is None:
        return default
    if isinstance(scoring, str) and scoring in CRITERIA:
        scoring = CRITERIA[scoring]()
    if not isinstance(scoring, Criterion):
        of_squares = isinstance(scoring, str) and scoring in _OF_SQUARES
        return ScorerCriterion(scoring, (SquaredError() if of_squares else default).guide)
    if not issubclass(task_type, scoring.task_type):
        names = sorted(n for n, c in CRITERIA.items() if issubclass(task_type, c.task_type))
        raise ValueError(
            f"scoring={type(scoring).__name__} is for another task than "
            f"{task_type.__name__.lower()}: use one of {names} or a scorer of scikit-learn."
        )
    return scoring


def true_margins(decision, encoded):
    """Return how far each sample is on the right side, and the class it is measured against.

    Parameters
    ----------
    decision : ndarray of shape (n_samples, n_outputs)
    encoded : ndarray of shape (n_samples,)

    Returns
    -------
    margin : ndarray of shape (n_samples,)
        ``y f`` for two classes, else the value of the true class minus the largest other.
    rival : ndarray of shape (n_samples,) or None
        The column of that largest other.
    """
    if decision.shape[1] == 1:
        return np.where(encoded == 1, 1.0, -1.0) * decision[:, 0], None
    every = np.arange(encoded.size)
    others = decision.copy()
    others[every, encoded] = -np.inf
    rival = others.argmax(axis=1)
    return decision[every, encoded] - others[every, rival], rival


def smooth_loss(decision, encoded, weight, sharpness=SHARPNESS):
    """Return the mean of ``sigmoid(-sharpness margin / mean|margin|)`` and its derivative.

    Where the mean absolute margin is negligible, the loss is one half.

    Parameters
    ----------
    decision : ndarray of shape (n_samples, n_outputs)
    encoded : ndarray of shape (n_samples,)
    weight : ndarray of shape (n_samples,)
        Summing to one.
    sharpness : float

    Returns
    -------
    loss : float
    slope : ndarray of shape (n_samples, n_outputs)
    """
    margin, rival = true_margins(decision, encoded)
    mean = weight @ np.abs(margin)
    scale = max(mean, NEGLIGIBLE)
    relative = margin / scale
    # 1 / (1 + exp(z)) by tanh, which cannot overflow
    share = 0.5 - 0.5 * np.tanh(0.5 * sharpness * relative)
    steepness = weight * share * (1 - share) * (sharpness / scale)
    by_margin = -steepness
    if mean > NEGLIGIBLE:  # the scale moves with the margins
        by_margin += (steepness @ relative) * weight * np.sign(margin)
    slope = np.zeros_like(decision)
    if rival is None:
        slope[:, 0] = np.where(encoded == 1, by_margin, -by_margin)
    else:
        every = np.arange(encoded.size)
        slope[every, encoded] = by_margin
        slope[every, rival] -= by_margin
    return float(weight @ share), slope


def _shown(scoring):
    """Return a scorer in words."""
    try:
        return repr(getattr(scoring, "__name__", scoring))
    except AttributeError:  # scikit-learn's scorers ask their functions for a name
        return type(scoring).__name__


@singledispatch
def _decided(task, decision):
    """Return a fitted model whose decision values are known, for scorers to ask."""
    raise TypeError(f"Scorers of scikit-learn do not know what a {type(task).__name__} is.")


@_decided.register
def _(task: Classification, decision):
    return _Decided(task.classes, decision)


@_decided.register
def _(task: Regression, decision):
    values = [s.restored(column) for s, column in zip(task.scales, decision.T, strict=True)]
    return _Predicted(task.decode(np.stack(values, axis=1)))


class _Predicted(RegressorMixin, BaseEstimator):
    """A regressor whose predictions are known, for scorers to ask."""

    def __init__(self, values):
        self.values = values

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.values


class _Decided(ClassifierMixin, BaseEstimator):
    """A classifier whose decision values are known, for scorers to ask."""

    def __init__(self, classes, decision):
        self.classes_ = classes
        self.decision = decision

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        return self.decision[:, 0] if self.classes_.size == 2 else self.decision

    def predict(self, X):
        return self.classes_[winning_class(self.decision)]


def describe_point(point):
    """Return a grid point in words."""
    return ", ".join(f"{name}={value:g}" for name, value in point.items())
