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
    ):
        """Make `n_steps` steps; return (a, intercept)."""
        cdef Py_ssize_t n_samples = self.n_samples, place = self.place, _step, i
        cdef double a = 1.0, decision, change
        with nogil:
            for _step in range(n_steps):
                if place == n_samples:
                    place = 0
                if place == 0:
                    shuffle(&self.random_state, &self.order[0], n_samples)
                i = self.order[place]
                rows.expect(self.order[min(place + 2, n_samples - 1)])
                decision = snapshot_decision[i] + a * rows.decision(i) + intercept
                change = n_samples * (self.loss.pull(i, decision) - snapshot_pull[i])
                a *= 1.0 - eta
                if change != 0.0:
                    rows.add(i, eta * change / a)
                intercept += intercept_eta * change
                place += 1
        if self.loss.error is not None:
            raise self.loss.error
        self.place = place
        return a, intercept
