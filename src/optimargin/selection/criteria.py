"""What held-out decision values are worth.

A criterion gives a score, larger is better, and, where it can, its slope in the decision values.
Any criterion can choose among points, and any can guide the search: by gradients where it has a
slope, by simplices where it has none. One that is a poor guide, as the error count is with its
plateaus, names a better one. A new criterion is a subclass of `Criterion` and a row of `CRITERIA`,
or is passed to the search itself.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer
from sklearn.utils.metaestimators import available_if

from optimargin.tasks import Classification, Regression, Task, winning_class

# How sharply the smooth 0-1 loss falls at margin 0, in units of the mean absolute margin.
SHARPNESS = 2.0
_AUC_SAMPLES = 500  # of each class, whose pairs guide the search
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


class Criterion:
    """A number, larger is better, for held-out decision values.

    A subclass has a `score`, or a `score_and_slope`.
    """

    has_slope: ClassVar[bool] = False
    task_type: ClassVar[Any] = Task
    """The task whose decision values it can judge."""

    def score(self, decision, truth: Truth) -> float:
        """Return the score of decision values of shape (n_samples, n_outputs)."""
        return self.score_and_slope(decision, truth)[0]

    def score_and_slope(self, decision, truth: Truth):
        """Return the score and, if `has_slope`, its derivatives by the decision values.

        Of pairs of classes (``truth.task.is_pairwise``), a sample has derivatives for the pairs of
        its own class alone.
        """
        return self.score(decision, truth), None

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

    def score_and_slope(self, decision, truth):
        """Return one minus the smooth loss, and its derivatives."""
        margins = pair_margins if truth.task.is_pairwise else true_margins
        loss, slope = smooth_loss(
            decision, truth.encoded, self._weight(truth), self.sharpness, margins=margins
        )
        return 1.0 - loss, -slope

    def _weight(self, truth):
        """Return what each sample counts, summing to one: class weights are weights."""
        if truth.task.class_weight is None:
            return truth.weight
        weight = truth.weight * truth.task.factor[truth.encoded]
        return weight / weight.sum()


class SmoothBalancedAccuracy(SmoothAccuracy):
    """The same where all classes weigh alike: a guide where some of them are rare."""

    def _weight(self, truth):
        totals = np.bincount(truth.encoded, truth.weight)
        return truth.weight / (totals[truth.encoded] * np.count_nonzero(totals))


class SmoothF1(SmoothAccuracy):
    """F1 of two classes, each sample counted as positive by ``sigmoid(sharpness f / mean|f|)``."""

    def score_and_slope(self, decision, truth):
        """Return the score and its derivatives."""
        weight, is_positive = truth.weight, truth.encoded == 1
        share, pull_back = smooth_share(decision[:, 0], weight, self.sharpness)
        hits, called = (weight * is_positive) @ share, weight @ share
        total = called + weight @ is_positive
        slope = pull_back(weight * (2 * is_positive / total - 2 * hits / total**2))
        return float(2 * hits / total), slope[:, None]


class SmoothAUC(SmoothAccuracy):
    """The share of pairs in order, ``sigmoid(sharpness (f_i - f_j) / mean|f_i - f_j|)`` each.

    Pairs of a positive and a negative sample; of many samples some hundred of each class, the same
    ones at every point.
    """

    def score_and_slope(self, decision, truth):
        """Return the score and its derivatives."""
        parts = [np.flatnonzero(truth.encoded == k) for k in (1, 0)]
        rows = [part[:: max(part.size // _AUC_SAMPLES, 1)] for part in parts]
        f = decision[:, 0]
        slope = np.zeros_like(decision)
        if not (rows[0].size and rows[1].size):
            return 0.5, slope
        pair = np.multiply.outer(*(truth.weight[part] for part in rows))
        pair /= pair.sum()
        apart = np.subtract.outer(*(f[part] for part in rows))
        share, pull_back = smooth_share(apart, pair, self.sharpness)
        by_apart = pull_back(pair)
        slope[rows[0], 0] = by_apart.sum(axis=1)
        slope[rows[1], 0] = -by_apart.sum(axis=0)
        return float(np.vdot(pair, share)), slope


class LogLoss(Criterion):
    """Minus the log loss of probabilities whose scale, and for two classes shift, fit best.

    A sigmoid of ``a f + b`` for two classes, a softmax of ``a f`` for several; of pairs of classes,
    f is zero for the true class and for another one what speaks for it in their pair. Since a and b
    are the best ones, the score does not change with them: its slope is that at fixed a and b.
    """

    has_slope = True
    task_type = Classification

    def score_and_slope(self, decision, truth):
        """Return minus the log loss, and its derivatives."""
        if not truth.task.is_pairwise:
            return self._of_classes(decision, truth)
        first, second = truth.task.voting()
        is_first, is_second = first[:, truth.encoded].T, second[:, truth.encoded].T
        scores = (decision * is_first) @ second - (decision * is_second) @ first
        score, slope = self._of_classes(scores, truth)
        return score, is_first * (slope @ second.T) - is_second * (slope @ first.T)

    @staticmethod
    def _of_classes(decision, truth):
        """Return the same of one value for two classes, or a value per class."""
        scale = max(truth.weight @ np.abs(decision).max(axis=1), NEGLIGIBLE)
        scores = decision / scale
        is_binary = decision.shape[1] == 1
        if is_binary:  # a softmax of (0, f)
            scores = np.hstack([np.zeros_like(scores), scores])
        shift = np.array([0.0, 1.0]) if is_binary else np.zeros(scores.shape[1])
        every = np.arange(truth.encoded.size)

        def loss(u):
            a = np.exp(u[0])
            z = a * scores + u[1] * shift
            log_share = log_softmax(z, axis=1)
            by_z = np.exp(log_share)
            by_z[every, truth.encoded] -= 1.0
            by_z *= truth.weight[:, None]
            value = -truth.weight @ log_share[every, truth.encoded]
            # a small penalty keeps the scale finite where all samples are right
            by_u = np.array([a * np.vdot(by_z, scores), by_z.sum(axis=0) @ shift])
            return value + 1e-9 * a**2, by_u + [2e-9 * a**2, 0.0], by_z

        found = minimize(
            lambda u: loss(u)[:2], np.zeros(2), jac=True, options={"gtol": 1e-9, "maxiter": 200}
        )
        value, _, by_z = loss(found.x)
        by_scores = np.exp(found.x[0]) * by_z / scale
        slope = by_scores[:, 1:] if is_binary else by_scores
        return -float(value), -slope


class Accuracy(Criterion):
    """The share of samples whose class wins."""

    task_type = Classification

    def score(self, decision, truth):
        """Return the accuracy; the plain mean is that of scikit-learn's scorer, to the last bit."""
        right = winning_class(truth.task.combine(decision)) == truth.encoded
        return float(truth.weight @ right if truth.is_weighted else right.mean())

    @property
    def guide(self):
        """Its smooth form."""
        return SmoothAccuracy()


