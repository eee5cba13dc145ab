"""Samples whose targets are far from what the others predict."""

import numpy as np
from scipy.special import ndtri

_LIMIT = 5.0  # robust standard deviations


def far_from_held_out(y, predicted, weight):
    """Return which samples have a residual that is out of proportion.

    Parameters
    ----------
    y, predicted : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Targets, and what the models without each sample predict.
    weight : ndarray of shape (n_samples,)
        How much the residual of a sample says about what is usual: its number of repetitions,
        zero for one that takes no part.

    Returns
    -------
    far : ndarray of shape (n_samples,), dtype bool
        True where the residual of an output exceeds five robust standard deviations.
    """
    residual = np.abs(np.asarray(y, dtype=np.float64).reshape(len(predicted), -1).T - predicted.T)
    # Half of a normal distribution is within ndtri(3 / 4) standard deviations.
    usual = np.array([[_median(values, weight)] for values in residual]) / ndtri(0.75)
    return (residual > _LIMIT * usual).any(axis=0)


def _median(values, weight):
    """Return the median of values that are repeated as their weights say."""
    order = np.argsort(values, kind="stable")
    up_to = np.cumsum(weight[order])
    middle = 0.5 * up_to[-1]
    first, last = (np.searchsorted(up_to, middle, side=side) for side in ("left", "right"))
    return 0.5 * (values[order[first]] + values[order[min(last, order.size - 1)]])
