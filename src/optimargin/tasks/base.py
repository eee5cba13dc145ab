"""What every task offers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from optimargin.targets import LABELS, Scale, Target


class Task(ABC):
    """What y means.

    Attributes
    ----------
    total : float
        The sum of all weights, which targets are normalised by.
    needs_y : bool
        Whether there has to be a y at all.
    """

    total: float
    needs_y: ClassVar[bool] = True

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """The number of decision values per sample."""

    @property
    def largest_target(self) -> float:
        """No target is larger, in absolute value. Labels are -1 and +1."""
        return 1.0

    @property
    def scales(self) -> Sequence[Scale]:
        """What the targets of each output are measured in."""
        return [LABELS] * self.n_outputs

    @abstractmethod
    def part(self, y, sample_weight=None) -> "Task":
        """Return the task of some of the samples, whose weights are normalised anew.

        Decision values mean the same in it: its targets are measured on the same scales.
        """

    def strata(self, y):
        """Return strata, integers from 0 of shape (n_samples,), which folds share evenly."""
        return np.zeros(len(y), dtype=np.intp)

    @abstractmethod
    def encode(self, y, sample_weight=None) -> list[Target]:
        """Return the targets of some samples, one per output.

        Parameters
        ----------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : ndarray of shape (n_samples,) or None

        Returns
        -------
        targets : list of Target
            Over all samples of the task, the weights of each sum to one.
        """

    @abstractmethod
    def decode(self, scores):
        """Return the predictions that decision values of shape (n_samples, n_outputs) mean.

        The values are those of a trained model, in the units of y.
        """

    @staticmethod
    @abstractmethod
    def held_out_error(target: Target, decision) -> float:
        """Return how bad held-out decision values of one output are; smaller is better."""

    def attributes(self) -> dict[str, Any]:
        """Return what a fitted estimator says about y."""
        return {}

    @staticmethod
    @abstractmethod
    def describe(y, weight) -> Any:
        """Return all that has to be known of the y of one chunk, checked."""

    @classmethod
    @abstractmethod
    def from_parts(cls, parts, **settings) -> "Task":
        """Return the task of all chunks, given what `describe` returned of each."""


def checked_total(total):
    """Return the sum of the weights of all samples, checked."""
    if not np.isfinite(total):
        raise ValueError("sample_weight overflows when summed: use smaller weights.")
    if total <= 0:
        raise ValueError(
            "sample_weight is zero for every sample: at least one needs a positive weight."
        )
    return total
