"""Stochastic variance-reduced gradient over samples met one at a time.

With the dual point d of the last snapshot, z = sum_i y_i d_i phi_i and v = w - z, the step of
the method is

    v <- (1 - eta) v + eta (n y_i (d_i(w) - d_i)) phi_i

because the full gradient at the snapshot is its w less z. Written as v = a u with a number a,
the shrinking of all coordinates costs one multiplication, so a step costs O(nnz_i) however many
features there are, with no bookkeeping of coordinates that were not touched.

Reference: R. Johnson and T. Zhang, Accelerating stochastic gradient descent using predictive
variance reduction, NIPS 2013.
"""

from libc.stdint cimport uint64_t

from optimargin._core._coordinate_descent cimport Step
from optimargin._core._random cimport shuffle, start
from optimargin._core._rows cimport Rows

import numpy as np


cdef class StochasticPass:
    """Passes over the samples in random order, with a state that survives between them."""

    cdef Step loss
    cdef const double[::1] y
    cdef Py_ssize_t[::1] order
    cdef uint64_t random_state
    cdef Py_ssize_t place  # samples of the current pass that were visited

    def __init__(self, Step loss, const double[::1] y, *, uint64_t seed):
        self.loss = loss
        self.y = y
        self.order = np.arange(y.shape[0], dtype=np.intp)
        self.random_state = start(seed)
        self.place = 0

    def run(
        self,
        Rows rows,  # in, out: the rows of u
        const double[::1] snapshot_decision,  # in: phi_i' z
        const double[::1] snapshot_dual,  # in
        double intercept,
        double eta,
        double intercept_eta,
        Py_ssize_t n_steps,
        Py_ssize_t batch_size,
    ):
        """Make `n_steps` steps of `batch_size` samples; return (a, intercept)."""
        cdef Py_ssize_t n_samples = self.y.shape[0], place = self.place, _step, k, i, last
        cdef double a = 1.0, scale = <double> n_samples / batch_size, moved
        cdef double[::1] change = np.empty(batch_size)
        with nogil:
            for _step in range(n_steps):
                if place + batch_size > n_samples:
                    place = 0
                if place == 0:
                    shuffle(&self.random_state, &self.order[0], n_samples)
                moved = 0.0
                last = n_samples - 1
                for k in range(batch_size):
                    i = self.order[place + k]
                    rows.expect(self.order[min(place + k + 2, last)])
                    change[k] = scale * self.y[i] * (
                        self.loss.dual(
                            i,
                            self.y[i] * (snapshot_decision[i] + a * rows.decision(i) + intercept),
                        ) - snapshot_dual[i]
                    )
                    moved += change[k]
                a *= 1.0 - eta
                for k in range(batch_size):
                    if change[k] != 0.0:
                        rows.add(self.order[place + k], eta * change[k] / a)
                intercept += intercept_eta * moved
                place += batch_size
        self.place = place
        return a, intercept
