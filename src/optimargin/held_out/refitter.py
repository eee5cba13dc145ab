"""Training sets whose problems are solved for one parameter setting after another.

A refitter holds the data, the targets of all outputs, and the last solution, from which the next
solve starts. What a solve found is returned, with all that can be asked of it:

    solved = refitter.solve(objective)
    solved.leave_one_out()            held-out decision values in closed form
    solved.leave_folds_out(folds)     the same for the folds of a `Folds`, with derivatives
    solved.predict_test()             decision values of the test samples, with derivatives

It is valid until the next solve of the same refitter. A sample that takes no part in an output, as
in a pair of classes, is held out of it anyway: its value is that of the model itself.

`NewtonRefitter` is Newton's method, the systems of all outputs (`optimargin.systems`) and a warm
start; `optimargin.held_out.compiled` has the same compiled, for the band loss over kernel values,
and `optimargin.held_out.ldm` those of the large margin distribution machine.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from optimargin._threads import for_each
from optimargin.designs import LINEAR_DESIGNS, GramDesign
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.solvers import Newton
from optimargin.systems import Derivatives, Folds, Values, make_system, system_of
from optimargin.systems.base import PRODUCTS, check_number
from optimargin.targets import Target


@dataclass
class Solved:
    """What a solve found.

    Attributes
    ----------
    columns : ndarray of shape (n_coef, n_outputs)
        Coefficients in the representation of the design.
    offset, objective, dual_gap : ndarray of shape (n_outputs,)
        The first are intercepts of rows as the design has them.
    test : GramTest, FeatureSpaceDesign or None
    """

    columns: np.ndarray
    offset: np.ndarray
    objective: np.ndarray
    dual_gap: np.ndarray
    test: Any

    @property
    def coef(self):
        """Coefficients, of shape (n_outputs, n_coef)."""
        return self.columns.T

    @property
    def intercept(self):
        """Intercepts, of shape (n_outputs,)."""
        return self.offset

    def predict_test(self) -> Values:
        """Return decision values of the test samples, of shape (n_test, n_outputs)."""
        return Values(self.test.decisions(self.columns) + self.offset, None)

    def leave_one_out(self) -> np.ndarray:
        """Return closed-form decision values of shape (n_samples, n_outputs)."""
        raise TypeError("There is no closed form for samples left out.")

    def leave_folds_out(self, folds: Folds) -> Values:
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
    """Test samples given by their kernel values with the training samples.

    Those of features are a `FeatureSpaceDesign`.
    """

    def __init__(self, K):
        self.K = K

    def decisions(self, coef):
        """Return decision values of columns of coefficients, without the intercept."""
        return self.K @ coef

    def represents(self, slope):
        """Return the derivative by the coefficients of ``slope' decisions(coef)``."""
        return self.K.T @ slope

    def take(self, rows):
        """Return the same for some of the training samples."""
        return GramTest(np.ascontiguousarray(self.K[:, rows]))


def have_own_rows(targets):
    """Return whether outputs are asked for some of the samples only, as pairs of classes are."""
    return len(targets) > 1 and not all(target.weight.all() for target in targets)


