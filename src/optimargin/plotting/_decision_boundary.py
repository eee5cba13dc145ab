"""The boundary between classes in two dimensions, and the band of the margins."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from optimargin.margins import unwrap
from optimargin.plotting._display import class_style, draw_legend
from optimargin.plotting._plane import PlaneDisplay, grid_around


@dataclass(eq=False, repr=False)
class DecisionBoundaryDisplay(PlaneDisplay):
    """Decision values in two dimensions: the boundary, and the lines of margin 1 - D and 1 + D.

    Make it with :meth:`from_estimator`.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (grid_resolution, grid_resolution)
        Coordinates of the grid.
    response : ndarray of shape (grid_resolution, grid_resolution)
        Decision values on the grid; for more than two classes the index of the predicted class.
    classes : ndarray of shape (n_classes,)
    D : float, default=None
        Half-width of the band; None draws the lines of margin 1 instead. No lines for more
        than two classes.
    X : ndarray of shape (n_samples, 2), default=None
        Samples to draw.
    y : ndarray of shape (n_samples,), default=None
        Their classes.
    support : ndarray of shape (n_SV,), default=None
        Indices of support vectors in `X`; they are drawn with a ring.
    feature_names : sequence of two str, default=("feature 0", "feature 1")

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    surface_ : matplotlib QuadContourSet
        The regions of the classes.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from optimargin import ODMClassifier
    >>> from optimargin.plotting import DecisionBoundaryDisplay
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> model = ODMClassifier().fit(X, y)
    >>> display = DecisionBoundaryDisplay.from_estimator(model, X, y)
    >>> display.response.shape
    (100, 100)
    """

    _: KW_ONLY
    classes: np.ndarray
    D: float | None = None
    y: Any = None
    support: Any = None

    @classmethod
    def from_estimator(
        cls, estimator, X, y=None, *, grid_resolution=100, mark_support=True, ax=None
    ):
        """Compute decision values around the samples and draw them.

        Parameters
        ----------
        estimator : classifier
            Fitted to two features, with ``decision_function``.
        X : array-like of shape (n_samples, 2)
            The samples that the plot must contain.
        y : array-like of shape (n_samples,), default=None
            Their classes. Samples are not drawn by default.
        grid_resolution : int, default=100
            Points of the grid per axis.
        mark_support : bool, default=True
            Draw a ring around support vectors, if `X` are the data that a kernel classifier was
            fitted to.
        ax : matplotlib Axes, default=None

        Returns
        -------
        display : DecisionBoundaryDisplay
        """
        check_is_fitted(estimator)
        grid, rows = grid_around(X, grid_resolution, margin=0.08)
        scores = estimator.decision_function(rows)
        response = scores if scores.ndim == 1 else scores.argmax(axis=1)
        inner = unwrap(estimator)
        support = getattr(inner, "support_", None) if mark_support else None
        if support is not None and (support.size == 0 or support.max() >= len(grid["X"])):
            support = None
        display = cls(
            **{**grid, "X": None if y is None else grid["X"]},
            response=response.reshape(grid["xx0"].shape),
            classes=estimator.classes_,
            D=getattr(inner, "D", None),
            y=None if y is None else np.asarray(y),
            support=support,
        )
        return display.plot(ax)

    def _draw(self, ax):
        response = self.response
        classes = range(self.classes.size)
        is_binary = self.classes.size == 2
        if is_binary:
            levels = np.array([min(response.min(), 0) - 1, 0, max(response.max(), 0) + 1])
        else:
            levels = np.arange(self.classes.size + 1) - 0.5
        colors = [class_style(k)["color"] for k in classes]
        self.surface_ = ax.contourf(
            self.xx0, self.xx1, response, levels=levels, colors=colors, alpha=0.18
        )
        handles = self._draw_margins() if is_binary else []
        if not is_binary:
            self._draw_lines(response, levels[1:-1], "boundaries", width=1.5)
        if self.X is not None:
            of_class = [self.y == label for label in self.classes]
            handles += [self._draw_samples(of_class[k], k, str(self.classes[k])) for k in classes]
            handles += self._draw_support()
        if handles:
            draw_legend(ax, handles, ncols=3)
        self._label_axes()

    def _draw_margins(self):
        D = self.D or 0.0
        lines = [("boundary", 0.0, "-", 2.0), (f"margin {1 - D:g}", 1 - D, "--", 1.2)]
        if D:
            lines.append((f"margin {1 + D:g}", 1 + D, ":", 1.2))
        return [
            self._draw_lines(
                self.response, sorted({-value, value}), name, width=width, dashes=dashes
            )[1]
            for name, value, dashes, width in lines
        ]

    def _draw_support(self):
        if self.support is None:
            return []
        look = {"facecolors": "none", "edgecolors": "black", "linewidths": 0.7, "zorder": 4}
        points = self.X[self.support].T
        return [self.ax_.scatter(*points, s=70, label="support vectors", **look)]
