"""The one objective behind every learner with a loss, and the certificate that it was minimised.

Primal   min over w, b   P(w, b) = 1/2 |w|^2 + sum_i w_i l(r_i),   r_i = s_i (t_i - phi_i' w - b)
Dual     max over p      D(p) = -1/2 |sum_i p_i phi_i|^2 - sum_i [w_i l*(s_i p_i / w_i) - t_i p_i]
         subject to sum_i p_i = 0 when the intercept b is fitted.

For any w the pulls p_i = w_i s_i l'(r_i) are dual feasible (with an intercept: once b minimises
P for that w), and Fenchel's inequality is tight sample by sample, so that

    P(w, b) - D(p) = 1/2 |w - sum_i p_i phi_i|^2 = 1/2 |grad P(w)|^2:

the duality gap of every iterate costs one norm.

Reference: T. Zhang and Z.-H. Zhou, Optimal Margin Distribution Machine, TKDE 2020.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optimargin._linalg import line_search
from optimargin.certificates import gap_floor_of_labels
from optimargin.designs.base import Design
from optimargin.losses import Loss
from optimargin.problems.base import Iterate
from optimargin.targets import Target

# Targets are about one: the sum over samples cannot tell intercepts apart that differ by less.
_SETTLED = np.finfo(np.float64).eps


@dataclass(frozen=True)
class Point(Iterate):
    """An iterate with everything that was computed about it.

    Attributes
    ----------
    decision : ndarray of shape (n_samples,)
        Decision values without the intercept.
    pull, curvature : ndarray of shape (n_samples,)
        See `Loss.evaluate`.
    residual, residual_image : ndarray
        The gradient in w, in the design's representation, and the metric applied to it (where
        it is needed: see `Design.residual_image`).
    """

    coef: np.ndarray
    intercept: float
    decision: np.ndarray
    value: float
    pull: np.ndarray
    curvature: np.ndarray
    residual: np.ndarray
    residual_image: np.ndarray
    gap: float
    gap_floor: float


class AdditiveProblem:
    """A loss of the shortfalls over a design matrix.

    Parameters
    ----------
    loss : Loss
    design : Design
    target : Target
    fit_intercept : bool
    """

    def __init__(self, loss: Loss, design: Design, target: Target, *, fit_intercept: bool):
        self.loss = loss
        self.design = design
        self.target = target
        self.scale = target.scale
        self.fit_intercept = fit_intercept

    @cached_property
    def gap_floor(self):
        """What gaps are relative to when the objective is near zero.

        Numbers have no size of their own as labels have. The best constant model, whose objective
        no optimum exceeds, tells what is small.
        """
        if self.target.scale.deviation is None:
            return gap_floor_of_labels(self.loss)
        none = np.zeros(self.target.n_samples)
        best = 0.0
        if self.fit_intercept:
            best = self._minimise_along(none, 0.0, None, 1.0, start=0.0, rtol=0.0)
        return self.loss.evaluate(none, self.target, best)[0]

    def over(self, design, rows=None):
        """Return the same problem over another design, of all samples or of some of them."""
        target = self.target if rows is None else self.target.take(rows)
        return AdditiveProblem(self.loss, design, target, fit_intercept=self.fit_intercept)

    def without(self, rows, share=1.0):
        """Return the problem with a share of the samples `rows` left out, by default all of it.

        The weights of the others are kept.
        """
        target = self.target.without(rows, share)
        return AdditiveProblem(self.loss, self.design, target, fit_intercept=self.fit_intercept)

    def point(self, coef=None, intercept=0.0, decision=None):
        """Return the iterate at `coef`, its intercept moved to the exact minimum."""
        design = self.design
        if coef is None:
            coef = np.zeros(design.n_coef)
            decision = np.zeros(design.n_samples)
        elif decision is None:
            decision = design.decision(coef)
        value, intercept, pull, curvature = self.evaluate(coef, intercept, decision)
        residual = coef - design.represent(pull)
        residual_image, square = design.residual_image(residual, coef, decision, pull)
        gap = 0.5 * max(square, 0.0)
        return Point(
            coef,
            intercept,
            decision,
            value,
            pull,
            curvature,
            residual,
            residual_image,
            gap,
            self.gap_floor,
        )

    def objective_at(self, coef, intercept):
        """Return the objective of these numbers, the intercept left as it is."""
        decision = self.design.decision(coef)
        loss = self.loss.evaluate(decision, self.target, intercept)[0]
        return loss + 0.5 * max(coef @ self.design.metric(coef, decision), 0.0)

    def evaluate(self, coef, intercept, decision):
        """Return the objective at `coef`, the best intercept, and the pulls and curvatures there.

        Parameters
        ----------
        coef : ndarray
        intercept : float
            Where to begin.
        decision : ndarray of shape (n_samples,)
            Without the intercept.
        """
        if self.fit_intercept:
            intercept += self._minimise_along(decision, intercept, None, 1.0, start=0.0, rtol=0.0)
        loss, pull, curvature = self.loss.evaluate(decision, self.target, intercept)
        if self.fit_intercept and not curvature.any():
            intercept += self._to_the_middle(decision, intercept)
        # max: rounding must not turn the square of a zero into a negative number.
        value = loss + 0.5 * max(coef @ self.design.metric(coef, decision), 0.0)
        return value, intercept, pull, curvature

    def _to_the_middle(self, decision, intercept):
        """Return how far the intercept is from the middle of those at which nothing costs.

        From there a step is longest: at their end the first sample to leave the band stops it.
        """
        error = (self.target.value - decision - intercept)[self.target.weight > 0]
        low, high = error.min(), error.max()
        in_band = max(-low, high) <= self.loss.half_width < np.inf
        return 0.5 * (low + high) if in_band else 0.0

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
        image = self.design.metric(coef_step, decision_step)
        linear = point.coef @ image
        quadratic = max(coef_step @ image, 0.0)
        length = self._minimise_along(
            point.decision,
            point.intercept,
            decision_step,
            intercept_step,
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
        return self.loss.evaluate(decision, self.target, point.intercept + intercept_step)[2]

    def dual_value(self, pull):
        """Return D(pull); with an intercept the pulls must sum to zero."""
        w = self.design.represent(pull)
        return -0.5 * w @ self.design.metric(w) - self.loss.conjugate(pull, self.target)

    def _minimise_along(
        self, decision, offset, step, step_offset, *, linear=0.0, quadratic=0.0, start, rtol
    ):
        """Minimise ``t linear + t^2 quadratic / 2 + loss`` over the length t of a step."""

        def derivatives(length):
            first, magnitude, second = self.loss.derivatives(
                decision, self.target, length, offset=offset, step=step, step_offset=step_offset
            )
            magnitude += abs(linear) + abs(length) * quadratic
            return linear + length * quadratic + first, magnitude, quadratic + second

        if rtol == 0:
            return line_search(derivatives, start=start, settled=_SETTLED)
        return line_search(derivatives, start=start, allowed=rtol * abs(derivatives(0.0)[0]))
