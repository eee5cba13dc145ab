"""What every solver is given and what it gives back."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Solution:
    """The end of a solve.

    Attributes
    ----------
    coef : ndarray
        In the representation of the problem's design.
    intercept : float
    dual : ndarray of shape (n_samples,)
        A dual feasible point; ``y * dual`` are kernel coefficients.
    objective : float
        The primal objective.
    dual_gap : float
        The certified duality gap relative to the objective.
    n_iter : int
    """

    coef: np.ndarray
    intercept: float
    dual: np.ndarray
    objective: float
    dual_gap: float
    n_iter: int

    @classmethod
    def from_point(cls, point, n_iter):
        """Make a solution of the last iterate."""
        return cls(point.coef, point.intercept, point.dual, point.value, point.relative_gap, n_iter)


class Solver(ABC):
    """A method that minimises a `MarginProblem`.

    Parameters
    ----------
    tol : float
        The solver stops once the certified relative duality gap is at most `tol`.
    max_iter : int
        In units of what the solver calls an iteration: a Newton step or a pass over the data.
    seed : int
        For solvers that draw random numbers.
    """

    def __init__(self, *, tol, max_iter, seed=0):
        self.tol = tol
        self.max_iter = max_iter
        self.seed = seed
        self.begin_iteration = _no_task

    def iterations(self):
        """Yield 1, 2, ..., max_iter, with a task of the fit's callbacks around each.

        Ends early when a callback asks for that.
        """
        for n_iter in range(1, self.max_iter + 1):
            end_iteration = self.begin_iteration()
            try:
                yield n_iter
            finally:
                stop = end_iteration()
            if stop:
                return

    def own_threads(self, design):
        """Whether the threads of the compiled core do the work, so that BLAS needs but one."""
        return design.own_threads

    @abstractmethod
    def solve(self, problem, coef=None, intercept=0.0):
        """Minimise `problem`, starting at (`coef`, `intercept`), and return a `Solution`."""


def _no_task():
    return lambda: False
