"""Facts of the lower layers, in the words of an estimator's parameters."""

from contextlib import contextmanager
from functools import singledispatch, update_wrapper
from math import ceil
from types import MethodType

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from optimargin._warnings import warn_user
from optimargin.designs.kernel import MemoryLimitError
from optimargin.held_out.novelty import FewSamples, TiedSamples
from optimargin.problems.base import UnboundedError
from optimargin.training.designs import CrowdedMemory, NegativeSpectrum


class available_where:
    """A method that exists where a check passes; where not, the error of the check is raised.

    As scikit-learn's `available_if`, whose own message hides what the check has to say.

    Parameters
    ----------
    check : callable
        Given the estimator, it raises AttributeError with what to do about it.
    """

    def __init__(self, check):
        self._check = check

    def __call__(self, method):
        """Decorate a method."""
        update_wrapper(self, method)
        self._method = method
        return self

    def __get__(self, estimator, owner=None):
        if estimator is None:
            return self._method
        self._check(estimator)
        return MethodType(self._method, estimator)


@contextmanager
def explained():
    """Turn errors of the lower layers into those that name a parameter and the fix."""
    try:
        yield
    except MemoryLimitError as error:
        raise ValueError(
            f"The kernel matrix of the {error.n_rows} samples outside the band of the loss and "
            f"its factor take {ceil(error.n_bytes / 1e6)} MB, more than cache_size: set cache_size "
            "to that, or a wider band (D, or epsilon of a regressor), which leaves fewer samples "
            "outside."
        ) from None
    except UnboundedError as error:
        raise ValueError(
            f"{error} Use lambda1 > 0, a smaller lambda2, class_weight='balanced' or "
            "fit_intercept=False."
        ) from None


def notify_user(fact) -> None:
    """Warn about something that the user should know."""
    warn_user(_in_words(fact))


@singledispatch
def _in_words(fact) -> str:
    return str(fact)


@_in_words.register
def _(fact: NegativeSpectrum) -> str:
    return (
        f"The {fact.kernel.name} kernel matrix is not positive semi-definite "
        f"({fact.share:.1%} of its spectrum is negative). The model was "
        "fitted with the positive part of the spectrum, which is the nearest problem "
        "that has a unique solution. Other kernel parameters may avoid this."
    )


@_in_words.register
def _(fact: CrowdedMemory) -> str:
    return (
        f"{fact.n_active} of {fact.n_samples} samples are outside the band of the loss, more "
        f"than cache_size has room for ({fact.capacity}): kernel values are computed "
        "many times. Set a larger cache_size, approximation='nystrom', or a wider band (D, or "
        "epsilon of a regressor), which leaves fewer samples outside."
    )


@_in_words.register
def _(fact: FewSamples) -> str:
    return (
        f"false_alarm_rate={fact.rate:g} needs at least {ceil(fact.needed - 1e-9)} samples, and "
        f"there are {fact.total:g} (the sum of sample_weight): the threshold is the smallest "
        "held-out score. "
        "Use more samples or a larger false_alarm_rate."
    )


@_in_words.register
def _(fact: TiedSamples) -> str:
    return (
        f"No sample is called odd: {fact.n_tied} have the same, lowest held-out score, more than "
        f"the share false_alarm_rate={fact.rate:g}. A larger one includes them."
    )


def warn_if_short(estimator, fit) -> None:
    """Warn if the certified gap of a fit is above the tolerance.

    Coefficients are kept in the precision of the data, and no gap is met beyond that.
    """
    worst = float(fit.dual_gap.max())
    if worst <= max(estimator.tol, float(np.finfo(fit.model.intercept.dtype).eps)):
        return
    advice = "." if estimator.solver == "auto" else ", or try solver='auto'."
    warn_user(
        f"{type(estimator).__name__} stopped at iteration {fit.n_iter.max()} of solver "
        f"{fit.solver!r} with a relative duality gap of {worst:.2g}, above "
        f"tol={estimator.tol:g}. Scale the features (for example with StandardScaler), "
        f"increase max_iter or raise tol{advice}",
        ConvergenceWarning,
    )
