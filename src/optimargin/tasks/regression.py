"""Numbers, one or several per sample."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import assert_all_finite

from optimargin.targets import LABELS, Scale, Target
from optimargin.tasks.base import Task, checked_total

_LARGEST = float(np.finfo(np.float64).max) ** 0.45  # whose square, times a penalty, is finite
_PRECISION_SHARE = 0.8  # of the exponents of a precision, for coefficients in the units of y


@dataclass(frozen=True)
class Moments:
    """What has to be known of the numbers of a chunk, per output over samples with a weight.

    Attributes
    ----------
    total : float
        The sum of the weights.
    mean : ndarray of shape (n_outputs,)
    square : ndarray of shape (n_outputs,)
        The weighted sum of squared deviations from the mean.
    low, high : ndarray of shape (n_outputs,)
        The smallest and the largest value.
    """

    total: float
    mean: np.ndarray
    square: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, values, weight) -> "Moments":
        """Return the moments of values of shape (n_samples, n_outputs)."""
        used = weight > 0
        values, weight = values[used], weight[used]
        if not used.any():
            none = np.zeros(values.shape[1])
            return cls(0.0, none, none, none + np.inf, none - np.inf)
        with np.errstate(over="ignore"):
            total = checked_total(float(weight.sum()))
        share = weight / total
        mean = share @ values
        square = total * (share @ np.square(values - mean))
        return cls(total, mean, square, values.min(axis=0), values.max(axis=0))

    def joined(self, other: "Moments") -> "Moments":
        """Return the moments of both."""
        if self.mean.size != other.mean.size:
            sizes = sorted({self.mean.size, other.mean.size})
            raise ValueError(f"Chunks have different numbers of targets: {sizes}.")
        total = self.total + other.total
        share = other.total / total if total else 0.0
        step = other.mean - self.mean
        return Moments(
            total,
            self.mean + share * step,
            self.square + other.square + self.total * share * step**2,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    def scales(self, *, centred) -> list[Scale]:
        """Return what the values are measured in: their mean, if `centred`, and their deviation."""
        is_constant = self.low == self.high
        center = np.where(is_constant, self.low, self.mean) if centred else np.zeros_like(self.mean)
        square = np.where(is_constant, 0.0, self.square / self.total)
        deviation = np.sqrt(square + (0.0 if centred else self.mean**2))
        unit = np.where(deviation > 0, np.ldexp(1.0, np.frexp(deviation)[1]), 1.0)
        return [
            Scale(float(c), float(u), float(d / u))
            for c, u, d in zip(center, unit, deviation, strict=True)
        ]


@dataclass(frozen=True)
class Regression(Task):
    """Numbers to be predicted, with one output per column.

    Values of unit size go to the problems. Centres are subtracted only where an intercept, which
    is not penalised, takes their place.

    Attributes
    ----------
    measured : tuple of Scale
        Per output.
    largest : float
        The largest target, in absolute value.
    total : float
        The sum of the weights.
    """

    measured: tuple[Scale, ...]
    largest: float
    total: float

    @classmethod
    def from_values(cls, y, sample_weight=None, *, fit_intercept, dtype=np.float64):
        """Return the task of numbers.

        Parameters
        ----------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : ndarray of shape (n_samples,) or None
        fit_intercept : bool
        dtype : numpy dtype
            Of the model, which must be able to hold numbers in the units of y.
        """
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        moments = cls.describe(y, weight)
        return cls.from_parts([moments], fit_intercept=fit_intercept, dtype=dtype)

    @classmethod
    def of_stream(cls, n_outputs):
        """Return the task of numbers that keep coming: neither they nor weights are normalised."""
        return cls((LABELS,) * n_outputs, np.inf, 1.0)

    @property
    def n_outputs(self) -> int:
        """The number of targets per sample."""
        return len(self.measured)

    @property
    def largest_target(self) -> float:
        """In units of the scales."""
        return self.largest

    @property
    def scales(self) -> Sequence[Scale]:
        """Centres, units and deviations of y."""
        return self.measured

    @cached_property
    def constant(self) -> list[int]:
        """The outputs whose targets are all the same, or zero without an intercept."""
        return [k for k, scale in enumerate(self.measured) if scale.deviation == 0]

    def part(self, y, sample_weight=None) -> "Regression":
        """Return the task of some of the samples."""
        total = float(len(y) if sample_weight is None else np.sum(sample_weight))
        return replace(self, total=checked_total(total))

    def encode(self, y, sample_weight=None) -> list[Target]:
        """Return targets of unit size."""
        values = as_numbers(y)
        weight = np.ones(len(values)) if sample_weight is None else np.asarray(sample_weight)
        weight = weight / self.total
        ones = np.ones(len(values))
        return [
            Target((column - scale.center) / scale.unit, ones, weight, scale)
            for column, scale in zip(values.T, self.measured, strict=True)
        ]

    def decode(self, scores):
        """Return one number per sample, or a row of them for several outputs."""
        return one_or_all(scores)

    @staticmethod
    def held_out_error(target, decision) -> float:
        """Return the mean absolute error."""
        return float(target.weight @ np.abs(target.value - decision))

    @staticmethod
    def describe(y, weight) -> Moments:
        """Return the moments of a chunk."""
        values = as_numbers(y)
        largest = float(np.abs(values).max(initial=0.0))
        if largest > _LARGEST:
            raise ValueError(
                f"y has values as large as {largest:.3g}, whose squares overflow: divide y by a "
                "constant."
            )
        return Moments.of(values, weight)

    @classmethod
    def from_parts(cls, parts, *, fit_intercept=True, dtype=np.float64, **settings):
        """Return the task of all chunks."""
        moments = reduce(Moments.joined, parts)
        checked_total(moments.total)
        largest = np.maximum(np.abs(moments.low), np.abs(moments.high))
        _check_size(moments.high - moments.low, largest, dtype)
        scales = moments.scales(centred=fit_intercept)
        reach = [
            max(abs(low - scale.center), abs(high - scale.center)) / scale.unit
            for low, high, scale in zip(moments.low, moments.high, scales, strict=True)
        ]
        return cls(tuple(scales), float(max(reach)), moments.total)


def as_numbers(y):
    """Return y as a float64 array of shape (n_samples, n_outputs), checked."""
    if issparse(y):
        raise TypeError("y is sparse: pass a dense array, for example y.toarray().")
    y = np.asarray(y)
    if y.dtype.kind in "US" or (y.dtype.kind == "O" and any(map(_is_text, y.ravel()))):
        raise ValueError(
            "y has text instead of numbers: convert it to numbers, or use a classifier for labels."
        )
    if np.iscomplexobj(y):
        raise ValueError("y is complex: a regressor needs real numbers.")
    if y.ndim not in (1, 2) or (y.ndim == 2 and y.shape[1] == 0):
        raise ValueError(
            f"y has shape {y.shape}: it must hold one number per sample, or a row of them."
        )
    try:
        values = y.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y has values that are no numbers ({error}).") from None
    assert_all_finite(values, input_name="y")
    return values if values.ndim == 2 else values[:, None]


def one_or_all(scores):
    """Return the only column as a vector, or all columns."""
    return scores[:, 0] if scores.shape[1] == 1 else scores


def _is_text(value):
    return isinstance(value, str | bytes)


def _check_size(spread, largest, dtype):
    """Raise a clear error for numbers that a model of that precision cannot hold.

    Parameters
    ----------
    spread : ndarray of shape (n_outputs,)
        From the smallest to the largest value.
    largest : ndarray of shape (n_outputs,)
        The largest absolute value.
    dtype : numpy dtype
    """
    limit = min(float(np.finfo(dtype).max) ** _PRECISION_SHARE, _LARGEST)
    varied = spread[spread > 0]
    if largest.max() > limit or (varied.size and varied.min() < 1 / limit):
        raise ValueError(
            f"y has values of up to {largest.max():.3g} that differ by {spread.max():.3g}: "
            f"{np.dtype(dtype).name} models cannot hold such numbers and their squares. Multiply "
            "y by a constant."
        )
