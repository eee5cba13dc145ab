"""What a novelty detector takes for normal, or which samples it finds odd, in two dimensions."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from optimargin.plotting._display import draw_legend
from optimargin.plotting._plane import PlaneDisplay, grid_around

_LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5)  # p-values


@dataclass(eq=False, repr=False)
class NoveltyDisplay(PlaneDisplay):
    """What a novelty detector says, in two dimensions.

    Of new samples: its threshold, and lines of equal p-value. Of the samples of its fit
    (``novelty=False``): which of them are odd, with the row numbers of the oddest. Make it with
    :meth:`from_estimator`.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (grid_resolution, grid_resolution) or None
        Coordinates of the grid; None with ``novelty=False``.
    response : ndarray of shape (grid_resolution, grid_resolution) or None
        Scores less the threshold, on the grid.
    p_values : ndarray of shape (grid_resolution, grid_resolution) or None
        On the grid.
    false_alarm_rate : float
        What the threshold stands for.
    levels : sequence of float, default=(0.01, 0.05, 0.1, 0.25, 0.5)
        The p-values whose lines are drawn.
    X : ndarray of shape (n_samples, 2), default=None
        Samples to draw.
    labels : ndarray of shape (n_samples,), default=None
        What they were taken for, -1 or 1.
    scores : ndarray of shape (n_samples,), default=None
        Held-out scores of the samples of the fit, with ``novelty=False``.
    feature_names : sequence of two str, default=("feature 0", "feature 1")

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    surface_ : matplotlib QuadContourSet
        The regions between the lines; not with ``novelty=False``.

    Examples
    --------
    Which rows are odd:

    >>> import numpy as np
    >>> from optimargin import OneClassODM
    >>> from optimargin.plotting import NoveltyDisplay
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> detector = OneClassODM(novelty=False).fit(X)
    >>> display = NoveltyDisplay.from_estimator(detector, X)
    >>> int((display.labels == -1).sum())
    5

    What is normal:

    >>> display = NoveltyDisplay.from_estimator(OneClassODM().fit(X), X)
    >>> display.p_values.shape
    (100, 100)
    """

    p_values: Any
    _: KW_ONLY
    false_alarm_rate: float
    levels: tuple = _LEVELS
    labels: Any = None
    scores: Any = None

    @classmethod
    def from_estimator(cls, estimator, X, *, levels=_LEVELS, grid_resolution=100, ax=None):
        """Draw samples and what a detector says of them.

        Parameters
        ----------
        estimator : OneClassODM
            Fitted to two features.
        X : array-like of shape (n_samples, 2)
            Samples to draw; with ``novelty=False`` those of the fit, every row in its place.
        levels : sequence of float, default=(0.01, 0.05, 0.1, 0.25, 0.5)
            The p-values whose lines are drawn, increasing, between 0 and 1.
        grid_resolution : int, default=100
            Points of the grid per axis.
        ax : matplotlib Axes, default=None

        Returns
        -------
        display : NoveltyDisplay
        """
        check_is_fitted(estimator)
        # Outliers are in the free space around the samples.
        grid, rows = grid_around(X, grid_resolution, margin=0.25)
        n_samples, shape = len(grid["X"]), grid["xx0"].shape
        if hasattr(estimator, "held_out_scores_"):
            scores = estimator.held_out_scores_
            if n_samples != scores.size:
                raise ValueError(
                    f"X has {n_samples} samples, and with novelty=False the "
                    f"{scores.size} samples of the fit are drawn: pass these."
                )
            display = cls(
                **{**grid, "xx0": None, "xx1": None},
                response=None,
                p_values=None,
                false_alarm_rate=estimator.false_alarm_rate,
                labels=np.where(scores < estimator.offset_, -1, 1),
                scores=scores,
            )
            return display.plot(ax)
        if not hasattr(estimator, "p_values"):
            raise TypeError(
                f"{type(estimator).__name__} has no p-values: this plot is for OneClassODM."
            )
        levels = tuple(levels)
        if not levels or not (np.diff((0.0, *levels, 1.0)) > 0).all():
            raise ValueError(f"levels={levels} must increase, between 0 and 1.")
        display = cls(
            **grid,
            response=estimator.decision_function(rows).reshape(shape),
            p_values=estimator.p_values(rows).reshape(shape),
            false_alarm_rate=estimator.false_alarm_rate,
            levels=levels,
            labels=estimator.predict(X),
        )
        return display.plot(ax)

    def _draw(self, ax):
        handles = [] if self.p_values is None else self._draw_regions()
        if self.X is not None:
            for k, (label, name) in enumerate([(1, "normal"), (-1, "outlier")]):
                rows = self.labels == label
                handles += [self._draw_samples(rows, k, name)] if rows.any() else []
        if self.scores is not None:
            self._number_odd_rows()
        draw_legend(ax, handles, ncols=2)
        self._label_axes()

    def _draw_regions(self):
        grid = self.xx0, self.xx1
        levels = [0.0, *self.levels, 1.0]
        self.surface_ = self.ax_.contourf(
            *grid, self.p_values, levels=levels, cmap="Blues_r", alpha=0.6
        )
        lines, of_p_values = self._draw_lines(self.p_values, self.levels, "p-values", width=0.6)
        self.ax_.clabel(lines, fmt="%g", fontsize="x-small")
        name = f"threshold, false-alarm rate {self.false_alarm_rate:g}"
        _, of_threshold = self._draw_lines(self.response, [0.0], name, width=2.0)
        return [of_threshold, of_p_values]

    def _number_odd_rows(self, most=10):
        """Write the numbers of the oddest rows beside them."""
        odd = np.flatnonzero(self.labels == -1)
        for row in odd[np.argsort(self.scores[odd], kind="stable")][:most]:
            self.ax_.annotate(
                str(row), self.X[row], (4, 4), textcoords="offset points", fontsize="x-small"
            )
