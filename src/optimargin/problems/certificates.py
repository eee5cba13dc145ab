"""Certificates in sample space: the coefficients as dual point, and rounded kernel values.

The coefficients theta of a solution, once they sum to zero, are a dual point themselves. Its
duality gap asks for nothing but the decision values f = K theta:

    P - D = sum_i g_i(f_i),   g_i(f) = w_i l(s_i (t_i - f - b)) + w_i l*(s_i theta_i / w_i)
                                       - theta_i (t_i - f - b).

With large penalties it is far smaller than that of the pulls p, 1/2 |theta - p|_K^2, and with small
ones far larger.

A solver that sees kernel values rounded, K + E instead of K, certifies another problem. Each g_i is
convex, not negative, and has curvature w_i L at most. So its root changes by at most
(w_i L / 2)^1/2 e_i where rounding changes f_i by e_i, and the gap is at most

    ((sum_i g_i)^1/2 + (L / 2 sum_i w_i e_i^2)^1/2)^2.

Rounding changes each pull by w_i L (e_i + max e) at most, the intercept following, and the norm
of theta - p by |E|.
"""

import numpy as np

from optimargin.problems.base import relative_gap

_ROUNDING = 1e-12  # of objectives, relative to themselves
_STIFF = 1e4  # curvature of the loss of one sample, past which rounding of few values may count


def gap_with_rounding(problem, point):
    """Return the relative duality gap of a point for kernel values that are not rounded.

    Parameters
    ----------
    problem : AdditiveProblem
        Over a design that `is_rounded`.
    point : Point
    """
    design = problem.design
    by_coefficients = sum(coefficient_roots(problem, point.coef, point.decision, point.value))
    mean_square, largest, value_error = _rounding(problem, point.coef, point.decision)
    longest = np.sqrt(np.max(design.squared_norms, initial=0.0))
    moved = problem.loss.smoothness * (np.sqrt(mean_square) + largest)
    by_pulls = np.sqrt(point.gap) + (
        longest * moved + value_error @ np.abs(point.residual)
    ) / np.sqrt(2.0)
    gap = float(min(by_coefficients, by_pulls)) ** 2
    return relative_gap(point.value, gap, point.gap_floor)


def coefficient_roots(problem, coef, decision, value):
    """Return the roots of two gaps: that of the coefficients, and what rounding adds to it.

    The square of their sum is a bound for kernel values that are not rounded. Parameters are those
    of `coefficient_gap`, over a design that `is_rounded`.
    """
    own = coefficient_gap(problem, coef, decision, value)
    mean_square = _rounding(problem, coef, decision)[0]
    return np.sqrt(own), np.sqrt(0.5 * problem.loss.smoothness * mean_square)


def _rounding(problem, coef, decision):
    """Return what rounding can do; see `RoundingProbe.effects`."""
    weight = problem.target.weight
    is_stiff = problem.loss.smoothness * weight.max(initial=0.0) > _STIFF
    return problem.design.rounding(coef, decision, weight, is_stiff=is_stiff)


def coefficient_gap(problem, coef, decision, value):
    """Return the duality gap with the coefficients, made to sum to zero, as dual point.

    A difference of two objectives, and so never below their rounding.

    Parameters
    ----------
    problem : AdditiveProblem
        In sample space.
    coef, decision : ndarray of shape (n_samples,)
    value : float
        The objective.
    """
    norm = np.abs(coef).sum()
    square = coef @ decision
    balanced = coef
    if problem.fit_intercept and norm > 0:
        # Coefficients of one sign grow and the others shrink, in proportion.
        total = coef.sum()
        balanced = coef - total / norm * np.abs(coef)
        square -= 2 * total / norm * (np.abs(coef) @ decision)
        square += total**2 * np.max(problem.design.squared_norms, initial=0.0)
    gap = value + 0.5 * square + problem.loss.conjugate(balanced, problem.target)
    return max(gap, _ROUNDING * abs(value))
