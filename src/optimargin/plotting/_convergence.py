"""How fast solvers reach the optimum: the certified gap against time."""

import time
import warnings
from dataclasses import KW_ONLY, dataclass

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from optimargin.estimators._callbacks import iteration_times
from optimargin.plotting._display import Display, draw_legend, next_curve


@dataclass(eq=False, repr=False)
class ConvergenceDisplay(Display):
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

    seconds: np.ndarray
    gaps: np.ndarray
    _: KW_ONLY
    name: str | None = None

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

    def _draw(self, ax, **kwargs):
        look = {**next_curve(ax), "marker": "o", "markersize": 3, **kwargs}
        # A logarithmic axis has no zero: a gap of zero is drawn below all others.
        gaps = np.maximum(self.gaps, 1e-17)
        (self.line_,) = ax.plot(self.seconds, gaps, label=self.name, **look)
        ax.set(
            xscale="log",
            yscale="log",
            xlabel="time of the fit, seconds",
            ylabel="certified relative gap",
        )
        if self.name is not None:
            draw_legend(ax, ncols=4)


def _limits(most):
    """Yield 1, 2, 3, 4, 6, 8, 12, ... up to `most`."""
    limit = 1
    while limit <= most:
        yield limit
        limit = max(limit + 1, limit * 4 // 3 if limit % 3 == 0 else limit * 3 // 2)


def _fit(est, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return est.fit(X, y)


def _gap_after(est, limit, X, y):
    """Return the certified gap of a fit that ends after so many iterations."""
    return float(np.max(_fit(clone(est).set_params(max_iter=limit), X, y).dual_gap_))


def _watch(est, X, y):
    """Fit; return the seconds that the fit took up to the end of an iteration, as a function.

    With several classes, up to the end of that iteration of each of them. Fits of less than a
    second in all are run three times, and the fastest counts.
    """
    runs: list = []
    while not runs or (len(runs) < 3 and sum(run[-1][-1] - b for b, run in runs) < 1.0):
        begin = time.perf_counter()
        with iteration_times() as times:
            _fit(est, X, y)
        runs.append((begin, times))
    begin, times = min(runs, key=lambda run: run[1][-1][-1] - run[0])

    def seconds(limit):
        solved = sum(of[min(limit, len(of) - 1)] - of[0] for of in times)
        return times[0][0] - begin + solved

    return seconds
