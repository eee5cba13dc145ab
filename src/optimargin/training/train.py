"""From data to a fit: prepare, solve, certify, assemble."""

from typing import Any

from optimargin.certificates import certified
from optimargin.kernels import KernelChoice
from optimargin.objectives import Objective
from optimargin.targets import Target
from optimargin.training.designs import make_design
from optimargin.training.fit import Fit
from optimargin.training.landmarks import grow_landmarks
from optimargin.training.models import KernelModel, LinearModel, coefficients_of
from optimargin.training.own_rows import fit_own_rows
from optimargin.training.plan import Options, Plan, plan_after, plan_fit
from optimargin.training.prepare import Request, prepare
from optimargin.training.solve import Stated, calibrated, solve_all


def train(
    X,
    targets: list[Target],
    objective: Objective,
    *,
    kernel: KernelChoice | None = None,
    options: Options,
    start: LinearModel | None = None,
    request: Request | None = None,
) -> Fit:
    """Train a model.

    Parameters
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
        C-contiguous or canonical, float32 or float64; for a precomputed kernel the Gram matrix.
    targets : list of Target
        One per output; samples of zero weight take no part.
    objective : Objective
        Its defaults are resolved here, where the data are known.
    kernel : KernelChoice or None
        None for a model with coefficients per feature.
    options : Options
    start : LinearModel, default=None
        Where a linear fit begins.
    request : Request, default=None
        What the caller wants besides a model.

    Returns
    -------
    fit : Fit
    """
    request = Request() if request is None else request
    prepared = prepare(X, targets, objective, kernel, request)
    if prepared.has_own_rows:
        return fit_own_rows(fit_together, prepared, options, start, request)
    return fit_together(prepared, options, start, request)


def fit_together(prepared, options, start, request) -> Fit:
    """Train outputs that share their rows, by one plan after another until one is done.

    Parameters
    ----------
    prepared : Prepared
    options : Options
    start : LinearModel or None
    request : Request
    """
    plan: Plan | None = request.plan
    if plan is None:
        plan = plan_fit(prepared.X, prepared.objective, prepared.kernel, options)
    fits: list[Fit] = []
    while plan is not None:
        stated = state(prepared, plan, options, request, None if fits else start)
        solutions = solve_all(stated, prepared, options, plan, request)
        if stated.landmarks is None:  # else the gap is that of the problem over landmarks
            solutions = [
                certified(problem, solution, prepared, stated.projector)
                for problem, solution in zip(stated.problems, solutions, strict=True)
            ]
        fits.append(assemble(stated, solutions, prepared, plan, options, request))
        plan = plan_after(plan, prepared, solutions, options)
    return min(fits, key=lambda fit: fit.dual_gap.max())


def state(prepared, plan, options, request, start) -> Stated:
    """Return the problems that a plan asks for."""
    if plan.landmarks:
        stage, begins = grow_landmarks(prepared, options, plan, request.held_out_error)
        return Stated(stage.design, stage.problems, begins, landmarks=stage.landmarks)
    made = make_design(
        plan,
        prepared.kernel,
        prepared.X,
        prepared.weight,
        fit_intercept=options.fit_intercept,
        notify=request.notify,
    )
    problems = [
        prepared.objective.problem(made.design, target, fit_intercept=options.fit_intercept)
        for target in prepared.targets
    ]
    starts: list[Any] = [(None, 0.0)] * len(problems)
    if start is not None:
        starts = [
            coefficients_of(made.design, start, problem, k, prepared.rows)
            for k, problem in enumerate(problems)
        ]
    return Stated(made.design, problems, starts, made.projector)


def assemble(stated, solutions, prepared, plan, options, request) -> Fit:
    """Return the fit of certified solutions."""
    X, scales = prepared.X, [target.scale for target in prepared.targets]

    def fit_of(model):
        return Fit.of(model, prepared.objective, plan.solver, solutions, scales)

    if prepared.kernel is None:
        return fit_of(LinearModel.of(stated.design, solutions, X.dtype))
    calibration = calibrated(stated.problems, solutions, prepared, options, request)
    stored = solutions if calibration is None else [*solutions, *calibration.models]
    if stated.landmarks is not None:
        model = KernelModel.of_landmarks(
            prepared.kernel, stated.design, stated.landmarks.rows, stored, X, prepared.rows
        )
    else:
        model = KernelModel.of(
            prepared.kernel, stated.design, stated.projector, stored, X, prepared.rows
        )
    fit = fit_of(model)
    return fit if calibration is None else calibration.applied(fit, prepared.rows)
