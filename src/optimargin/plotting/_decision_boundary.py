"""The boundary between classes in two dimensions, and the band of the margins."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from optimargin.margins import unwrap
from optimargin.plotting._plane import Plane
from optimargin.plotting._style import CLASS_STYLES, draw_legend, new_axes


class DecisionBoundaryDisplay:
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

    def __init__(
        self,
        xx0,
        xx1,
        response,
        *,
        classes,
        D=None,
        X=None,
        y=None,
        support=None,
        feature_names=("feature 0", "feature 1"),
    ):
        self.xx0 = xx0
        self.xx1 = xx1
        self.response = response
        self.classes = classes
        self.D = D
        self.X = X
        self.y = y
        self.support = support
        self.feature_names = feature_names

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
        plane = Plane.around(X, grid_resolution)
        points = plane.points
        scores = estimator.decision_function(plane.rows)
        binary = scores.ndim == 1
        response = (scores if binary else scores.argmax(axis=1)).reshape(plane.xx0.shape)
        inner = unwrap(estimator)
        support = getattr(inner, "support_", None) if mark_support else None
        if support is not None and (support.size == 0 or support.max() >= points.shape[0]):
            support = None
        display = cls(
            plane.xx0,
            plane.xx1,
            response,
            classes=estimator.classes_,
            D=getattr(inner, "D", None),
            X=None if y is None else points,
            y=None if y is None else np.asarray(y),
            support=support,
            feature_names=plane.feature_names,
        )
        return display.plot(ax)

    def plot(self, ax=None):
        """Draw the regions, the boundary, the band and the samples.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            New axes by default.

        Returns
        -------
        display : DecisionBoundaryDisplay
        """
        self.ax_ = new_axes(ax)
        self.figure_ = self.ax_.figure
        binary = self.classes.size == 2
        styles = [CLASS_STYLES[k % len(CLASS_STYLES)] for k in range(self.classes.size)]
        response = self.response
        if binary:
            levels = np.array([min(response.min(), 0) - 1, 0, max(response.max(), 0) + 1])
        else:
            levels = np.arange(self.classes.size + 1) - 0.5
        self.surface_ = self.ax_.contourf(
            self.xx0,
            self.xx1,
            response,
            levels=levels,
            colors=[style["color"] for style in styles],
            alpha=0.18,
        )
        handles = []
        if binary:
            handles += self._draw_lines()
        else:
            self.ax_.contour(
                self.xx0, self.xx1, response, levels=levels[1:-1], colors="black", linewidths=1.5
            )
        if self.X is not None:
            handles += self._draw_samples(styles)
        if handles:
            draw_legend(self.ax_, handles, ncols=3)
        self.ax_.set(xlabel=self.feature_names[0], ylabel=self.feature_names[1])
        return self

    def _draw_lines(self):
        from matplotlib.lines import Line2D

        D = self.D or 0.0
        looks: dict[str, tuple] = {
            "boundary": (0.0, "-", 2.0),
            f"margin {1 - D:g}": (1 - D, "--", 1.2),
        }
        if D:
            looks[f"margin {1 + D:g}"] = (1 + D, ":", 1.2)
        for value, dashes, width in looks.values():
            levels = [0.0] if value == 0 else [-value, value]
            self.ax_.contour(
                self.xx0,
                self.xx1,
                self.response,
                levels=levels,
                colors="black",
                linestyles=dashes,
                linewidths=width,
            )
        return [
            Line2D([], [], color="black", linestyle=dashes, linewidth=width, label=name)
            for name, (_, dashes, width) in looks.items()
        ]

    def _draw_samples(self, styles):
        handles = []
        for label, style in zip(self.classes, styles, strict=True):
            of_class = self.X[self.y == label]
            handles.append(
                self.ax_.scatter(
                    *of_class.T,
                    color=style["color"],
                    marker=style["marker"],
                    s=24,
                    edgecolors="white",
                    linewidths=0.5,
                    label=str(label),
                    zorder=3,
                )
            )
        if self.support is not None:
            handles.append(
                self.ax_.scatter(
                    *self.X[self.support].T,
                    s=70,
                    facecolors="none",
                    edgecolors="black",
                    linewidths=0.7,
                    label="support vectors",
                    zorder=4,
                )
            )
        return handles
