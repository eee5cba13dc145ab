"""What a problem offers to solvers.

A problem is minimised over coefficients in the representation of its design, and an intercept.
Solvers see it through these names alone; which of them a solver uses, it says itself
(`Solver.problem_type` and `Solver.design_type`).

    design           the matrix of features (`optimargin.designs`)
    fit_intercept    whether an unpenalised intercept is fitted
    point(coef, intercept, ...)   an iterate, with its value and its certified duality gap

An additive problem (`problems.additive`) has a `loss` and a `target`, and moves iterates along
directions; a chunked one (`problems.chunked`) does the same in passes over chunks; that of the
large margin distribution machine (`problems.ldm`) has a box of dual variables instead.
"""

from typing import Any, Protocol

import numpy as np


class NoMinimumError(ValueError):
    """The parameters of a problem leave it without a minimum."""


class UnboundedError(NoMinimumError):
    """The objective falls without end."""


class NotFiniteError(ValueError):
    """Values of the data are not finite."""


class Iterate(Protocol):
    """What every kind of iterate has."""

    coef: np.ndarray
    intercept: float
    value: float
    gap: float

    @property
    def pull(self) -> np.ndarray:
        """Coefficients of the samples in the dual point that certifies the iterate."""

    @property
    def relative_gap(self) -> float:
        """The duality gap relative to the objective."""


class Problem(Protocol):
    """What every kind of problem has."""

    design: Any
    fit_intercept: bool

    def point(self, *args: Any, **kwargs: Any) -> Iterate:
        """Return an iterate."""

    def objective_at(self, coef: np.ndarray, intercept: float) -> float:
        """Return the objective of these numbers, the intercept left as it is."""