class AdditiveRefitter(Refitter):
    """Problems of an additive objective, whose active systems answer what is asked.

    Outputs that share curvatures are solved together. An output that is asked for some of the
    samples only is a problem of its own rows. What is put into arrays of shape
    (..., n_samples, n_outputs) leaves the other rows as they are; flat arrays have no place for
    them.

    Parameters
    ----------
    design : Design or None
        None where features will be told later (`change_design`).
    targets : list of Target
        Of positive weights on the rows that an output is asked for, else of zero ones.
    fit_intercept : bool
    test : GramTest or FeatureSpaceDesign, default=None
        Test samples, in the representation of the design.

    Attributes
    ----------
    number : int
        Of solves and designs: what was found is valid until the next.
    weight : ndarray of shape (n_samples, n_outputs)
    rows, output : ndarray of shape (n_flat,)
        The row and the output of each entry of flat arrays, output by output.
    target : Target
        Of all rows of all outputs, flat.
    """

    def __init__(self, design, targets, fit_intercept, test=None):
        self.targets, self.fit_intercept, self.number = targets, fit_intercept, 0
        self._made: dict = {}  # what solves outputs one by one, and what solves all as one
        self._now: Any = None  # which of them solved last
        # Features that will be told later are too many to be copied for every pair of classes.
        self.has_own_rows = design is not None and have_own_rows(targets)
        self.weight = np.stack([target.weight for target in targets], axis=1)
        self._weigh_alike = len(targets) > 1 and bool(np.ptp(self.weight, axis=1).max() == 0)
        is_asked = self.weight > 0 if self.has_own_rows else self.weight >= 0
        self.output, self.rows = np.nonzero(is_asked.T)
        each = zip(*((t.value, t.orientation, t.weight) for t in targets), strict=True)
        self.target = Target(*(self.flat(np.stack(columns, axis=1)) for columns in each))
        self.change_design(design, test)

    def flat(self, values):
        """Return flat values of an array of shape (..., n_samples, n_outputs)."""
        return np.ascontiguousarray(values[..., self.rows, self.output])

    def change_design(self, design, test=None):
        """Go on with other features, or other kernel values, of the same samples."""
        self.number += 1
        self.design, self.test = design, test

    def change_kernel(self, K, test=None):
        """Go on with other kernel values, and those of the test samples."""
        self.change_design(GramDesign(K), None if test is None else GramTest(test))

    def solve(self, objective):
        """Solve the problem of every output."""
        self.number += 1
        losses = [objective.loss(target.scale) for target in self.targets]
        constants = {loss.constant_curvature for loss in losses}
        self._use(self._weigh_alike and len(constants) == 1 and None not in constants)
        coef, intercept, value, gap = self._solve(objective, losses)
        of_refitter = self.test, self, losses, self.design, self.number
        return AdditiveSolved(coef, intercept, value, gap, *of_refitter)

    def _use(self, together):
        """Go on with what solves outputs one by one, or all as one: they share curvatures."""
        if together not in self._made:
            self._made[together] = self._make(together)
        self._now = self._made[together]

    @abstractmethod
    def _make(self, together):
        """Return what solves outputs one by one, or all as one."""

    @abstractmethod
    def _solve(self, objective, losses):
        """Return coefficients, intercepts, objectives and gaps.

        Parameters
        ----------
        objective : AdditiveObjective
        losses : list of Loss
            Those of the objective for each output.
        """

    @abstractmethod
    def put_left_out(self, out):
        """Put the values of samples for the models without each into an array."""

    @abstractmethod
    def put_folds(self, folds, out):
        """Put values for the models without each fold into an array of all repeats.

        Returns
        -------
        differentiate : callable
            Given derivatives by the values, it returns `Derivatives`.
        """

    @abstractmethod
    def differentiate_test(self, slope):
        """Return `Derivatives` of a function of the values of test samples, given those by them."""

    @abstractmethod
    def pull_and_curvature(self):
        """Return the pulls and the curvatures of the solution, flat."""

    @cached_property
    def groups(self):
        """Samples that take part in the same outputs, as those of a class do, and these outputs."""
        kinds, kind = np.unique(self.weight > 0, axis=0, return_inverse=True)
        return [
            (np.flatnonzero(kind.ravel() == k), np.flatnonzero(outputs))
            for k, outputs in enumerate(kinds)
        ]

    def room(self, coef, intercept):
        """Return room for decision values; those of rows that are not asked for are known."""
        if not self.has_own_rows:
            return np.empty(self.weight.shape)
        if isinstance(self.design, FeatureSpaceDesign):
            return self.design.decisions(coef) + intercept
        out = np.tile(intercept, (len(self.weight), 1))
        for rows, outputs in self.groups:
            out[:, outputs] += self.design.columns(rows) @ coef[np.ix_(rows, outputs)]
        return out


