"""Shared plot styles: colour-blind-safe palette, dashes that survive black-and-white print."""

# Okabe and Ito's palette, darkest first. Every colour has its own dashes, so that lines also differ
# on a black-and-white page.
LINE_STYLES = [
    {"color": "#0072B2", "linestyle": "-"},
    {"color": "#D55E00", "linestyle": (0, (5, 1.5))},
    {"color": "#009E73", "linestyle": (0, (5, 1.5, 1, 1.5))},
    {"color": "#CC79A7", "linestyle": (0, (1, 1))},
    {"color": "#000000", "linestyle": (0, (8, 2))},
    {"color": "#E69F00", "linestyle": (0, (3, 1, 1, 1, 1, 1))},
]
BAND_COLOR = "#B0B0B0"
BEST_COLOR = "#D55E00"
# Classes differ in both colour and shape.
CLASS_STYLES = [
    {"color": "#0072B2", "marker": "o"},
    {"color": "#D55E00", "marker": "^"},
    {"color": "#009E73", "marker": "s"},
    {"color": "#CC79A7", "marker": "D"},
    {"color": "#E69F00", "marker": "v"},
    {"color": "#56B4E9", "marker": "P"},
]


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


def next_line_style(ax, gid):
    """Return the next line style after those of the artists marked `gid` on these axes."""
    n_drawn = sum(artist.get_gid() == gid for artist in ax.get_children())
    return LINE_STYLES[n_drawn % len(LINE_STYLES)]


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
