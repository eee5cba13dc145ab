"""What a problem offers to solvers.

A problem is minimised over coefficients in the representation of its design, and an intercept.
Solvers see it through these names alone; which of them a solver uses, it says itself
(`Solver.problem_type` and `Solver.design_type`).

    design           the matrix of features (`optimargin.designs`)
    fit_intercept    whether an unpenalised intercept is fitted
    scale            what the values of the target are measured in
    gap_floor        what gaps are relative to when the objective is near zero
    point(coef, intercept, ...)   an iterate, with its value and its certified duality gap
    objective_at(coef, intercept)   the objective of these numbers, the intercept left as it is

An additive problem (`problems.additive`) has a `loss` and a `target`, and moves iterates along
directions; a chunked one (`problems.chunked`) does the same in passes over chunks; that of the
large margin distribution machine (`problems.ldm`) has a box of dual variables instead.
"""

import numpy as np

from optimargin.certificates import GAP_FLOOR, relative_gap


class NoMinimumError(ValueError):
    """The parameters of a problem leave it without a minimum."""


class UnboundedError(NoMinimumError):
    """The objective falls without end."""


class NotFiniteError(ValueError):
    """Values of the data are not finite."""


class Iterate:
    """What every kind of iterate has.

    Attributes
    ----------
    coef : ndarray
        Coefficients in the design's own representation.
    intercept : float
    value : float
        The primal objective.
    gap : float
        The duality gap, or an upper bound of it.
    pull : ndarray of shape (n_samples,)
        Coefficients of the samples in the dual point that certifies the iterate.
    gap_floor : float
        What gaps are relative to when the objective is near zero.
    """

    coef: np.ndarray
    intercept: float
    value: float
    gap: float
    pull: np.ndarray
    gap_floor: float = GAP_FLOOR

    @property
    def relative_gap(self) -> float:
        """The duality gap relative to the objective; infinite where it overflows."""
        return relative_gap(self.value, self.gap, self.gap_floor)
