"""The matrix of kernel values between samples, whatever the kernel and however values are kept.

`KernelMatrix` asks a kernel for blocks of values (`optimargin.kernels.PreparedKernel`) and for
nothing else. It offers

    product(V), product_on(rows, V)   V @ K, and V @ K[rows][:, rows]
    columns(columns, rows), block(rows), squared_norms
    take(rows)                        the matrix of some samples
    precise, rounding(...)            see `SampleSpaceDesign`

Values are kept in a `Triangle`: tiles of a lower triangle that grows, as float64, float32 or, for
kernels whose values lie in [0, 1], as 16-bit fixed point. There are up to two of them.

*Complete.* Where the values of all samples fit into the memory limit, they are kept (`triangle`),
each computed when a product first needs it or a solver asks for it (`Triangle.keep`).

*Working set.* Only active samples have coefficients, so that a Newton step asks for products with
the rows and columns of few samples many times, and for decision values of all samples once. So
values between samples that were active are kept together, in the order in which they became active.
Where not all values fit, the others are computed on demand; what is left of the limit is for
preconditioners.

Few samples whose values are one array have a `GramDesign`, with the same account of rounding.
"""

from functools import cached_property
from itertools import pairwise
from threading import Lock, local

import numpy as np

from optimargin._core import _tiles
from optimargin._core._rows import GramRows
from optimargin._core._tiles import TILE_SIZE
from optimargin._threads import for_each, n_threads_for
from optimargin.certificates import RoundingProbe
from optimargin.designs.base import SampleSpaceDesign
from optimargin.kernels import RowCache

_LARGEST = np.iinfo(np.uint16).max
_SINGLE_IN_FIXED = 2.0**-7  # rounding of float32 distances, in units of that of 16-bit values
_SMALL_BLOCK = 4e7  # bytes that any limit has room for
_WORKING_SHARE = 0.75  # of the limit, where not all fits; the rest is left to preconditioners


class MemoryLimitError(Exception):
    """Kernel values and their factor would need more memory than the limit allows.

    Attributes
    ----------
    n_rows : int
        The number of samples that they are of.
    n_bytes : int
        What they need.
    """

    def __init__(self, n_rows, n_bytes):
        super().__init__(f"{n_rows} samples need {n_bytes} bytes")
        self.n_rows, self.n_bytes = n_rows, n_bytes


