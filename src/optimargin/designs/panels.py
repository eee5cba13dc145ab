"""The Gram matrix of a kernel within a memory limit.

Only active samples have coefficients, so that a Newton step asks for products with the rows and
columns of few samples many times, and for decision values of all samples once. Where the whole
matrix fits, its lower triangle is kept (`_all`). Where it does not, the values between samples
that were active are kept (`_working`), in the order in which they became active, and all others
are computed when needed; what is left of the limit (`_free_bytes`) is for preconditioners.
"""

from functools import cached_property
from itertools import pairwise
from threading import Lock

import numpy as np

from optimargin._core import _gram
from optimargin._core._rows import GramRows
from optimargin._threads import for_each, n_threads_for
from optimargin.certificates import RoundingProbe
from optimargin.designs.base import SampleSpaceDesign
from optimargin.kernels import RowCache

_PANEL_ROWS = 128
_SMALL_BLOCK = 4e7  # bytes that any limit has room for
_PANEL_SHARE = 0.75  # of the limit, where not all fits; the rest is left to preconditioners


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


class Panels:
    """Kernel values between some samples: panels of a lower triangle that can grow.

    Parameters
    ----------
    kernel : PreparedKernel
        On all samples.
    """

    def __init__(self, kernel):
        self.kernel = kernel
        self.kept = np.empty(0, dtype=np.intp)  # samples in the order of their panels
        self.place = np.full(kernel.n_samples, -1)  # of each sample in that order, if kept
        self._panels = []  # (buffer, bounds, offsets) as in `_gram.panel_product`

    @staticmethod
    def capacity(n_bytes, dtype):
        """Return the number of samples whose panels fit into so many bytes."""
        # Row i of the triangle takes at most i + _PANEL_ROWS values.
        n_values = max(n_bytes, 0) / dtype.itemsize
        return int(np.sqrt(_PANEL_ROWS**2 + 2 * n_values) - _PANEL_ROWS)

    def keep(self, rows):
        """Compute and keep the kernel values of samples with each other and with all kept."""
        first, last = self.kept.size, self.kept.size + rows.size
        self.kept = np.append(self.kept, rows)
        self.place[rows] = np.arange(first, last)
        bounds = np.append(np.arange(first, last, _PANEL_ROWS), last)
        offsets = np.append(0, np.cumsum(np.diff(bounds) * bounds[1:]))
        buffer = np.empty(offsets[-1], dtype=self.kernel.dtype)
        kernel = self.kernel.take(self.kept)

        def fill(k):
            panel = buffer[offsets[k] : offsets[k + 1]].reshape(-1, bounds[k + 1])
            kernel.block(slice(*bounds[k : k + 2]), slice(0, bounds[k + 1]), out=panel)

        for_each(fill, range(bounds.size - 1), work=10 * buffer.size)
        self._panels.append((buffer, bounds, offsets))

    def product(self, V):
        """Return ``V @ K[kept][:, kept]`` for vectors in the rows of `V`."""
        out = np.zeros(V.shape)
        V = np.ascontiguousarray(V)
        for buffer, bounds, offsets in self._panels:
            n_threads = min(n_threads_for(buffer.size), bounds.size - 1)
            partial = np.zeros((n_threads, *V.shape))
            _gram.panel_product(buffer, bounds, offsets, V, partial, n_threads)
            out += partial.sum(axis=0)
        return out


