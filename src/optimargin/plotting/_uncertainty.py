"""How reliable probabilities are, and prediction intervals beside what they predict."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted, column_or_1d

from optimargin.margins import unwrap
from optimargin.plotting._display import (
    BAND_COLOR,
    COLORS,
    Display,
    draw_legend,
    n_curves,
    next_curve,
)


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(Display):
    """How often a class occurs where it is given a probability.

    Make it with :meth:`from_estimator`. With two classes it is about the second one; with several,
    about the class that wins.

    Parameters
    ----------
    predicted, observed : ndarray of shape (n_bins,)
        Mean probability and share of samples in each bin.
    score, score_observed : ndarray of shape (n_bins,)
        The same of the decision values as they are: ``(f + 1) / 2`` clipped to [0, 1] with two
        classes, their softmax with several.
    name : str

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_, score_line_ : matplotlib Line2D

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from optimargin import ODMClassifier
    >>> from optimargin.plotting import ReliabilityDisplay
    >>> X, y = make_moons(400, noise=0.3, random_state=0)
    >>> model = ODMClassifier(calibration="sigmoid").fit(X[:200], y[:200])
    >>> display = ReliabilityDisplay.from_estimator(model, X[200:], y[200:], n_bins=5)
    >>> display.predicted.shape
    (5,)
    """

    predicted: np.ndarray
    observed: np.ndarray
    _: KW_ONLY
    score: np.ndarray
    score_observed: np.ndarray
    name: str

    @classmethod
    def from_estimator(cls, est, X, y, *, n_bins=10, name=None, ax=None):
        """Draw the reliability of a classifier on samples that it was not fitted to.

        Parameters
        ----------
        est : classifier
            Fitted, with ``predict_proba`` and ``decision_function``.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        n_bins : int, default=10
            Bins have equal numbers of samples.
        name : str, default=None
            By default that of the class.
        ax : matplotlib Axes, default=None

        Returns
        -------
        display : ReliabilityDisplay
        """
        check_is_fitted(est)
        y = column_or_1d(y)
        if not 1 <= n_bins <= len(y):
            raise ValueError(f"n_bins={n_bins} must be from 1 to the {len(y)} samples.")
        probabilities, decision = est.predict_proba(X), est.decision_function(X)
        if probabilities.shape[1] == 2:
            right = y == est.classes_[1]
            probability, score = probabilities[:, 1], np.clip((decision + 1) / 2, 0, 1)
        else:
            right = est.classes_[probabilities.argmax(axis=1)] == y
            probability, score = probabilities.max(axis=1), softmax(decision, axis=1).max(axis=1)
        predicted, observed = _binned(probability, right, n_bins)
        score, score_observed = _binned(score, right, n_bins)
        display = cls(
            predicted,
            observed,
            score=score,
            score_observed=score_observed,
            name=type(unwrap(est)).__name__ if name is None else name,
        )
        return display.plot(ax)

    def _draw(self, ax):
        if n_curves(ax) == 0:
            ax.plot([0, 1], [0, 1], color=BAND_COLOR, linewidth=1, label="perfect", zorder=1)
        look = {"marker": "o", **next_curve(ax)}
        (self.line_,) = ax.plot(self.predicted, self.observed, label=self.name, **look)
        look = {"marker": ".", "alpha": 0.5, "color": look["color"], "linestyle": ":"}
        name = f"{self.name}, scores as they are"
        (self.score_line_,) = ax.plot(self.score, self.score_observed, label=name, **look)
        ax.set(xlabel="predicted probability", ylabel="observed share", xlim=(0, 1))
        draw_legend(ax, ncols=2)


def _binned(probability, right, n_bins):
    """Return means of bins of equal numbers of samples."""
    parts = np.array_split(np.argsort(probability, kind="stable"), n_bins)
    return (
        np.array([probability[part].mean() for part in parts]),
        np.array([right[part].mean() for part in parts]),
    )


@dataclass(eq=False, repr=False)
class IntervalDisplay(Display):
    """Prediction intervals along a feature, or sorted by their width.

    Make it with :meth:`from_estimator`.

    Parameters
    ----------
    x : ndarray of shape (n_samples,)
        Increasing: values of a feature, or places.
    points : ndarray of shape (n_samples,)
    intervals : ndarray of shape (n_samples, 2)
    y : ndarray of shape (n_samples,) or None
        Observed targets.
    label : str
        Of the x axis.
    confidence_level : float

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    band_ : matplotlib PolyCollection
    line_ : matplotlib Line2D

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from optimargin import ODMRegressor
    >>> from optimargin.plotting import IntervalDisplay
    >>> X, y = make_friedman1(300, noise=1.0, random_state=0)
    >>> model = ODMRegressor().fit(X[:200], y[:200])
    >>> display = IntervalDisplay.from_estimator(model, X[200:], y[200:], feature=3)
    >>> display.intervals.shape
    (100, 2)
    """

    x: np.ndarray
    points: np.ndarray
    intervals: np.ndarray
    y: np.ndarray | None
    _: KW_ONLY
    label: str
    confidence_level: float

    @classmethod
    def from_estimator(
        cls, est, X, y=None, *, feature=None, confidence_level=0.9, method="plus", ax=None
    ):
        """Draw the intervals of a regressor.

        Parameters
        ----------
        est : regressor
            Fitted, with ``predict_interval``.
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            Observed targets, drawn as points.
        feature : int or str, default=None
            The feature on the x axis: a place, or the name of a column. None sorts the samples by
            the widths of their intervals, and draws distances from the predictions.
        confidence_level : float, default=0.9
        method : {"plus", "minmax", "base"}, default="plus"
        ax : matplotlib Axes, default=None

        Returns
        -------
        display : IntervalDisplay
        """
        check_is_fitted(est)
        points, intervals = est.predict_interval(X, confidence_level, method=method)
        if intervals.shape[2] != 1:
            raise ValueError("confidence_level must be one number to be drawn.")
        intervals = intervals[..., 0]
        y = None if y is None else column_or_1d(y)
        if feature is None:
            order = np.argsort(np.ptp(intervals, axis=1), kind="stable")
            x, label = np.arange(len(order)), "samples, by width"
            intervals = intervals - points[:, None]
            y = None if y is None else y - points
            points = np.zeros_like(points)
        else:
            label = feature if isinstance(feature, str) else f"feature {feature}"
            if isinstance(feature, str):
                values = np.asarray(X[feature])
            else:
                values = np.asarray(X)[:, feature]
            order = np.argsort(values, kind="stable")
            x = values[order]
        display = cls(
            x,
            points[order],
            intervals[order],
            None if y is None else y[order],
            label=label,
            confidence_level=confidence_level,
        )
        return display.plot(ax)

    def _draw(self, ax):
        low, high = self.intervals.T
        look = {"color": BAND_COLOR, "alpha": 0.5, "linewidth": 0}
        name = f"{self.confidence_level:.0%} interval"
        self.band_ = ax.fill_between(self.x, low, high, label=name, **look)
        (self.line_,) = ax.plot(self.x, self.points, label="prediction", color=COLORS[0])
        if self.y is not None:
            inside = (low <= self.y) & (self.y <= high)
            kinds = ("inside", inside, ".", "black"), ("outside", ~inside, "x", COLORS[1])
            for name, rows, marker, color in kinds:
                look = {"color": color, "markersize": 5, "label": f"{name}: {rows.mean():.0%}"}
                ax.plot(self.x[rows], self.y[rows], marker, **look)
        ax.set(xlabel=self.label)
        draw_legend(ax, ncols=2)
