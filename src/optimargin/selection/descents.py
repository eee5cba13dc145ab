"""Evaluations of one loss, within a number of them and a time, and descents among them."""

import time

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc

from optimargin._ties import Levels

APART = 0.05  # of the bounds, in some parameter, for two points to differ
_OTHER_HILL = 1.0  # in log2 of the width, for two first looks to lead to different ends
_STEP = 0.1  # of a descent, the first one, in widths of the bounds
_EDGE = 0.15  # of the first simplex, in widths of the bounds


class OutOfBudget(Exception):
    """Ends a descent when the evaluations are used up, or the time is."""


class Evaluations:
    """Evaluations of one loss, within a number of them and a time.

    Points that were evaluated are not evaluated again.
    """

    def __init__(self, loss, max_evals, deadline, visit=None):
        self.loss, self.max_evals = loss, max_evals
        self.all: list = []
        self._deadline, self._visit = deadline, visit
        self._known: dict = {}

    @property
    def n_left(self):
        """How many more may be made."""
        return self.max_evals - len(self.all)

    def __call__(self, x, gradient):
        """Return the loss and the gradient at `x`."""
        gradient = gradient and self.loss.has_gradient
        known = self._known.get(x.tobytes())
        if known is not None and (known[1] is not None or not gradient):
            return known
        if self.n_left < 1 or (self.all and time.monotonic() > self._deadline):
            raise OutOfBudget
        evaluation, slope = self.loss(x, gradient)
        self._known[x.tobytes()] = evaluation.loss, slope
        self.all.append(evaluation)
        if self._visit is not None:
            self._visit(evaluation)
        return evaluation.loss, slope

    def best(self, n_points, *, hills=False):
        """Return the best points that are not alike, or that are on different hills.

        Hills differ by their widths.
        """
        apart = APART * np.ptp(self.loss.bounds, axis=1)
        if hills and self.loss.has_width:
            apart[:-1], apart[-1] = np.inf, _OTHER_HILL
        chosen: list[np.ndarray] = []
        for evaluation in self.loss.ranked(self.all):
            if all((np.abs(evaluation.x - other) > apart).any() for other in chosen):
                chosen.append(evaluation.x)
        return chosen[:n_points]

    def spread(self, n_points, fixed, random_state):
        """Look at points all over the box where the search begins."""
        free = np.isnan(fixed)
        box = self.loss.spread[free]
        sobol = qmc.Sobol(len(box), rng=np.random.default_rng(random_state.randint(2**31)))
        points = qmc.scale(sobol.random(1 << max(n_points - 1, 0).bit_length()), *box.T)
        for point in points[:n_points]:
            x = fixed.copy()
            x[free] = point
            self(x, gradient=False)

    def descend(self, start, max_evals, fixed, rtol):
        """Go downhill from a point, within bounds, where coordinates are not fixed."""
        free = np.isnan(fixed)
        low, width = self.loss.bounds[free, 0], np.ptp(self.loss.bounds[free], axis=1)
        origin = (start[free] - low) / width
        has_gradient, levels = self.loss.has_gradient, Levels()

        def in_cube(z):
            # Scaled to the unit cube, so that one step length suits all parameters. Those that
            # have not moved keep their last digits: the start is not evaluated again.
            x = start.copy()
            x[free] = np.where(z == origin, start[free], low + z * width)
            value, slope = self(x, gradient=has_gradient)
            return (value, slope[free] * width) if has_gradient else levels(value)

        _descend(in_cube, origin, max_evals, rtol, has_gradient)


def _descend(function, start, max_evals, rtol, has_gradient):
    """Minimise within the unit cube."""
    if has_gradient:
        value, slope = function(start)
        steepness = _STEP * np.linalg.norm(slope)
        if steepness <= rtol * abs(value):
            return  # a step cannot lower the loss by more, and may go where rounding points

        def scaled(u):
            # In these units the first step, along the gradient, is of length one.
            value, slope = function(np.clip(start + _STEP * u, 0.0, 1.0))
            return value / steepness, _STEP * slope / steepness

        bounds = list(zip(-start / _STEP, (1.0 - start) / _STEP, strict=True))
        options = {"maxfun": max_evals, "maxls": 8, "ftol": rtol, "gtol": 1e-3}
        zeros = np.zeros_like(start)
        minimize(scaled, zeros, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return
    # From the start towards the middle of the cube along each axis.
    simplex = np.vstack([start, start + np.diag(np.where(start < 0.5, _EDGE, -_EDGE))])
    options = {"initial_simplex": simplex, "maxfev": max_evals, "xatol": 0.01, "fatol": rtol}
    cube = [(0.0, 1.0)] * start.size
    minimize(function, start, method="Nelder-Mead", bounds=cube, options=options)
