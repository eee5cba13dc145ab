"""Losses of the shortfall: what a sample costs, and nothing about data, labels or solvers.

A loss l(r) is convex in the shortfall r = s (t - f) of a decision value f from its target t, with
orientation s (`optimargin.targets`). Its contribution to an objective is sum_i w_i l(r_i), and the
pull of a sample on its decision value is

    p_i = -w_i dl(r_i)/df_i = w_i s_i l'(r_i).

A new loss implements `terms` and `conjugate_terms`. It then works with every solver, with chunks,
with closed-form held-out values and with tuning; `tests/test_losses.py` checks any loss added to
its list. What may be added for speed or for a search by gradients is marked "optional".
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from optimargin._core._coordinate_descent import BandStep, PythonStep
from optimargin._core._losses import band_conjugate, band_derivatives, band_evaluate
from optimargin._linalg import line_search
from optimargin._threads import n_threads_for

_OPERATIONS_PER_SAMPLE = 20  # about what one costs in the compiled loops


class Loss(ABC):
    """A convex, differentiable loss of the shortfall.

    Closed-form held-out values need a piecewise quadratic one whose slope vanishes wherever its
    curvature does.
    """

    parameters: tuple[str, ...] = ()
    """Optional: what `parameter_slopes` differentiates by."""

    @abstractmethod
    def terms(self, shortfall):
        """Return l(r), l'(r) and l''(r), each of the shape of `shortfall`."""

    @abstractmethod
    def conjugate_terms(self, slope):
        """Return the convex conjugate ``max over r of slope r - l(r)``, infinite where it is."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """The largest second derivative."""

    def least(self, deviation: float) -> float:
        """Return what every constant prediction of targets costs, at least; optional.

        Gaps of regressors on chunks are relative to it. Zero, the default, is always true.

        Parameters
        ----------
        deviation : float
            The root mean square of the targets from the constant that is nearest to them.
        """
        return 0.0

    def is_quadratic_near(self, target, decision) -> bool:
        """Return whether the loss is piecewise quadratic, as far as some decision values tell.

        Optional: by default curvatures a little to the left or to the right have to be the same.
        """
        shortfall = target.shortfall(decision)[target.weight > 0]
        step = 1e-6 * (1.0 + np.abs(shortfall))  # less than samples are from each other
        here, left, right = (self.terms(shortfall + by)[2] for by in (0.0, -step, step))
        return bool(((here == left) | (here == right)).all())

    constant_curvature: float | None = None
    """The second derivative of a loss ``l(r) = c r**2 / 2``; optional, None for others.

    Outputs of such a loss that have the same weights share all factors.
    """

    half_width: float = np.inf
    """``l'(r) >= 0`` for ``r > half_width`` and ``l'(r) <= 0`` for ``r < -half_width``.

    Optional; with an intercept, fits to chunks have no certificate unless it is finite.
    """

    def evaluate(self, decision, target, offset=0.0):
        """Return value and derivatives over all samples, at decision values plus `offset`.

        Parameters
        ----------
        decision : ndarray of shape (n_samples,)
        target : Target
        offset : float

        Returns
        -------
        value : float
            ``sum(weight * loss)``.
        pull : ndarray of shape (n_samples,)
            Minus the derivatives of `value` by the decision values.
        curvature : ndarray of shape (n_samples,)
            The second derivatives; zero marks a sample that is not active.
        """
        value, slope, curvature = self.terms(target.shortfall(decision + offset))
        pull = target.weight * target.orientation * slope
        return float(target.weight @ value), pull, target.weight * curvature

    def derivatives(self, decision, target, length, *, offset=0.0, step=None, step_offset=0.0):
        """Return derivatives of the loss by the length of a step.

        Parameters
        ----------
        decision : ndarray of shape (n_samples,)
        target : Target
        length : float
            Decision values are ``decision + offset + length * (step + step_offset)``.
        offset, step_offset : float
        step : ndarray of shape (n_samples,), default=None
            Zeros when not given.

        Returns
        -------
        first : float
        magnitude : float
            The sum of the absolute terms of `first`, the scale of its rounding error.
        second : float
        """
        moved = np.full(decision.size, step_offset) if step is None else step + step_offset
        _, pull, curvature = self.evaluate(decision + length * moved, target, offset)
        terms = pull * moved
        return -terms.sum(), np.abs(terms).sum(), curvature @ (moved * moved)

    def conjugate(self, pull, target):
        """Return what pulls subtract from the dual objective, infinite if they are infeasible.

        That is ``sum(w * conjugate(s * pull / w) - t * pull)``.
        """
        used = target.weight > 0
        if pull[~used].any():
            return np.inf
        weight, signed = target.weight[used], (target.orientation * pull)[used]
        return float(weight @ self.conjugate_terms(signed / weight) - target.value @ pull)

    def coordinate_step(self, target):
        """Return the minimiser of the dual over one variable, for coordinate and stochastic steps.

        Optional: the default is written in Python, and slow.
        """
        return PythonStep(_ScalarRule(self, target))

    def parameter_slopes(self, pull, curvature, target):
        """Return how the quadratic pieces change with the parameters of the loss; optional.

        On its piece the pull of a sample is ``c (a - f)`` with its curvature c and aim a.

        Parameters
        ----------
        pull, curvature : ndarray of shape (n_samples,)
            As `evaluate` returned them, of active samples alone.
        target : Target
            Of the same samples.

        Returns
        -------
        log_curvature : ndarray of shape (n_parameters, n_samples)
            Derivatives of log c.
        aim : ndarray of shape (n_parameters, n_samples)
            Derivatives of a.
        """
        return np.zeros((0, pull.size)), np.zeros((0, pull.size))


class _ScalarRule:
    """One coordinate of the dual of any loss: p = pull(f + q (p - p_old)), a scalar equation.

    Its left side minus its right side increases in p.
    """

    def __init__(self, loss, target):
        self._loss = loss
        self._target = target

    def _terms(self, i, f):
        target = self._target
        s, w = target.orientation[i], target.weight[i]
        _, slope, curvature = self._loss.terms(np.array([s * (target.value[i] - f)]))
        return w * s * float(slope[0]), w * float(curvature[0])

    def pull(self, i, f):
        return self._terms(i, f)[0]

    def solve(self, i, q, p, f):
        def excess(new):
            pull, curvature = self._terms(i, f + q * (new - p))
            return new - pull, abs(new) + abs(pull), 1 + q * curvature

        return line_search(excess, start=p)

    def curvature(self, i, p):
        # Only scales the measure of progress: that of the penalty is enough.
        return 0.0


@dataclass(frozen=True)
class BandLoss(Loss):
    """``l(r) = C1 max(0, r - D)**2 + C2 max(0, -r - D)**2``.

    Quadratic on both sides of a band of half-width `D` around the target, inside which a sample
    costs nothing: the loss of the optimal margin distribution machine.
    """

    C1: float
    C2: float
    D: float

    parameters = ("log C1", "log C2", "D")

    def terms(self, shortfall):
        """Return l, l' and l''."""
        below, above = shortfall > self.D, shortfall < -self.D
        penalty = np.where(below, self.C1, 0.0) + np.where(above, self.C2, 0.0)
        distance = np.where(below, shortfall - self.D, 0.0)
        distance += np.where(above, shortfall + self.D, 0.0)
        return penalty * distance**2, 2 * penalty * distance, 2 * penalty

    def conjugate_terms(self, slope):
        """Return ``slope**2 / (4 C) + D |slope|`` with the C of its side."""
        slope = np.asarray(slope, dtype=np.result_type(slope, np.float64))
        with np.errstate(divide="ignore", invalid="ignore"):
            above = np.where(slope < 0, slope**2 / (4 * self.C2), 0.0)
        return np.where(slope > 0, slope**2 / (4 * self.C1), above) + self.D * np.abs(slope)

    def evaluate(self, decision, target, offset=0.0):
        """Return value, pull and curvature in one compiled pass."""
        pull = np.empty_like(decision)
        curvature = np.empty_like(decision)
        n_threads = n_threads_for(_OPERATIONS_PER_SAMPLE * decision.size)
        band = target.value, target.orientation, target.weight, self.C1, self.C2, self.D
        value = band_evaluate(decision, offset, *band, pull, curvature, n_threads)
        return value, pull, curvature

    def derivatives(self, decision, target, length, *, offset=0.0, step=None, step_offset=0.0):
        """Return derivatives by the length of a step in one compiled pass."""
        n_threads = n_threads_for(_OPERATIONS_PER_SAMPLE * decision.size)
        band = target.value, target.orientation, target.weight, self.C1, self.C2, self.D
        return band_derivatives(decision, offset, step, step_offset, *band, length, n_threads)

    def conjugate(self, pull, target):
        """Return what pulls subtract from the dual objective in one compiled pass."""
        band = target.value, target.orientation, target.weight, self.C1, self.C2, self.D
        return band_conjugate(pull, *band)

    def coordinate_step(self, target):
        """Return the compiled minimiser of the dual over one variable."""
        with np.errstate(divide="ignore"):
            ridge1 = 1.0 / (2 * self.C1 * target.weight)
            ridge2 = 1.0 / (2 * self.C2 * target.weight)
        return BandStep(target.value, target.orientation, ridge1, ridge2, self.D)

    def parameter_slopes(self, pull, curvature, target):
        """Return derivatives by log C1, log C2 and D.

        A sample below the band aims at ``t - s D`` with curvature ``2 C1 w``, one above it at
        ``t + s D`` with ``2 C2 w``.
        """
        below = target.orientation * pull > 0
        none = np.zeros(pull.size)
        outwards = np.where(below, -target.orientation, target.orientation)
        return (
            np.array([below, ~below, none], dtype=np.float64),
            np.array([none, none, outwards]),
        )

    def is_quadratic_near(self, target, decision):
        """Return True: it is piecewise quadratic."""
        return True

    def least(self, deviation):
        """Return ``min(C1, C2) max(0, deviation - D)**2``.

        The square of a distance beyond the band is convex in the squared distance, so that
        Jensen's inequality applies. Exact for C1 = C2 without a band.
        """
        return min(self.C1, self.C2) * max(deviation - self.D, 0.0) ** 2

    @property
    def smoothness(self) -> float:
        """The largest second derivative."""
        return 2 * max(self.C1, self.C2)

    @property
    def constant_curvature(self) -> float | None:  # type: ignore[override]
        """``2 C`` where C1 = C2 and D = 0."""
        return 2 * self.C1 if self.C1 == self.C2 and self.D == 0 else None

    @property
    def half_width(self) -> float:  # type: ignore[override]
        """The half-width of the band."""
        return self.D
