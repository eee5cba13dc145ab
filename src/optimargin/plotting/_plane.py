"""What plots of two features share: a grid over their plane, and the samples in it."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from optimargin.plotting._display import Display, class_style


def grid_around(X, grid_resolution, *, margin):
    """Return a grid around samples of two features.

    Parameters
    ----------
    X : {ndarray, dataframe} of shape (n_samples, 2)
    grid_resolution : int
        Points per axis.
    margin : float
        Free space around the samples, relative to their range.

    Returns
    -------
    grid : dict
        `xx0`, `xx1`, `X` and `feature_names` of a `PlaneDisplay`.
    rows : {ndarray, dataframe} of shape (grid_resolution**2, 2)
        The points of the grid, with the names of the features where the samples have some.
    """
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"X has shape {points.shape}: this plot needs exactly two features.")
    if grid_resolution < 2:
        raise ValueError(f"grid_resolution={grid_resolution} is too small: use at least 2.")
    low, high = points.min(axis=0), points.max(axis=0)
    free = margin * np.maximum(high - low, 1e-12)
    xx0, xx1 = np.meshgrid(*np.linspace(low - free, high + free, grid_resolution, axis=1))
    rows: Any = np.column_stack([xx0.ravel(), xx1.ravel()])
    if hasattr(X, "columns"):
        rows = type(X)(rows, columns=X.columns)
    names = tuple(map(str, getattr(X, "columns", ("feature 0", "feature 1"))))
    return {"xx0": xx0, "xx1": xx1, "X": points, "feature_names": names}, rows


@dataclass(eq=False, repr=False)
class PlaneDisplay(Display):
    """A response on a grid over two features, and samples."""

    xx0: Any
    xx1: Any
    response: Any
    _: KW_ONLY
    X: Any = None
    feature_names: tuple = ("feature 0", "feature 1")

    def _draw_lines(self, values, levels, name, *, width, dashes="-"):
        """Draw lines where values on the grid are equal to `levels`.

        Returns
        -------
        lines : matplotlib QuadContourSet
        entry : matplotlib Line2D
            For the legend.
        """
        from matplotlib.lines import Line2D

        look = {"colors": "black", "linestyles": dashes, "linewidths": width}
        lines = self.ax_.contour(self.xx0, self.xx1, values, levels=levels, **look)
        return lines, Line2D([], [], color="black", linestyle=dashes, linewidth=width, label=name)

    def _draw_samples(self, rows, k, name):
        """Draw samples as those of class `k`; return the points."""
        look = {**class_style(k), "s": 24, "edgecolors": "white", "linewidths": 0.5, "zorder": 3}
        return self.ax_.scatter(*self.X[rows].T, label=name, **look)

    def _label_axes(self):
        self.ax_.set(xlabel=self.feature_names[0], ylabel=self.feature_names[1])
