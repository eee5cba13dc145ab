"""Training sets whose problems are solved for one parameter setting after another.

A refitter holds the data, the targets of all outputs, and the last solution, from which the next
solve starts. What a solve found is returned, with all that can be asked of it:

    solved = refitter.solve(objective)
    solved.leave_one_out()            held-out decision values in closed form
    solved.leave_folds_out(folds)     the same for the folds of a `Folds`, with derivatives
    solved.predict_test()             decision values of the test samples, with derivatives

It is valid until the next solve of the same refitter. `NumpyRefitter` works for every design and
every additive objective; `optimargin.held_out.compiled` has faster ones for the band loss,
`optimargin.held_out.ldm` those of the large margin distribution machine.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from optimargin.designs import LINEAR_DESIGNS
from optimargin.designs.base import SampleSpaceDesign
from optimargin.held_out.closed_form import active_system
from optimargin.solvers import Newton


@dataclass(frozen=True)
class Folds:
    """Repeated partitions of the samples.

    Attributes
    ----------
    fold : ndarray of shape (n_repeats, n_samples), dtype intc
    n_folds : int
    """

    fold: np.ndarray
    n_folds: int

    def models(self):
        """Yield ``(repeat, samples left out)`` for every model."""
        for repeat, fold in enumerate(self.fold):
            for k in range(self.n_folds):
                yield repeat, np.flatnonzero(fold == k)

    @classmethod
    def stratified(cls, encoded, n_folds, n_repeats, random_state):
        """Deal the samples of every class out to the folds, in random order.

        Parameters
        ----------
        encoded : ndarray of shape (n_samples,)
            Classes, as integers from 0.
        n_folds, n_repeats : int
        random_state : RandomState
        """
        fold = np.empty((n_repeats, encoded.size), dtype=np.intc)
        for repeat in range(n_repeats):
            shuffled = random_state.permutation(encoded.size)
            in_classes = shuffled[np.argsort(encoded[shuffled], kind="stable")]
            fold[repeat, in_classes] = np.arange(encoded.size) % n_folds
        return cls(fold, n_folds)


@dataclass(frozen=True)
class Derivatives:
    """Derivatives of a function of held-out decision values.

    Attributes
    ----------
    by_loss : ndarray of shape (n_loss_parameters,)
        In the order of `Loss.parameters`.
    by_width : float
        By the logarithm of the kernel's width, where it can change.
    pairs : tuple of (rows, left, coef)
        By the kernel matrix K, as the bilinear form ``sum of left.T @ coef`` between rows;
        arrays of shape (n_models, n_rows).
    dense : ndarray of shape (n_samples, n_samples) or None
        What is to be added to that.
    """

    by_loss: np.ndarray
    by_width: float = 0.0
    pairs: tuple[tuple[Any, np.ndarray, np.ndarray], ...] = ()
    dense: np.ndarray | None = None

    def __add__(self, other):
        dense = self.dense if other.dense is None else other.dense
        if self.dense is not None and other.dense is not None:
            dense = self.dense + other.dense
        return Derivatives(
            self.by_loss + other.by_loss,
            self.by_width + other.by_width,
            self.pairs + other.pairs,
            dense,
        )

    def by_kernel(self, n_samples):
        """Return the derivative by the kernel matrix, an array of its shape."""
        G = np.zeros((n_samples, n_samples)) if self.dense is None else self.dense.copy()
        for rows, left, coef in self.pairs:
            at = rows if isinstance(rows, slice) else np.ix_(rows, rows)
            G[at] += left.T @ coef
        return G


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
        """Return decision values without the intercept."""
        return self.K @ coef

    def pull_back(self, slope):
        """Return the derivative by the coefficients of ``slope @ decision(coef)``."""
        return slope @ self.K


class FeatureTest:
    """Test samples given by their features."""

    def __init__(self, design):
        self._design = design
        self.n_samples = design.n_samples

    def decision(self, coef):
        """Return decision values without the intercept."""
        return self._design.decision(coef)

    def pull_back(self, slope):
        """Return the derivative by the coefficients of ``slope @ decision(coef)``."""
        return self._design.represent(slope)


class NumpyRefitter(Refitter):
    """Problems of any loss over any design.

    Parameters
    ----------
    design : Design
    targets : list of Target
        Of positive weights.
    fit_intercept : bool
    test : GramTest or FeatureTest, default=None
    """

    def __init__(self, design, targets, fit_intercept, test=None):
        self.design = design
        self.targets = targets
        self.fit_intercept = fit_intercept
        self.test = test
        self.width_slope = self.test_width_slope = None
        self._starts = [(None, 0.0)] * len(targets)

    def solve(self, objective):
        """Solve the problem of every output."""
        problems = [
            objective.problem(self.design, target, fit_intercept=self.fit_intercept)
            for target in self.targets
        ]
        solutions = self._solutions(problems)
        self._starts = [(solution.coef, solution.intercept) for solution in solutions]
        return NumpySolved(self, problems, solutions)

    def _solutions(self, problems):
        solver = Newton(tol=1e-12, max_iter=1000)
        return [
            solver.solve(problem, *start)
            for problem, start in zip(problems, self._starts, strict=True)
        ]

    def change_kernel(self, K, test=None, slope=None, slope_test=None):
        """Go on with another kernel, and its derivatives by the logarithm of its width."""
        self.design = type(self.design)(K)
        self.test = None if test is None else GramTest(test)
        self.width_slope, self.test_width_slope = slope, slope_test


class NumpySolved(Solved):
    """Solutions of additive problems, and their closed forms."""

    def __init__(self, refitter, problems, solutions):
        self._refitter = refitter
        self._problems, self._solutions = problems, solutions
        self._width_slope = refitter.width_slope
        self.objective = np.array([solution.objective for solution in solutions])
        self.dual_gap = np.array([solution.dual_gap for solution in solutions])

    @property
    def _in_features(self):
        return isinstance(self._refitter.design, LINEAR_DESIGNS)

    @cached_property
    def coef(self):
        """Coefficients of features, or of samples."""
        design = self._refitter.design
        if not self._in_features:
            return np.array([solution.coef for solution in self._solutions])
        return np.array([design.to_features(solution.coef)[0] for solution in self._solutions])

    @cached_property
    def intercept(self):
        """Intercepts, of rows that are not centred."""
        design = self._refitter.design
        shifts = [
            design.to_features(s.coef)[1] if self._in_features else 0.0 for s in self._solutions
        ]
        return np.array([s.intercept for s in self._solutions]) + shifts

    @cached_property
    def _systems(self):
        return [
            active_system(problem, problem.point(s.coef, s.intercept))
            for problem, s in zip(self._problems, self._solutions, strict=True)
        ]

    def leave_one_out(self):
        """Return closed-form decision values of shape (n_samples, n_outputs)."""
        return np.stack([system.leave_one_out() for system in self._systems], axis=1)

    def leave_folds_out(self, folds):
        """Return closed-form decision values, with derivatives."""
        design = self._refitter.design
        out = np.empty((*folds.fold.shape, len(self._systems)))
        models = []
        for k, system in enumerate(self._systems):
            for repeat, rows in folds.models():
                model = system.model_without(rows)
                decision = design.decision(model.coef) + model.intercept
                out[repeat, rows, k] = decision[rows]
                models.append(((repeat, rows, k), system, model, decision[system.active]))

        def derivatives(slope):
            total = self._no_derivatives()
            for place, system, model, decision in models:
                spread = np.zeros(design.n_samples)
                spread[place[1]] = slope[place]
                by_coef = design.metric(design.represent(spread))
                adjoint = model.adjoint(by_coef, spread.sum())
                total += Derivatives(
                    system.chain(adjoint, decision),
                    *self._by_kernel(system, adjoint, model.coef, spread),
                )
            return total

        return HeldOut(out, derivatives)

    def predict_test(self):
        """Return decision values of the test samples, with derivatives."""
        test = self._refitter.test
        slope_test = self._refitter.test_width_slope
        decision = np.stack([test.decision(s.coef) + s.intercept for s in self._solutions], axis=1)

        def derivatives(slope):
            total = self._no_derivatives()
            none = np.empty(0, dtype=np.intp)
            for k, system in enumerate(self._systems):
                of_output = np.ascontiguousarray(slope[:, k])
                model = system.model_without(none)
                adjoint = model.adjoint(test.pull_back(of_output), of_output.sum())
                by_width, _ = self._by_kernel(system, adjoint, model.coef, 0.0)
                if slope_test is not None:
                    by_width += of_output @ (slope_test @ model.coef)
                by_loss = system.chain(adjoint, system.decision[system.active])
                total += Derivatives(by_loss, by_width)
            return total

        return HeldOut(decision, derivatives)

    def _no_derivatives(self):
        return Derivatives(np.zeros(len(self._problems[0].loss.parameters)))

    def _by_kernel(self, system, adjoint, coef, spread):
        """Return the derivatives by way of the kernel: ``(spread - adjoint)' dK coef``."""
        if not isinstance(system.problem.design, SampleSpaceDesign):
            return 0.0, ()
        left = np.zeros(coef.size) + spread
        left[system.active] -= adjoint
        slope = self._width_slope
        by_width = 0.0 if slope is None else float(left @ (slope @ coef))
        return by_width, ((slice(None), left[None], coef[None]),)
