"""The paper's bounds of the leave-one-out error, as printed and as they are valid."""

import numpy as np

from optimargin.designs.base import by_space
from optimargin.problems import LDMDual
from optimargin.solvers.ldm_systems import FeatureSystem

_AT_THE_END = 1e-7  # distance of a variable from an end of its box, as part of it, that is none,
_ROUNDING = 200.0  # or in units of the rounding of what it was made from


def error_bound(problem, coef, intercept, kind="valid"):
    """Bound the leave-one-out error of an ODM by numbers that the fit has already computed.

    With a_i the dual variable of sample i, h_i = k(x_i, x_i) + 1 / c_i, and S1 and S2 the
    samples whose margin is below 1 - D and above 1 + D:

    - ``"printed"``: the paper's ``(sum_S a_i h_i + D (|S1| - |S2|)) / n``. Its terms of S2 can
      be negative, and then it can be below the error.
    - ``"valid"``: ``sum_S1 min(1, a_i h_i / (1 - D)) / n``. A sample of S2 cannot become an
      error: its margin only grows when it is removed.
    - ``"count"``: the share of the samples of S1 with ``a_i h_i >= 1 - D``, tighter still.

    The last two hold for models without an intercept. With one only the share of S1 is safe,
    and that is what they return. With sample weights, shares are shares of the weight.

    Parameters
    ----------
    problem : AdditiveProblem
        Of a classification, with a `BandLoss`.
    coef, intercept : ndarray, float
        The solution of `problem`.
    kind : {"printed", "valid", "count"}, default="valid"

    Returns
    -------
    bound : float

    References
    ----------
    T. Zhang and Z.-H. Zhou, Optimal Margin Distribution Machine, TKDE 2020, Theorem 3.
    """
    point = problem.point(coef, intercept)
    D, weight = problem.loss.D, problem.target.weight
    variable = problem.target.orientation * point.pull
    below, above = variable > 0, variable < 0
    if kind != "printed" and problem.fit_intercept:
        return float(weight[below].sum())
    active = np.flatnonzero(point.curvature)
    rise = np.zeros(problem.design.n_samples)
    rise[active] = np.abs(point.pull[active]) * (
        problem.design.squared_norms[active] + 1 / point.curvature[active]
    )
    if kind == "printed":
        terms = np.where(below, rise + D, np.where(above, rise - D, 0.0))
    elif kind == "count":
        terms = below & (rise >= 1 - D)
    else:
        terms = np.where(below, np.minimum(1.0, rise / (1 - D)), 0.0)
    return float(weight @ terms)


def ldm_printed_bound(problem, hinge_dual, dtype=np.float64):
    """Return the paper's bound for the LDM, given the dual variables of the hinge loss.

    It is ``(sum of a_i h_ii over 0 < a_i < C/m, plus the number of a_i = C/m) / m``, with the
    diagonal h of the dual's matrix.

    Parameters
    ----------
    problem : LDMProblem
    hinge_dual : ndarray of shape (n_samples,)
    dtype : numpy dtype
        The precision of what the variables were made from: within their rounding they are at the
        ends of their box.
    """
    diagonal = by_space(problem.design, _diagonal_by_features, _diagonal_by_samples)(problem)
    penalty = problem.C * problem.weight
    share = max(_AT_THE_END, _ROUNDING * float(np.finfo(dtype).eps))
    tiny = share * problem.weight * max(min(problem.C, hinge_dual.sum()), 1e-300)
    at_bound = hinge_dual >= penalty - tiny
    inside = (hinge_dual > tiny) & ~at_bound
    terms = np.where(at_bound, 1.0, np.where(inside, hinge_dual * diagonal, 0.0))
    return float(problem.weight @ terms)


def _diagonal_by_features(problem):
    return FeatureSystem(problem).exact_diagonal()


def _diagonal_by_samples(problem):
    diagonal = np.diagonal(LDMDual.of(problem).H)
    if problem.fit_intercept and problem.kappa > 0:
        diagonal = diagonal + 1.0 / problem.kappa
    return diagonal
