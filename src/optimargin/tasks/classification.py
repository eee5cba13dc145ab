"""Classification: labels become targets, and scores become labels."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from optimargin.targets import Target
from optimargin.tasks.base import Task, checked_total


@dataclass(frozen=True)
class Classification(Task):
    """Labels of two classes, or of several: each against the rest, or every pair of them.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        The labels, sorted.
    factor : ndarray of shape (n_classes,)
        What the sample weights of each class are multiplied with.
    total : float
        The sum of the weights times the factors.
    class_weight : dict, "balanced" or None
        Where the factors come from.
    multi_class : {"ovr", "ovo"}
        With several classes there is one output per class, on all samples, or one per pair of
        classes, on the samples of these two.
    """

    classes: np.ndarray
    factor: np.ndarray
    total: float
    class_weight: Any = None
    multi_class: str = "ovr"

    @classmethod
    def from_labels(cls, y, sample_weight=None, class_weight=None, classes=None, multi_class="ovr"):
        """Return the task of labels.

        Parameters
        ----------
        y : ndarray of shape (n_samples,)
        sample_weight : ndarray of shape (n_samples,) or None
        class_weight : dict, "balanced" or None
        classes : ndarray of shape (n_classes,), default=None
            The labels, where `y` may lack some of them: a class that does not occur has no
            weight. By default those of `y`, of which there must be two.
        multi_class : {"ovr", "ovo"}
        """
        if classes is None:
            classes = np.unique(y)
        encoded = index_of(classes, y)
        totals = np.bincount(encoded, weights=sample_weight, minlength=classes.size)
        present = np.bincount(encoded, minlength=classes.size) > 0
        totals = totals.astype(np.float64)
        return cls.from_totals(classes, totals, class_weight, present, multi_class)

    @classmethod
    def from_totals(cls, classes, totals, class_weight=None, present=None, multi_class="ovr"):
        """Return the task of classes, given the sums of their sample weights.

        A class that is not `present` has no weight, and needs none.
        """
        if classes.size < 2:
            raise ValueError(
                f"y has one class only ({classes.tolist()[0]!r}): a classifier needs samples of at "
                "least two classes."
            )
        checked_total(totals.sum())
        present = np.ones(classes.size, dtype=bool) if present is None else present
        factor = _class_factors(classes, totals, class_weight, n_present=present.sum())
        factor = np.where(present, factor, 0.0)
        with np.errstate(over="ignore"):
            total = float(totals @ factor)
        if not np.isfinite(total):
            raise ValueError(
                "sample_weight times class_weight overflows when summed: use smaller weights."
            )
        empty = classes[present & (totals * factor == 0)]
        if empty.size:
            raise ValueError(
                f"All samples of class {empty.tolist()[0]!r} have zero weight (sample_weight times "
                "class_weight): give the class a positive weight or remove it from y."
            )
        return cls(classes, factor, total, class_weight, multi_class)

    def part(self, y, sample_weight=None):
        """Return the task of some of the samples: class weights are applied anew."""
        return self.from_labels(y, sample_weight, self.class_weight, self.classes, self.multi_class)

    @classmethod
    def of_stream(cls, classes, class_weight=None):
        """Return the task of labels that keep coming: weights are not normalised."""
        if classes.size < 2:
            raise ValueError("classes has one class only: list every label of the stream.")
        factor = _class_factors(classes, np.ones(classes.size), class_weight, classes.size)
        return cls(classes, factor, 1.0)

    @property
    def n_outputs(self) -> int:
        """One for two classes, otherwise one per class, or per pair of classes."""
        if self.is_pairwise:
            return len(self.pairs)
        return 1 if self.classes.size == 2 else self.classes.size

    @property
    def is_pairwise(self) -> bool:
        """Whether there is an output per pair of classes."""
        return self.multi_class == "ovo" and self.classes.size > 2

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of classes; positive values of an output speak for the second."""
        return list(combinations(range(self.classes.size), 2))

    def encode(self, y, sample_weight=None) -> list[Target]:
        """Return targets of -1 and +1; +1 for ``classes[1]``, or for the class of the output.

        An output of a pair has weights for the samples of the pair, with the sum of their share.
        """
        encoded = index_of(self.classes, y)
        weight = (self.factor / self.total)[encoded]
        if sample_weight is not None:
            weight = weight * np.asarray(sample_weight, dtype=np.float64)
        if self.is_pairwise:
            return [
                Target(sign, sign, np.where((encoded == i) | (encoded == j), weight, 0.0))
                for i, j in self.pairs
                for sign in [np.where(encoded == j, 1.0, -1.0)]
            ]
        positives = [1] if self.classes.size == 2 else range(self.classes.size)
        signs = [2.0 * (encoded == k) - 1.0 for k in positives]
        return [Target(sign, sign, weight) for sign in signs]

    def strata(self, y):
        """Return the index of each label."""
        return index_of(self.classes, y)

    def combine(self, decision):
        """Return values per class of the decision values of all outputs, the last axis.

        Those of pairs become votes plus confidence, as scikit-learn counts them: the number of
        pairs that a class wins, and less than half a vote for the sum of their values.
        """
        if not self.is_pairwise:
            return decision
        return votes_and_confidence(decision, *self.voting())

    def voting(self):
        """Return arrays of shape (n_pairs, n_classes): which class is first, and second, in each.

        `votes_and_confidence` is linear in them.
        """
        pairs = np.array(self.pairs)
        identity = np.eye(self.classes.size)
        return identity[pairs[:, 0]], identity[pairs[:, 1]]

    def decode(self, scores):
        """Return the label of the class that wins each row of decision values."""
        return self.classes[winning_class(self.combine(scores))]

    @staticmethod
    def held_out_error(target, decision) -> float:
        """Return the share of samples on the wrong side."""
        return float(target.weight @ (target.orientation * decision <= 0))

    def attributes(self) -> dict[str, Any]:
        """Return the labels, and whether outputs are those of pairs."""
        found: dict[str, Any] = {"classes_": self.classes}
        return {**found, "_pairwise": True} if self.is_pairwise else found

    @staticmethod
    def describe(y, weight):
        """Return the labels of a chunk, and the sums of their weights."""
        y = column_or_1d(y)
        if len(y):
            check_classification_targets(y)
        labels, encoded = np.unique(y, return_inverse=True)
        return labels, np.bincount(encoded, weights=weight, minlength=labels.size)

    @classmethod
    def from_parts(cls, parts, class_weight=None, multi_class="ovr", **settings):
        """Return the task of the labels of all chunks."""
        classes = np.unique(np.concatenate([labels for labels, _ in parts]))
        check_in_memory(classes, multi_class)
        totals = np.zeros(classes.size)
        for labels, weights in parts:
            totals[np.searchsorted(classes, labels)] += weights
        return cls.from_totals(classes, totals, class_weight)


