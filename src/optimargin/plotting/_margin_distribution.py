"""The distribution of margins, cumulative or as a histogram."""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from optimargin.margins import (
    MarginDistribution,
    distribution_from_scores,
    margin_distribution,
    unwrap,
)
from optimargin.plotting._display import BAND_COLOR, Display, draw_legend, next_curve

_BAND = "optimargin-band"


@dataclass(eq=False, repr=False)
class MarginDistributionDisplay(Display):
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

    distribution: MarginDistribution
    _: KW_ONLY
    name: str | None = None
    D: float | None = None
    kind: str = "functional"

    _styles = ("cumulative", "histogram")

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
        cls, y_true, y_score, *, sample_weight=None, name=None, D=None, ax=None, **kwargs
    ):
        """Draw the functional margins of given decision values.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True class labels.
        y_score : array-like of shape (n_samples,) or (n_samples, n_classes)
            Decision values: positive for the larger of two labels, or one column per label in
            sorted order.
        sample_weight : array-like of shape (n_samples,), default=None
        name : str, default=None
        D : float, default=None
            Half-width of the band around margin 1.
        ax : matplotlib Axes, default=None
        **kwargs : dict
            `style`, `bins` and options of the curve, as of `from_estimator`.

        Returns
        -------
        display : MarginDistributionDisplay
        """
        distribution = distribution_from_scores(y_true, y_score, np.unique(y_true), sample_weight)
        return cls(distribution, name=name, D=D).plot(ax, **kwargs)

    def _draw(self, ax, *, style, bins=None, **kwargs):
        margins, weights = self.distribution.margins, self.distribution.weights
        look = {"linewidth": 1.8, "label": self._label(), **next_curve(ax), **kwargs}
        if style == "cumulative":
            self.line_ = ax.ecdf(margins, weights, **look)
            ax.set(ylabel="Share of samples with at most this margin", ylim=(0, 1.01))
        else:
            self.line_ = self._draw_histogram(bins, look)
        self._draw_band()
        ax.axvline(0, color="black", linewidth=0.8, zorder=1)
        ax.set(xlabel=f"Margin ({self.kind})")
        ax.spines[["top", "right"]].set_visible(False)
        handles, _ = ax.get_legend_handles_labels()
        # Bands last; curves keep the order in which they were drawn.
        draw_legend(ax, sorted(handles, key=lambda h: str(h.get_gid()).startswith(_BAND)))

    def _label(self):
        numbers = f"mean {self.distribution.mean:.2f}, variance {self.distribution.variance:.3g}"
        return f"{self.name} ({numbers})" if self.name else numbers

    def _draw_histogram(self, bins, look, most_bins=40, headroom=0.05):
        margins = self.distribution.margins
        if bins is None:
            bins = min(most_bins, max(5, round(np.sqrt(margins.size))))
        shares, edges = np.histogram(margins, bins, weights=self.distribution.weights)
        # One line, not bars: outlines of several classifiers stay readable on top of each other.
        heights = np.concatenate([[0.0], np.repeat(shares, 2), [0.0]])
        (outline,) = self.ax_.plot(np.repeat(edges, 2), heights, **look)
        at_mean = {"color": outline.get_color(), "linestyle": outline.get_linestyle()}
        top = 1 / (1 + headroom)
        self.ax_.axvline(self.distribution.mean, ymax=top, linewidth=1.0, **at_mean)
        self.ax_.margins(y=headroom)
        self.ax_.set(ylabel="Share of samples")
        self.ax_.set_ylim(bottom=0)
        return outline

    def _draw_band(self):
        # Classifiers on the same axes may share D: one band is enough.
        gid = f"{_BAND}-{self.D}"
        if not self.D or any(artist.get_gid() == gid for artist in self.ax_.get_children()):
            return
        look = {"color": BAND_COLOR, "alpha": 0.35, "linewidth": 0, "zorder": 0, "gid": gid}
        name = f"band 1 ± D, D = {self.D:g}"
        self.ax_.axvspan(1 - self.D, 1 + self.D, label=name, **look)
