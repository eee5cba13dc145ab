"""From data to a fit: prepare, solve, certify, assemble."""

from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from optimargin._threads import one_blas_thread
from optimargin.certificates import certified
from optimargin.designs.pivots import Landmarks
from optimargin.kernels import KernelChoice
from optimargin.objectives import Objective
from optimargin.solvers import Solution
from optimargin.targets import Target
from optimargin.training.designs import make_design
from optimargin.training.landmarks import grow_landmarks
from optimargin.training.models import Fit, KernelModel, LinearModel, coefficients_of
from optimargin.training.options import Options
from optimargin.training.own_rows import fit_own_rows, is_indefinite
from optimargin.training.plan import Plan, is_on_samples, misses, plan_after, plan_fit
from optimargin.training.prepare import Request, prepare


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
    has_own_rows = len(targets) > 1 and any((t.weight == 0).any() for t in prepared.targets)
    # The positive part of a kernel matrix is that of all samples, for all outputs.
    if has_own_rows and not is_indefinite(prepared, options):
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
        n_outputs = len(prepared.targets)
        plan = plan_fit(prepared.X, prepared.objective, prepared.kernel, options, n_outputs)
    first = plan
    rounds: list[Round] = []
    while plan is not None:
        stated = state(prepared, plan, options, request, None if rounds else start)
        before = rounds[-1].outcomes if rounds and is_on_samples(plan) else None
        outcomes = solve_all(stated, before, prepared, options, plan, request)
        rounds.append(Round(stated, outcomes))
        plan = plan_after(plan, prepared, outcomes, options)
    best = min(rounds[::-1], key=lambda each: max(o.certified.dual_gap for o in each.outcomes))
    solutions = [outcome.certified for outcome in best.outcomes]
    return assemble(best.stated, solutions, prepared, first, options, request)


@dataclass(frozen=True)
class Stated:
    """Problems over a design, and where their solves begin.

    Attributes
    ----------
    design : Design
    problems : list
        One per output.
    starts : list of (ndarray or None, float)
    projector : ndarray of shape (n_samples, n_samples) or None
        See `optimargin.kernels.GramMatrix`.
    landmarks : Landmarks or None
        Those that the design is made of.
    """

    design: Any
    problems: list
    starts: list
    projector: np.ndarray | None = None
    landmarks: Landmarks | None = None


def state(prepared, plan, options, request, start) -> Stated:
    """Return the problems that a plan asks for."""
    if plan.design == "landmarks":
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


@dataclass(frozen=True)
class Outcome:
    """The solution of one output.

    Attributes
    ----------
    solution : Solution
        In the units of the problem.
    certified : Solution
        In the units of y, with the gap of what the model keeps.
    """

    solution: Solution
    certified: Solution


@dataclass(frozen=True)
class Round:
    """What one machine was given, and what it has found."""

    stated: Stated
    outcomes: list[Outcome]


def solve_all(stated, before, prepared, options, plan, request) -> list[Outcome]:
    """Return one outcome per problem.

    Parameters
    ----------
    stated : Stated
    before : list of Outcome or None
        Those of the last machine: what misses the tolerance goes on from there.
    prepared, options, plan, request
        As in `fit_together`.
    """
    outcomes = list(before or [None] * len(stated.problems))
    places = [k for k, outcome in enumerate(outcomes) if misses(outcome, options)]
    solver_type = prepared.objective.solvers[plan.solver]
    settings = {"tol": options.tol, "seed": options.seed, **plan.solver_options}
    with one_blas_thread() if solver_type.own_threads(stated.design) else nullcontext():
        if solver_type.solves_together:
            problems, starts = (
                [each[k] for k in places] for each in (stated.problems, stated.starts)
            )
            with ExitStack() as stack:
                listeners = [stack.enter_context(request.progress.problem()) for _ in problems]
                solver = solver_type(
                    max_iter=options.max_iter, on_iteration=_joined(listeners), **settings
                )
                found = solver.solve_together(problems, starts)
        else:
            found = [
                solve_on(stated, k, outcomes[k], partial(solver_type, **settings), options, request)
                for k in places
            ]
    for k, solution in zip(places, found, strict=True):
        problem = stated.problems[k]
        kept = solution.in_units_of_y(problem.scale)
        if stated.landmarks is None:  # else the gap is that of the problem over landmarks
            kept = certified(problem, kept, prepared, stated.projector)
        outcomes[k] = Outcome(solution, kept)
    return outcomes


def solve_on(stated, k, outcome, make, options, request):
    """Return the solution of one problem, from its start or from what was found before."""
    start, n_before = stated.starts[k], 0
    if outcome is not None:
        start = outcome.solution.coef, outcome.solution.intercept
        n_before = outcome.solution.n_iter
    with request.progress.problem() as on_iteration:
        solver = make(max_iter=options.max_iter - n_before, on_iteration=on_iteration)
        found = solver.solve(stated.problems[k], *start)
    return replace(found, n_iter=n_before + found.n_iter)


def _joined(listeners):
    """Return a listener for all problems, or None."""
    if None in listeners:
        return None

    def begin():
        ends = [listener() for listener in listeners]
        return lambda: True in [end() for end in ends]  # all of them are told

    return begin


def assemble(stated, solutions, prepared, plan, options, request) -> Fit:
    """Return the fit of certified solutions."""
    X, rows, kernel, design = prepared.X, prepared.rows, prepared.kernel, stated.design
    stored = solutions
    if request.calibrate is not None:  # the scores of the only output
        calibration = request.calibrate(
            stated.problems[0],
            solutions[0],
            kernel=kernel,
            count=prepared.weight * request.total_weight,
            options=options,
            notify=request.notify,
        )
        stored = [*solutions, *calibration[-1]]
    model: Any
    if kernel is None:
        model = LinearModel.of(design, stored, X.dtype)
    elif stated.landmarks is not None:
        model = KernelModel.of_landmarks(kernel, design, stated.landmarks.rows, stored, X, rows)
    else:
        model = KernelModel.of(kernel, design, stated.projector, stored, X, rows)
    scales = [target.scale for target in prepared.targets]
    fit = Fit.of(model, prepared.objective, plan.solver, solutions, scales)
    return fit if request.calibrate is None else request.calibrate.applied(fit, rows, *calibration)
