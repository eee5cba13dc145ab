"""The minimum of a convex function along a line, whose derivative is piecewise linear."""

import numpy as np


def line_search(
    derivatives, *, start, allowed=0.0, low=-np.inf, high=np.inf, settled=0.0, max_steps=100
):
    """Return where a derivative vanishes that increases, is continuous and piecewise linear.

    Newton's method kept inside a bracket ends after a few evaluations.

    Parameters
    ----------
    derivatives : callable
        Given a length it returns the first derivative, the sum of its absolute terms, which is
        the scale of its rounding error, and the second derivative.
    start : float
        The length to try first.
    allowed : float
        The absolute derivative at which to end.
    low, high : float
        What is known to enclose the length.
    settled : float
        The distance from the minimum at which to end.
    max_steps : int
        Evaluations; where the derivative jumps, more bring it no nearer to zero.
    """
    t = start
    for _ in range(max_steps):
        first, magnitude, second = derivatives(t)
        if abs(first) <= max(allowed, 4 * np.finfo(float).eps * magnitude, settled * second):
            break
        low, high = (t, high) if first < 0 else (low, t)
        t = t - first / second if second > 0 else np.inf
        if not low < t < high:
            if np.isfinite(low) and np.isfinite(high):
                t = 0.5 * (low + high)
                if t in (low, high):
                    break
            else:
                # No curvature here and no bracket yet: double outwards.
                t = 2 * low + 1 if np.isfinite(low) else 2 * high - 1
    return t
