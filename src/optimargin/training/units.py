"""Penalties in units of the data: what makes defaults and searches mean the same everywhere."""

from optimargin.designs import total_variance


def penalty_unit(total_weight, variance=None):
    """Return the penalty that is one per sample and free of the units of the features.

    Rows twice as long ask for coefficients half as large, which the penalty on them makes four
    times cheaper: the loss of linear models is weighted less by as much. Values of other kernels
    are meant to be of size one.

    Parameters
    ----------
    total_weight : float
        The sum of the weights of all samples.
    variance : float or None
        Of all features of a linear model together; zero if they are constant.
    """
    return total_weight / (variance or 1.0)


def penalty_unit_of(X, weight, total_weight, *, is_linear):
    """Return the same for data in memory.

    Parameters
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
    weight : ndarray of shape (n_samples,)
        Positive, summing to one.
    total_weight : float
    is_linear : bool
        Whether the model is linear in the features.
    """
    return penalty_unit(total_weight, total_variance(X, weight) if is_linear else None)
