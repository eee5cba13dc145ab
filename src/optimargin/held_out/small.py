"""Refitters of the band loss over kernel values, which run without the interpreter.

All outputs are solved, left out and differentiated in one compiled call, be they two hundred pairs
of classes or one (`optimargin._core._small_systems`).
"""

from contextlib import nullcontext
from functools import cached_property

import numpy as np

from optimargin._core._small_systems import SmallSystems
from optimargin._threads import n_threads_for, one_blas_thread
from optimargin.designs import GramDesign
from optimargin.held_out.refitter import (
    GramTest,
    Layout,
    Refitter,
    SystemsSolved,
    own_rows,
    shared_curvature,
)
from optimargin.systems import Form

_DENSE_BYTES = 1e9  # of derivatives by all kernel values, which several outputs add up


class GramRefitter(Refitter):
    """Problems of the band loss over one Gram matrix.

    Parameters
    ----------
    K : ndarray of shape (n_samples, n_samples), float64, C-contiguous
    targets : list of Target
        Of positive weights on the rows that an output is asked for, else of zero ones.
    fit_intercept : bool
    K_test : ndarray of shape (n_test, n_samples), default=None
    design : LinearGramDesign, default=None
        For linear data: turns coefficients of samples into those of features.
    """

    def __init__(self, K, targets, fit_intercept, K_test=None, design=None):
        self.targets, self.fit_intercept = targets, fit_intercept
        self._own = own_rows(targets)
        self.has_own_rows = self._own[0] is not None
        self.number = 0  # of solves
        self._told: dict = {}  # the kernel values that each kind of problems knows
        self.change_kernel(K, K_test, design)

    def _made(self, groups):
        """Return the compiled problems of groups of outputs, and their layout."""
        layout = Layout.of(self.targets, self._own, groups)
        firsts = [group[0] for group in groups]
        every = np.arange(layout.n_samples)
        rows = [every if self._own[k] is None else self._own[k] for k in firsts]
        systems = SmallSystems(
            rows,
            [len(group) for group in groups],
            layout.target.value,
            layout.target.orientation,
            [self.targets[k].weight[own] for k, own in zip(firsts, rows, strict=True)],
            self.fit_intercept,
        )
        return systems, layout

    @cached_property
    def _each(self):
        return self._made([[k] for k in range(len(self.targets))])

    @cached_property
    def _together(self):
        return self._made([list(range(len(self.targets)))])

    @cached_property
    def work(self):
        """Operations of the inverses of all problems."""
        return sum(np.count_nonzero(target.weight) ** 3.0 for target in self.targets)

    def _told_of_kernel(self, kind):
        """Return compiled problems that know the kernel values."""
        systems, _ = made = getattr(self, kind)
        if self._told.get(kind) is not self.K:
            systems.change_kernel(self.K)
            self._told[kind] = self.K
        return made

    def _solve(self, systems, numbers):
        self.number += 1
        n_threads = n_threads_for(self.work) if len(numbers) > 1 else 1
        with one_blas_thread() if n_threads > 1 else nullcontext():
            systems.solve(numbers, n_threads)

    def solve(self, objective):
        """Solve the problem of every output."""
        losses = [objective.loss(target.scale) for target in self.targets]
        shared = len(losses) > 1 and not self.has_own_rows
        shared = shared and shared_curvature(losses, self.targets) is not None
        systems, layout = self._told_of_kernel("_together" if shared else "_each")
        self._solve(systems, _numbers(losses[:1] if shared else losses))
        theta = layout.spread(np.zeros((layout.n_samples, len(losses))), systems.theta)
        offset, value = (layout.in_order(v) for v in (systems.intercept, systems.objective))
        return GramSolved(systems, self, layout, losses, theta, offset, value, np.zeros(len(value)))

    def predict_path(self, objectives):
        """Return decision values of the test samples for one setting after another."""
        systems, layout = self._told_of_kernel("_each")
        K_test = self._test_values
        decisions = np.empty((len(objectives), K_test.shape[0], len(self.targets)))
        theta = np.empty((len(objectives), layout.rows.size))
        intercept = np.empty((len(objectives), len(self.targets)))
        scales = [target.scale for target in self.targets]
        for p, objective in enumerate(objectives):
            self._solve(systems, _numbers([objective.loss(scale) for scale in scales]))
            theta[p], intercept[p] = systems.theta, systems.intercept
        for k, (own, place) in enumerate(zip(layout.own, layout.places, strict=True)):
            values = K_test[:, own] if self.has_own_rows else K_test
            decisions[..., k] = theta[:, place] @ values.T + intercept[:, k, None]
        return decisions

    def change_kernel(self, K, test=None, design=None):
        """Go on with another kernel."""
        self.K, self._test_values = K, test
        self.test = None if test is None else GramTest(test)
        self.design = GramDesign(K) if design is None else design


def _numbers(losses):
    return np.array([(loss.C1, loss.C2, loss.D) for loss in losses])


class GramSolved(SystemsSolved):
    """What the compiled problems have found.

    Parameters
    ----------
    systems : SmallSystems
    *found
        See `SystemsSolved`.
    """

    def __init__(self, systems, *found):
        super().__init__(*found)
        self._systems = systems

    def _left_out(self):
        return self._systems.left_out()

    def _folds_left_out(self, folds):
        systems, layout = self._systems, self._layout
        n_threads, fold, n_folds = n_threads_for(self._refitter.work), folds.fold, folds.n_folds

        def differentiate(slope):
            *by_system, left, coef = systems.differentiate(fold, n_folds, slope, n_threads)
            own_rows = self._refitter.has_own_rows
            if own_rows and 8.0 * layout.n_samples**2 <= _DENSE_BYTES:
                return *by_system, [_DenseForm(systems.by_kernel(left, coef, layout.n_samples))]
            forms = [
                Form("samples", left[:, place], coef[:, place], own if own_rows else None)
                for own, place in zip(layout.own, layout.places, strict=True)
            ]
            return *by_system, forms

        return systems.leave_folds_out(fold, n_folds, n_threads), differentiate

    def _differentiate_test(self, slope):
        systems, layout = self._systems, self._layout
        total = np.ascontiguousarray(slope.sum(axis=0)[layout.order])
        by_aim = systems.adjoint(layout.flat(self._test.pull_back(slope)), total)
        curvature = systems.curvature()
        by_log = by_aim * systems.theta / np.where(curvature > 0, curvature, 1.0)
        left, theta = layout.spread(np.zeros_like(self._coef), by_aim), self._coef.T
        return by_aim, by_log, [Form("samples", -left.T, theta), Form("test", slope.T, theta)]

    def _pull_and_curvature(self):
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
