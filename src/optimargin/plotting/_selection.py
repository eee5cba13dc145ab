"""Held-out scores at the points that a selection evaluated."""

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass

import numpy as np
from sklearn.utils.validation import check_is_fitted

from optimargin.plotting._display import COLORS, Display, draw_legend


def _search_of(est):
    """Return the search, which may be the last step of a pipeline, or say that there is none."""
    outer = est
    while hasattr(est, "steps"):
        est = est.steps[-1][1]
    if hasattr(est, "cv_results_"):
        return est
    check_is_fitted(outer)
    raise TypeError(
        f"{type(est).__name__} made no search: give a fitted search, such as ODMClassifierCV or "
        "GridSearchCV."
    )


@dataclass(eq=False, repr=False)
class SelectionDisplay(Display):
    """The held-out error over two parameters, and the point that was chosen.

    Make it with :meth:`from_estimator`. A grid becomes a map; each cell shows the best over all
    other parameters. A search without a grid becomes the points it evaluated.

    Parameters
    ----------
    x, y : ndarray of shape (n_points,)
        The values of two parameters.
    error : ndarray of shape (n_points,)
        One minus the held-out score.
    best : int
        The index of the chosen point.
    names : tuple of two str, default=("x", "y")
        The names of the parameters.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    surface_ : matplotlib Artist
        The map, or the points.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from optimargin import LinearODMClassifierCV
    >>> from optimargin.plotting import SelectionDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = LinearODMClassifierCV(C1s=[1, 8, 64], C2s=[1, 8], Ds=[0.2]).fit(scale(X), y)
    >>> display = SelectionDisplay.from_estimator(search)
    >>> display.names
    ('C1', 'C2')
    """

    x: np.ndarray
    y: np.ndarray
    error: np.ndarray
    _: KW_ONLY
    best: int
    names: tuple = ("x", "y")

    @classmethod
    def from_estimator(cls, search, *, params=None, ax=None):
        """Draw the results of a fitted selection.

        Parameters
        ----------
        search : estimator
            Fitted, with ``cv_results_``, such as `ODMClassifierCV` or `GridSearchCV`, or a
            pipeline that ends with one.
        params : tuple of two str, default=None
            The parameters on the axes; by default the first two that vary.
        ax : matplotlib Axes, default=None

        Returns
        -------
        display : SelectionDisplay
        """
        search = _search_of(search)
        results = search.cv_results_
        values = {}
        for key, entry in results.items():
            # Parameters that are not numbers raise.
            with suppress(TypeError, ValueError):
                if key.startswith("param_"):
                    values[key.removeprefix("param_")] = np.asarray(entry, dtype=np.float64)
        if params is None:
            varying = [name for name, entry in values.items() if np.unique(entry).size > 1]
            params = tuple((varying + [n for n in values if n not in varying])[:2])
        unknown = [name for name in params if name not in values]
        if unknown or len(params) != 2:
            raise ValueError(
                f"params={params!r} must name two numerical parameters out of "
                f"{', '.join(values) or 'none'}."
            )
        display = cls(
            values[params[0]],
            values[params[1]],
            1 - np.asarray(results["mean_test_score"]),
            best=int(search.best_index_),
            names=params,
        )
        return display.plot(ax)

    def _draw(self, ax):
        xs, ys = np.unique(self.x), np.unique(self.y)
        known = np.isfinite(self.error)
        if xs.size * ys.size <= self.x.size and min(xs.size, ys.size) > 1:
            chosen = self._draw_map(xs, ys)
        else:
            look = {"c": self.error[known], "cmap": "viridis_r", "s": 40, "zorder": 2}
            self.surface_ = ax.scatter(self.x[known], self.y[known], **look)
            for axis, values in (("x", self.x), ("y", self.y)):
                if (values > 0).all() and values.max() > 20 * values.min():
                    getattr(ax, f"set_{axis}scale")("log", base=2)
            chosen = self.x[self.best], self.y[self.best]
        star = {"marker": "*", "markersize": 15, "color": COLORS[1], "markeredgecolor": "white"}
        name = f"chosen: {self.error[self.best]:.4f}"
        ax.plot(*chosen, linestyle="none", label=name, zorder=3, **star)
        self.figure_.colorbar(self.surface_, ax=ax, label="held-out loss (1 - best_score_)")
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        draw_legend(ax)

    def _draw_map(self, xs, ys):
        """Draw the lowest error of each cell; return the place of the chosen point."""
        lowest = np.full((ys.size, xs.size), np.inf)
        cells = np.searchsorted(ys, self.y), np.searchsorted(xs, self.x)
        np.minimum.at(lowest, cells, np.where(np.isnan(self.error), np.inf, self.error))
        lowest[np.isinf(lowest)] = np.nan
        self.surface_ = self.ax_.imshow(lowest, origin="lower", cmap="viridis_r", aspect="auto")
        for axis, values in (("x", xs), ("y", ys)):
            ticks = np.arange(0, values.size, max(1, -(-values.size // 6)))
            getattr(self.ax_, f"set_{axis}ticks")(ticks, [f"{values[k]:.4g}" for k in ticks])
        return cells[1][self.best], cells[0][self.best]