class ErrorCriterion(Criterion):
    """Minus a mean cost of residuals, in the units of y; several outputs count alike.

    A subclass says what residuals ``y - f`` cost, and the derivatives of that by them.
    """

    task_type = Regression
    cost: Callable[[Any], tuple[Any, Any]]

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

    cost = staticmethod(lambda residual: (np.abs(residual), np.sign(residual)))


@dataclass(frozen=True)
class SquaredError(ErrorCriterion):
    """Minus the mean squared error."""

    cost = staticmethod(lambda residual: (residual**2, 2 * residual))


@dataclass(frozen=True)
class ExpectileError(ErrorCriterion):
    """Minus the mean squared error with separate weights below and above y.

    The expectile of a distribution minimises its expectation.

    Parameters
    ----------
    expectile : float
        The weight of predictions that are too low; one minus it is that of too high ones.
    """

    expectile: float

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
        model = _Known(truth.task, decision)
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
    "neg_log_loss": LogLoss,
    "absolute_error": AbsoluteError,
    "neg_mean_absolute_error": AbsoluteError,
    "squared_error": SquaredError,
    "neg_mean_squared_error": SquaredError,
}
# What guides the search where a scorer of scikit-learn chooses: its smooth form, or, as for r2, a
# better guide than the default of the task; for any number of classes, and for two.
_GUIDES: dict[str, Criterion] = {
    "balanced_accuracy": SmoothBalancedAccuracy(),
    "r2": SquaredError().guide,
    "neg_root_mean_squared_error": SquaredError().guide,
    "explained_variance": SquaredError().guide,
}
_GUIDES_OF_TWO = {**_GUIDES, "f1": SmoothF1(), "roc_auc": SmoothAUC()}


def make_criterion(scoring, default: Criterion, task_type: type[Task], n_classes=2) -> Criterion:
    """Return the criterion of a name, of a scorer, or the default for None.

    Parameters
    ----------
    scoring : str, callable, Criterion or None
    default : Criterion
        It also guides the search for scorers of scikit-learn that have no smooth form.
    task_type : type
        What the criterion has to judge.
    n_classes : int
        Some smooth forms are for two.
    """
    if scoring is None:
        return default
    if isinstance(scoring, str) and scoring in CRITERIA:
        scoring = CRITERIA[scoring]()
    if not isinstance(scoring, Criterion):
        guides = _GUIDES_OF_TWO if n_classes == 2 else _GUIDES
        guide = guides.get(scoring) if isinstance(scoring, str) else None
        return ScorerCriterion(scoring, guide or default.guide)
    if not issubclass(task_type, scoring.task_type):
        names = sorted(n for n, c in CRITERIA.items() if issubclass(task_type, c.task_type))
        raise ValueError(
            f"scoring={type(scoring).__name__} is for another task than "
            f"{task_type.__name__.lower()}: use one of {names} or a scorer of scikit-learn."
        )
    return scoring


