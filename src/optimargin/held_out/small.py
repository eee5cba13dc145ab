"""Refitters of the band loss over kernel values, which run without the interpreter.

All outputs are solved, left out and differentiated in one compiled call, be they two hundred pairs
of classes or one (`optimargin._core._small_systems`).
"""

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from optimargin._core._small_systems import SmallSystems
from optimargin._threads import n_threads_for, one_blas_thread
from optimargin.held_out.refitter import (
    Derivatives,
    HeldOut,
    Refitter,
    Solved,
    own_rows,
    shared_curvature,
)
from optimargin.systems import Form, OutlivedError
from optimargin.targets import Target

_DENSE_BYTES = 1e9  # of derivatives by all kernel values, which several outputs add up


@dataclass(frozen=True)
class _Outputs:
    """Outputs in the order of flat arrays: problem by problem, those that share one together.

    Attributes
    ----------
    systems : SmallSystems
    order : ndarray of shape (n_outputs,)
        Which output each is.
    own : list of ndarray
        The rows of each.
    target : Target
        Of all rows of all of them, one after the other.
    n_samples : int
    """

    systems: Any
    order: np.ndarray
    own: list
    target: Target
    n_samples: int

    @classmethod
    def of(cls, targets, rows, groups, fit_intercept):
        """Return groups of outputs that share a problem.

        Parameters
        ----------
        targets : list of Target
        rows : list of ndarray or None
        groups : list of list of int
        fit_intercept : bool
        """
        n_samples = targets[0].n_samples
        rows = [np.arange(n_samples) if own is None else own for own in rows]
        order = np.concatenate(groups)
        own = [rows[k] for k in order]

        def flat(name):
            return np.concatenate([getattr(targets[k], name)[rows[k]] for k in order])

        target = Target(flat("value"), flat("orientation"), flat("weight"))
        systems = SmallSystems(
            [rows[group[0]] for group in groups],
            [len(group) for group in groups],
            target.value,
            target.orientation,
            [targets[group[0]].weight[rows[group[0]]] for group in groups],
            fit_intercept,
        )
        return cls(systems, order, own, target, n_samples)

    @cached_property
    def rows(self):
        """The row of each entry of flat arrays."""
        return np.concatenate(self.own)

    @cached_property
    def output(self):
        """The output of each entry of flat arrays."""
        return np.repeat(self.order, [own.size for own in self.own])

    @cached_property
    def starts(self):
        """Where each output begins in flat arrays; the last one is their size."""
        return np.append(0, np.cumsum([own.size for own in self.own]))

    def flat(self, values):
        """Return flat values of an array of shape (..., n_samples, n_outputs)."""
        return np.ascontiguousarray(values[..., self.rows, self.output])

    def spread(self, out, flat):
        """Put flat values where they belong in such an array, and return it."""
        out[..., self.rows, self.output] = flat
        return out

    def in_order(self, values):
        """Return values of the outputs, of shape (n_outputs,), in the order of the targets."""
        out = np.empty(self.order.size)
        out[self.order] = values
        return out

    @property
    def n_threads(self):
        """The number of threads for all problems."""
        return n_threads_for(sum(float(own.size) ** 3 for own in self.own))


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
        self.K, self.K_test, self.design = K, K_test, design
        self.targets, self.fit_intercept = targets, fit_intercept
        self._own = own_rows(targets)
        self.has_own_rows = self._own[0] is not None
        self._knows: dict = {}  # which kernel values each kind of outputs was told

    @cached_property
    def _each(self):
        groups = [[k] for k in range(len(self.targets))]
        return _Outputs.of(self.targets, self._own, groups, self.fit_intercept)

    @cached_property
    def _together(self):
        groups = [list(range(len(self.targets)))]
        return _Outputs.of(self.targets, self._own, groups, self.fit_intercept)

    def _outputs(self, losses):
        """Return the outputs, told of the kernel values: together where they share curvatures."""
        shared = len(losses) > 1 and not self.has_own_rows
        shared = shared and shared_curvature(losses, self.targets) is not None
        outputs = self._together if shared else self._each
        if self._knows.get(shared) is not self.K:
            outputs.systems.change_kernel(self.K)
            self._knows[shared] = self.K
        return outputs

    def _solve(self, outputs, numbers):
        n_threads = outputs.n_threads if len(numbers) > 1 else 1
        with one_blas_thread() if n_threads > 1 else nullcontext():
            outputs.systems.solve(numbers, n_threads)

    def solve(self, objective):
        """Solve the problem of every output."""
        losses = [objective.loss(target.scale) for target in self.targets]
        outputs = self._outputs(losses)
        numbers = _numbers(losses if outputs is self._each else losses[:1])
        self._solve(outputs, numbers)
        return GramSolved(self, outputs, losses)

    def predict_path(self, objectives):
        """Return decision values of the test samples for one setting after another."""
        decisions = np.empty((len(objectives), self.K_test.shape[0], len(self.targets)))
        outputs = self._each
        if self._knows.get(False) is not self.K:
            outputs.systems.change_kernel(self.K)
            self._knows[False] = self.K
        scales = [target.scale for target in self.targets]
        theta = np.empty((len(objectives), outputs.rows.size))
        intercept = np.empty((len(objectives), len(scales)))
        numbers = [_numbers([each.loss(scale) for scale in scales]) for each in objectives]
        for p, of_point in enumerate(numbers):
            self._solve(outputs, of_point)
            theta[p], intercept[p] = outputs.systems.theta, outputs.systems.intercept
        for k, own in enumerate(outputs.own):
            part = theta[:, outputs.starts[k] : outputs.starts[k + 1]]
            K_test = self.K_test if own.size == outputs.n_samples else self.K_test[:, own]
            decisions[..., k] = part @ K_test.T + intercept[:, k, None]
        return decisions

    def change_kernel(self, K, test=None):
        """Go on with another kernel."""
        self.K, self.K_test = K, test

    @cached_property
    def groups(self):
        """Samples that take part in the same outputs, as those of a class do, and these outputs."""
        takes_part = np.stack([target.weight > 0 for target in self.targets])
        kinds, kind = np.unique(takes_part, axis=1, return_inverse=True)
        return [
            (np.flatnonzero(kind.ravel() == k), np.flatnonzero(outputs))
            for k, outputs in enumerate(kinds.T)
        ]


