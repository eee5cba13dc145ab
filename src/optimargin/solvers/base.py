"""What every solver is given and what it gives back."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from optimargin.certificates import ESTIMATED, Certificate, coefficients_gap
from optimargin.designs.base import Design
from optimargin.problems.additive import AdditiveProblem
from optimargin.targets import LABELS, Scale

OnIteration = Callable[[], Callable[[], bool]]
"""Called when an iteration begins; what it returns is called at its end, and may ask to stop."""


@dataclass(frozen=True)
class Solution:
    """The end of a solve.

    Attributes
    ----------
    coef : ndarray
        In the representation of the problem's design.
    intercept : float
    pull : ndarray of shape (n_samples,)
        A dual feasible point; in feature space these are kernel coefficients.
    objective : float
        The primal objective.
    certificate : Certificate
    n_iter : int
    decision : ndarray of shape (n_samples,) or None
        Decision values of the samples, with the intercept, where the solver has them.
    stopped : bool
        Whether the listener ended the solve.
    """

    coef: np.ndarray
    intercept: float
    pull: np.ndarray
    objective: float
    certificate: Certificate
    n_iter: int
    decision: np.ndarray | None = None
    stopped: bool = False

    @property
    def dual_gap(self) -> float:
        """The certified duality gap relative to the objective."""
        return self.certificate.gap

    @property
    def how(self) -> str:
        """How the gap is known."""
        return self.certificate.how

    @classmethod
    def from_point(cls, point, n_iter: int) -> "Solution":
        """Make a solution of the last iterate."""
        decision = getattr(point, "decision", None)  # which chunks do not have
        if decision is not None:
            decision = decision + point.intercept
        return cls(
            point.coef,
            point.intercept,
            point.pull,
            point.value,
            Certificate(point.relative_gap),
            n_iter,
            decision,
        )

    def in_units_of_y(self, scale: Scale) -> "Solution":
        """Return the solution in the units that a scale gives to targets of unit size."""
        if scale == LABELS:
            return self
        return replace(
            self,
            coef=self.coef * scale.unit,
            intercept=scale.restored(self.intercept),
            pull=self.pull * scale.unit,
            objective=self.objective * scale.unit**2,
            decision=None if self.decision is None else scale.restored(self.decision),
        )


def certified_solution(problem, coef, intercept, decision):
    """Return the solution of coefficients that certify themselves.

    Parameters
    ----------
    problem : AdditiveProblem
        Over a design that `is_rounded`.
    coef : ndarray of shape (n_samples,)
    intercept : float
        Is moved to the minimum.
    decision : ndarray of shape (n_samples,)
        Without the intercept.

    Returns
    -------
    solution : Solution
        Its number of iterations is zero.
    by_rounding : float
        What rounding alone adds to its relative gap.
    """
    value, intercept, pull, _ = problem.evaluate(coef, intercept, decision)
    gap, by_rounding = coefficients_gap(problem, coef, decision, value, pull)
    decision, intercept = decision + intercept, float(intercept)
    certificate = Certificate(gap, ESTIMATED)
    found = Solution(coef, intercept, pull, value, certificate, 0, decision)
    return found, by_rounding


class UnsuitableProblemError(TypeError):
    """A solver was given a problem that it cannot solve."""


class Solver(ABC):
    """A method that minimises a problem.

    A subclass implements `_solve` and says what it needs: the kinds of problems and of designs
    that it works with. `solve` checks that, in words, before the first step.

    Parameters
    ----------
    tol : float
        The solver stops once the certified relative duality gap is at most `tol`.
    max_iter : int
        In units of what the solver calls an iteration: a Newton step or a pass over the data.
    seed : int
        For solvers that draw random numbers.
    on_iteration : callable, default=None
        See `OnIteration`.

    Attributes
    ----------
    stopped : bool
        Whether the listener ended the last solve.
    solves_together : bool
        Whether there is a method ``solve_together(problems, starts)``, which returns the solutions
        of problems over the same design and shares passes over the data.
    """

    problem_type: ClassVar[Any] = AdditiveProblem
    design_type: ClassVar[type | tuple[type, ...]] = Design
    solves_together: ClassVar[bool] = False

    def __init__(
        self, *, tol: float, max_iter: int, seed: int = 0, on_iteration: OnIteration | None = None
    ):
        self.tol = tol
        self.max_iter = max_iter
        self.seed = seed
        self.on_iteration = on_iteration
        self.stopped = False

    def solve(self, problem: Any, coef=None, intercept: float = 0.0) -> Solution:
        """Minimise `problem`, starting at (`coef`, `intercept`)."""
        self.check(problem)
        solution = self._solve(problem, coef, intercept)
        return replace(solution, stopped=True) if self.stopped else solution

    @abstractmethod
    def _solve(self, problem: Any, coef, intercept: float) -> Solution:
        """Minimise a problem that was checked."""

    @classmethod
    def works_with(cls, design_type: type) -> bool:
        """Return whether the solver takes designs of that kind."""
        return issubclass(design_type, cls.design_type)

    def check(self, problem: Any) -> None:
        """Raise `UnsuitableProblemError` for a problem of another kind than the solver needs."""
        if not isinstance(problem, self.problem_type):
            raise UnsuitableProblemError(
                f"{type(self).__name__} takes problems of type {self.problem_type.__name__}, not "
                f"{type(problem).__name__}."
            )
        if not self.works_with(type(problem.design)):
            needed = self.design_type
            names = [t.__name__ for t in (needed if isinstance(needed, tuple) else (needed,))]
            raise UnsuitableProblemError(
                f"{type(self).__name__} takes designs of type {' or '.join(names)}, not "
                f"{type(problem.design).__name__}."
            )

    def iterations(self) -> Iterator[int]:
        """Yield 1, 2, ..., max_iter, reporting the begin and the end of each.

        Ends early when the listener asks for that; `stopped` then says so.
        """
        self.stopped = False
        for n_iter in range(1, self.max_iter + 1):
            if self.on_iteration is None:
                yield n_iter
                continue
            end_iteration = self.on_iteration()
            stop = False
            try:
                yield n_iter
            finally:
                stop = end_iteration()
            if stop:
                self.stopped = True
                return

    @classmethod
    def own_threads(cls, design: Design) -> bool:
        """Whether threads of the compiled core do the work, so that BLAS needs only one."""
        return design.own_threads
