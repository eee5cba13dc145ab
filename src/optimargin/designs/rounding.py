"""What rounding of kernel values changes, measured on a few samples."""

from functools import cached_property

import numpy as np

_ROWS_PER_PROBE, _FEWEST_PROBES, _MOST_PROBES = 128, 32, 64
_MARGIN = 4.0  # between the largest effect of rounding measured and the largest of all
_MEAN_MARGIN = 2.0  # the same of root mean squares
_ALL_UP_TO = 2000  # samples, all of which are measured where rounding of few values may count


class RoundingProbe:
    """Rows of a kernel matrix, in double precision and as a design keeps them.

    Parameters
    ----------
    precise_kernel : callable
        Makes the kernel in double precision.
    stored_block : callable
        Given samples, it returns their rows as they are kept.
    scale : ndarray of shape (n_samples,)
        Value (i, j) is rounded by a multiple of ``scale_i scale_j``.
    """

    def __init__(self, precise_kernel, stored_block, scale):
        self._precise_kernel = precise_kernel
        self._stored_block = stored_block
        self._scale = scale
        used = scale > 0
        self._inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=used)

    @cached_property
    def _groups(self):
        """The samples: those of the largest scale, and some evenly spaced."""
        n_samples = self._scale.size
        n_half = min(max(n_samples // _ROWS_PER_PROBE, _FEWEST_PROBES), _MOST_PROBES) // 2
        longest = np.argsort(self._scale, kind="stable")[-n_half:]
        return longest, np.arange(0, n_samples, max(n_samples // n_half, 1))

    @property
    def _rows(self):
        return np.concatenate(self._groups)

    @cached_property
    def _precise(self):
        return self._precise_kernel().block(self._rows)

    @cached_property
    def _unit(self):
        """The largest change of a value, in units of the scales of its row and column."""
        change = np.abs(self._precise - self._stored_block(self._rows))
        return (change * self._inverse * self._inverse[self._rows, None]).max(initial=0.0)

    def effects(self, coef, decision, weight, *, is_stiff=False):
        """Return what rounding can do: measured on a few rows, times a margin.

        Parameters
        ----------
        coef : ndarray of shape (n_samples,)
        decision : ndarray of shape (n_samples,)
            ``K @ coef`` as the design computes it.
        weight : ndarray of shape (n_samples,)
        is_stiff : bool
            Whether errors of a few decision values may count. Of not too many samples, all are
            then measured.

        Returns
        -------
        mean_square : float
            A bound on ``weight @ error**2`` for the errors of `decision`.
        largest : float
            A bound on their absolute values.
        value_error : ndarray of shape (n_samples,)
            u such that kernel value (i, j) changes by at most ``u_i u_j``.
        """
        if is_stiff and self._scale.size <= _ALL_UP_TO:
            return self._effects_on_all(coef, decision, weight)
        rows, scale = self._rows, self._scale
        measured = np.abs(self._precise @ coef - decision[rows]) * self._inverse[rows]
        largest = _MARGIN * measured.max(initial=0.0)
        # The larger of two means, of the longest and of evenly spaced samples.
        n_longest = self._groups[0].size
        groups = [g for g in (measured[:n_longest], measured[n_longest:]) if g.size]
        square = max((_mean_square(group) for group in groups), default=0.0)
        mean_square = _MEAN_MARGIN**2 * square * float(weight @ np.square(scale))
        value_error = np.sqrt(_MARGIN * self._unit) * scale
        return mean_square, largest * scale.max(initial=0.0), value_error

    def _effects_on_all(self, coef, decision, weight):
        precise = self._precise_kernel().block()
        error = np.abs(precise @ coef - decision)
        change = np.abs(precise - self._stored_block(np.arange(error.size)))
        unit = (change * self._inverse * self._inverse[:, None]).max(initial=0.0)
        largest = float(error.max(initial=0.0))
        return float(weight @ np.square(error)), largest, np.sqrt(unit) * self._scale


def _mean_square(errors):
    """Return the mean square plus its standard error, which is large where few errors count."""
    squares = np.square(errors)
    return float(squares.mean() + squares.std() / np.sqrt(squares.size))
