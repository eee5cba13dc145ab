"""Training sets whose problems are solved for one parameter setting after another.

A refitter holds the data, the targets of all outputs, and the last solution, from which the next
solve starts. What a solve found is returned, with all that can be asked of it:

    solved = refitter.solve(objective)
    solved.leave_one_out()            held-out decision values in closed form
    solved.leave_folds_out(folds)     the same for the folds of a `Folds`, with derivatives
    solved.predict_test()             decision values of the test samples, with derivatives

It is valid until the next solve of the same refitter. An output that is asked for some of the
samples only, as a pair of classes is, has a system of its own rows. A sample that takes no part in
an output is held out of it anyway: its value is that of the model itself.

`optimargin.held_out.newton` works for every design and every additive objective,
`optimargin.held_out.small` is the compiled one for the band loss, `optimargin.held_out.ldm` has
those of the large margin distribution machine.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from optimargin.designs import LINEAR_DESIGNS
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.systems import Folds, OutlivedError
from optimargin.targets import Target


@dataclass(frozen=True)
class Derivatives:
    """Derivatives of a function of held-out decision values.

    Attributes
    ----------
    by_loss : ndarray of shape (n_loss_parameters,)
        In the order of `Loss.parameters`.
    forms : list of Form
        By kernel values.
    """

    by_loss: np.ndarray
    forms: list

    def __add__(self, other):
        return Derivatives(self.by_loss + other.by_loss, self.forms + other.forms)

    def by_width(self, slopes):
        """Return the derivative by a parameter of the kernel.

        Parameters
        ----------
        slopes : dict of str to ndarray
            The derivatives of kernel values by it, by the names of `Form.of`.
        """
        return sum(form.contract(slopes[form.of]) for form in self.forms)

    def by_kernel(self, n_samples):
        """Return the derivative by the kernel values between samples, a square array."""
        dense = np.zeros((n_samples, n_samples))
        for form in self.forms:
            form.add_to(dense)
        return dense


@dataclass(frozen=True)
class HeldOut:
    """Decision values of samples that took no part in the models they are of.

    Attributes
    ----------
    decision : ndarray of shape (..., n_outputs)
    derivatives : callable or None
        Given the derivatives of a function by the decision values, it returns `Derivatives`.
        None where there are none.
    """

    decision: np.ndarray
    derivatives: Callable[[np.ndarray], Derivatives] | None


class Solved(ABC):
    """What a solve found.

    Attributes
    ----------
    coef : ndarray of shape (n_outputs, n_coef)
    intercept, objective, dual_gap : ndarray of shape (n_outputs,)
    """

    coef: Any
    intercept: Any
    objective: Any
    dual_gap: Any

    @abstractmethod
    def predict_test(self) -> HeldOut:
        """Return decision values of the test samples, of shape (n_test, n_outputs)."""

    def leave_one_out(self) -> np.ndarray:
        """Return closed-form decision values of shape (n_samples, n_outputs)."""
        raise TypeError("There is no closed form for samples left out.")

    def leave_folds_out(self, folds: Folds) -> HeldOut:
        """Return closed-form decision values of shape (n_repeats, n_samples, n_outputs)."""
        raise TypeError("There is no closed form for samples left out.")


class Refitter(ABC):
    """One training set whose problems are solved for one parameter setting after another."""

    @abstractmethod
    def solve(self, objective) -> Solved:
        """Solve the problem of every output, starting from the last solution."""

    def predict_path(self, objectives) -> np.ndarray:
        """Return decision values of the test samples for one setting after another.

        Returns
        -------
        decisions : ndarray of shape (n_objectives, n_test, n_outputs)
        """
        return np.array([self.solve(each).predict_test().decision for each in objectives])


class GramTest:
    """Test samples given by their kernel values with the training samples."""

    def __init__(self, K):
        self.K = K
        self.n_samples = K.shape[0]

    def decision(self, coef):
        """Return decision values without the intercept, of a vector or of columns."""
        return self.K @ coef

    def pull_back(self, slope):
        """Return the derivative by the coefficients of ``slope' decision(coef)``."""
        return self.K.T @ slope

    def take(self, rows):
        """Return the same for some of the training samples."""
        return GramTest(np.ascontiguousarray(self.K[:, rows]))


