"""Samples of one kind, from which others are distinguished."""

from dataclasses import dataclass, replace

import numpy as np

from optimargin.targets import Target
from optimargin.tasks.base import Task, checked_total


@dataclass(frozen=True)
class OneClass(Task):
    """Normal samples: every target is one.

    A y that comes with the data is ignored.

    Attributes
    ----------
    total : float
        The sum of the weights.
    n_folds : int
        With folds there is one more output per fold: the model without it.
    seed : int
        Of the folds.
    """

    total: float
    n_folds: int = 0
    seed: int = 0

    needs_y = False

    @classmethod
    def of(cls, n_samples, sample_weight=None):
        """Return the task of that many samples."""
        with np.errstate(over="ignore"):  # `checked_total` raises
            total = float(n_samples if sample_weight is None else np.sum(sample_weight))
        return cls(checked_total(total))

    @property
    def n_outputs(self) -> int:
        """One score, and one per fold."""
        return 1 + self.n_folds

    def fold(self, n_samples):
        """Return the fold of each of the samples of a chunk: always the same ones."""
        rng = np.random.default_rng([self.seed, n_samples])
        return rng.permutation(n_samples) % self.n_folds

    def part(self, y, sample_weight=None) -> "OneClass":
        """Return the task of some of the samples."""
        return replace(self, total=self.of(len(y), sample_weight).total)

    def encode(self, y, sample_weight=None) -> list[Target]:
        """Return targets of one for as many samples as `y` has."""
        ones = np.ones(len(y))
        weight = ones if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        target = Target(ones, ones, weight / self.total)
        if self.n_folds == 0:
            return [target]
        fold = self.fold(len(y))
        return [target, *(target.without(fold == k) for k in range(self.n_folds))]

    def decode(self, scores):
        """Return 1 for normal samples and -1 for others, given scores less the threshold."""
        return np.where(scores[:, 0] < 0, -1, 1)

    @staticmethod
    def held_out_error(target, decision) -> float:
        """Return how far scores fall short of one, in the mean."""
        return float(target.weight @ np.maximum(target.value - decision, 0.0))

    @staticmethod
    def describe(y, weight) -> float:
        """Return the sum of the weights of a chunk."""
        return float(np.sum(weight))

    @classmethod
    def from_parts(cls, parts, *, n_folds=0, seed=0, **settings):
        """Return the task of all chunks."""
        return cls(checked_total(float(sum(parts))), n_folds, seed)
