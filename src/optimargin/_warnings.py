"""Warnings that point at the line of the user that caused them."""

import sys
import warnings

_PASSED_THROUGH = {"optimargin", "sklearn"}


def warn_user(message, category=UserWarning):
    """Warn at the nearest caller outside this package and scikit-learn.

    Parameters
    ----------
    message : str
    category : type of Warning, default=UserWarning
    """
    level = 2
    while sys._getframe(level - 1).f_globals["__name__"].split(".")[0] in _PASSED_THROUGH:
        level += 1
    warnings.warn(message, category, stacklevel=level)
