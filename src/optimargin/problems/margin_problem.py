"""The one objective behind every learner, and the certificate that it was minimised.

Primal   min over w, b   P(w, b) = 1/2 |w|^2 + sum_i w_i l(g_i),   g_i = y_i (phi_i' w + b)
Dual     max over d      D(d) = -1/2 |sum_i y_i d_i phi_i|^2 - sum_i w_i l*(-d_i / w_i)
         subject to sum_i y_i d_i = 0 when the intercept b is fitted.

For any w the point d_i = -w_i l'(g_i) is dual feasible (with an intercept: once b minimises
P for that w), and Fenchel's inequality is tight sample by sample, so that

    P(w, b) - D(d) = 1/2 |w - sum_i y_i d_i phi_i|^2 = 1/2 |grad P(w)|^2:

the duality gap of every iterate costs one norm.

Reference: T. Zhang and Z.-H. Zhou, Optimal Margin Distribution Machine, TKDE 2020.
"""

from dataclasses import dataclass

import numpy as np

GAP_FLOOR = 1e-3  # keeps the relative gap meaningful when the objective is near zero


def relative_gap(value, gap):
    """Return a duality gap relative to the objective; infinite where it overflows."""
    if not np.isfinite(gap):
        return np.inf
    return gap / max(abs(value), abs(value - gap), GAP_FLOOR)


@dataclass(frozen=True)
class Point:
    """An iterate with everything that was computed about it.

    Attributes
    ----------
    coef : ndarray
        Coefficients in the design's own representation.
    intercept : float
    decision : ndarray of shape (n_samples,)
        Decision values without the intercept.
    value : float
        The primal objective.
    dual, curvature : ndarray of shape (n_samples,)
        See `Loss.evaluate`.
    residual, residual_image : ndarray
        The gradient in w, in the design's representation, and the metric applied to it (where
        it is needed: see `KernelDesign.residual_image`).
    gap : float
        The duality gap.
    """

    coef: np.ndarray
    intercept: float
    decision: np.ndarray
    value: float
    dual: np.ndarray
    curvature: np.ndarray
    residual: np.ndarray
    residual_image: np.ndarray
    gap: float

    @property
    def relative_gap(self):
        """The duality gap relative to the objective; infinite where it overflows."""
        return relative_gap(self.value, self.gap)


class MarginProblem:
    """A loss of the margins over a design matrix.

    Parameters
    ----------
    loss : Loss
    design : FeatureDesign or KernelDesign
    y : ndarray of shape (n_samples,)
        Labels, -1 or +1.
    weight : ndarray of shape (n_samples,)
        Positive sample weights that sum to one.
    fit_intercept : bool
    """

    def __init__(self, loss, design, y, weight, *, fit_intercept):
        self.loss = loss
        self.design = design
        self.y = y
        self.weight = weight
        self.fit_intercept = fit_intercept

    def point(self, coef=None, intercept=0.0, decision=None):
        """Return the iterate at `coef`, its intercept moved to the exact minimum."""
        if coef is None:
            coef = np.zeros(self.design.n_coef)
            decision = np.zeros(self.design.n_samples)
        elif decision is None:
            decision = self.design.decision(coef)
        value, intercept, dual, curvature = self._evaluate(coef, intercept, decision)
        pull = self.y * dual
        residual = coef - self.design.represent(pull)
        residual_image, square = self.design.residual_image(residual, coef, decision, pull)
        gap = 0.5 * max(square, 0.0)
        return Point(
            coef, intercept, decision, value, dual, curvature, residual, residual_image, gap
        )

    def value(self, coef, intercept, decision):
        """Return the objective at `coef`, and the intercept moved to the exact minimum."""
        return self._evaluate(coef, intercept, decision)[:2]

    def _evaluate(self, coef, intercept, decision):
        if self.fit_intercept:
            margin = self.y * (decision + intercept)
            intercept += self._minimise_along(margin, self.y, start=0.0, rtol=0.0)
        loss, dual, curvature = self.loss.evaluate(self.y * (decision + intercept), self.weight)
        # max: rounding must not turn the square of a zero into a negative number.
        value = loss + 0.5 * max(coef @ self.design.metric(coef, decision), 0.0)
        return value, intercept, dual, curvature

    def step(self, point, coef_step, intercept_step, decision_step=None, *, rtol=1e-3):
        """Move along a direction, near the minimum of the objective on that line.

        Parameters
        ----------
        point : Point
        coef_step : ndarray
        intercept_step : float
        decision_step : ndarray of shape (n_samples,), default=None
            The step in the decision values, where it is known.
        rtol : float
            The slope along the direction that is left, relative to that at `point`. A step of
            length one is tried first.

        Returns
        -------
        point : Point
        length : float
            The step length; 0 when the direction does not descend.
        """
        if decision_step is None:
            decision_step = self.design.decision_step(coef_step, point.coef, point.decision)
        margin = self.y * (point.decision + point.intercept)
        image = self.design.metric(coef_step, decision_step)
        linear = point.coef @ image
        quadratic = max(coef_step @ image, 0.0)
        length = self._minimise_along(
            margin,
            self.y * (decision_step + intercept_step),
            linear=linear,
            quadratic=quadratic,
            start=1.0,
            rtol=rtol,
        )
        if length <= 0:
            return point, 0.0
        moved = self.point(
            point.coef + length * coef_step,
            point.intercept + length * intercept_step,
            point.decision + length * decision_step,
        )
        return moved, length

    def curvature_after(self, point, coef_step, intercept_step):
        """Return the curvature of the loss after a step of length one."""
        decision = point.decision + self.design.decision(coef_step)
        margin = self.y * (decision + point.intercept + intercept_step)
        return self.loss.evaluate(margin, self.weight)[2]

    def dual_value(self, dual):
        """Return D(dual); with an intercept `dual` must satisfy ``sum(y * dual) == 0``."""
        w = self.design.represent(self.y * dual)
        return -0.5 * w @ self.design.metric(w) - self.loss.conjugate(dual, self.weight)

    def _minimise_along(self, margin, slope, *, linear=0.0, quadratic=0.0, start, rtol):
        """Minimise ``t linear + t^2 quadratic / 2 + loss(margin + t slope)`` over t.

        The derivative is continuous, increasing and piecewise linear, so Newton's method kept
        inside a bracket ends after a few evaluations of O(n_samples) each.
        """
        low, high = -np.inf, np.inf
        allowed = 0.0
        if rtol > 0:
            at_zero = self.loss.derivatives(margin, slope, self.weight, 0.0)[0]
            allowed = rtol * abs(linear + at_zero)
        t = start
        for _ in range(100):
            first, magnitude, second = self.loss.derivatives(margin, slope, self.weight, t)
            derivative = linear + t * quadratic + first
            magnitude += abs(linear) + abs(t) * quadratic
            if abs(derivative) <= max(allowed, 4 * np.finfo(float).eps * magnitude):
                break
            if derivative < 0:
                low = t
            else:
                high = t
            second += quadratic
            t = t - derivative / second if second > 0 else np.inf
            if not low < t < high:
                if np.isfinite(low) and np.isfinite(high):
                    t = 0.5 * (low + high)
                    if t in (low, high):
                        break
                else:
                    # No curvature here and no bracket yet: double outwards.
                    t = 2 * low + 1 if np.isfinite(low) else 2 * high - 1
        return t
