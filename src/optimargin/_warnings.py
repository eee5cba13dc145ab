"""Warnings that point at the user's line that caused them."""

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
    level, frame = 2, sys._getframe(1)
    while frame.f_back and _package(frame) in _PASSED_THROUGH:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _package(frame):
    return str(frame.f_globals.get("__name__")).split(".")[0]
