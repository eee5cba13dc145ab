"""Pairs of classes of few samples: many small kernel problems, solved side by side.

Samples of one class are in as many pairs as there are other classes. The kernel values among them
are computed once. Coordinate descent then takes a few milliseconds per pair.
"""

from dataclasses import replace
from functools import cached_property
from threading import local
from typing import Any

import numpy as np

from optimargin._threads import for_each
from optimargin.certificates import certified
from optimargin.designs import GramDesign
from optimargin.kernels import PreparedKernel
from optimargin.solvers import DualCD, Solution


def solve_small_pairs(prepared, places, options, progress) -> list[Solution]:
    """Return one certified solution per output, over its own rows.

    Parameters
    ----------
    prepared : Prepared
        With zero weights for the samples of other classes.
    places : list of ndarray
        The rows of each output.
    options : Options
    progress : Progress
    """
    X, targets = prepared.X, prepared.targets
    values = _PairValues(prepared.kernel, X)
    solutions: list[Any] = [None] * len(targets)

    def solve(k):
        own, target = places[k], targets[k]
        labels = target.value[own]
        sides = [own[labels == sign] for sign in (-1.0, 1.0)]
        order = np.concatenate(sides)
        own_part = prepared.output(k, order)
        problem = own_part.objective.problem(
            values.design(sides, order), own_part.targets[0], fit_intercept=options.fit_intercept
        )
        with progress.problem() as on_iteration:
            solver = DualCD(
                tol=options.tol,
                max_iter=options.max_iter,
                seed=options.seed,
                on_iteration=on_iteration,
            )
            found = certified(problem, solver.solve(problem), own_part)
        place = np.argsort(order)
        solutions[k] = replace(found, coef=found.coef[place], pull=found.pull[place], decision=None)

    for_each(solve, range(len(targets)), work=X.shape[0] ** 2)
    return solutions


class _PairValues:
    """Kernel values of pairs of classes; those within a class are kept."""

    def __init__(self, kernel, X):
        self._single, self._X = PreparedKernel(kernel, X, np.float32), X
        self._scale = self._single.rounding_scale()
        self._within: dict[int, np.ndarray] = {}
        self._buffers = local()  # new memory for every pair would cost more than its values

    @cached_property
    def _double(self):
        return PreparedKernel(self._single.kernel, self._X, np.float64)

    def design(self, sides, samples):
        """Return the design of two classes, to be used before a thread asks for the next."""
        first, size = sides[0].size, samples.size
        if getattr(self._buffers, "values", np.empty(0)).size < size**2:
            self._buffers.values = np.empty(size**2, dtype=np.float32)
        K = self._buffers.values[: size**2].reshape(size, size)
        K[:first, :first], K[first:, first:] = (self._within_class(side) for side in sides)
        K[first:, :first] = self._single.block(sides[1], sides[0])
        K[:first, first:] = K[first:, :first].T
        return GramDesign(
            K, precise_kernel=lambda: self._double.take(samples), scale=self._scale[samples]
        )

    def _within_class(self, side):
        name = int(side[0])  # classes are disjoint
        if name not in self._within:  # threads may compute it twice, to the same values
            self._within[name] = self._single.block(side, side)
        return self._within[name]
