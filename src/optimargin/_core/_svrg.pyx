"""Stochastic variance-reduced gradient, one sample at a time.

With the pulls p of the last snapshot, z = sum_i p_i phi_i and v = w - z, the step of the method
is

    v <- (1 - eta) v + eta n (p_i(w) - p_i) phi_i

because the full gradient at the snapshot is its w minus z. Written as v = a u with a number a,
shrinking all coordinates takes one multiplication. So a step takes O(nnz_i) operations, whatever
the number of features, and coordinates that do not change need no bookkeeping.

Reference: R. Johnson and T. Zhang, Accelerating stochastic gradient descent using predictive
variance reduction, NIPS 2013.
"""

from libc.stdint cimport uint64_t

from optimargin._core._coordinate_descent cimport Step
from optimargin._core._random cimport shuffle, start
from optimargin._core._rows cimport Rows

import numpy as np


cdef class StochasticPass:
    """Passes over the samples in random order; the state is kept between calls."""

    cdef Step loss
    cdef Py_ssize_t n_samples
    cdef Py_ssize_t[::1] order
    cdef uint64_t random_state
    cdef Py_ssize_t place  # samples of the current pass that were visited

    def __init__(self, Step loss, Py_ssize_t n_samples, *, uint64_t seed):
        self.loss = loss
        self.n_samples = n_samples
        self.order = np.arange(n_samples, dtype=np.intp)
        self.random_state = start(seed)
        self.place = 0

    def run(
        self,
        Rows rows,  # in, out: the rows of u
        const double[::1] snapshot_decision,  # in: phi_i' z
        const double[::1] snapshot_pull,  # in
        double intercept,
        double eta,
        double intercept_eta,
        Py_ssize_t n_steps,
        Py_ssize_t batch_size,
    ):
        """Make `n_steps` steps of `batch_size` samples; return (a, intercept)."""
        cdef Py_ssize_t n_samples = self.n_samples, place = self.place, _step, k, i, last
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
                    change[k] = scale * (
                        self.loss.pull(
                            i, snapshot_decision[i] + a * rows.decision(i) + intercept
                        ) - snapshot_pull[i]
                    )
                    moved += change[k]
                a *= 1.0 - eta
                for k in range(batch_size):
                    if change[k] != 0.0:
                        rows.add(self.order[place + k], eta * change[k] / a)
                intercept += intercept_eta * moved
                place += batch_size
        if self.loss.error is not None:
            raise self.loss.error
        self.place = place
        return a, intercept
