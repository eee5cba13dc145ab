"""Training sets whose problems are solved for one parameter setting after another.

A refitter holds the data, the targets of all outputs, and the last solution, from which the next
solve starts. What a solve found is returned, with all that can be asked of it:

    solved = refitter.solve(objective)
    solved.leave_one_out()            held-out decision values in closed form
    solved.leave_folds_out(folds)     the same for the folds of a `Folds`, with derivatives
    solved.predict_test()             decision values of the test samples, with derivatives

It is valid until the next solve of the same refitter. An output that is asked for some of the
samples only, as a pair of classes is, has a system of its own rows. A sample that takes no part in
an output is held out of it anyway: its value is that of the model itself. `NewtonRefitter` works
for every design and every additive objective; `optimargin.held_out.small` has the compiled one for
the band loss, `optimargin.held_out.ldm` those of the large margin distribution machine.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from optimargin._threads import for_each
from optimargin.designs import LINEAR_DESIGNS
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.solvers import Newton
from optimargin.systems import FeatureSystem, Folds, OutlivedError, make_system, system_of

_FEW = 200  # rows of an output, up to which threads wait for the interpreter


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

    def values_in(self, out):
        """Return what belongs to this part, of an array of shape (..., n_samples, n_outputs)."""
        some = out[..., self.outputs]
        return some if self.rows is None else some[..., self.rows, :]

    def put_into(self, out, values):
        """Put what belongs to this part into such an array."""
        if self.rows is None:
            out[..., self.outputs] = values
        else:
            out[..., self.rows[:, None], self.outputs] = values

    def use(self, design, test, fit_intercept, folds):
        """Go on with a design of all samples; coefficients of samples stay a start."""
        if self.rows is not None:
            take = design.take if isinstance(design, FeatureSpaceDesign) else design.part
            design, test = take(self.rows), None if test is None else test.take(self.rows)
        self.design, self.test = design, test
        if folds is None:
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
        # Sums over folds are those of all samples: some of no weight take no part.
        rows = own_rows(targets) if folds is None else [None] * len(targets)
        self.has_own_rows = rows[0] is not None
        self.number = 0  # of solves
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
            found = [(system.coef, system.intercept, value, np.zeros(value.size))]
            return NewtonSolved(self, parts, found, losses)
        problems = [
            objective.problem(part.design, part.targets[0], fit_intercept=self.fit_intercept)
            for part in parts
        ]
        solutions = each(lambda k: parts[k].solve(problems[k], self._solver), parts)
        found = [
            (s.coef[:, None], np.array([s.intercept]), s.objective, s.dual_gap) for s in solutions
        ]
        return NewtonSolved(self, parts, found, losses, problems)

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


class NewtonSolved(Solved):
    """Solutions of additive problems, and their closed forms."""

    def __init__(self, refitter, parts, found, losses, problems=None):
        self._refitter, self._parts, self._losses = refitter, parts, losses
        self._number, self._problems = refitter.number, problems
        n_outputs = len(losses)
        n_coef = refitter.design.n_coef
        self._coef = np.zeros((n_coef, n_outputs))
        self._intercept, self.objective, self.dual_gap = np.zeros((3, n_outputs))
        for part, (coef, intercept, value, gap) in zip(parts, found, strict=True):
            in_samples = part.rows is not None and coef.shape[0] == part.rows.size < n_coef
            if in_samples:
                self._coef[part.rows[:, None], part.outputs] = coef
            else:
                self._coef[:, part.outputs] = coef
            self._intercept[part.outputs] = intercept
            self.objective[part.outputs], self.dual_gap[part.outputs] = value, gap

    @cached_property
    def _in_features(self):
        """Coefficients and intercepts of linear data, or None."""
        design = self._refitter.design
        if not isinstance(design, LINEAR_DESIGNS):
            return None
        found = [design.to_features(coef) for coef in np.ascontiguousarray(self._coef.T)]
        return np.array([w for w, _ in found]), np.array([shift for _, shift in found])

    @property
    def coef(self):
        """Coefficients of features, or of samples."""
        return self._coef.T if self._in_features is None else self._in_features[0]

    @property
    def intercept(self):
        """Intercepts, of rows that are not centred."""
        shift = 0.0 if self._in_features is None else self._in_features[1]
        return self._intercept + shift

    @cached_property
    def _systems(self):
        if self._number != self._refitter.number:
            raise OutlivedError("The problems were solved again since this solution was found.")
        if self._problems is None:
            return [part.system for part in self._parts]
        return [
            system_of(problem, problem.point(part.coef, part.intercept), part.system)
            for part, problem in zip(self._parts, self._problems, strict=True)
        ]

    def _everywhere(self):
        """Return decision values by the models themselves, for rows that are not asked for."""
        refitter = self._refitter
        if not refitter.has_own_rows:
            return np.empty((refitter.design.n_samples, self.objective.size))
        return refitter.design.decisions(self._coef) + self._intercept

    def leave_one_out(self):
        """Return closed-form decision values of shape (n_samples, n_outputs)."""
        out = self._everywhere()
        for part, system in zip(self._parts, self._systems, strict=True):
            part.put_into(out, system.left_out())
        return out

    def leave_folds_out(self, folds):
        """Return closed-form decision values, with derivatives."""
        out = np.stack([self._everywhere()] * folds.fold.shape[0])
        systems = self._systems

        def leave_out(k):
            rows = self._parts[k].rows
            found = systems[k].folds(folds if rows is None else folds.of_rows(rows))
            self._parts[k].put_into(out, found.decision)
            return found.pull_back

        return HeldOut(out, self._chained(each(leave_out, self._parts), own_slopes=True))

    def predict_test(self):
        """Return decision values of the test samples, with derivatives."""
        decision = np.empty((self._refitter.test.n_samples, self.objective.size))
        for part in self._parts:
            coef = self._coef[:, part.outputs]
            if part.rows is not None and part.design.n_coef < coef.shape[0]:
                coef = coef[part.rows]
            decision[:, part.outputs] = part.test.decision(coef) + self._intercept[part.outputs]

        def derivatives(slope):
            pull_backs = [
                system.predict(part.test).pull_back
                for part, system in zip(self._parts, self._systems, strict=True)
            ]
            return self._chained(pull_backs, own_slopes=False)(slope)

        return HeldOut(decision, derivatives)

    def _chained(self, pull_backs, own_slopes):
        """Return a function that adds up the derivatives of all parts."""

        def derivatives(slope):
            def of_part(k):
                part = self._parts[k]
                some = part.values_in(slope) if own_slopes else slope[..., part.outputs]
                return self._by_parameters(k, pull_backs[k](np.ascontiguousarray(some)))

            first, *others = each(of_part, self._parts)
            return sum(others, first)

        return derivatives

    def _by_parameters(self, k, adjoint):
        """Return an adjoint in the parameters of the loss."""
        part, system = self._parts[k], self._systems[k]
        active, by_loss = system.active, 0.0
        pull = system.curvature[:, None] * (system.aim - system.decision)
        for j, (output, target) in enumerate(zip(part.outputs, part.targets, strict=True)):
            log_curvature, aim = self._losses[output].parameter_slopes(
                pull[active, j], system.curvature[active], target.take(active)
            )
            by_loss += log_curvature @ adjoint.by_log_curvature[active, j]
            by_loss += aim @ adjoint.by_aim[active, j]
        forms = adjoint.forms
        if part.rows is not None:
            forms = [replace(form, rows=part.rows) for form in forms]
        return Derivatives(by_loss, forms)
