"""Refitters of every additive objective over every design: Newton, a system and a warm start."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from optimargin._threads import for_each
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.held_out.refitter import (
    GramTest,
    Layout,
    Refitter,
    SystemsSolved,
    own_rows,
    shared_curvature,
)
from optimargin.solvers import Newton
from optimargin.systems import FeatureSystem, make_system, system_of

_OF_SOLUTIONS = ("intercept", "objective", "dual_gap")
_MISSED = 1e-6  # relative gap at which a solve is begun anew
_FEW = 200  # rows of an output, up to which threads wait for the interpreter


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
    design : Design
    test : GramTest, FeatureTest or None
    system : ActiveSystem
    coef, decision : ndarray or None
        Of the last solution of a single output, from which the next solve starts.
    intercept : float
    """

    rows: Any
    outputs: list
    targets: list
    design: Any = None
    test: Any = None
    system: Any = None
    coef: Any = None
    decision: Any = None
    intercept: float = 0.0

    @property
    def in_samples(self):
        """Whether coefficients are those of its own rows."""
        return self.rows is not None and not isinstance(self.design, FeatureSpaceDesign)

    def use(self, design, test, fit_intercept, folds):
        """Go on with a design of all samples; coefficients of samples stay a start."""
        if self.rows is not None:
            take = design.take if isinstance(design, FeatureSpaceDesign) else design.part
            design, test = take(self.rows), None if test is None else test.take(self.rows)
        self.design, self.test = design, test
        if folds is None or self.rows is not None:
            self.system = make_system(design, fit_intercept=fit_intercept)
        else:
            self.system = FeatureSystem(design, fit_intercept=fit_intercept, folds=folds)
        if isinstance(design, FeatureSpaceDesign):
            self.coef = None

    def solve(self, problem, solver):
        """Return the solution of the only output, from the last one."""
        if self.coef is None and self.decision is not None:
            # Other features: the active set is what is known.
            _, pull, curvature = problem.loss.evaluate(self.decision, problem.target)
            aim = self.decision.copy()
            active = curvature > 0
            aim[active] += pull[active] / curvature[active]
            found = self.system.move(curvature, aim[:, None], aim[:, None])
            self.coef, self.intercept = found.coef[:, 0], float(found.intercept[0])
        solution = solver.solve_with(self.system, problem, self.coef, self.intercept)
        if solution.dual_gap > _MISSED:  # sums that were changed often may have lost their digits
            again = solver.solve(problem)
            solution = min(solution, again, key=lambda found: found.objective)
        self.coef, self.intercept = solution.coef, solution.intercept
        self.decision = solution.decision
        return solution


class NewtonRefitter(Refitter):
    """Problems of any loss over any design.

    Parameters
    ----------
    design : Design
    targets : list of Target
        Of positive weights on the rows that an output is asked for, else of zero ones.
    fit_intercept : bool
    test : GramTest or FeatureTest, default=None
    folds : Folds, default=None
        Those that will be left out; sums over them are kept.
    tol : float, default=1e-12
        Of the relative gap.
    exact : bool, default=True
        Whether cheap solves go on until the active set is final.
    """

    def __init__(
        self, design, targets, fit_intercept, test=None, folds=None, *, tol=1e-12, exact=True
    ):
        self.targets, self.fit_intercept, self.folds = targets, fit_intercept, folds
        self._solver = Newton(tol=tol, max_iter=1000, **({} if exact else {"exact_up_to": 0}))
        # Features that will be told later are too many to be copied for every pair of classes.
        rows = own_rows(targets) if design is not None else [None] * len(targets)
        self.has_own_rows = rows[0] is not None
        self.number = 0  # of solves
        self._rows = rows
        self._each = [
            Part(own, [k], [target if own is None else target.take(own, 1.0)])
            for k, (target, own) in enumerate(zip(targets, rows, strict=True))
        ]
        self.change_design(design, test)

    def change_design(self, design, test=None):
        """Go on with other features, or other kernel values, of the same samples."""
        self.design, self.test = design, test
        self._is_new = dict.fromkeys(["each", "all"], True)

    def change_kernel(self, K, test=None):
        """Go on with other kernel values."""
        self.change_design(type(self.design)(K), None if test is None else GramTest(test))

    def _parts(self, together):
        """Return the parts: one per output, or one of all outputs."""
        parts = self._all if together else self._each
        name = "all" if together else "each"
        if self._is_new[name]:
            for part in parts:
                part.use(self.design, self.test, self.fit_intercept, self.folds)
            self._is_new[name] = False
        return parts

    @cached_property
    def _all(self):
        return [Part(None, list(range(len(self.targets))), self.targets)]

    def solve(self, objective):
        """Solve the problem of every output."""
        self.number += 1
        losses = [objective.loss(target.scale) for target in self.targets]
        curvature = None if self.has_own_rows else shared_curvature(losses, self.targets)
        parts = self._parts(curvature is not None)
        if curvature is not None:
            aim = np.stack([target.value for target in self.targets], axis=1)
            system = parts[0].system.move(curvature, aim)
            error = system.aim - system.decision
            value = 0.5 * curvature @ error**2 + 0.5 * self._square(system, curvature, error)
            return NewtonSolved(
                *(parts, None, self, self._layout(parts), losses),
                *(system.coef, system.intercept, value, np.zeros(value.size)),
            )
        problems = [
            objective.problem(part.design, part.targets[0], fit_intercept=self.fit_intercept)
            for part in parts
        ]
        solutions = each(lambda k: parts[k].solve(problems[k], self._solver), parts)
        coef = np.zeros((self.design.n_coef, len(parts)))
        for part, solution, column in zip(parts, solutions, coef.T, strict=True):
            column[part.rows if part.in_samples else slice(None)] = solution.coef
        found = (np.array([getattr(s, name) for s in solutions]) for name in _OF_SOLUTIONS)
        return NewtonSolved(parts, problems, self, self._layout(parts), losses, coef, *found)

    def _layout(self, parts):
        return Layout.of(self.targets, self._rows, [part.outputs for part in parts])

    @staticmethod
    def _square(system, curvature, error):
        """Return |w|^2 of each output."""
        if isinstance(system.design, FeatureSpaceDesign):
            return (system.coef**2).sum(axis=0)
        return (curvature[:, None] * error * (system.decision - system.intercept)).sum(axis=0)


