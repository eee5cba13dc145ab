"""The systems of all outputs of a training set, asked as one.

Outputs that share curvatures are right-hand sides of one system. Others have a system each, and an
output that is asked for some of the samples only, as a pair of classes is, has one of its own rows.
`Systems` is the contract, for those written here and for the compiled ones of
`optimargin.systems.small`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from optimargin._threads import for_each
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.systems.base import Derivatives, Folds, Values
from optimargin.systems.choice import make_system, system_of
from optimargin.targets import Target

_MISSED = 1e-6  # relative gap at which a solve is begun anew
_FEW = 200  # rows of an output, up to which threads wait for the interpreter


class Layout:
    """Where flat arrays hold what belongs to the rows of outputs: output by output.

    Parameters
    ----------
    targets : list of Target
        Of zero weight on the rows that an output is not asked for.
    in_parts : bool, default=True
        Whether outputs are to have systems of their own rows.

    Attributes
    ----------
    own : list of ndarray
        The rows that each output is asked for.
    has_own_rows : bool
        Whether these are not all rows.
    n_samples : int
    places : list of slice
        Where each output is in flat arrays.
    rows, output : ndarray of shape (n_flat,)
        The row and the output of each entry of flat arrays.
    target : Target
        Of all rows of all outputs, flat.
    """

    def __init__(self, targets, *, in_parts=True):
        self.n_samples = targets[0].n_samples
        all_asked = len(targets) == 1 or all(target.weight.all() for target in targets)
        self.has_own_rows = in_parts and not all_asked
        self.own = [np.arange(self.n_samples)] * len(targets)
        if self.has_own_rows:
            self.own = [np.flatnonzero(target.weight) for target in targets]
        sizes = [own.size for own in self.own]
        ends = np.cumsum(sizes)
        self.places = [slice(end - n, end) for end, n in zip(ends, sizes, strict=True)]
        self.rows, self.output = np.concatenate(self.own), np.repeat(np.arange(len(sizes)), sizes)
        parts = [target.take(own, 1.0) for target, own in zip(targets, self.own, strict=True)]
        self.target = Target(
            np.concatenate([part.value for part in parts]),
            np.concatenate([part.orientation for part in parts]),
            np.concatenate([part.weight for part in parts]),
        )

    @cached_property
    def groups(self):
        """Samples that take part in the same outputs, as those of a class do, and these outputs."""
        takes_part = np.zeros((len(self.own), self.n_samples), dtype=bool)
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


class Systems(ABC):
    """The systems of all outputs over one design.

    What belongs to rows of outputs is flat, in the order of a layout.

    Parameters
    ----------
    layout : Layout

    Attributes
    ----------
    design : Design
    test : GramTest, FeatureSpaceDesign or None
        Test samples, in the representation of the design.
    number : int
        Of solves and designs: what was found is valid until the next.
    coef : ndarray of shape (n_coef, n_outputs)
        Of the last solve, in the representation of the design.
    intercept, objective, dual_gap : ndarray of shape (n_outputs,)
    """

    design: Any = None
    test: Any = None
    coef: Any
    intercept: Any
    objective: Any
    dual_gap: Any

    def __init__(self, layout):
        self.layout, self.number = layout, 0

    def use(self, design, test):
        """Go on with another design of the same samples; the last solution stays a start."""
        self.number += 1
        self.design, self.test = design, test

    @property
    @abstractmethod
    def operations(self) -> float:
        """How many the factorisations of all systems take."""

    @property
    @abstractmethod
    def n_bytes(self) -> float:
        """What the factors of all systems take."""

    @abstractmethod
    def solve(self, objective, losses):
        """Minimise the problem of every output, from its last solution.

        Parameters
        ----------
        objective : AdditiveObjective
        losses : list of Loss
            Those of the objective for each output.
        """

    @abstractmethod
    def left_out(self):
        """Return the values of samples for the models without each, flat."""

    @abstractmethod
    def folds(self, folds: Folds) -> Values:
        """Return values for the models without each fold, of shape (n_repeats, n_flat)."""

    @abstractmethod
    def differentiate_test(self, slope) -> Derivatives:
        """Return derivatives of a function of the values of test samples, given those by them."""

    @abstractmethod
    def pull_and_curvature(self):
        """Return the pulls and the curvatures of the solution, flat."""


@dataclass
class Part:
    """Outputs that share a system, and the rows of it.

    Attributes
    ----------
    rows : ndarray or None
        None for all samples.
    outputs : list of int
    targets : list of Target
        On these rows.
    test, system
        Over these rows of the design; see `Systems`.
    in_samples : bool
        Whether coefficients are those of its own rows.
    problem : AdditiveProblem or None
        Of the last solution, where the system has not moved there yet.
    coef, decision : ndarray or None
        Of the last solution of a single output, from which the next solve starts.
    intercept : float
    """

    rows: Any
    outputs: list
    targets: list
    test: Any = None
    system: Any = None
    in_samples: bool = False
    problem: Any = None
    coef: Any = None
    decision: Any = None
    intercept: float = 0.0

    def solve(self, objective, loss, solver):
        """Solve the problem; return the coefficients, intercepts, objectives and gaps.

        Parameters
        ----------
        objective : AdditiveObjective
        loss : Loss
            Of all outputs.
        solver : Newton
        """
        system = self.system
        if loss.constant_curvature is not None:
            curvature = loss.constant_curvature * self.targets[0].weight
            aim = np.stack([target.value for target in self.targets], axis=1)
            self.problem = None
            self._move(curvature, aim)
            image = system.design.metric(system.coef, system.decision - system.intercept)
            value = 0.5 * curvature @ (aim - system.decision) ** 2
            value += 0.5 * np.einsum("ij,ij->j", system.coef, image)
            return system.coef, system.intercept, value, np.zeros(value.size)
        fit_intercept, target = system.fit_intercept, self.targets[0]
        problem = objective.problem(system.design, target, fit_intercept=fit_intercept)
        if self.coef is None and self.decision is not None:
            # Other features: the active set is what is known.
            _, pull, curvature = loss.evaluate(self.decision, target)
            aim = self.decision.copy()
            active = curvature > 0
            aim[active] += pull[active] / curvature[active]
            self._move(curvature, aim[:, None])
        found = solver.solve_with(system, problem, self.coef, self.intercept)
        if found.dual_gap > _MISSED:  # sums that were changed often may have lost their digits
            again = solver.solve(problem)
            found = min(found, again, key=lambda each: each.objective)
        self.problem = problem
        self.coef, self.intercept, self.decision = found.coef, found.intercept, found.decision
        return found.coef[:, None], found.intercept, found.objective, found.dual_gap

    def _move(self, curvature, aim):
        """Move the system; the solution of a single output is the next start."""
        system = self.system.move(curvature, aim)
        self.coef, self.intercept = system.coef[:, 0], float(system.intercept[0])
        self.decision = system.decision[:, 0]

    def at_solution(self):
        """Return the system of the last solution."""
        if self.problem is not None:
            point = self.problem.point(self.coef, self.intercept)
            system_of(self.problem, point, self.system)
            self.problem = None
        return self.system


class SystemList(Systems):
    """Systems of any loss over any design.

    Parameters
    ----------
    layout : Layout
    targets : list of Target
    fit_intercept : bool
    together : bool
        Whether all outputs share a system.
    solver : Newton
    folds : Folds, default=None
        Those that will be left out; sums over them are kept.
    """

    def __init__(self, layout, targets, fit_intercept, *, together, solver, folds=None):
        super().__init__(layout)
        self._fit_intercept, self._solver, self._folds = fit_intercept, solver, folds
        if together:
            self._parts = [Part(None, list(range(len(targets))), targets)]
        elif layout.has_own_rows:
            self._parts = [
                Part(own, [k], [target.take(own, 1.0)])
                for k, (target, own) in enumerate(zip(targets, layout.own, strict=True))
            ]
        else:
            self._parts = [Part(None, [k], [target]) for k, target in enumerate(targets)]

    def use(self, design, test):
        """Go on with another design of the same samples; coefficients of samples stay a start."""
        super().use(design, test)
        in_features = isinstance(design, FeatureSpaceDesign)
        for part in self._parts:
            part.system = part.problem = None
            if design is None:  # others will be told
                continue
            own, folds, part.test = design, self._folds, test
            part.in_samples = part.rows is not None and not in_features
            if in_features:
                part.coef = None
            if part.rows is not None:
                own, folds = design.take(part.rows), None
            if part.in_samples and test is not None:
                part.test = test.take(part.rows)
            part.system = make_system(own, fit_intercept=self._fit_intercept, folds=folds)

    @property
    def operations(self):
        """Those of all parts."""
        return sum(part.system.operations for part in self._parts)

    @property
    def n_bytes(self):
        """Those of all parts."""
        return sum(part.system.n_bytes for part in self._parts)

    def _each(self, function):
        """Return a function of each part and its number, in threads where parts have many rows."""
        found: list[Any] = [None] * len(self._parts)

        def call(k):
            found[k] = function(self._parts[k], k)

        n_rows = self.layout.rows.size / len(self.layout.own)
        in_threads = self.layout.has_own_rows and n_rows > _FEW
        for_each(call, range(len(found)), np.inf if in_threads else 0)
        return found

    def solve(self, objective, losses):
        """Minimise the problem of every output, from its last solution."""
        self.number += 1
        found = self._each(
            lambda part, k: part.solve(objective, losses[part.outputs[0]], self._solver)
        )
        coef, *others = zip(*found, strict=True)
        self.coef = np.zeros((self.design.n_coef, len(losses)))
        for part, columns in zip(self._parts, coef, strict=True):
            rows = part.rows if part.in_samples else slice(None)
            self.coef[rows, part.outputs[0] : part.outputs[-1] + 1] = columns
        self.intercept, self.objective, self.dual_gap = (np.hstack(each) for each in others)

    def left_out(self):
        """Return the values of samples for the models without each, flat."""
        return _flat([part.at_solution().left_out() for part in self._parts])

    def folds(self, folds):
        """Return values for the models without each fold, flat."""

        def leave_out(part, k):
            own = folds if part.rows is None else folds.of_rows(part.rows)
            return part.at_solution().folds(own)

        found = self._each(leave_out)

        def differentiate(slope):
            def of_part(part, k):
                first, last = (self.layout.places[part.outputs[end]] for end in (0, -1))
                own = slope[:, first.start : last.stop].reshape(len(slope), len(part.outputs), -1)
                return found[k].derivatives(np.ascontiguousarray(np.swapaxes(own, 1, 2)))

            return self._joined(self._each(of_part))

        return Values.of(self, _flat([each.decision for each in found]), differentiate)

    def differentiate_test(self, slope):
        """Return derivatives of a function of the values of test samples."""
        return self._joined(
            [
                part.at_solution().predict(part.test).derivatives(slope[:, part.outputs])
                for part in self._parts
            ]
        )

    def _joined(self, found):
        """Return the derivatives of all parts."""
        forms: list = []
        for part, each in zip(self._parts, found, strict=True):
            own = each.forms
            forms += [replace(form, rows=part.rows) for form in own] if part.in_samples else own
        by_aim = _flat([each.by_aim for each in found])
        return Derivatives(by_aim, _flat([each.by_log_curvature for each in found]), forms)

    def pull_and_curvature(self):
        """Return the pulls and the curvatures of the solution, flat."""
        systems = [part.at_solution() for part in self._parts]
        curvatures = [np.repeat(s.curvature[:, None], s.aim.shape[1], 1) for s in systems]
        pulls = [c * (s.aim - s.decision) for c, s in zip(curvatures, systems, strict=True)]
        return _flat(pulls), _flat(curvatures)


def _flat(parts):
    """Return arrays of shape (..., n_rows, n_outputs) as one flat array, output by output."""
    flat = [np.swapaxes(part, -1, -2).reshape(*part.shape[:-2], -1) for part in parts]
    return flat[0] if len(flat) == 1 else np.concatenate(flat, axis=-1)
