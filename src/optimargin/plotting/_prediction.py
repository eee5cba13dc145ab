"""Predictions beside targets, and curves of regressors."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
from sklearn.utils.validation import check_consistent_length

from optimargin.margins import unwrap
from optimargin.plotting._display import (
    BAND_COLOR,
    Display,
    class_style,
    draw_legend,
    new_axes,
    next_curve,
)


@dataclass(eq=False, repr=False)
class RegressionDisplay(Display):
    """Predictions of a regressor against the targets, or its residuals, with the band.

    Make it with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    y_true, y_pred : ndarray of shape (n_samples,)
    epsilon : float, default=0.0
        Half-width of the band without penalty, drawn in the background.
    name : str, default=None
        The name of the regressor in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    points_ : matplotlib Artist

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from optimargin import ODMRegressor
    >>> from optimargin.plotting import RegressionDisplay
    >>> X, y = make_friedman1(200, random_state=0)
    >>> model = ODMRegressor(epsilon="scale").fit(X, y)
    >>> display = RegressionDisplay.from_estimator(model, X, y, style="residuals")
    >>> display.ax_.get_ylabel()
    'Target minus prediction'
    """

    y_true: np.ndarray
    y_pred: np.ndarray
    _: KW_ONLY
    epsilon: float = 0.0
    name: str | None = None

    _styles = ("predictions", "residuals")

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        *,
        held_out=False,
        style="predictions",
        target=0,
        name=None,
        ax=None,
        **kwargs,
    ):
        """Predict with a fitted regressor and draw.

        Parameters
        ----------
        estimator : regressor
            Fitted.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        held_out : bool, default=False
            Draw leave-one-out predictions in closed form; `X` and `y` must be the training
            data of a regressor of this library.
        style : {"predictions", "residuals"}, default="predictions"
        target : int, default=0
            Which of several targets is drawn.
        name : str, default=None
            By default the name of the regressor's class.
        ax : matplotlib Axes, default=None
        **kwargs : dict
            Passed to the points, for example ``color``.

        Returns
        -------
        display : RegressionDisplay
        """
        inner = unwrap(estimator)
        if held_out:
            if not hasattr(inner, "loo_prediction"):
                raise ValueError(
                    f"held_out=True needs a regressor with loo_prediction, which "
                    f"{type(inner).__name__} is not."
                )
            steps = estimator[:-1] if hasattr(estimator, "steps") else None
            predicted = inner.loo_prediction(X if steps is None else steps.transform(X), y)
        else:
            predicted = estimator.predict(X)
        predicted = np.asarray(predicted).reshape(len(predicted), -1)
        y = np.asarray(y, dtype=np.float64).reshape(len(predicted), -1)
        epsilon = np.broadcast_to(getattr(inner, "epsilon_", 0.0), predicted.shape[1])
        display = cls(
            y[:, target],
            predicted[:, target],
            epsilon=float(epsilon[target]),
            name=type(inner).__name__ if name is None else name,
        )
        return display.plot(ax, style=style, **kwargs)

    @classmethod
    def from_predictions(cls, y_true, y_pred, *, epsilon=0.0, name=None, ax=None, **kwargs):
        """Draw given predictions.

        Parameters
        ----------
        y_true, y_pred : array-like of shape (n_samples,)
        epsilon : float, default=0.0
            Half-width of the band.
        name : str, default=None
        ax : matplotlib Axes, default=None
        **kwargs : dict
            `style` and options of the points, as of `from_estimator`.

        Returns
        -------
        display : RegressionDisplay
        """
        check_consistent_length(y_true, y_pred)
        display = cls(np.asarray(y_true), np.asarray(y_pred), epsilon=epsilon, name=name)
        return display.plot(ax, **kwargs)

    def _draw(self, ax, *, style, **kwargs):
        residual = self.y_true - self.y_pred
        ends = np.array([np.min(self.y_pred), np.max(self.y_pred)])
        middle, shown, label = ends, self.y_true, "Target"
        if style == "residuals":
            middle, shown, label = np.zeros(2), residual, "Target minus prediction"
        if self.epsilon > 0:
            low, high = middle - self.epsilon, middle + self.epsilon
            look = {"color": BAND_COLOR, "alpha": 0.35, "linewidth": 0}
            ax.fill_between(ends, low, high, label=f"band, epsilon = {self.epsilon:.3g}", **look)
        ax.plot(ends, middle, color="black", linewidth=0.8)
        error = f"mean absolute error {np.abs(residual).mean():.3g}"
        look = {
            **class_style(0),
            "s": 8 if residual.size > 1000 else 18,
            "alpha": 0.6,
            "linewidths": 0,
            "label": error if not self.name else f"{self.name}, {error}",
            **kwargs,
        }
        self.points_ = ax.scatter(self.y_pred, shown, **look)
        _label(ax, "Prediction", label)


def plot_curves(estimators, X, y, *, names=None, n_points=200, ax=None):
    """Draw the curves of regressors of one feature over the samples, expectiles for example.

    Parameters
    ----------
    estimators : list of regressor
        Fitted, on one feature.
    X : array-like of shape (n_samples, 1)
    y : array-like of shape (n_samples,)
    names : list of str, default=None
        For the legend; by default the expectile ``C1 / (C1 + C2)`` of each.
    n_points : int, default=200
        Of each curve.
    ax : matplotlib Axes, default=None

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from optimargin import ODMRegressor
    >>> from optimargin.plotting import plot_curves
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 5, size=(200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * X[:, 0] * rng.normal(size=200)
    >>> models = [ODMRegressor(C1=1e3 * t, C2=1e3 * (1 - t)).fit(X, y) for t in (0.1, 0.5, 0.9)]
    >>> [line.get_label() for line in plot_curves(models, X, y).get_lines()]
    ['expectile 0.1', 'expectile 0.5', 'expectile 0.9']
    """
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != 1:
        raise ValueError(f"X has shape {X.shape}: curves need one feature, shape (n_samples, 1).")
    ax = new_axes(ax)
    ax.scatter(X[:, 0], y, s=10, color=BAND_COLOR, linewidths=0)
    grid = np.linspace(X.min(), X.max(), n_points)[:, None]
    for k, estimator in enumerate(estimators):
        inner = unwrap(estimator)
        if names is not None:
            name = names[k]
        elif hasattr(inner, "C2_"):
            name = f"expectile {inner.C1_ / (inner.C1_ + inner.C2_):.3g}"
        else:
            name = type(inner).__name__
        look = {"linewidth": 1.8, **next_curve(ax)}
        ax.plot(grid[:, 0], estimator.predict(grid), label=name, **look)
    _label(ax, "Feature", "Target")
    return ax


def _label(ax, xlabel, ylabel):
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    draw_legend(ax, ncols=2)
