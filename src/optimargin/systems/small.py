"""Problems of the band loss over kernel values, which run without the interpreter.

All outputs are solved, left out and differentiated in one compiled call, be they two hundred pairs
of classes or one (`optimargin._core._small_systems`).
"""

from contextlib import nullcontext
from functools import cached_property

import numpy as np

from optimargin._core._small_systems import SmallSystems
from optimargin._threads import n_threads_for, one_blas_thread
from optimargin.systems.base import Derivatives, Form, IndefiniteError, Values
from optimargin.systems.outputs import Systems

_DENSE_BYTES = 1e9  # of derivatives by all kernel values, which several outputs add up


class CompiledSystems(Systems):
    """Systems of the band loss over a `GramDesign` of float64.

    Parameters
    ----------
    layout : Layout
    targets : list of Target
    fit_intercept : bool
    together : bool
        Whether all outputs share a system.
    """

    def __init__(self, layout, targets, fit_intercept, *, together):
        super().__init__(layout)
        self._n_losses = 1 if together else len(targets)
        own, target = layout.own[: self._n_losses], layout.target
        self._systems = SmallSystems(
            own,
            [len(targets)] if together else [1] * len(targets),
            target.value,
            target.orientation,
            [each.weight[rows] for each, rows in zip(targets, own, strict=False)],
            fit_intercept,
        )

    @cached_property
    def operations(self):
        """Those of the inverses of all problems."""
        return sum(rows.size**3.0 for rows in self.layout.own[: self._n_losses])

    @property
    def n_bytes(self):
        """A matrix and the kernel values of each problem on its own rows."""
        return sum(16.0 * rows.size**2 for rows in self.layout.own[: self._n_losses])

    def use(self, design, test):
        """Go on with another design of the same samples."""
        super().use(design, test)
        self._systems.change_kernel(design.K)

    def solve(self, objective, losses):
        """Minimise the problem of every output, from its last solution."""
        self._solve(losses)
        self.coef = self._columns(self._systems.theta)
        self.intercept = self._systems.intercept.copy()  # which the next solve overwrites
        self.objective = self._systems.objective.copy()
        self.dual_gap = np.zeros(len(losses))

    def _solve(self, losses):
        self.number += 1
        numbers = np.array([(loss.C1, loss.C2, loss.D) for loss in losses[: self._n_losses]])
        n_threads = n_threads_for(self.operations) if self._n_losses > 1 else 1
        with one_blas_thread() if n_threads > 1 else nullcontext():
            try:
                self._systems.solve(numbers, n_threads)
            except FloatingPointError:
                raise IndefiniteError from None

    def _columns(self, flat):
        """Return coefficients of all samples."""
        return self.layout.spread(np.zeros((self.layout.n_samples, len(self.layout.own))), flat)

    def path(self, losses):
        """Return decision values of the test samples for one list of losses after another."""
        systems, layout, values = self._systems, self.layout, self.test.K
        theta = np.empty((len(losses), layout.rows.size))
        intercept = np.empty((len(losses), len(layout.own)))
        for p, of_point in enumerate(losses):
            self._solve(of_point)
            theta[p], intercept[p] = systems.theta, systems.intercept
        decisions = np.empty((len(losses), len(values), len(layout.own)))
        for k, (own, place) in enumerate(zip(layout.own, layout.places, strict=True)):
            K = values[:, own] if layout.has_own_rows else values
            decisions[..., k] = theta[:, place] @ K.T + intercept[:, k, None]
        return decisions

    def left_out(self):
        """Return the values of samples for the models without each, flat."""
        return self._systems.left_out()

    def folds(self, folds):
        """Return values for the models without each fold, flat."""
        systems, layout = self._systems, self.layout
        n_threads, given = n_threads_for(self.operations), (folds.fold, folds.n_folds)

        def differentiate(slope):
            by_aim, by_log, left, coef = systems.differentiate(*given, slope, n_threads)
            own_rows = layout.has_own_rows
            if own_rows and 8.0 * layout.n_samples**2 <= _DENSE_BYTES:
                dense = systems.by_kernel(left, coef, layout.n_samples)
                return Derivatives(by_aim, by_log, [_DenseForm(dense)])
            forms = [
                Form("samples", left[:, place], coef[:, place], own if own_rows else None)
                for own, place in zip(layout.own, layout.places, strict=True)
            ]
            return Derivatives(by_aim, by_log, forms)

        values = systems.leave_folds_out(*given, n_threads)
        return Values.of(self, values, differentiate)

    def differentiate_test(self, slope):
        """Return derivatives of a function of the values of test samples."""
        systems, by_coef = self._systems, self.test.represents(slope)
        by_aim = systems.adjoint(self.layout.flat(by_coef), slope.sum(axis=0))
        curvature = systems.curvature()
        by_log = by_aim * systems.theta / np.where(curvature > 0, curvature, 1.0)
        left, theta = self._columns(by_aim), self.coef.T
        forms = [Form("samples", -left.T, theta), Form("test", slope.T, theta)]
        return Derivatives(by_aim, by_log, forms)

    def pull_and_curvature(self):
        """Return the pulls and the curvatures of the solution, flat."""
        return self._systems.theta, self._systems.curvature()


class _DenseForm:
    """Bilinear forms of many outputs, added up before they are contracted."""

    of = "samples"

    def __init__(self, dense):
        self._dense = dense

    def contract(self, slope):
        """Return the derivative by a parameter; see `Form`."""
        return float(np.vdot(self._dense, slope))

    def add_to(self, dense):
        """Add the derivatives by all kernel values to an array of their shape."""
        dense += self._dense
