"""What all plots share: their axes, their legend, and how they look."""

from collections.abc import Callable
from inspect import signature
from typing import Any, ClassVar, Self

# Okabe and Ito's palette, which colour-blind readers can tell apart. Every line has its own dashes,
# and every class its own marker, so that they also differ on a black-and-white page.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
BAND_COLOR = "#B0B0B0"
_DASHES = ["-", "--", "-.", ":", *[(0, (5, 1.5) + n_dots * (1, 1.5)) for n_dots in (2, 3)]]
_CURVE = "optimargin-curve"


class Display:
    """Data that can be drawn. A subclass draws them on given axes, by `_draw`."""

    ax_: Any
    figure_: Any
    _styles: ClassVar[tuple[str, ...]] = ()
    _draw: Callable[..., None]  # given axes, and what else `plot` was given

    def plot(self, ax=None, **kwargs) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            New axes by default.
        **kwargs : dict
            What `from_estimator` takes for the drawing: `style` where there are several, and
            options of the curve, the points or the bars, for example ``color``.

        Returns
        -------
        self : Display
        """
        if self._styles and kwargs.setdefault("style", self._styles[0]) not in self._styles:
            raise ValueError(
                f"style={kwargs['style']!r} is unknown: use one of "
                f"{', '.join(map(repr, self._styles))}."
            )
        try:  # before there is a figure
            signature(self._draw).bind(ax, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}.plot() {error}") from None
        self.ax_ = new_axes(ax)
        self.figure_ = self.ax_.figure
        self._draw(self.ax_, **kwargs)
        return self


def new_axes(ax):
    """Return `ax`, or new axes if it is None.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Drawing needs matplotlib: install it with pip install 'optimargin[plot]'."
        ) from error
    _, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    return ax


def n_curves(ax):
    """Return how many curves are on these axes."""
    return sum(artist.get_gid() == _CURVE for artist in ax.get_children())


def next_curve(ax) -> dict[str, Any]:
    """Return how the next curve on these axes looks."""
    k = n_curves(ax) % len(COLORS)
    return {"color": COLORS[k], "linestyle": _DASHES[k], "gid": _CURVE}


def class_style(k) -> dict[str, Any]:
    """Return how the samples of class `k` look."""
    return {"color": COLORS[k % len(COLORS)], "marker": "o^sDvP"[k % len(COLORS)]}


def draw_legend(ax, handles=None, *, ncols=1):
    """Draw the legend below the axes, where it covers no data.

    A figure without a layout has no room reserved there: it gets a corner inside.

    Parameters
    ----------
    ax : matplotlib Axes
    handles : list of artists, default=None
        By default all that have a label.
    ncols : int, default=1
    """
    from matplotlib.transforms import offset_copy

    options = {"fontsize": "small", **({} if handles is None else {"handles": handles})}
    if ax.figure.get_layout_engine() is None:
        ax.legend(loc="best", framealpha=0.85, edgecolor="none", **options)
        return
    # Below the numbers and the label of the axis, which are as high on axes of any size.
    below = offset_copy(ax.transAxes, fig=ax.figure, y=-34, units="points")
    ax.legend(
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=below,
        borderaxespad=0,
        frameon=False,
        ncols=ncols,
        **options,
    )
