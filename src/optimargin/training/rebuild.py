"""The problems of a trained model, built again from its data: closed forms start from them."""

from dataclasses import dataclass

import numpy as np

from optimargin.problems import AdditiveProblem
from optimargin.solvers import Newton
from optimargin.training.designs import make_design
from optimargin.training.landmarks import known_landmarks
from optimargin.training.models import OtherDataError, coefficients_of
from optimargin.training.plan import plan_closed_form
from optimargin.training.train import prepare

_SHARP = 1e-20  # a relative gap at which the active set is that of the solution, and its values too
_SAME_OBJECTIVE = 0.01  # relative difference that rounding of float32 coefficients can make


@dataclass(frozen=True)
class Rebuilt:
    """The problems of a model.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,)
        Indices of the samples of positive weight in the data given.
    problems : list
        One per output.
    """

    rows: np.ndarray
    problems: list


def rebuild(
    X, targets, objective, *, total_weight=1.0, kernel, options, model, solved_by
) -> Rebuilt:
    """Return the problems that a model was trained on.

    Parameters
    ----------
    X, targets, objective, total_weight, kernel, options
        As in `train`.
    model : LinearModel or KernelModel
    solved_by : str
        The solver of the fit.
    """
    objective, made_kernel, X, targets, rows = prepare(X, targets, objective, total_weight, kernel)
    plan = plan_closed_form(X, objective, made_kernel, options, solved_by)
    if plan.landmarks:
        design = known_landmarks(made_kernel, X, model.vectors, plan.max_bytes)
    else:
        design = make_design(
            plan,
            made_kernel,
            X,
            targets[0].weight,
            fit_intercept=options.fit_intercept,
            notify=lambda fact: None,  # the user was told when the model was fitted
        ).design
    problems = [
        objective.problem(design, target, fit_intercept=options.fit_intercept) for target in targets
    ]
    return Rebuilt(rows, problems)


def solution_of(rebuilt, model, k, options, objective_value=None):
    """Return the solution of problem `k`, sharpened to the end of its active set.

    Parameters
    ----------
    rebuilt : Rebuilt
    model : LinearModel or KernelModel
    k : int
    options : Options
    objective_value : float or None
        The objective of the fit, where it is known, in the units of y.

    Returns
    -------
    problem : AdditiveProblem
    coef : ndarray
    intercept : float

    Raises
    ------
    OtherDataError
        If the model has another objective on these samples.
    """
    problem: AdditiveProblem = rebuilt.problems[k]
    start = coefficients_of(problem.design, model, problem, k, rebuilt.rows)
    point = problem.point(*start)
    if objective_value is not None:
        unit = problem.target.scale.unit**2
        allowed = _SAME_OBJECTIVE * max(objective_value / unit, problem.gap_floor)
        if not abs(point.value - objective_value / unit) <= allowed:
            raise OtherDataError(
                f"The model has an objective of {unit * point.value:.4g} on these samples, and of "
                f"{objective_value:.4g} on those it was fitted on: pass X, y and sample_weight "
                "of the training data, every row in its place."
            )
    if point.relative_gap <= _SHARP:
        return problem, point.coef, point.intercept
    solver = Newton(tol=options.tol, max_iter=options.max_iter, exact_up_to=np.inf)
    solution = solver.solve(problem, *start)
    return problem, solution.coef, solution.intercept