def _numbers(losses):
    return np.array([(loss.C1, loss.C2, loss.D) for loss in losses])


class GramSolved(Solved):
    """What the compiled problems have found."""

    def __init__(self, refitter, outputs, losses):
        self._refitter, self._outputs, self._losses = refitter, outputs, losses
        self._K, self._K_test = refitter.K, refitter.K_test
        systems = outputs.systems
        self._number = systems.solve_number
        self._theta = outputs.spread(np.zeros((outputs.n_samples, len(losses))), systems.theta)
        self._offset = outputs.in_order(systems.intercept)
        self.objective = outputs.in_order(systems.objective)
        self.dual_gap = np.zeros(len(losses))

    @cached_property
    def _in_features(self):
        to_features = self._refitter.design.to_features
        return [to_features(theta) for theta in np.ascontiguousarray(self._theta.T)]

    @property
    def coef(self):
        """Coefficients of samples, or of features for linear data."""
        if self._refitter.design is None:
            return self._theta.T
        return np.array([coef for coef, _ in self._in_features])

    @property
    def intercept(self):
        """Intercepts, of rows that are not centred."""
        if self._refitter.design is None:
            return self._offset
        return self._offset + [shift for _, shift in self._in_features]

    @property
    def _systems(self):
        """The compiled problems, if this is their last solution."""
        if self._number != self._outputs.systems.solve_number:
            raise OutlivedError("The problems were solved again since this solution was found.")
        return self._outputs.systems

    def _everywhere(self):
        """Return decision values by the models themselves, for rows that are not asked for."""
        refitter = self._refitter
        if not refitter.has_own_rows:
            return np.empty((self._outputs.n_samples, self._offset.size))
        out = np.repeat(self._offset[None], self._outputs.n_samples, axis=0)
        for rows, outputs in refitter.groups:
            out[:, outputs] += self._K[:, rows] @ self._theta[np.ix_(rows, outputs)]
        return out

    def leave_one_out(self):
        """Return closed-form decision values of shape (n_samples, n_outputs)."""
        return self._outputs.spread(self._everywhere(), self._systems.left_out())

    def leave_folds_out(self, folds):
        """Return closed-form decision values, with derivatives."""
        outputs, n_threads = self._outputs, self._outputs.n_threads
        out = np.stack([self._everywhere()] * folds.fold.shape[0])
        fold, n_folds = folds.fold, folds.n_folds
        outputs.spread(out, self._systems.leave_folds_out(fold, n_folds, n_threads))

        def derivatives(slope):
            flat = outputs.flat(slope)
            by_aim, by_log, left, coef = self._systems.differentiate(
                fold, n_folds, flat, n_threads
            )
            forms = [
                Form("samples", left[:, part], coef[:, part], rows)
                for rows, part in self._parts()
            ]
            if self._refitter.has_own_rows and 8.0 * outputs.n_samples**2 <= _DENSE_BYTES:
                forms = [_DenseForm(outputs, left, coef)]
            return Derivatives(self._by_loss(by_aim, by_log), forms)

        return HeldOut(out, derivatives)

    def _parts(self):
        """Yield the rows and the place in flat arrays of every output."""
        outputs = self._outputs
        for k, own in enumerate(outputs.own):
            rows = own if self._refitter.has_own_rows else None
            yield rows, slice(outputs.starts[k], outputs.starts[k + 1])

    def predict_test(self):
        """Return decision values of the test samples, with derivatives."""
        outputs = self._outputs

        def derivatives(slope):
            systems = self._systems
            by_theta = outputs.flat(self._K_test.T @ slope)
            total = np.ascontiguousarray(slope.sum(axis=0)[outputs.order])
            by_aim = systems.adjoint(by_theta, total)
            curvature = systems.curvature()
            by_log = by_aim * systems.theta / np.where(curvature > 0, curvature, 1.0)
            left = outputs.spread(np.zeros_like(self._theta), by_aim)
            theta = self._theta.T
            forms = [Form("samples", -left.T, theta), Form("test", slope.T, theta)]
            return Derivatives(self._by_loss(by_aim, by_log), forms)

        return HeldOut(self._K_test @ self._theta + self._offset, derivatives)

    def _by_loss(self, by_aim, by_log_curvature):
        """Return derivatives by the parameters of the loss, of all outputs at once."""
        systems, target = self._outputs.systems, self._outputs.target
        log_curvature, aim = self._losses[0].parameter_slopes(systems.theta, None, target)
        return log_curvature @ by_log_curvature + aim @ by_aim


class _DenseForm:
    """Bilinear forms of many outputs, added up before they are contracted."""

    of = "samples"

    def __init__(self, outputs, left, coef):
        self._dense = outputs.systems.by_kernel(left, coef, outputs.n_samples)

    def contract(self, slope):
        """Return the derivative by a parameter; see `Form`."""
        return float(np.vdot(self._dense, slope))

    def add_to(self, dense):
        """Add the derivatives by all kernel values to an array of their shape."""
        dense += self._dense
