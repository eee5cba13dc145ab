"""Prediction intervals and sets from models that were fitted without each sample.

With f_-i the model without sample i, R_i = |y_i - f_-i(x_i)| its held-out residual, and q the
quantile that counts the new sample as one more (the k-th smallest of n values with
``k = ceil(level (n + 1))``; infinite where k > n), an interval at x is

    plus     [-q(R_i - f_-i(x)), q(f_-i(x) + R_i)]     covers with probability 1 - 2 alpha at least
    minmax   [min f_-i(x) - q(R), max f_-i(x) + q(R)]  covers with probability 1 - alpha at least
    base     [f(x) - q(R), f(x) + q(R)]                has no such guarantee

with alpha = 1 - level, for exchangeable samples and a model whose parameters were not chosen on
them; "plus" covers near 1 - alpha in practice. A set of classes holds those that conform: with
c_i the held-out conformity of sample i with its own class, class k is in the set at x ("plus")
unless c_i > c_-i(x, k) for at least ``level (n + 1)`` of the samples; "base" has the whole model
instead of c_-i. Conformities that differ by rounding are equal: a new sample may be one of the
others. Weights count as repetitions.

References
----------
R. F. Barber, E. J. Candes, A. Ramdas and R. J. Tibshirani, "Predictive inference with the
jackknife+", Annals of Statistics 49(1), 2021; Y. Romano, M. Sesia and E. J. Candes,
"Classification with valid and adaptive coverage", NeurIPS 2020; V. Vovk, "Conditional validity
of inductive conformal predictors", 2012.
"""

from numbers import Real

import numpy as np

from optimargin._ties import TOLERANCE

METHODS = ("plus", "minmax", "base")
_ROUNDING = 1e-9  # of a count that should be a whole number


def check_levels(confidence_level):
    """Return the levels as an array of shape (n_levels,), checked."""
    levels = np.atleast_1d(np.asarray(confidence_level))
    if levels.ndim != 1 or levels.size == 0 or levels.dtype.kind not in "fiu":
        raise ValueError(
            f"confidence_level={confidence_level!r} must be a number between 0 and 1, or a list of "
            "such numbers."
        )
    levels = levels.astype(np.float64)
    if not ((levels > 0) & (levels < 1)).all():
        shown = confidence_level if isinstance(confidence_level, Real) else levels.tolist()
        raise ValueError(f"confidence_level={shown!r} must be greater than 0 and less than 1.")
    return levels


def quantiles(values, weight, levels):
    """Return the quantiles that count one more sample, which may be infinite.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n)
    weight : ndarray of shape (n,)
        Numbers of repetitions.
    levels : ndarray of shape (n_levels,)

    Returns
    -------
    quantiles : ndarray of shape (n_rows, n_levels)
    """
    needed = levels * (weight.sum() + 1)
    needed -= _ROUNDING * needed
    out = np.full((values.shape[0], levels.size), np.inf)
    if (weight == 1).all():
        place = np.ceil(needed).astype(np.intp) - 1
        known = place < weight.size
        if known.any():
            kept = np.partition(values, np.unique(np.maximum(place[known], 0)), axis=1)
            out[:, known] = kept[:, np.maximum(place[known], 0)]
        return out
    order = np.argsort(values, axis=1)
    reached = np.cumsum(weight[order], axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    for j, count in enumerate(needed):
        place = (reached < count).sum(axis=1)
        known = place < weight.size
        out[known, j] = ordered[known, place[known]]
    return out


def intervals(method, points, values, residuals, weight, levels):
    """Return prediction intervals.

    Parameters
    ----------
    method : {"plus", "minmax", "base"}
    points : ndarray of shape (n_new,)
        Predictions of the model of all samples.
    values : ndarray of shape (n_new, n) or None
        Predictions of the models without each sample; "base" needs none.
    residuals, weight : ndarray of shape (n,)
    levels : ndarray of shape (n_levels,)

    Returns
    -------
    intervals : ndarray of shape (n_new, 2, n_levels)
        Lower and upper ends.
    """
    if method == "plus":
        low = -quantiles(residuals - values, weight, levels)
        high = quantiles(values + residuals, weight, levels)
        return np.stack([low, high], axis=1)
    width = quantiles(residuals[None], weight, levels)
    if method == "minmax":
        ends = values.min(axis=1)[:, None] - width, values.max(axis=1)[:, None] + width
    else:
        ends = points[:, None] - width, points[:, None] + width
    return np.stack(ends, axis=1)


def conformities(decision):
    """Return how well samples conform with each class.

    Parameters
    ----------
    decision : ndarray of shape (..., n_outputs)

    Returns
    -------
    conformities : ndarray of shape (..., n_classes)
        The decision value in favour of the class; with several classes, what its value is above
        the largest of the others.
    """
    if decision.shape[-1] == 1:
        return np.concatenate([-decision, decision], axis=-1)
    top = np.sort(decision, axis=-1)[..., -2:]
    others = np.where(decision == top[..., 1:], top[..., :1], top[..., 1:])
    return decision - others


def conforming(new, own, weight, levels):
    """Return whether new samples conform with a class.

    Parameters
    ----------
    new : ndarray of shape (n_new, n) or (n_new, 1)
        Conformities of new samples, for the models without each sample or for the whole one.
    own, weight : ndarray of shape (n,)
        Held-out conformities of the samples with their own classes.
    levels : ndarray of shape (n_levels,)

    Returns
    -------
    conforming : ndarray of shape (n_new, n_levels), dtype bool
    """
    # The size is that of own ones, or new samples would matter to each other.
    tie = TOLERANCE * np.abs(own).max(initial=0.0)
    above = (own > new + tie) @ weight
    needed = levels * (weight.sum() + 1)
    return above[:, None] < needed - _ROUNDING * needed