def each(function, parts):
    """Return a function of each place of a list, in threads where its parts have many rows."""
    found: list[Any] = [None] * len(parts)

    def call(k):
        found[k] = function(k)

    rows = [part.rows.size for part in parts if part.rows is not None]
    for_each(call, range(len(parts)), np.inf if rows and np.mean(rows) > _FEW else 0)
    return found


class NewtonSolved(SystemsSolved):
    """Solutions of additive problems.

    Parameters
    ----------
    parts : list of Part
    problems : list of AdditiveProblem or None
        Of each part; None where the systems have moved to the solution.
    *found
        See `SystemsSolved`.
    """

    def __init__(self, parts, problems, *found):
        super().__init__(*found)
        self._parts, self._problems = parts, problems

    @cached_property
    def _systems(self):
        if self._problems is None:
            return [part.system for part in self._parts]
        return [
            system_of(problem, problem.point(part.coef, part.intercept), part.system)
            for part, problem in zip(self._parts, self._problems, strict=True)
        ]

    def _left_out(self):
        return _flat([system.left_out() for system in self._systems])

    def _folds_left_out(self, folds):
        systems = self._systems

        def leave_out(k):
            rows = self._parts[k].rows
            return systems[k].folds(folds if rows is None else folds.of_rows(rows))

        found = each(leave_out, self._parts)

        def differentiate(slope):
            def of_part(k):
                return found[k].pull_back(slopes[k])

            slopes, first = [], 0
            for values in found:
                n_rows, n_outputs = values.decision.shape[-2:]
                last = first + n_rows * n_outputs
                some = slope[:, first:last].reshape(-1, n_outputs, n_rows)
                slopes.append(np.ascontiguousarray(np.swapaxes(some, 1, 2)))
                first = last
            return self._joined(each(of_part, self._parts))

        return _flat([values.decision for values in found]), differentiate

    def _differentiate_test(self, slope):
        return self._joined(
            [
                system.predict(part.test).pull_back(slope[:, part.outputs])
                for part, system in zip(self._parts, self._systems, strict=True)
            ]
        )

    def _joined(self, adjoints):
        """Return the three derivatives of all parts."""
        forms = []
        for part, adjoint in zip(self._parts, adjoints, strict=True):
            own = adjoint.forms
            if part.in_samples:
                own = [replace(form, rows=part.rows) for form in own]
            forms += own
        by_aim, by_log = (
            _flat([getattr(adjoint, name) for adjoint in adjoints])
            for name in ("by_aim", "by_log_curvature")
        )
        return by_aim, by_log, forms

    def _pull_and_curvature(self):
        curvatures = [np.repeat(s.curvature[:, None], s.aim.shape[1], 1) for s in self._systems]
        pulls = [
            curvature * (system.aim - system.decision)
            for curvature, system in zip(curvatures, self._systems, strict=True)
        ]
        return _flat(pulls), _flat(curvatures)


def _flat(parts):
    """Return arrays of shape (..., n_rows, n_outputs) as one flat array, output by output."""
    flat = [np.swapaxes(part, -1, -2).reshape(*part.shape[:-2], -1) for part in parts]
    return flat[0] if len(flat) == 1 else np.concatenate(flat, axis=-1)
