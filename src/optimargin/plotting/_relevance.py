"""How much each feature counts."""

from dataclasses import dataclass

import numpy as np

from optimargin.plotting._display import COLORS, Display


@dataclass(eq=False, repr=False)
class RelevanceDisplay(Display):
    """Bars of the relevance of features: their shares of squared distances, in widths.

    Parameters
    ----------
    names : ndarray of shape (n_features,)
    relevance : ndarray of shape (n_features,)

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from optimargin import ODMClassifierCV
    >>> from optimargin.plotting import RelevanceDisplay
    >>> search = ODMClassifierCV(max_evals=12, relevance=True)
    >>> model = search.fit(*load_iris(return_X_y=True))
    >>> display = RelevanceDisplay.from_estimator(model)
    >>> len(display.bars_)
    4
    """

    names: np.ndarray
    relevance: np.ndarray

    @classmethod
    def from_estimator(cls, estimator, *, names=None, max_features=20, ax=None):
        """Draw the most relevant features of a search.

        Parameters
        ----------
        estimator : estimator
            Fitted, with `feature_importances_`.
        names : array-like of shape (n_features,), default=None
            Names of the features; those that the data had, when not given.
        max_features : int, default=20
        ax : matplotlib Axes, default=None

        Returns
        -------
        display : RelevanceDisplay
        """
        relevance = np.asarray(estimator.feature_importances_)
        if names is None:
            names = getattr(
                estimator, "feature_names_in_", [f"feature {j}" for j in range(relevance.size)]
            )
        most = np.argsort(-relevance, kind="stable")[:max_features]
        return cls(np.asarray(names, dtype=object)[most], relevance[most]).plot(ax=ax)

    def _draw(self, ax, **kwargs):
        places = np.arange(len(self.names))
        self.bars_ = ax.barh(places, self.relevance, **{"color": COLORS[0], **kwargs})
        ax.set_yticks(places, labels=[str(name) for name in self.names])
        ax.invert_yaxis()
        ax.set_xlabel("relevance: share of the squared distances")
