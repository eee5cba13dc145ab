"""The Gram matrix of few samples in float32: small enough for a cache."""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from optimargin._core._gram import rows_product
from optimargin.certificates import RoundingProbe
from optimargin.designs.gram import GramDesign


class RoundedGramDesign(GramDesign):
    """Samples given by the Gram matrix of their kernel values, rounded to float32.

    Parameters
    ----------
    K : ndarray of shape (n_samples, n_samples), C-contiguous, float32
    precise_kernel : callable
        Makes the kernel on the samples in double precision.
    scale : ndarray of shape (n_samples,)
        See `RoundingProbe`.
    """

    is_rounded = True

    def __init__(self, K, *, precise_kernel: Callable, scale):
        super().__init__(K)
        self._precise_kernel = precise_kernel
        self._probe = RoundingProbe(precise_kernel, lambda rows: self.K[rows], scale)

    @cached_property
    def precise(self):
        """The same design in double precision."""
        return GramDesign(self._precise_kernel().block())

    @property
    def finest(self):
        """The more precise design where a solver needed that, otherwise this one."""
        return vars(self).get("precise", self)

    def product(self, V):
        """Return ``V @ K`` for vectors in the rows of `V`, summed in float64."""
        out = np.empty(V.shape)
        for v, image in zip(V, out, strict=True):
            rows_product(self.K, v, image)
        return out

    def rounding(self, coef, decision, weight, *, is_stiff=False):
        """Return what rounding can do; see `RoundingProbe`."""
        return self._probe.effects(coef, decision, weight, is_stiff=is_stiff)
