"""Which point is chosen where scores are nearly equal.

Held-out scores of different parameters are often the same number: errors are counted, margins are
saturated, penalties no longer bind. Computed, such scores differ in their last digits, and each
processor has its own. So scores within `TOLERANCE` of the best are ties, and the smoothest of their
points is chosen: parameters are compared one after the other, in the order of
`Objective.smoother`, up to the same tolerance. Where all of them agree the earliest point is taken.

Whatever compares held-out scores, or losses, asks one of these functions.
"""

import numpy as np

TOLERANCE = 1e-6
"""The share of a number that makes no difference.

Rounding moves scores by less than 1e-11 of themselves, and by 1e-8 where the data are in single
precision. What samples can tell is far more: the accuracy on a million of them has a standard
error of 1e-4.
"""


def exceeds(value, other):
    """Return whether a number, or each of some, is larger than another by more than rounding."""
    return value - other > TOLERANCE * np.maximum(np.abs(value), np.abs(other))


def place_of_best(scores, roughness=lambda k: ()):
    """Return the place of the best score, of ties that of the smoothest point.

    Parameters
    ----------
    scores : array-like of shape (n_points,)
        Larger is better, NaN is worst.
    roughness : callable
        Given the place of a point, it returns numbers, small ones for smooth models; the first
        that differs decides. Without it ties go to the earliest point.
    """
    return next(ranking(scores, roughness))


def ranking(scores, roughness=lambda k: ()):
    """Yield the places of all points, that of the best first, then that of the best of the others.

    Parameters
    ----------
    scores, roughness
        As in `place_of_best`.
    """
    scores = np.asarray(scores, dtype=np.float64)
    scores = np.where(np.isnan(scores), -np.inf, scores)
    left = np.argsort(-scores, kind="stable").tolist()
    while left:
        edge = _edge(scores[left[0]])
        tied = np.sort([k for k in left if scores[k] >= edge])
        keys = -np.array([roughness(k) for k in tied] if tied.size > 1 else [[]], dtype=np.float64)
        for j in range(keys.shape[1]):
            kept = keys[:, j] >= _edge(keys[:, j].max())
            tied, keys = tied[kept], keys[kept]
        left.remove(tied[0])
        yield int(tied[0])


def _edge(best):
    """Return the least number that ties with the largest one."""
    return best - TOLERANCE * abs(best) if np.isfinite(best) else best


def ranks(scores):
    """Return the rank of each score, from 1: ties share one, as equal scores do.

    Parameters
    ----------
    scores : ndarray of shape (n_points,)
        Larger is better, NaN is worst.

    Returns
    -------
    ranks : ndarray of shape (n_points,)
    """
    costs = np.where(np.isnan(scores), np.inf, -scores)
    order = np.argsort(costs, kind="stable")
    costs = costs[order]
    found = np.empty(costs.size, dtype=int)
    first = 0
    while first < costs.size:
        edge = costs[first] + TOLERANCE * np.abs(costs[first])
        after = np.searchsorted(costs, edge, side="right")
        found[order[first:after]] = first + 1
        first = after
    return found


class Levels:
    """Losses for those who compare numbers as they are: ties come in the order they are met.

    A loss that ties with an earlier one becomes the next larger number.
    """

    def __init__(self):
        self._levels: list[list[float]] = []  # the first loss of each, and the last number given

    def __call__(self, loss):
        """Return what stands for a loss."""
        for level in self._levels:
            if not (exceeds(loss, level[0]) or exceeds(level[0], loss)):
                level[1] = float(np.nextafter(level[1], np.inf))
                return level[1]
        self._levels.append([loss, loss])
        return loss
