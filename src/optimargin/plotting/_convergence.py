"""How fast solvers reach the optimum: the certified gap against time."""

import time
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from optimargin.plotting._style import new_axes, next_line_style

_CURVE = "optimargin-convergence"
_SHORT = 0.5  # seconds; shorter fits are timed three times, and the fastest is taken
_FLOOR = 1e-17  # a gap of zero is drawn here: a logarithmic axis has no zero


class ConvergenceDisplay:
    """The certified relative duality gap of one solver against the time of a fit.

    Make it with :meth:`from_estimator`. To compare solvers, draw the next one with
    ``ax=display.ax_``.

    Parameters
    ----------
    seconds : ndarray of shape (n_fits,)
        The times of fits with increasing limits on iterations.
    gaps : ndarray of shape (n_fits,)
        The certified gap of each fit.
    name : str, default=None
        The name of the solver in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from optimargin import LinearODMClassifier
    >>> from optimargin.plotting import ConvergenceDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearODMClassifier(solver="newton")
    >>> display = ConvergenceDisplay.from_estimator(model, scale(X), y)
    >>> bool(display.gaps[-1] < 1e-10)
    True
    """

    def __init__(self, seconds, gaps, *, name=None):
        self.seconds = seconds
        self.gaps = gaps
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator, X, y, *, tol=1e-10, max_iter=1024, name=None, ax=None, **kwargs
    ):
        """Fit with limits of 1, 2, 3, 4, 6, 8, 12, ... iterations, and draw gaps and times.

        Every point is a separate fit from the start, so only the fit is timed, and the gap is the
        one that a user would see.

        Parameters
        ----------
        estimator : classifier
            With parameters `max_iter` and `tol`; it is cloned.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        tol : float, default=1e-10
            The gap at which to stop.
        max_iter : int, default=1024
            The limit on iterations at which to stop.
        name : str, default=None
            By default the solver that the fit used.
        ax : matplotlib Axes, default=None
        **kwargs : dict
            Passed to the curve.

        Returns
        -------
        display : ConvergenceDisplay
        """
        est = clone(estimator)
        seconds, gaps = [], []
        limit = 1
        while limit <= max_iter:
            est.set_params(max_iter=limit, tol=tol)
            seconds.append(_seconds_to_fit(est, X, y))
            if seconds[-1] < _SHORT:
                seconds[-1] = min([seconds[-1], *(_seconds_to_fit(est, X, y) for _ in range(2))])
            gaps.append(float(np.max(est.dual_gap_)))
            if gaps[-1] <= tol or int(np.max(est.n_iter_)) < limit:
                break
            limit = max(limit + 1, limit * 4 // 3 if limit % 3 == 0 else limit * 3 // 2)
        # A fit with a larger limit does all that one with a smaller limit does: its time bounds the
        # other's, so that noise does not let time run backwards.
        bounds = np.minimum.accumulate(seconds[::-1])[::-1]
        display = cls(bounds, np.array(gaps), name=est.solver_ if name is None else name)
        return display.plot(ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            New axes by default.
        **kwargs : dict
            Passed to the curve, for example ``color``.

        Returns
        -------
        display : ConvergenceDisplay
        """
        self.ax_ = new_axes(ax)
        self.figure_ = self.ax_.figure
        look = {**next_line_style(self.ax_, _CURVE), "marker": "o", "markersize": 3, **kwargs}
        (self.line_,) = self.ax_.plot(
            self.seconds, np.maximum(self.gaps, _FLOOR), label=self.name, gid=_CURVE, **look
        )
        self.ax_.set(
            yscale="log",
            xlabel="time of the fit, seconds",
            ylabel="certified relative gap",
        )
        self.ax_.set_xlim(left=0)
        if self.name is not None:
            self.ax_.legend(framealpha=0.85, edgecolor="none")
        return self


def _seconds_to_fit(est, X, y):
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        est.fit(X, y)
    return time.perf_counter() - start
