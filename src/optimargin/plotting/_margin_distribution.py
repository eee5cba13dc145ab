"""The distribution of margins, cumulative or as a histogram."""

import numpy as np

from optimargin.margins import distribution_from_scores, margin_distribution, unwrap
from optimargin.plotting._style import BAND_COLOR, draw_legend, new_axes, next_line_style

_STYLES = ("cumulative", "histogram")
_CURVE = "optimargin-margins"
_BAND = "optimargin-band"
_MOST_BINS = 40
_HEADROOM = 0.05  # above a histogram


class MarginDistributionDisplay:
    """The distribution of the margins of one classifier.

    Make it with :meth:`from_estimator` or :meth:`from_predictions`. To compare classifiers,
    draw the next one with ``ax=display.ax_``: each gets its own colour and dashes.

    Parameters
    ----------
    distribution : MarginDistribution
        The margins and their weights.
    name : str, default=None
        The name of the classifier in the legend.
    D : float, default=None
        Half-width of the band around margin 1 without penalty, drawn in the background.
        None draws no band.
    kind : {"functional", "geometric"}, default="functional"
        What the margins are, for the label of the axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Artist
        The curve, or the outline of the histogram.

    See Also
    --------
    optimargin.margins.margin_distribution : The numbers behind the plot.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sklearn.svm import SVC
    >>> from optimargin import ODMClassifier
    >>> from optimargin.plotting import MarginDistributionDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> display = MarginDistributionDisplay.from_estimator(ODMClassifier().fit(X, y), X, y)
    >>> display = MarginDistributionDisplay.from_estimator(SVC().fit(X, y), X, y, ax=display.ax_)
    >>> len(display.ax_.get_legend().get_texts())  # two curves and the band
    3
    """

    def __init__(self, distribution, *, name=None, D=None, kind="functional"):
        self.distribution = distribution
        self.name = name
        self.D = D
        self.kind = kind

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        *,
        kind="functional",
        style="cumulative",
        sample_weight=None,
        name=None,
        bins=None,
        ax=None,
        **kwargs,
    ):
        """Compute the margins of a fitted classifier and draw them.

        Parameters
        ----------
        estimator : classifier
            Fitted, with ``decision_function``.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            True class labels.
        kind : {"functional", "geometric"}, default="functional"
            See `optimargin.margins.margin_distribution`.
        style : {"cumulative", "histogram"}, default="cumulative"
        sample_weight : array-like of shape (n_samples,), default=None
        name : str, default=None
            By default the name of the classifier's class.
        bins : int or array-like of shape (n_bins + 1,), default=None
            Bins of the histogram; by default about the square root of the number of samples, at
            most 40. Give the edges to compare classifiers bin by bin.
        ax : matplotlib Axes, default=None
        **kwargs : dict
            Passed to the curve, for example ``color``.

        Returns
        -------
        display : MarginDistributionDisplay
        """
        distribution = margin_distribution(estimator, X, y, kind=kind, sample_weight=sample_weight)
        inner = unwrap(estimator)
        # The band applies to margins of two classes, in the classifier's own scale.
        has_band = kind == "functional" and estimator.classes_.size == 2
        display = cls(
            distribution,
            name=type(inner).__name__ if name is None else name,
            D=getattr(inner, "D", None) if has_band else None,
            kind=kind,
        )
        return display.plot(ax, style=style, bins=bins, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true,
        y_score,
        *,
        style="cumulative",
        sample_weight=None,
        name=None,
        D=None,
        bins=None,
        ax=None,
        **kwargs,
    ):
        """Draw the functional margins of given decision values.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True class labels.
        y_score : array-like of shape (n_samples,) or (n_samples, n_classes)
            Decision values: positive for the larger of two labels, or one column per label in
            sorted order.
        style : {"cumulative", "histogram"}, default="cumulative"
        sample_weight : array-like of shape (n_samples,), default=None
        name : str, default=None
        D : float, default=None
            Half-width of the band around margin 1.
        bins : int or array-like of shape (n_bins + 1,), default=None
            Bins of the histogram.
        ax : matplotlib Axes, default=None
        **kwargs : dict
            Passed to the curve.

        Returns
        -------
        display : MarginDistributionDisplay
        """
        distribution = distribution_from_scores(y_true, y_score, np.unique(y_true), sample_weight)
        return cls(distribution, name=name, D=D).plot(ax, style=style, bins=bins, **kwargs)

    def plot(self, ax=None, *, style="cumulative", bins=None, **kwargs):
        """Draw the distribution.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            New axes by default.
        style : {"cumulative", "histogram"}, default="cumulative"
        bins : int or array-like of shape (n_bins + 1,), default=None
            Bins of the histogram.
        **kwargs : dict
            Passed to the curve.

        Returns
        -------
        self : MarginDistributionDisplay
        """
        if style not in _STYLES:
            raise ValueError(
                f"style={style!r} is unknown: use one of {', '.join(map(repr, _STYLES))}."
            )
        self.ax_ = ax = new_axes(ax)
        self.figure_ = ax.figure
        margins, weights = self.distribution.margins, self.distribution.weights
        look = {
            "linewidth": 1.8,
            "label": self._label(),
            **next_line_style(ax, _CURVE),
            **kwargs,
        }
        if style == "cumulative":
            self.line_ = ax.ecdf(margins, weights, **look)
            ax.set(ylabel="Share of samples with at most this margin", ylim=(0, 1.01))
        else:
            self.line_ = self._draw_histogram(bins, look)
            ax.margins(y=_HEADROOM)
            ax.set(ylabel="Share of samples")
            ax.set_ylim(bottom=0)
        self.line_.set_gid(_CURVE)
        self._draw_band()
        ax.axvline(0, color="black", linewidth=0.8, zorder=1)
        ax.set(xlabel=f"Margin ({self.kind})")
        ax.spines[["top", "right"]].set_visible(False)
        self._draw_legend()
        return self

    def _label(self):
        numbers = f"mean {self.distribution.mean:.2f}, variance {self.distribution.variance:.3g}"
        return f"{self.name} ({numbers})" if self.name else numbers

    def _draw_histogram(self, bins, look):
        margins = self.distribution.margins
        if bins is None:
            bins = min(_MOST_BINS, max(5, round(np.sqrt(margins.size))))
        shares, edges = np.histogram(margins, bins, weights=self.distribution.weights)
        # One line, not bars: outlines of several classifiers stay readable on top of each other.
        heights = np.concatenate([[0.0], np.repeat(shares, 2), [0.0]])
        (outline,) = self.ax_.plot(np.repeat(edges, 2), heights, **look)
        self.ax_.axvline(
            self.distribution.mean,
            ymax=1 / (1 + _HEADROOM),
            color=outline.get_color(),
            linestyle=outline.get_linestyle(),
            linewidth=1.0,
        )
        return outline

    def _draw_band(self):
        # Classifiers on the same axes may share D: one band is enough.
        gid = f"{_BAND}-{self.D}"
        if not self.D or any(artist.get_gid() == gid for artist in self.ax_.get_children()):
            return
        self.ax_.axvspan(
            1 - self.D,
            1 + self.D,
            color=BAND_COLOR,
            alpha=0.35,
            linewidth=0,
            zorder=0,
            label=f"band 1 ± D, D = {self.D:g}",
            gid=gid,
        )

    def _draw_legend(self):
        handles, _ = self.ax_.get_legend_handles_labels()
        # Bands last; curves keep the order in which they were drawn.
        draw_legend(self.ax_, sorted(handles, key=lambda h: str(h.get_gid()).startswith(_BAND)))
