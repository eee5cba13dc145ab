"""Predictions for samples left out, from the fit itself.

`optimargin.systems` has the equations. They hold as long as no other sample enters or leaves the
active set. Where some do, Newton steps from there give the exact answer.
"""

import numpy as np

from optimargin.solvers import Newton
from optimargin.systems import system_of

_EXACT_GAP = 64 * float(np.finfo(np.float64).eps)


def leave_one_out(problem, coef, intercept, *, share=None, exact=False):
    """Return the decision value of each sample for the model fitted without it.

    Parameters
    ----------
    problem : AdditiveProblem
        Its loss must be piecewise quadratic.
    coef, intercept : ndarray, float
        The solution of `problem`.
    share : ndarray of shape (n_samples,), default=None
        How much of the weight of each sample is left out; all of it by default.
    exact : bool, default=False
        Follow the samples that enter or leave the active set when another one is removed, so
        that the values equal those of a refit. It costs a few Newton steps for each sample
        whose removal changes the active set.

    Returns
    -------
    decision : ndarray of shape (n_samples,)
        With the intercept.
    """
    system = system_of(problem, problem.point(coef, intercept))
    decision = system.left_out(share)[:, 0]
    if exact:
        for row, point in points_without_each(problem, system, share):
            decision[row] = point.decision[row] + point.intercept
    return decision


def points_without_each(problem, system, share=None):
    """Yield each active sample, and the exact solution without (a share of) it."""
    share = np.ones(system.curvature.size) if share is None else share
    for row in system.active:
        yield row, point_without(problem, system, np.array([row]), share[row])


def models_without(problem, coef, intercept, folds, *, exact=False):
    """Yield the models fitted without each fold.

    Parameters
    ----------
    problem, coef, intercept, exact
        As in `leave_one_out`.
    folds : iterable of ndarray
        The samples of each fold.

    Yields
    ------
    coef : ndarray of shape (n_coef,)
    intercept : float
    """
    system = system_of(problem, problem.point(coef, intercept))
    for rows in folds:
        if exact:
            point = point_without(problem, system, rows)
            yield point.coef, point.intercept
        else:
            left, offset = system.without(rows)
            yield left[:, 0], float(offset[0])


def point_without(problem, system, rows, share=1.0):
    """Return the exact solution without (a share of) `rows`, by Newton steps from a near one.

    Parameters
    ----------
    problem : AdditiveProblem
    system : ActiveSystem
        Of its solution.
    rows : ndarray
    share : float
    """
    coef, intercept = system.without(rows) if share == 1.0 else (system.coef, system.intercept)
    solver = Newton(tol=_EXACT_GAP, max_iter=1000)
    return point_near(problem.without(rows, share), coef[:, 0], float(intercept[0]), solver)


def point_near(problem, coef, intercept, solver):
    """Return the solution of a problem by a solver that begins near it, if it has to."""
    point = problem.point(coef, intercept)
    if point.relative_gap <= solver.tol:
        return point
    solution = solver.solve(problem, coef, intercept)
    return problem.point(solution.coef, solution.intercept)
