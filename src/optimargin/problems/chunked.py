"""The objective of `AdditiveProblem`, streamed in chunks.

    P(w, b) = 1/2 |w|^2 + sum over chunks of sum_i w_i l(s_i (t_i - phi_i' w - b))

Value, gradient and Hessian are sums over chunks. One round computes all of them at a point: a
few numbers go out to the chunks, their sums come back, and nothing as long as the data is ever
in one place. A round is the unit of cost, so the line search first tries the whole step and
the intercept is not minimised out. The certificate then has one more term: for v = sum_i p_i phi_i
and s = sum_i p_i, Fenchel's inequality gives for the optimal b*

    P(w, b) - P* <= 1/2 |w - v|^2 + s (b* - b) <= 1/2 |grad P(w)|^2 + |s| (|b*| + |b|).

At the optimum the pulls sum to zero: some are positive and some negative, or all vanish. With a
loss of half-width D that puts some decision value below max t + D and another above min t - D.
So with |w*|^2 <= 2 P* and rows of norm at most R, |b*| <= R (2 P)^1/2 + max |t| + D for any
P >= P*. At a Newton point s is rounding error.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optimargin.certificates import GAP_FLOOR, gap_floor_of_labels
from optimargin.problems import chunk_tasks
from optimargin.problems.base import Iterate, NotFiniteError
from optimargin.targets import LABELS

_LENGTHS = np.geomspace(1e-4, 1.0, 25)  # of a step that was too long
_GOOD_DECREASE = 0.5  # of the slope along a step, for it to be taken whole


@dataclass(frozen=True)
class ChunkedPoint(Iterate):
    """An iterate with everything that a round computed about it.

    Pulls are not kept: they are as long as the data.

    Attributes
    ----------
    gradient : ndarray of shape (n_coef + 1,)
        In w, then in b.
    second : ndarray
        See `chunk_tasks.evaluate`.
    """

    coef: np.ndarray
    intercept: float
    value: float
    gradient: np.ndarray
    second: np.ndarray
    gap: float
    gap_floor: float = GAP_FLOOR
    pull: ClassVar[np.ndarray] = np.empty(0)  # type: ignore[misc]


class ChunkedProblem:
    """A loss of the shortfalls over chunks, for one output.

    Parameters
    ----------
    loss : Loss
    output : int
        Which of the targets of a chunk is meant.
    ask : callable
        Given a `chunk_tasks.Request`, it returns the sums over all chunks.
    whitening : Whitening or NoWhitening
        From the features of a chunk to orthonormal coordinates.
    largest_norm : float
        No row of features is longer.
    largest_target : float
        No target is larger, in absolute value.
    fit_intercept : bool
    factorise : bool
        Whether a round computes the whole Hessian.
    scale : Scale, default=LABELS
        What the targets are measured in.
    """

    design = None  # that of each chunk

    def __init__(
        self,
        loss,
        output,
        ask,
        whitening,
        *,
        largest_norm,
        largest_target,
        fit_intercept,
        factorise,
        scale=LABELS,
    ):
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.factorise = factorise
        self.n_coef = whitening.size
        self._output = output
        self._ask = ask
        self._whitening = whitening
        self._largest_norm = largest_norm
        self._largest_target = largest_target
        # The objective of the best constant model would take passes of its own to find: a lower
        # bound of it makes gaps no smaller.
        if scale.deviation is None:
            self.gap_floor = gap_floor_of_labels(loss)
        else:
            self.gap_floor = loss.least(scale.deviation)

    def point(self, coef=None, intercept=0.0):
        """Return the iterate at `coef` and `intercept`: one round."""
        coef = np.zeros(self.n_coef) if coef is None else coef
        loss, first, second = self._reduce(
            chunk_tasks.evaluate, self._whitening.for_rows(coef), intercept, self.factorise
        )
        if not (np.isfinite(loss) and np.isfinite(first).all()):
            raise NotFiniteError(
                "The loss over the chunks is not finite: their values must be finite and the "
                "same every time they are read."
            )
        value = loss + 0.5 * coef @ coef
        gradient = np.append(coef - self._whitening.of_sum(first[:-1]), -first[-1])
        gap = 0.5 * gradient[:-1] @ gradient[:-1]
        if self.fit_intercept:
            reach = self._largest_norm * np.sqrt(2 * value) + self._largest_target
            gap += abs(gradient[-1]) * (reach + self.loss.half_width + abs(intercept))
        second = self._whitening.of_gram(second) if self.factorise else second
        return ChunkedPoint(coef, intercept, value, gradient, second, gap, self.gap_floor)

    def hessian_product(self, point, v):
        """Return the Hessian of the loss at `point` times (v, 0): one round."""
        product = self._reduce(
            chunk_tasks.hessian_product,
            self._whitening.for_rows(point.coef),
            point.intercept,
            self._whitening.for_rows(v),
        )
        return self._whitening.of_sum(product[:-1]), product[-1]

    def step(self, point, coef_step, intercept_step):
        """Move along a direction, all the way or near the minimum of the objective on it.

        Returns
        -------
        point : ChunkedPoint
        length : float
            The step length; 0 when the direction does not descend.
        """
        direction = np.append(coef_step, intercept_step)
        slope = point.gradient @ direction
        if not slope < 0:
            return point, 0.0
        whole = self.point(point.coef + coef_step, point.intercept + intercept_step)
        if whole.gradient @ direction <= -_GOOD_DECREASE * slope and whole.value <= point.value:
            return whole, 1.0
        length = self._search(point, coef_step, intercept_step, slope)
        moved = self.point(
            point.coef + length * coef_step, point.intercept + length * intercept_step
        )
        if moved.value < point.value or moved.gap < point.gap:
            return moved, length
        return point, 0.0

    def _search(self, point, coef_step, intercept_step, slope):
        """Return where the slope along a step vanishes, by one round.

        The slope is increasing and piecewise linear in the length: between two lengths
        where it changes sign it is taken as linear.
        """
        loss_slopes = self._reduce(
            chunk_tasks.slopes,
            (self._whitening.for_rows(point.coef), point.intercept),
            (self._whitening.for_rows(coef_step), intercept_step),
            _LENGTHS,
        )
        penalty = point.coef @ coef_step + _LENGTHS * (coef_step @ coef_step)
        slopes = np.maximum.accumulate(np.append(slope, loss_slopes + penalty))
        return float(np.interp(0.0, slopes, np.append(0.0, _LENGTHS)))

    def _reduce(self, function, *arguments):
        return self._ask(chunk_tasks.Request(function, self._output, self.loss, arguments))