class PanelDesign(SampleSpaceDesign):
    """A kernel matrix kept as panels of its lower triangle, within a memory limit.

    Parameters
    ----------
    kernel : PreparedKernel
        On the samples.
    max_bytes : float
        For kernel values that are kept.
    complete : bool, default=None
        Whether all kernel values are kept; as the limit allows when not given.
    precise_kernel : callable, default=None
        Makes the same kernel in double precision, where the values of `kernel` are rounded.
    on_crowded : callable, default=None
        Called once, with the numbers of active samples and of those that there is room for, when
        kernel values have to be computed again and again.
    """

    own_threads = True

    def __init__(self, kernel, *, max_bytes, complete=None, precise_kernel=None, on_crowded=None):
        self.n_samples = self.n_coef = kernel.n_samples
        self._kernel = kernel
        if complete is None:
            complete = self.n_samples <= Panels.capacity(max_bytes, kernel.dtype)
        self.complete = complete
        self._max_bytes = self._free_bytes = max_bytes
        if complete:
            self._all = Panels(kernel)
            self._all.keep(np.arange(self.n_samples))
            self._free_bytes -= self.n_samples**2 / 2 * kernel.dtype.itemsize
        # The values between samples that were active recently.
        self._working = Panels(kernel)
        self._capacity = Panels.capacity(_PANEL_SHARE * self._free_bytes, kernel.dtype)
        self._make_precise = precise_kernel
        self.is_rounded = precise_kernel is not None
        self._probe = RoundingProbe(
            lambda: self._precise_kernel, kernel.block, kernel.rounding_scale()
        )
        self._on_crowded = None if complete else on_crowded

    @cached_property
    def _precise_kernel(self):
        return self._make_precise()

    @cached_property
    def precise(self):
        """The same design in double precision."""
        return PanelDesign(self._precise_kernel, max_bytes=self._free_bytes)

    @property
    def finest(self):
        """The design in double precision where a solver needed that, otherwise this one."""
        return vars(self).get("precise", self)

    def rounding(self, coef, decision, weight, *, is_stiff=False):
        """Return what rounding can do; see `RoundingProbe`."""
        return self._probe.effects(coef, decision, weight, is_stiff=is_stiff)

    def take(self, rows):
        """Return the design of the samples `rows` alone, to be used before this one."""
        self._working = Panels(self._kernel)
        return PanelDesign(self._kernel.take(rows), max_bytes=self._free_bytes, complete=False)

    def _hold(self, rows):
        """Keep the values between samples as far as the limit allows."""
        working = self._working
        new = rows[working.place[rows] < 0]
        n_stale = working.kept.size - (rows.size - new.size)
        crowded = new.size and working.kept.size + new.size > self._capacity
        # Samples that are no longer active take up room and, in every product, time. Computing
        # the panels again costs about as much as four products with them; without room for the
        # new samples every product computes their values, so that it pays off earlier.
        if n_stale > working.kept.size // (8 if crowded else 4):
            self._working = working = Panels(self._kernel)
            new = rows
        fitting = new[: max(self._capacity - working.kept.size, 0)]
        if fitting.size:
            working.keep(fitting)
        if fitting.size < new.size and self._on_crowded is not None:
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
        padded = np.zeros((V.shape[0], self._working.kept.size))
        padded[:, place[inside]] = V[:, inside]
        out = np.zeros(V.shape)
        out[:, inside] = self._working.product(padded)[:, place[inside]]
        if outside.size:
            order = np.concatenate([inside, outside])
            out[:, order] += self._computed_product(rows[order], inside.size, V[:, order])
        return out

    def _computed_product(self, rows, n_first, V):
        """Return ``V @ K[rows][:, rows]`` without what the first samples have with each other."""
        kernel, V = self._kernel.take(rows), np.ascontiguousarray(V)
        out, lock = np.zeros(V.shape), Lock()

        def add(bounds):
            panel = kernel.block(slice(*bounds), slice(0, bounds[1])).ravel()
            partial = np.zeros((1, *V.shape))
            offsets = np.array([0, panel.size])
            _gram.panel_product(panel, np.array(bounds), offsets, V, partial, 1)
            with lock:
                out[...] += partial[0]

        bounds = np.append(np.arange(n_first, rows.size, _PANEL_ROWS), rows.size)
        for_each(add, pairwise(bounds), work=10 * rows.size * (rows.size - n_first))
        return out

    def product(self, V):
        """Return ``V @ K`` for vectors in the rows of `V`."""
        if self.complete:
            return self._all.product(V)
        return self.product_on(np.arange(self.n_samples), V)

    def decision(self, v):
        """Return ``K @ v``: kept values, and computed ones in the columns where v is not zero."""
        if self.complete:
            return self.product(v[None])[0]
        working, support = self._working, np.flatnonzero(v)
        out = np.zeros(self.n_samples)
        out[working.kept] = working.product(v[None, working.kept])[0]
        kept = working.place[support] >= 0
        for rows, columns in (
            (np.flatnonzero(working.place < 0), support[kept]),
            (np.arange(self.n_samples), support[~kept]),
        ):
            if columns.size:
                out[rows] += self._kernel.product(rows, columns, v[columns])
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
        return self._kernel.block(rows, columns).astype(np.float64)

    def max_landmarks(self, n_rows):
        if self.complete:
            return n_rows
        n_bytes = (1 - _PANEL_SHARE) * self._free_bytes
        # Values, their scaled copy while a factor is made, and their own precision.
        return int(n_bytes / ((16 + self._kernel.dtype.itemsize) * n_rows))

    def block(self, rows):
        """Return ``K[rows][:, rows]`` as a new float64 array."""
        n_bytes = 16 * rows.size**2  # and as much for a factor
        if n_bytes > max(self._max_bytes, _SMALL_BLOCK):
            raise MemoryLimitError(rows.size, n_bytes)
        if n_bytes > _SMALL_BLOCK:
            self._working = Panels(self._kernel)  # makes room
        return self._kernel.block(rows, rows).astype(np.float64, copy=False)

    @cached_property
    def squared_norms(self):
        """The diagonal of K as float64."""
        return self._kernel.diagonal().astype(np.float64)

    def rows(self, r):
        """Return the rows for coordinate descent and the decision values they will update."""
        decision = self.decision(r)
        cache = RowCache(self._kernel, self._free_bytes)
        return GramRows(None, cache.row, decision, self.squared_norms), decision