class FeatureTest:
    """Test samples given by their features."""

    def __init__(self, design):
        self._design = design
        self.n_samples = design.n_samples

    def decision(self, coef):
        """Return decision values without the intercept, of a vector or of columns."""
        return self._design.decision(coef) if coef.ndim == 1 else self._design.decisions(coef)

    def pull_back(self, slope):
        """Return the derivative by the coefficients of ``slope' decision(coef)``."""
        return self._design.represents(slope)

    def take(self, rows):
        """Return the same: features do not depend on training samples."""
        return self


def own_rows(targets):
    """Return for each output the rows that it is asked for; None where it is all of them."""
    if len(targets) == 1 or all(target.weight.all() for target in targets):
        return [None] * len(targets)
    return [np.flatnonzero(target.weight) for target in targets]


def shared_curvature(losses, targets):
    """Return the curvatures of all outputs where these are one and the same, else None."""
    constants = {loss.constant_curvature for loss in losses}
    if len(constants) > 1 or None in constants:
        return None
    first = targets[0].weight
    if any(target.weight is not first for target in targets) and any(
        not np.array_equal(target.weight, first) for target in targets
    ):
        return None
    return constants.pop() * first


@dataclass(frozen=True)
class Layout:
    """Where flat arrays hold what belongs to the rows of outputs: output by output.

    Attributes
    ----------
    order : ndarray of shape (n_outputs,)
        Which output comes when.
    own : list of ndarray
        The rows of each of them.
    target : Target
        Of all rows of all of them, flat.
    n_samples : int
    """

    order: np.ndarray
    own: list
    target: Target
    n_samples: int

    @classmethod
    def of(cls, targets, rows, groups):
        """Return the layout of groups of outputs, which share their rows.

        Parameters
        ----------
        targets : list of Target
        rows : list of ndarray or None
            Of each output; None for all samples.
        groups : list of list of int
        """
        n_samples = targets[0].n_samples
        rows = [np.arange(n_samples) if own is None else own for own in rows]
        order = np.concatenate(groups)
        value, orientation, weight = (
            np.concatenate([getattr(targets[k], name)[rows[k]] for k in order])
            for name in ("value", "orientation", "weight")
        )
        target = Target(value, orientation, weight)
        return cls(order, [rows[k] for k in order], target, n_samples)

    @cached_property
    def rows(self):
        """The row of each entry of flat arrays."""
        return np.concatenate(self.own)

    @cached_property
    def output(self):
        """The output of each entry of flat arrays."""
        return np.repeat(self.order, [own.size for own in self.own])

    @cached_property
    def places(self):
        """Where each output is in flat arrays, in the order of these."""
        ends = np.cumsum([own.size for own in self.own])
        return [slice(end - own.size, end) for own, end in zip(self.own, ends, strict=True)]

    @cached_property
    def groups(self):
        """Samples that take part in the same outputs, as those of a class do, and these outputs."""
        takes_part = np.zeros((self.order.size, self.n_samples), dtype=bool)
        takes_part[self.output, self.rows] = True
        kinds, kind = np.unique(takes_part, axis=1, return_inverse=True)
        return [
            (np.flatnonzero(kind.ravel() == k), np.flatnonzero(outputs))
            for k, outputs in enumerate(kinds.T)
        ]

    def flat(self, values):
        """Return flat values of an array of shape (..., n_samples, n_outputs)."""
        return np.ascontiguousarray(values[..., self.rows, self.output])

    def spread(self, out, flat):
        """Put flat values where they belong in such an array, and return it."""
        out[..., self.rows, self.output] = flat
        return out

    def take(self, place, rows):
        """Return the target of some rows of a place of flat arrays."""
        target = self.target
        parts = (part[place][rows] for part in (target.value, target.orientation, target.weight))
        return Target(*parts)

    def in_order(self, values):
        """Return values of the outputs in the order of the targets."""
        out = np.empty(self.order.size)
        out[self.order] = values
        return out