class Triangle:
    """Kernel values between some samples: tiles of a lower triangle that can grow.

    Parameters
    ----------
    kernel : PreparedKernel
        On all samples.
    dtype : numpy dtype
        float64 or float32, as the kernel has it, or uint16 for a float32 kernel with values in
        [0, 1].
    room : int, default=0
        How many samples to make room for at once.

    Attributes
    ----------
    order : ndarray of shape (n_kept,)
        The sample at each position of those kept so far.
    place : ndarray of shape (n_samples,)
        The position of each sample, -1 where it is not kept.
    tiles : ndarray
        See `optimargin._core._tiles`.
    unit : float
        What values in tiles are multiples of.
    """

    def __init__(self, kernel, dtype, room=0):
        self.kernel = kernel
        self.order = np.empty(0, dtype=np.intp)
        self.place = np.full(kernel.n_samples, -1)
        self.unit = 1.0 / _LARGEST if dtype == np.uint16 else 1.0
        self._room = room
        self.tiles = np.empty(0, dtype=dtype)

    @staticmethod
    def n_bytes(n_samples, dtype):
        """Return the memory that the tiles of so many samples take."""
        return _n_values(n_samples) * np.dtype(dtype).itemsize

    @staticmethod
    def capacity(n_bytes, dtype):
        """Return the number of samples whose tiles fit into so many bytes."""
        n_tiles = max(n_bytes, 0.0) / (TILE_SIZE**2 * np.dtype(dtype).itemsize)
        return int((np.sqrt(1 + 8 * n_tiles) - 1) / 2) * TILE_SIZE

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
        return np.flatnonzero(self.place < 0)

    def keep(self, samples):
        """Compute the values of more samples, with each other and with all that are kept."""
        first, n_kept = self.order.size // TILE_SIZE, self.order.size + samples.size
        if self.order.size == 0:  # memory that is never written to is never taken
            n_values = _n_values(max(n_kept, self._room))
            self.tiles = np.empty(n_values, dtype=self.tiles.dtype)
        elif _n_values(n_kept) > self.tiles.size:
            self.tiles.resize(_n_values(n_kept), refcheck=False)  # where it is, if it can be
        self.place[samples] = np.arange(self.order.size, n_kept)
        self.order = np.concatenate([self.order, samples])
        kernel = self.kernel.take(self.order)
        buffers = local()  # new memory for every row of tiles would cost more than its values

        def fill(i):
            if not hasattr(buffers, "values"):
                buffers.values = np.empty(TILE_SIZE * self.n_padded, dtype=kernel.dtype)
            begin, end = i * TILE_SIZE, (i + 1) * TILE_SIZE
            last = min(end, n_kept)
            values = buffers.values[: TILE_SIZE * end].reshape(TILE_SIZE, end)
            if last == end:
                kernel.block(slice(begin, end), slice(0, end), out=values)
            else:
                values[...] = 0.0
                values[: last - begin, :last] = kernel.block(slice(begin, last), slice(0, last))
            place = i * (i + 1) // 2 * TILE_SIZE**2
            _tiles.pack(values, 1.0 / self.unit, self.tiles[place : place + TILE_SIZE * end])

        # The longest first, so that threads end at the same time.
        rows = range(first, self.n_padded // TILE_SIZE)[::-1]
        for_each(fill, rows, work=10 * (self.n_values - _n_values(first * TILE_SIZE)))

    def product(self, V):
        """Return ``V @ K`` for vectors in the rows of `V`, of the samples kept in their order.

        Parameters
        ----------
        V : ndarray of shape (n_vectors, n_kept) or (n_vectors, n_padded)
            Vectors in float32 are multiplied faster, with short sums in float32.

        Returns
        -------
        product : ndarray of shape (n_vectors, n_padded)
        """
        dtype = V.dtype if self.tiles.dtype == np.float32 else self.tiles.dtype
        padded = np.zeros((len(V), self.n_padded), np.float32 if dtype == np.uint16 else dtype)
        padded[:, : V.shape[1]] = V * self.unit
        n_threads = min(n_threads_for(self.n_values), self.n_padded // TILE_SIZE) or 1
        partial = np.zeros((n_threads, *padded.shape))
        work = np.empty((n_threads * (TILE_SIZE + len(V)), TILE_SIZE), dtype=np.float32)
        _tiles.product(self.tiles, padded, partial, work, n_threads)
        return partial.sum(axis=0)


class KernelMatrix(SampleSpaceDesign):
    """A kernel matrix within a memory limit; see the module for what is kept.

    Parameters
    ----------
    kernel : PreparedKernel
        On the samples.
    max_bytes : float
        For kernel values that are kept.
    dtype : numpy dtype, default=None
        Of the values that are kept (see `Triangle`); that of the kernel when not given.
    complete : bool, default=None
        Whether all kernel values are kept; as the limit allows when not given.
    precise_kernel : callable, default=None
        Makes the same kernel in double precision, where the values kept are rounded.
    on_crowded : callable, default=None
        Called once, with the numbers of active samples and of those that there is room for, when
        kernel values have to be computed again and again.
    """

    own_threads = True

    def __init__(
        self,
        kernel,
        *,
        max_bytes,
        dtype=None,
        complete=None,
        precise_kernel=None,
        on_crowded=None,
    ):
        self.n_samples = self.n_coef = kernel.n_samples
        self.kernel, self._dtype = kernel, kernel.dtype if dtype is None else dtype
        n_bytes = Triangle.n_bytes(self.n_samples, self._dtype)
        self.complete = n_bytes <= max_bytes if complete is None else complete
        self._max_bytes, self._on_crowded = max_bytes, on_crowded
        self._free_bytes = max_bytes - n_bytes if self.complete else max_bytes
        self._capacity = Triangle.capacity(_WORKING_SHARE * self._free_bytes, self._dtype)
        if precise_kernel is not None:
            scale = kernel.rounding_scale()
            if self._dtype == np.uint16:
                scale = 1.0 + _SINGLE_IN_FIXED * scale
            self.account = RoundingProbe(precise_kernel, self._as_kept, scale)
        self.rounds_independently = self._dtype == np.uint16
        self._forget()

    def _forget(self):
        """Keep no values, so that there is room."""
        self.triangle = Triangle(self.kernel, self._dtype, self.n_samples if self.complete else 0)
        self._working = Triangle(self.kernel, self._dtype)

    def _in_double(self, kernel):
        # It takes the place of this one, whose values are computed again if anyone asks.
        self._forget()
        return KernelMatrix(kernel, max_bytes=self._max_bytes, on_crowded=self._on_crowded)

    def _as_kept(self, rows):
        """Return ``K[rows]``, rounded as the values that are kept."""
        block = self.kernel.block(rows)
        if self._dtype == np.uint16:
            block = np.floor(block * np.float32(_LARGEST) + np.float32(0.5)) / _LARGEST
        return block

    def take(self, rows):
        """Return the design of the samples `rows` alone, to be used before this one."""
        self._working = Triangle(self.kernel, self._dtype)
        return KernelMatrix(
            self.kernel.take(rows), max_bytes=self._free_bytes, dtype=self._dtype, complete=False
        )

    def _hold(self, rows):
        """Keep the values between samples as far as the limit allows."""
        working = self._working
        new = rows[working.place[rows] < 0]
        n_stale = working.order.size - (rows.size - new.size)
        crowded = new.size and working.order.size + new.size > self._capacity
        # Samples that are no longer active take up room and, in every product, time. Computing
        # the values again costs about as much as four products with them; without room for the
        # new samples every product computes their values, so that it pays off earlier.
        if n_stale > working.order.size // (8 if crowded else 4):
            self._working = working = Triangle(self.kernel, self._dtype)
            new = rows
        fitting = new[: max(self._capacity - working.order.size, 0)]
        if fitting.size:
            working.keep(fitting)
        if fitting.size < new.size and not self.complete and self._on_crowded is not None:
            self._on_crowded(rows.size, self._capacity)
            self._on_crowded = None

    def product_on(self, rows, V):
        """Return ``V @ K[rows][:, rows]`` for vectors in the rows of `V`.

        For many products with the same rows: their kernel values are kept as far as possible.
        """
        if self.complete and (2 * rows.size > self.n_samples or rows.size > self._capacity):
            return super().product_on(rows, V)
        self._hold(rows)
        place = self._working.place[rows]
        inside, outside = np.flatnonzero(place >= 0), np.flatnonzero(place < 0)
        in_order = np.zeros((V.shape[0], self._working.order.size))
        in_order[:, place[inside]] = V[:, inside]
        out = np.zeros(V.shape)
        out[:, inside] = self._working.product(in_order)[:, place[inside]]
        if outside.size:
            order = np.concatenate([inside, outside])
            out[:, order] += self._computed_product(rows[order], inside.size, V[:, order])
        return out

    def _computed_product(self, rows, n_first, V):
        """Return ``V @ K[rows][:, rows]`` without what the first samples have with each other."""
        kernel, out, lock = self.kernel.take(rows), np.zeros(V.shape), Lock()

        def add(bounds):
            first, last = bounds
            values = kernel.block(slice(first, last), slice(0, last)).astype(np.float64, copy=False)
            own = V[:, :last] @ values.T
            others = V[:, first:last] @ values[:, :first]
            with lock:
                out[:, first:last] += own
                out[:, :first] += others

        bounds = np.append(np.arange(n_first, rows.size, TILE_SIZE), rows.size)
        for_each(add, pairwise(bounds), work=10 * rows.size * (rows.size - n_first))
        return out

    def product(self, V):
        """Return ``V @ K`` for vectors in the rows of `V`."""
        if not self.complete:
            return self.product_on(np.arange(self.n_samples), V)
        outside = self.triangle.outside
        if outside.size:
            self.triangle.keep(outside)
        return self.triangle.product(V[:, self.triangle.order])[:, self.triangle.place]

    def decision(self, v):
        """Return ``K @ v``: kept values, and computed ones in the columns where v is not zero."""
        if self.complete:
            return self.product(v[None])[0]
        working, support = self._working, np.flatnonzero(v)
        out = np.zeros(self.n_samples)
        if working.order.size:
            out[working.order] = working.product(v[None, working.order])[0, : working.order.size]
        kept = working.place[support] >= 0
        for rows, columns in (
            (working.outside, support[kept]),
            (np.arange(self.n_samples), support[~kept]),
        ):
            if columns.size:
                out[rows] += self.kernel.product(rows, columns, v[columns])
        return out

    def residual_image(self, residual, coef, decision, pull):
        if self.complete:
            return super().residual_image(residual, coef, decision, pull)
        # Coefficients can linger where samples are no longer active: kernel values of the
        # active ones, where `pull` is not zero, are enough.
        active = np.flatnonzero(pull)
        pull_image = self.product_on(active, pull[None, active])[0]
        image = np.zeros(self.n_samples)
        image[active] = decision[active] - pull_image
        return image, residual @ decision - pull @ decision + pull[active] @ pull_image

    def decision_step(self, step, coef, decision):
        if self.complete:
            return self.decision(step)
        # A Newton step ends with coefficients of active samples alone.
        return self.decision(coef + step) - decision

    def columns(self, columns, rows=slice(None)):
        return self.kernel.block(rows, columns).astype(np.float64)

    def max_landmarks(self, n_rows):
        if self.complete:
            return n_rows
        n_bytes = (1 - _WORKING_SHARE) * self._free_bytes
        # Values, their scaled copy while a factor is made, and their own precision.
        return int(n_bytes / ((16 + np.dtype(self._dtype).itemsize) * n_rows))

    def block(self, rows):
        """Return ``K[rows][:, rows]`` as a new float64 array."""
        n_bytes = 16 * rows.size**2  # and as much for a factor
        if n_bytes > max(self._max_bytes, _SMALL_BLOCK):
            raise MemoryLimitError(rows.size, n_bytes)
        if n_bytes > _SMALL_BLOCK:
            self._working = Triangle(self.kernel, self._dtype)  # makes room
        return self.kernel.block(rows, rows).astype(np.float64, copy=False)

    @cached_property
    def squared_norms(self):
        """The diagonal of K as float64."""
        return self.kernel.diagonal().astype(np.float64)

    def rows(self, r):
        """Return the rows for coordinate descent and the decision values they will update."""
        decision = self.decision(r)
        cache = RowCache(self.kernel, self._free_bytes)
        return GramRows(None, cache.row, decision, self.squared_norms), decision


def _n_blocks(n_samples):
    return -(-n_samples // TILE_SIZE)


def _n_values(n_samples):
    n_blocks = _n_blocks(n_samples)
    return n_blocks * (n_blocks + 1) // 2 * TILE_SIZE**2
