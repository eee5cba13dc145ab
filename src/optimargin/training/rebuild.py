"""The problems of a trained model, built again from its data: closed forms start from them."""

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from optimargin.designs import FeatureDesign, LandmarkDesign, LinearGramDesign
from optimargin.designs.base import SampleSpaceDesign
from optimargin.designs.gram import centred_products
from optimargin.problems import AdditiveProblem
from optimargin.solvers import Newton
from optimargin.training.designs import MadeDesign, make_design
from optimargin.training.landmarks import known_landmarks
from optimargin.training.models import OtherDataError, coefficients_of
from optimargin.training.plan import plan_closed_form
from optimargin.training.prepare import Request, prepare

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
    kernel : Kernel or None
        None for a model with coefficients per feature.
    X : {ndarray, CSR} of shape (n_rows, n_features)
        The samples of positive weight; for a precomputed kernel their Gram matrix.
    projector : ndarray of shape (n_rows, n_rows) or None
        See `optimargin.kernels.GramMatrix`.
    """

    rows: np.ndarray
    problems: list
    kernel: Any
    X: Any
    projector: np.ndarray | None = None

    def coordinates(self, X, active):
        """Return new samples as closed forms need them (`optimargin.held_out.of_fit`).

        Parameters
        ----------
        X : {ndarray, CSR} of shape (n_new, n_features)
            For a precomputed kernel its values with all samples of the data given.
        active : ndarray of shape (n_active,)
            Some of the problems' samples.

        Returns
        -------
        new : ndarray of shape (n_new, n_active) or (n_new, n_coef)
            Kernel values with the active samples, or features.
        """
        return _coordinates(self.problems[0].design, self, X, active)


@singledispatch
def _coordinates(design, rebuilt, X, active):
    raise TypeError(f"A {type(design).__name__} has no coordinates for new samples.")


@_coordinates.register
def _(design: FeatureDesign, rebuilt, X, active):
    return FeatureDesign(X, design.center).feature_rows(np.arange(X.shape[0]))


@_coordinates.register
def _(design: LandmarkDesign, rebuilt, X, active):
    return design.features_of(X)


@_coordinates.register
def _(design: LinearGramDesign, rebuilt, X, active):
    return centred_products(X, rebuilt.X[active], design.center)


@_coordinates.register
def _(design: SampleSpaceDesign, rebuilt, X, active):
    kernel, projector = rebuilt.kernel, rebuilt.projector
    columns = active if projector is None else np.arange(design.n_samples)
    if kernel.is_precomputed:
        K = X[:, rebuilt.rows[columns]]
    else:
        K = kernel(X, rebuilt.X[columns])
    K = K.astype(np.float64, copy=False)
    return K if projector is None else K @ projector[:, active]


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
    prepared = prepare(X, targets, objective, kernel, Request(total_weight))
    X, made_kernel = prepared.X, prepared.kernel
    plan = plan_closed_form(X, prepared.objective, made_kernel, options, solved_by)
    if plan.design == "landmarks":
        made = MadeDesign(known_landmarks(made_kernel, X, model.vectors, plan.max_bytes))
    else:
        made = make_design(
            plan,
            made_kernel,
            X,
            prepared.weight,
            fit_intercept=options.fit_intercept,
            notify=lambda fact: None,  # the user was told when the model was fitted
        )
    problems = [
        prepared.objective.problem(made.design, target, fit_intercept=options.fit_intercept)
        for target in prepared.targets
    ]
    return Rebuilt(prepared.rows, problems, made_kernel, X, made.projector)


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
        value = point.value
        if isinstance(problem.design, LinearGramDesign):  # whose coefficients are no longer w
            over = problem.over(problem.design.features)
            value = over.point(*coefficients_of(over.design, model, over, k, rebuilt.rows)).value
        if not abs(value - objective_value / unit) <= allowed:
            raise OtherDataError(
                f"The model has an objective of {unit * value:.4g} on these samples, and of "
                f"{objective_value:.4g} on those it was fitted on: pass X, y and sample_weight "
                "of the training data, every row in its place."
            )
    if point.relative_gap <= _SHARP:
        return problem, point.coef, point.intercept
    solver = Newton(tol=options.tol, max_iter=options.max_iter, exact_up_to=np.inf)
    solution = solver.solve(problem, *start)
    return problem, solution.coef, solution.intercept