class SystemsSolved(Solved):
    """Solutions of additive problems, whose systems answer all that is asked of them.

    A subclass asks the systems, in flat arrays.

    Parameters
    ----------
    refitter : Refitter
        With a `design`, a `test` and `has_own_rows`.
    layout : Layout
    losses : list of Loss
        Of each output.
    number : int
        Of the solve; the refitter's `number` is that of the last one.
    coef : ndarray of shape (n_coef, n_outputs)
        In the representation of the design.
    intercept, objective, dual_gap : ndarray of shape (n_outputs,)
    """

    def __init__(self, refitter, layout, losses, coef, intercept, objective, dual_gap):
        self._refitter, self._layout, self._losses = refitter, layout, losses
        self._design, self._test, self._number = refitter.design, refitter.test, refitter.number
        self._coef, self._offset = coef, intercept
        self.objective, self.dual_gap = objective, dual_gap

    def _check_number(self):
        if self._number != self._refitter.number:
            raise OutlivedError("The problems were solved again since this solution was found.")

    @abstractmethod
    def _left_out(self):
        """Return the values of samples for the models without each, flat."""

    @abstractmethod
    def _folds_left_out(self, folds):
        """Return values, of shape (n_repeats, n_flat), and what differentiates by them.

        That is a function of flat slopes, which returns derivatives by the aims and by the
        logarithms of curvatures, both flat, and a list of `Form`.
        """

    @abstractmethod
    def _differentiate_test(self, slope):
        """Return the same three derivatives of a function of the values of test samples."""

    @abstractmethod
    def _pull_and_curvature(self):
        """Return the pulls and the curvatures of the solution, flat."""

    @cached_property
    def _in_features(self):
        """Coefficients and intercepts of linear data, or None."""
        if not isinstance(self._design, LINEAR_DESIGNS):
            return None
        found = [self._design.to_features(coef) for coef in np.ascontiguousarray(self._coef.T)]
        return np.array([w for w, _ in found]), np.array([shift for _, shift in found])

    @property
    def coef(self):
        """Coefficients of features, or of samples."""
        return self._coef.T if self._in_features is None else self._in_features[0]

    @property
    def intercept(self):
        """Intercepts, of rows that are not centred."""
        return self._offset + (0.0 if self._in_features is None else self._in_features[1])

    def _everywhere(self):
        """Return room for decision values; those of rows that are not asked for are known."""
        if not self._refitter.has_own_rows:
            return np.empty((self._layout.n_samples, self._offset.size))
        if isinstance(self._design, FeatureSpaceDesign):
            return self._design.decisions(self._coef) + self._offset
        out = np.repeat(self._offset[None], self._layout.n_samples, axis=0)
        for rows, outputs in self._layout.groups:
            out[:, outputs] += self._design.columns(rows) @ self._coef[np.ix_(rows, outputs)]
        return out

    def leave_one_out(self):
        """Return closed-form decision values of shape (n_samples, n_outputs)."""
        self._check_number()
        return self._layout.spread(self._everywhere(), self._left_out())

    def leave_folds_out(self, folds):
        """Return closed-form decision values, with derivatives."""
        self._check_number()
        values, differentiate = self._folds_left_out(folds)
        out = np.stack([self._everywhere()] * folds.fold.shape[0])

        def derivatives(slope):
            self._check_number()
            return self._by_parameters(*differentiate(self._layout.flat(slope)))

        return HeldOut(self._layout.spread(out, values), derivatives)

    def predict_test(self):
        """Return decision values of the test samples, with derivatives."""

        def derivatives(slope):
            self._check_number()
            return self._by_parameters(*self._differentiate_test(slope))

        return HeldOut(self._test.decision(self._coef) + self._offset, derivatives)

    def _by_parameters(self, by_aim, by_log_curvature, forms):
        """Return derivatives by the parameters of the losses."""
        pull, curvature = self._pull_and_curvature()
        places = self._layout.places
        if all(loss == self._losses[0] for loss in self._losses):
            places = [slice(None)]
        by_loss: Any = 0.0
        for place, output in zip(places, self._layout.order, strict=False):
            active = np.flatnonzero(curvature[place])
            log_curvature, aim = self._losses[output].parameter_slopes(
                pull[place][active], curvature[place][active], self._layout.take(place, active)
            )
            by_loss = by_loss + log_curvature @ by_log_curvature[place][active]
            by_loss = by_loss + aim @ by_aim[place][active]
        return Derivatives(by_loss, forms)
