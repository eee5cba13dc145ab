"""Samples whose targets are far from what the others predict."""

import numpy as np

_LIMIT = 5.0  # robust standard deviations
_NORMAL = 1.4826  # standard deviation over median absolute deviation of a normal distribution


def far_from_held_out(y, predicted, used):
    """Return which samples have a residual that is out of proportion.

    Parameters
    ----------
    y, predicted : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Targets, and what the models without each sample predict.
    used : ndarray of shape (n_samples,), dtype bool
        The samples whose residuals say what is usual.

    Returns
    -------
    far : ndarray of shape (n_samples,), dtype bool
        True where the residual of an output exceeds five robust standard deviations.
    """
    residual = np.abs(np.asarray(y, dtype=np.float64).reshape(len(predicted), -1).T - predicted.T)
    usual = _NORMAL * np.median(residual[:, used], axis=1, keepdims=True)
    return (residual > _LIMIT * usual).any(axis=0)