@dataclass
class AdditiveSolved(Solved):
    """Solutions of additive problems, whose refitter answers all that is asked of them.

    Attributes
    ----------
    refitter : AdditiveRefitter
    losses : list of Loss
        Of each output.
    design, number : Design, int
        Those of the refitter when it solved.
    """

    refitter: AdditiveRefitter
    losses: list
    design: Any
    number: int

    @cached_property
    def _in_features(self):
        """Coefficients and intercepts of linear data, or None."""
        if not isinstance(self.design, LINEAR_DESIGNS):
            return None
        found = [self.design.to_features(coef) for coef in np.ascontiguousarray(self.columns.T)]
        return np.array([w for w, _ in found]), np.array([shift for _, shift in found])

    @property
    def coef(self):
        """Coefficients of features, or of samples."""
        return self.columns.T if self._in_features is None else self._in_features[0]

    @property
    def intercept(self):
        """Intercepts, of rows that are not centred."""
        return self.offset + (0.0 if self._in_features is None else self._in_features[1])

    def leave_one_out(self):
        """Return closed-form decision values of shape (n_samples, n_outputs)."""
        check_number(self.refitter, self.number)
        out = self.refitter.room(self.columns, self.offset)
        self.refitter.put_left_out(out)
        return out

    def leave_folds_out(self, folds):
        """Return closed-form decision values, with derivatives."""
        check_number(self.refitter, self.number)
        room = self.refitter.room(self.columns, self.offset)
        out = np.stack([room] * folds.fold.shape[0])
        differentiate = partial(self._by_parameters, self.refitter.put_folds(folds, out))
        return Values(out, differentiate, self.refitter, self.number)

    def predict_test(self):
        """Return decision values of the test samples, with derivatives."""
        differentiate = partial(self._by_parameters, self.refitter.differentiate_test)
        return Values(super().predict_test().decision, differentiate, self.refitter, self.number)

    def _by_parameters(self, differentiate, slope):
        """Return derivatives with those by the parameters of the losses."""
        found = differentiate(slope)
        pull, curvature = self.refitter.pull_and_curvature()
        active, by_loss = np.flatnonzero(curvature), 0.0
        are_same = all(loss == self.losses[0] for loss in self.losses)
        for k, loss in enumerate(self.losses[:1] if are_same else self.losses):
            at = active if are_same else active[self.refitter.output[active] == k]
            target = self.refitter.target.take(at, 1.0)
            log_curvature, aim = loss.parameter_slopes(pull[at], curvature[at], target)
            by_loss = by_loss + log_curvature @ found.by_log_curvature[at]
            by_loss = by_loss + aim @ found.by_aim[at]
        return replace(found, by_loss=by_loss)


@dataclass
class _Part:
    """Outputs that share a system, and the rows of it.

    Attributes
    ----------
    at : tuple of (ndarray or slice) and slice
        Its rows and outputs in arrays of shape (n_samples, n_outputs).
    targets : list of Target
        On these rows.
    system : ActiveSystem or None
        None where the design has changed since it was made.
    problem : AdditiveProblem or None
        Of the last solution, where the system has not moved there yet.
    coef, decision, intercept : ndarray, ndarray, float or None
        Of the last solution of a single output, from which the next solve starts.
    """

    at: tuple
    targets: list
    system: Any = None
    problem: Any = None
    coef: Any = None
    decision: Any = None
    intercept: Any = None

    def solve(self, objective, loss, solver):
        """Return the coefficients, intercepts, objectives and gaps.

        Parameters
        ----------
        objective : AdditiveObjective
        loss : Loss
            Of all outputs.
        solver : Newton
        """
        system, target = self.system, self.targets[0]
        if loss.constant_curvature is not None:
            curvature = loss.constant_curvature * target.weight
            aim = np.stack([target.value for target in self.targets], axis=1)
            self.problem = None
            self._move(curvature, aim)
            image = system.design.metric(system.coef, system.decision - system.intercept)
            value = 0.5 * curvature @ (aim - system.decision) ** 2
            value += 0.5 * np.einsum("ij,ij->j", system.coef, image)
            return system.coef, system.intercept, value, np.zeros(value.size)
        problem = objective.problem(system.design, target, fit_intercept=system.fit_intercept)
        if self.coef is None and self.decision is not None:
            # Other features: the active set is what is known.
            _, pull, curvature = loss.evaluate(self.decision, target)
            aim = self.decision.copy()
            active = curvature > 0
            aim[active] += pull[active] / curvature[active]
            self._move(curvature, aim[:, None])
        found = solver.solve_with(system, problem, self.coef, self.intercept)
        if found.dual_gap > np.sqrt(solver.tol):  # sums that changed often may lose their digits
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