def true_margins(decision, encoded):
    """Return how far each sample is on the right side, and how that follows from its values.

    Parameters
    ----------
    decision : ndarray of shape (n_samples, n_outputs)
    encoded : ndarray of shape (n_samples,)

    Returns
    -------
    margin : ndarray of shape (n_samples,)
        ``y f`` for two classes, else the value of the true class minus the largest other.
    slope : ndarray of shape (n_samples, n_outputs)
        The derivatives of the margin: -1, 0 and +1.
    """
    slope = np.zeros_like(decision)
    if decision.shape[1] == 1:
        slope[:, 0] = np.where(encoded == 1, 1.0, -1.0)
        return slope[:, 0] * decision[:, 0], slope
    every = np.arange(encoded.size)
    others = decision.copy()
    others[every, encoded] = -np.inf
    rival = others.argmax(axis=1)
    slope[every, encoded] = 1.0
    slope[every, rival] = -1.0
    return decision[every, encoded] - others[every, rival], slope


def pair_margins(decision, encoded):
    """Return the same for an output per pair of classes: the least value for the true class.

    Where it is positive, the true class wins all its pairs.
    """
    n_classes = round((1 + np.sqrt(1 + 8 * decision.shape[1])) / 2)
    first, second = np.triu_indices(n_classes, 1)
    side = (encoded[:, None] == second) * 1.0 - (encoded[:, None] == first)
    worst = np.where(side == 0, np.inf, side * decision).argmin(axis=1)
    every = np.arange(encoded.size)
    slope = np.zeros_like(decision)
    slope[every, worst] = side[every, worst]
    return slope[every, worst] * decision[every, worst], slope


def smooth_loss(decision, encoded, weight, sharpness=SHARPNESS, *, margins=true_margins):
    """Return the mean of ``sigmoid(-sharpness margin / mean|margin|)`` and its derivative.

    Where the mean absolute margin is negligible, the loss is one half.

    Parameters
    ----------
    decision : ndarray of shape (n_samples, n_outputs)
    encoded : ndarray of shape (n_samples,)
    weight : ndarray of shape (n_samples,)
        Summing to one.
    sharpness : float
    margins : callable
        Turns decision values into margins: `true_margins` or `pair_margins`.

    Returns
    -------
    loss : float
    slope : ndarray of shape (n_samples, n_outputs)
    """
    margin, by_decision = margins(decision, encoded)
    share, pull_back = smooth_share(-margin, weight, sharpness)
    return float(weight @ share), -pull_back(weight)[:, None] * by_decision


def smooth_share(values, weight, sharpness):
    """Return ``sigmoid(sharpness values / mean|values|)``, and what differentiates by the values.

    That is a function of derivatives by the sigmoids. Where the mean is negligible, all sigmoids
    are one half.
    """
    mean = np.vdot(weight, np.abs(values))
    scale = max(mean, NEGLIGIBLE)
    # 1 / (1 + exp(-z)) by tanh, which cannot overflow
    share = 0.5 + 0.5 * np.tanh(0.5 * sharpness * values / scale)

    def pull_back(by_share):
        by_relative = by_share * sharpness * share * (1 - share)
        by_value = by_relative / scale
        if mean > NEGLIGIBLE:  # the scale moves with the values
            by_value -= np.vdot(by_relative, values) / scale**2 * weight * np.sign(values)
        return by_value

    return share, pull_back


def _shown(scoring):
    """Return a scorer in words."""
    try:
        return repr(getattr(scoring, "__name__", scoring))
    except AttributeError:  # scikit-learn's scorers ask their functions for a name
        return type(scoring).__name__


class _Known(BaseEstimator):
    """A fitted model whose decision values are known, for scorers to ask."""

    def __init__(self, task, decision):
        self.task, self.decision = task, decision

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        is_classifier = isinstance(self.task, Classification)
        tags.estimator_type = "classifier" if is_classifier else "regressor"
        return tags

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    @property
    def classes_(self):
        return self.task.classes

    @available_if(lambda self: isinstance(self.task, Classification))
    def decision_function(self, X):
        decision = self.task.combine(self.decision)
        return decision[:, 0] if self.classes_.size == 2 else decision

    def predict(self, X):
        if isinstance(self.task, Classification):
            return self.classes_[winning_class(self.task.combine(self.decision))]
        columns = zip(self.task.scales, self.decision.T, strict=True)
        return self.task.decode(np.stack([s.restored(each) for s, each in columns], axis=1))

    def score(self, X, y, sample_weight=None):
        kind = ClassifierMixin if isinstance(self.task, Classification) else RegressorMixin
        return kind.score(self, X, y, sample_weight)


def describe_point(point):
    """Return a grid point in words."""
    return ", ".join(f"{name}={value:g}" for name, value in point.items())


def scored(criterion, decision, truth, point):
    """Return the score of a point; an error says at which it occurred.

    One of the user's own scorer is not changed: a note says it.
    """
    try:
        return criterion.score(decision, truth)
    except ScoreError as error:
        raise ScoreError(f"At {describe_point(point)}: {error}") from error
    except Exception as error:
        error.add_note(f"At {describe_point(point)}.")
        raise


def reported(criterion, decision, truth):
    """Return a score that is reported, not used for selection: too few samples leave it unknown."""
    try:
        return criterion.score(decision, truth)
    except ValueError:
        return np.nan
