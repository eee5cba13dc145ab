"""Losses of the margin: what a sample costs, and nothing about data or solvers.

A loss l(g) is convex in the margin g. With sample weights w its contribution to the
objective is sum_i w_i l(g_i), and its dual variables are d_i = -w_i l'(g_i).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from optimargin._core._coordinate_descent import ODMStep
from optimargin._core._losses import odm_derivatives, odm_evaluate
from optimargin._threads import n_threads_for

_OPERATIONS = 20  # that one sample takes


class Loss(ABC):
    """A convex, differentiable loss of the margin.

    A new loss implements the two abstract methods; `tests/problems/test_losses.py` checks any
    loss added to its list.
    """

    @abstractmethod
    def evaluate(self, margin, weight):
        """Value and derivatives over all samples.

        Parameters
        ----------
        margin : ndarray of shape (n_samples,)
        weight : ndarray of shape (n_samples,)

        Returns
        -------
        value : float
            ``sum(weight * loss(margin))``.
        dual : ndarray of shape (n_samples,)
            ``-weight * loss'(margin)``.
        curvature : ndarray of shape (n_samples,)
            ``weight * loss''(margin)``; zero marks a sample that is not active.
        """

    @abstractmethod
    def conjugate(self, dual, weight):
        """Return ``sum(weight * loss*(-dual / weight))``, infinite where dual is infeasible."""

    def derivatives(self, margin, slope, weight, t):
        """Return derivatives in t of ``sum(weight * loss(margin + t * slope))``.

        Returns
        -------
        first : float
        magnitude : float
            The sum of the absolute terms of `first`, the scale of its rounding error.
        second : float
        """
        _, dual, curvature = self.evaluate(margin + t * slope, weight)
        terms = dual * slope
        return -terms.sum(), np.abs(terms).sum(), curvature @ (slope * slope)


@dataclass(frozen=True)
class ODMLoss(Loss):
    """The loss of the optimal margin distribution machine.

    ``l(g) = C1 max(0, 1 - D - g)**2 + C2 max(0, g - 1 - D)**2``: quadratic on both sides of
    a band of half-width `D` around margin 1, inside which a sample costs nothing.
    """

    C1: float
    C2: float
    D: float

    def evaluate(self, margin, weight):
        dual = np.empty_like(margin)
        curvature = np.empty_like(margin)
        n_threads = n_threads_for(_OPERATIONS * margin.size)
        value = odm_evaluate(margin, weight, self.C1, self.C2, self.D, dual, curvature, n_threads)
        return value, dual, curvature

    def derivatives(self, margin, slope, weight, t):
        n_threads = n_threads_for(_OPERATIONS * margin.size)
        return odm_derivatives(margin, slope, weight, self.C1, self.C2, self.D, t, n_threads)

    def conjugate(self, dual, weight):
        below, above = dual > 0, dual < 0
        if self.C2 == 0 and above.any():
            return np.inf
        total = np.sum(
            dual[below] ** 2 / (4 * self.C1 * weight[below]) - (1 - self.D) * dual[below]
        )
        if self.C2 > 0:
            total += np.sum(
                dual[above] ** 2 / (4 * self.C2 * weight[above]) - (1 + self.D) * dual[above]
            )
        return float(total)

    def coordinate_step(self, weight):
        """Return the compiled minimiser of the dual over one variable."""
        with np.errstate(divide="ignore"):
            ridge1 = 1.0 / (2 * self.C1 * weight)
            ridge2 = 1.0 / (2 * self.C2 * weight)
        return ODMStep(ridge1, ridge2, self.D)

    @property
    def smoothness(self):
        """The largest second derivative."""
        return 2 * max(self.C1, self.C2)
