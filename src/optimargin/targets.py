"""What decision values are compared with: a target, orientation and weight per sample."""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Scale:
    """What the values of a target are measured in: ``y = center + unit * value``.

    Problems are solved for values of unit size; solutions are then converted to the units of y.

    Attributes
    ----------
    center : float
    unit : float
        A power of two, by which numbers are multiplied without rounding.
    deviation : float or None
        The root mean square of the values; gaps are relative to it. None for labels.
    """

    center: float = 0.0
    unit: float = 1.0
    deviation: float | None = None

    def standardised(self, coef, intercept):
        """Return a model in the units of y as one of the values."""
        return coef / self.unit, (intercept - self.center) / self.unit

    def restored(self, decision):
        """Return decision values, or an intercept, in the units of y."""
        return self.center + self.unit * decision


LABELS = Scale()


@dataclass(frozen=True)
class Target:
    """The targets of one output.

    A loss looks at the shortfall ``r = orientation * (value - f)`` of a decision value f: how far
    it falls short of its target in the direction that counts.

    Attributes
    ----------
    value : ndarray of shape (n_samples,)
    orientation : ndarray of shape (n_samples,)
        -1 or +1; may be the same array as `value`.
    weight : ndarray of shape (n_samples,)
        Non-negative sample weights. They sum to one. An output that does not use some of the
        samples has weights of zero there, and the sum is the share of the others.
    scale : Scale
        What the values are measured in.
    """

    value: np.ndarray
    orientation: np.ndarray
    weight: np.ndarray
    scale: Scale = LABELS

    @property
    def n_samples(self) -> int:
        """The number of samples."""
        return self.value.size

    def shortfall(self, decision: np.ndarray) -> np.ndarray:
        """Return how far decision values fall short of the targets."""
        return self.orientation * (self.value - decision)

    def take(self, rows, total=None) -> "Target":
        """Return the target of the samples `rows` alone.

        Their weights are divided by `total`, or sum to one again.
        """
        weight = self.weight[rows]
        return replace(
            self,
            value=self.value[rows],
            orientation=self.orientation[rows],
            weight=weight / (weight.sum() if total is None else total),
        )

    def without(self, rows, share=1.0) -> "Target":
        """Return the target with samples left out: their weight is zero, the others' is kept.

        With a `share` below one, as much of their weight is left out, and the rest is kept.
        """
        weight = self.weight.copy()
        weight[rows] *= 1.0 - share
        return replace(self, weight=weight)


def shared_weight(targets) -> np.ndarray:
    """Return the weights of the samples: the largest of all outputs."""
    first = targets[0].weight
    if all(target.weight is first for target in targets):
        return first
    return np.maximum.reduce([target.weight for target in targets])
