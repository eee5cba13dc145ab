"""Problems of the band loss over kernel values, which run without the interpreter.

All outputs are solved, left out and differentiated in one compiled call: one problem, or two
hundred pairs of classes (`optimargin._core._small_systems`). Its flat arrays hold what belongs to
the rows of outputs, output by output.
"""

from contextlib import nullcontext

import numpy as np

from optimargin._core._small_systems import SmallSystems
from optimargin._threads import n_threads_for, one_blas_thread
from optimargin.held_out.refitter import AdditiveRefitter
from optimargin.systems.base import Derivatives, Form, IndefiniteError


class CompiledRefitter(AdditiveRefitter):
    """Problems of the band loss over a `GramDesign` of float64.

    Parameters
    ----------
    design, targets, fit_intercept, test
        As in `AdditiveRefitter`.
    """

    def __init__(self, design, targets, fit_intercept, test=None):
        super().__init__(design, targets, fit_intercept, test)
        ends = np.searchsorted(self.output, np.arange(1, len(targets)))
        self._places = np.split(np.arange(self.rows.size), ends)
        self._own = [self.rows[place] for place in self._places]

    def change_design(self, design, test=None):
        """Go on with other kernel values; the last solution stays a start."""
        super().change_design(design, test)
        for systems in self._made.values():
            systems.change_kernel(design.K)

    def _spread(self, flat):
        """Return an array of shape (n_samples, n_outputs), zero on rows that are not asked for."""
        out = np.zeros(self.weight.shape)
        out[self.rows, self.output] = flat
        return out

    def _make(self, together):
        """Return the problems of single outputs, or the one of all of them."""
        own = self._own[:1] if together else self._own
        n_outputs = len(self.targets)
        systems = SmallSystems(
            own,
            [n_outputs] if together else [1] * n_outputs,
            self.target.value,
            self.target.orientation,
            [each.weight[rows] for each, rows in zip(self.targets, own, strict=False)],
            self.fit_intercept,
        )
        systems.change_kernel(self.design.K)
        return systems

    def _solve(self, objective, losses):
        self._minimise(losses)
        # The next solve overwrites what belongs to the problems.
        found = self._now.intercept.copy(), self._now.objective.copy(), np.zeros(len(losses))
        return self._spread(self._now.theta), *found

    def _minimise(self, losses):
        own = self._own[: self._now.n_problems]
        self._n_threads = n_threads_for(sum(rows.size**3.0 for rows in own)) if own[1:] else 1
        numbers = np.array([(loss.C1, loss.C2, loss.D) for loss in losses[: len(own)]])
        with one_blas_thread() if self._n_threads > 1 else nullcontext():
            try:
                self._now.solve(numbers, self._n_threads)
            except FloatingPointError:
                raise IndefiniteError from None

    def predict_path(self, objectives):
        """Return decision values of the test samples for one setting after another."""
        self.number += 1
        self._use(together=False)
        K, n_outputs = self.test.K, len(self.targets)
        theta = np.empty((len(objectives), self.rows.size))
        intercept = np.empty((len(objectives), n_outputs))
        for p, objective in enumerate(objectives):
            losses = [objective.loss(target.scale) for target in self.targets]
            self._minimise(losses)
            theta[p], intercept[p] = self._now.theta, self._now.intercept
        decisions = np.empty((len(objectives), len(K), n_outputs))
        for k, (own, place) in enumerate(zip(self._own, self._places, strict=True)):
            values = K[:, own] if self.has_own_rows else K
            decisions[..., k] = theta[:, place] @ values.T + intercept[:, k, None]
        return decisions

    def put_left_out(self, out):
        """Put the values of samples for the models without each into an array."""
        out[self.rows, self.output] = self._now.left_out()

    def put_folds(self, folds, out):
        """Put values for the models without each fold into an array of all repeats."""
        systems, given = self._now, (folds.fold, folds.n_folds)
        out[:, self.rows, self.output] = systems.leave_folds_out(*given, self._n_threads)

        def differentiate(slope):
            by_aim, by_log, left, coef = systems.differentiate(
                *given, self.flat(slope), self._n_threads
            )
            if self.has_own_rows:
                forms = [Form("samples", None, systems.by_kernel(left, coef, len(self.design.K)))]
            else:
                forms = [Form("samples", left[:, at], coef[:, at]) for at in self._places]
            return Derivatives(by_aim, by_log, forms)

        return differentiate

    def differentiate_test(self, slope):
        """Return derivatives of a function of the values of test samples."""
        systems, by_coef = self._now, self.test.represents(slope)
        by_aim = systems.adjoint(self.flat(by_coef), slope.sum(axis=0))
        pull, curvature = self.pull_and_curvature()
        by_log = by_aim * pull / np.where(curvature > 0, curvature, 1.0)
        left, theta = self._spread(by_aim).T, self._spread(pull).T
        forms = [Form("samples", -left, theta), Form("test", slope.T, theta)]
        return Derivatives(by_aim, by_log, forms)

    def pull_and_curvature(self):
        """Return the pulls and the curvatures of the solution, flat."""
        return self._now.theta, self._now.curvature()