class NewtonRefitter(AdditiveRefitter):
    """Problems of any additive objective over any design.

    Parameters
    ----------
    design, targets, fit_intercept, test
        As in `AdditiveRefitter`.
    folds : Folds, default=None
        Those that will be left out; sums over them are kept.
    tol : float, default=1e-12
        Of the relative gap.
    exact : bool, default=True
        Whether cheap solves go on until the active set is final.
    """

    def __init__(
        self, design, targets, fit_intercept, test=None, *, folds=None, tol=1e-12, exact=True
    ):
        super().__init__(design, targets, fit_intercept, test)
        self._folds = folds
        self._solver = Newton(tol=tol, max_iter=1000, **({} if exact else {"exact_up_to": 0}))

    def change_design(self, design, test=None):
        """Go on with another design; coefficients of samples stay a start."""
        super().change_design(design, test)
        self._in_samples = not isinstance(design, FeatureSpaceDesign)
        for part in (part for parts in self._made.values() for part in parts):
            part.system = part.problem = None
            if not self._in_samples:
                part.coef = None

    def _make(self, together):
        """Return the parts of single outputs, or the one of all of them."""
        every = slice(None)
        if together:
            return [_Part((every, every), self.targets)]
        parts = [_Part((every, slice(k, k + 1)), [t]) for k, t in enumerate(self.targets)]
        for part in parts if self.has_own_rows else ():
            target, (_, output) = part.targets[0], part.at
            rows = np.flatnonzero(target.weight)
            part.at, part.targets = (rows, output), [target.take(rows, 1.0)]
        return parts

    def _solve(self, objective, losses):
        own = self.has_own_rows
        for part in self._now:
            if part.system is None:
                design = self.design.take(part.at[0]) if own else self.design
                given = {"fit_intercept": self.fit_intercept, "folds": None if own else self._folds}
                part.system = make_system(design, **given)
        # In threads where parts of own rows take long.
        self._work = own * sum(part.system.operations for part in self._now) / PRODUCTS

        found: list = [None] * len(self._now)

        def solve(k):
            part = self._now[k]
            found[k] = part.solve(objective, losses[part.at[1]][0], self._solver)

        for_each(solve, range(len(found)), self._work)
        columns, *others = zip(*found, strict=True)
        coef = np.zeros((self.design.n_coef, len(losses)))
        for part, each in zip(self._now, columns, strict=True):
            coef[part.at if self._in_samples else (slice(None), part.at[1])] = each
        return coef, *(np.hstack(each) for each in others)

    def put_left_out(self, out):
        """Put the values of samples for the models without each into an array."""
        for part in self._now:
            out[part.at] = part.at_solution().left_out()

    def put_folds(self, folds, out):
        """Put values for the models without each fold into an array of all repeats."""
        # Not kept by parts: they hold their design, which the next one needs the memory of.
        values: list = [None] * len(self._now)

        def leave_out(k):
            part = self._now[k]
            own = folds.of_rows(part.at[0]) if self.has_own_rows else folds
            values[k] = part.at_solution().folds(own)
            out[(..., *part.at)] = values[k].decision

        for_each(leave_out, range(len(values)), self._work)

        def differentiate(slope):
            slopes = [np.ascontiguousarray(slope[(..., *part.at)]) for part in self._now]
            return self._joined(
                [each.derivatives(own) for each, own in zip(values, slopes, strict=True)]
            )

        return differentiate

    def differentiate_test(self, slope):
        """Return derivatives of a function of the values of test samples."""
        test = [self.test] * len(self._now)
        if self.has_own_rows and self._in_samples:
            test = [self.test.take(part.at[0]) for part in self._now]
        return self._joined(
            [
                part.at_solution().predict(each).derivatives(slope[:, part.at[1]])
                for part, each in zip(self._now, test, strict=True)
            ]
        )

    def _joined(self, found):
        """Return the derivatives of all parts."""
        by_aim, by_log_curvature = np.zeros((2, *self.weight.shape))
        forms: list = []
        for part, each in zip(self._now, found, strict=True):
            by_aim[part.at], by_log_curvature[part.at] = each.by_aim, each.by_log_curvature
            own = self.has_own_rows and self._in_samples
            forms += [replace(form, rows=part.at[0]) for form in each.forms] if own else each.forms
        return Derivatives(self.flat(by_aim), self.flat(by_log_curvature), forms)

    def pull_and_curvature(self):
        """Return the pulls and the curvatures of the solution, flat."""
        pull, curvature = np.zeros((2, *self.weight.shape))
        for part in self._now:
            system = part.at_solution()
            curvature[part.at] = system.curvature[:, None]
            pull[part.at] = system.curvature[:, None] * (system.aim - system.decision)
        return self.flat(pull), self.flat(curvature)
