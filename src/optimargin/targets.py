"""What decision values are compared with: one target, orientation and weight per sample."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Target:
    """What one output is asked for.

    A loss looks at the shortfall ``r = orientation * (value - f)`` of a decision value f: how far
    it falls short of its target in the direction that counts.

    Attributes
    ----------
    value : ndarray of shape (n_samples,)
    orientation : ndarray of shape (n_samples,)
        -1 or +1; may be the same array as `value`.
    weight : ndarray of shape (n_samples,)
        Non-negative sample weights that sum to one.
    """

    value: np.ndarray
    orientation: np.ndarray
    weight: np.ndarray

    @property
    def n_samples(self) -> int:
        """The number of samples."""
        return self.value.size

    def shortfall(self, decision: np.ndarray) -> np.ndarray:
        """Return how far decision values fall short of the targets."""
        return self.orientation * (self.value - decision)

    def take(self, rows) -> "Target":
        """Return the target of the samples `rows` alone, their weights summing to one again."""
        weight = self.weight[rows]
        return Target(self.value[rows], self.orientation[rows], weight / weight.sum())

    def without(self, rows) -> "Target":
        """Return the target with samples left out: their weight is zero, the others' is kept."""
        weight = self.weight.copy()
        weight[rows] = 0.0
        return Target(self.value, self.orientation, weight)
