"""Solutions on rounded kernel values, whose claims hold for values that are not."""

import numpy as np

from optimargin.problems.base import relative_gap
from optimargin.problems.certificates import coefficient_roots
from optimargin.solvers.base import Solution


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
    value, intercept = problem.value(coef, intercept, decision)
    roots = coefficient_roots(problem, coef, decision, value)
    gap, by_rounding = (
        relative_gap(value, root**2, problem.gap_floor) for root in (sum(roots), roots[1])
    )
    # The objective itself is rounded, too. Errors of decision values nearly add up at random, and
    # the gap does not depend on them; there is a margin of two deviations in `coefficient_roots`.
    # Distances are rounded alike for all values of a sample.
    _, pull, _ = problem.loss.evaluate(decision, problem.target, intercept)
    error = roots[1] / np.sqrt(0.5 * problem.loss.smoothness)
    margin = 1.0 if problem.design.rounds_independently else 4.0
    of_value = error * np.linalg.norm(0.5 * coef - pull) * margin
    gap = np.hypot(gap, relative_gap(value, of_value, problem.gap_floor))
    intercept = float(intercept)
    return Solution(coef, intercept, pull, value, gap, 0, decision + intercept), by_rounding
