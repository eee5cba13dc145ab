"""How fast solvers reach the optimum: the certified gap against time."""

import time
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from optimargin.estimators._callbacks import iteration_times
from optimargin.plotting._style import draw_legend, new_axes, next_line_style

_CURVE = "optimargin-convergence"
_SHORT, _N_RUNS = 1.0, 3  # fits of up to so many seconds in all are run three times
_FLOOR = 1e-17  # a gap of zero is drawn here: a logarithmic axis has no zero


class ConvergenceDisplay:
    """The certified relative duality gap of one solver against the time of a fit.

    Make it with :meth:`from_estimator`. To compare solvers, draw the next one with
    ``ax=display.ax_``.

    Parameters
    ----------
    seconds : ndarray of shape (n_points,)
        The time from the start of the fit to the ends of some iterations.
    gaps : ndarray of shape (n_points,)
        The certified gap there.
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
        """Fit, and draw the gaps after 1, 2, 3, 4, 6, 8, 12, ... iterations against their times.

        Times are taken inside one fit. Gaps are those of fits that end after so many iterations,
        which a user would see; computing them does not count.

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
        est = clone(estimator).set_params(max_iter=max_iter, tol=tol)
        seconds_of = _watch(est, X, y)
        n_iter = int(np.max(est.n_iter_))
        limits = [limit for limit in _limits(max_iter) if limit < n_iter] + [n_iter]
        last_gap = float(np.max(est.dual_gap_))
        gaps = [_gap_after(est, limit, X, y) for limit in limits[:-1]]
        display = cls(
            np.array([seconds_of(limit) for limit in limits]),
            np.array([*gaps, last_gap]),
            name=est.solver_ if name is None else name,
        )
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
            xscale="log",
            yscale="log",
            xlabel="time of the fit, seconds",
            ylabel="certified relative gap",
        )
        if self.name is not None:
            draw_legend(self.ax_, ncols=4)
        return self


def _limits(most):
    """Yield 1, 2, 3, 4, 6, 8, 12, ... up to `most`."""
    limit = 1
    while limit <= most:
        yield limit
        limit = max(limit + 1, limit * 4 // 3 if limit % 3 == 0 else limit * 3 // 2)


def _fit(est, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        est.fit(X, y)


def _gap_after(est, limit, X, y):
    """Return the certified gap of a fit that ends after so many iterations."""
    short = clone(est).set_params(max_iter=limit)
    _fit(short, X, y)
    return float(np.max(short.dual_gap_))


def _watch(est, X, y):
    """Fit; return the seconds that the fit took up to the end of an iteration, as a function.

    With several classes, up to the end of that iteration of each of them. Of short fits the fastest
    of three counts.
    """
    runs: list = []
    while not runs or (len(runs) < _N_RUNS and sum(run[-1][-1] - b for b, run in runs) < _SHORT):
        begin = time.perf_counter()
        with iteration_times() as times:
            _fit(est, X, y)
        runs.append((begin, times))
    begin, times = min(runs, key=lambda run: run[1][-1][-1] - run[0])

    def seconds(limit):
        solved = sum(of[min(limit, len(of) - 1)] - of[0] for of in times)
        return times[0][0] - begin + solved

    return seconds