def votes_and_confidence(decision, first, second):
    """Return the votes for each class, and less than half a vote for its confidence.

    Parameters
    ----------
    decision : ndarray of shape (..., n_pairs)
        Positive values speak for the second class of the pair.
    first, second : ndarray of shape (n_pairs, n_classes)
    """
    is_second = decision > 0
    confidence = decision @ (second - first)
    votes = is_second @ second + ~is_second @ first
    return votes + confidence / (3 * (np.abs(confidence) + 1))


def winning_class(scores):
    """Return the index of the class that wins each row of decision values, the last axis."""
    if scores.shape[-1] == 1:
        return (scores[..., 0] > 0).astype(np.intp)
    return scores.argmax(axis=-1)


def index_of(classes, y):
    """Return the index of each label among sorted classes."""
    if classes.size == 2:  # many times faster than a search
        return (y == classes[1]).astype(np.intp)
    return np.searchsorted(classes, y)


def check_in_memory(classes, multi_class):
    """Raise a clear error for pairs of classes of data that are not in one place."""
    if multi_class == "ovo" and classes.size > 2:
        raise ValueError(
            "multi_class='ovo' needs all data at once, which chunks and streams are not: use "
            "multi_class='ovr'."
        )


def check_known(classes, y, message):
    """Raise ValueError with a message for labels that are not among the classes."""
    if not np.isin(y, classes).all():
        raise ValueError(message)


def _class_factors(classes, totals, class_weight, n_present):
    """Return the factor of each class; `totals` are the sums of their sample weights.

    A dict of weights need not name all classes: the others have a factor of one.
    """
    if class_weight is None:
        return np.ones(totals.size)
    if isinstance(class_weight, str):
        with np.errstate(divide="ignore"):
            factor = totals.sum() / (n_present * totals)
        return np.where(totals == 0, 0.0, factor)
    names = classes.tolist()
    unnamed = [label for label in names if label not in class_weight]
    if unnamed and len(names) - len(unnamed) < len(class_weight):  # scikit-learn's rule
        raise ValueError(f"The classes, {unnamed}, are not in class_weight")
    factor = np.array([class_weight.get(label, 1.0) for label in names], dtype=np.float64)
    if not (np.isfinite(factor).all() and (factor >= 0).all()):
        raise ValueError(
            "class_weight has negative or non-finite values: weights must be at least zero."
        )
    return factor
