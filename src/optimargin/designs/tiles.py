"""The Gram matrix of a kernel, in memory, as tiles of its lower triangle.

Values of radial kernels lie in [0, 1] and are kept as 16-bit fixed point or as float32. Samples are
in random order, so that every block of them is like all samples. Values between samples that matter
to nobody need not be computed: samples are kept as they are asked for.
"""

from collections.abc import Callable
from functools import cached_property
from threading import local

import numpy as np

from optimargin._core import _tiles
from optimargin._core._tiles import TILE_SIZE
from optimargin._threads import for_each, n_threads_for
from optimargin.certificates import RoundingProbe
from optimargin.designs.base import SampleSpaceDesign

_LARGEST = 65535  # of 16 bits
_FIXED_POINT = 2.0**-17  # the rounding error of values, beside which
_SINGLE = 2.0**-24  # that of float32 distances is small


class TileDesign(SampleSpaceDesign):
    """A kernel matrix kept as tiles, of all samples or of some of them.

    Parameters
    ----------
    kernel : PreparedKernel
        On the samples, with float32 values.
    fixed_point : bool
        Whether values, which must lie in [0, 1], are kept in 16 bits.
    precise_kernel : callable
        Makes the same kernel in double precision.
    make_precise : callable
        Makes a design of the same samples with more precise values.
    seed : int
        Of the order of the samples.

    Attributes
    ----------
    order : ndarray of shape (n_kept,)
        The sample at each position of those kept so far.
    tiles : ndarray
        See `optimargin._core._tiles`; there is room for all samples.
    unit : float
        What values in tiles are multiples of.
    """

    own_threads = True
    is_rounded = True

    def __init__(
        self,
        kernel,
        *,
        fixed_point: bool,
        precise_kernel: Callable,
        make_precise: Callable,
        seed: int = 0,
    ):
        self.n_samples = self.n_coef = kernel.n_samples
        self._kernel = kernel
        self._make_precise = make_precise
        self._random = np.random.default_rng(seed)
        self.order = np.empty(0, dtype=np.intp)
        self.unit = 1.0 / _LARGEST if fixed_point else 1.0
        self.rounds_independently = fixed_point
        # Memory that is never written to is never taken.
        self.tiles = np.empty(_n_values(self.n_samples), np.uint16 if fixed_point else np.float32)
        scale = kernel.rounding_scale()
        if fixed_point:
            scale = 1.0 + _SINGLE / _FIXED_POINT * scale
        self._probe = RoundingProbe(precise_kernel, self.stored_block, scale)

    @staticmethod
    def n_bytes(n_samples, *, fixed_point):
        """Return the memory that tiles of so many samples take."""
        return _n_values(n_samples) * (2.0 if fixed_point else 4.0)

    @property
    def n_padded(self):
        """The number of samples that are kept, rounded up to whole blocks."""
        return _n_blocks(self.order.size) * TILE_SIZE

    @property
    def n_values(self):
        """The number of kernel values that are kept."""
        return _n_values(self.order.size)

    @property
    def outside(self):
        """The samples that are not kept, in increasing order."""
        is_outside = np.ones(self.n_samples, dtype=bool)
        is_outside[self.order] = False
        return np.flatnonzero(is_outside)

    def keep(self, samples):
        """Compute the values of more samples, in whole blocks unless these are all there are."""
        first = self.order.size // TILE_SIZE
        self.order = np.concatenate([self.order, self._random.permutation(samples)])
        self._fill(first)

    def _fill(self, first_block):
        kernel, n_kept = self._kernel.take(self.order), self.order.size
        buffers = local()  # new memory for every row of tiles would cost more than its values

        def fill(i):
            if not hasattr(buffers, "values"):
                buffers.values = np.empty(TILE_SIZE * self.n_padded, dtype=np.float32)
            first, end = i * TILE_SIZE, (i + 1) * TILE_SIZE
            last = min(end, n_kept)
            values = buffers.values[: TILE_SIZE * end].reshape(TILE_SIZE, end)
            if last == end:
                kernel.block(slice(first, end), slice(0, end), out=values)
            else:
                values[...] = 0.0
                values[: last - first, :last] = kernel.block(slice(first, last), slice(0, last))
            begin = i * (i + 1) // 2 * TILE_SIZE**2
            _tiles.pack(values, 1.0 / self.unit, self.tiles[begin : begin + TILE_SIZE * end])

        # The longest first, so that threads end at the same time.
        rows = range(first_block, self.n_padded // TILE_SIZE)[::-1]
        for_each(fill, rows, work=10 * self.n_values)

    @cached_property
    def precise(self):
        """A design of the same samples with more precise values."""
        return self._make_precise()

    @property
    def finest(self):
        """The more precise design where a solver needed that, otherwise this one."""
        return vars(self)["precise"].finest if "precise" in vars(self) else self

    def stored_block(self, rows):
        """Return ``K[rows]`` as it is kept."""
        block = self._kernel.block(rows)
        if self.tiles.dtype == np.uint16:
            block = np.floor(block * np.float32(_LARGEST) + np.float32(0.5)) * self.unit
        return block

    def rounding(self, coef, decision, weight, *, is_stiff=False):
        """Return what rounding can do; see `RoundingProbe`."""
        return self._probe.effects(coef, decision, weight, is_stiff=is_stiff)

    def product_in_order(self, V):
        """Return ``V @ K`` for vectors in the rows of `V`, of padded samples in their order."""
        n_threads = min(n_threads_for(self.n_values), self.n_padded // TILE_SIZE)
        partial = np.zeros((n_threads, *V.shape))
        work = np.empty((n_threads * (TILE_SIZE + len(V)), TILE_SIZE), dtype=np.float32)
        _tiles.product(self.tiles, (V * self.unit).astype(np.float32), partial, work, n_threads)
        return partial.sum(axis=0)

    def decision_outside(self, outside, coef):
        """Return the decision values of samples, of which those kept have coefficients.

        Parameters
        ----------
        outside : ndarray of shape (n_outside,)
        coef : ndarray of shape (n_kept,)
            In their order.
        """
        active = np.flatnonzero(coef)
        return self._kernel.product(outside, self.order[active], coef[active])

    def product(self, V):
        """Return ``V @ K`` for vectors in the rows of `V`."""
        outside = self.outside
        if outside.size:
            self.keep(outside)
        padded = np.zeros((len(V), self.n_padded))
        padded[:, : self.n_samples] = V[:, self.order]
        out = np.empty(V.shape)
        out[:, self.order] = self.product_in_order(padded)[:, : self.n_samples]
        return out

    def columns(self, columns, rows=slice(None)):
        """Return ``K[rows][:, columns]`` as float64."""
        return self._kernel.block(rows, columns).astype(np.float64)

    @cached_property
    def squared_norms(self):
        """The diagonal of K as float64."""
        return self._kernel.diagonal().astype(np.float64)


def _n_blocks(n_samples):
    return -(-n_samples // TILE_SIZE)


def _n_values(n_samples):
    n_blocks = _n_blocks(n_samples)
    return n_blocks * (n_blocks + 1) // 2 * TILE_SIZE**2
