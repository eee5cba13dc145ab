"""From data to a fit: targets, design, problems, solver, model."""

from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from optimargin._checks import check_finite, check_scale
from optimargin._threads import one_blas_thread
from optimargin.designs import LINEAR_DESIGNS, FeatureDesign
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.kernels import KernelChoice
from optimargin.objectives import Objective
from optimargin.problems.additive import AdditiveProblem
from optimargin.problems.base import GAP_FLOOR, relative_gap
from optimargin.solvers.base import OnIteration, Solution
from optimargin.targets import Target, shared_weight
from optimargin.training.certificates import certify_features, certify_samples
from optimargin.training.designs import make_design
from optimargin.training.fit import Fit
from optimargin.training.landmarks import train_landmarks
from optimargin.training.models import KernelModel, LinearModel, coefficients_of
from optimargin.training.own_rows import train_on_own_rows
from optimargin.training.plan import Options, Plan, plan_fit, plan_over_features
from optimargin.training.units import penalty_unit_of

_SLIGHT = 0.01  # share of a gap, which rounding may get wrong
_SUMS = 1.0 + 1e-6  # what the order of sums may change of a large gap


class Progress(Protocol):
    """What listens to a training."""

    def problem(self) -> AbstractContextManager[OnIteration | None]:
        """Return a context around the solution of one problem, which listens to iterations."""


class NoProgress:
    """Nobody listens."""

    @contextmanager
    def problem(self):
        """Listen to nothing."""
        yield None


def train(
    X,
    targets: list[Target],
    objective: Objective,
    *,
    total_weight: float = 1.0,
    kernel: KernelChoice | None = None,
    options: Options,
    plan: Plan | None = None,
    start: LinearModel | None = None,
    held_out_error=None,
    calibrate=None,
    progress: Progress | None = None,
    notify=lambda fact: None,
    asked_by: str = "",
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
    total_weight : float
        The sum of the weights before they were normalised; defaults depend on it.
    kernel : KernelChoice or None
        None for a model with coefficients per feature.
    options : Options
    plan : Plan, default=None
        How to do it; decided by `plan_fit` when not given.
    start : LinearModel, default=None
        Where a linear fit begins.
    held_out_error : callable, default=None
        Given a target and held-out decision values, it says how bad these are (see
        `Task.held_out_error`); decides about the number of landmarks.
    calibrate : Calibrator, default=None
        Says what the scores of a kernel model with one output mean
        (`optimargin.held_out.novelty`).
    progress : Progress, default=None
    notify : callable
        Given facts that the user should know; see `optimargin.training.designs`.
    asked_by : str
        The name of an estimator, for error messages.

    Returns
    -------
    fit : Fit
    """
    objective, made_kernel, X, targets, rows, square = prepare(
        X, targets, objective, total_weight, kernel, asked_by
    )
    weight = shared_weight(targets)
    progress = NoProgress() if progress is None else progress
    if len(targets) > 1 and any((target.weight == 0).any() for target in targets):
        return train_on_own_rows(
            partial(
                train,
                options=options,
                plan=plan,
                held_out_error=held_out_error,
                progress=progress,
                notify=notify,
                asked_by=asked_by,
            ),
            X,
            targets,
            objective,
            kernel=None if kernel is None else kernel.known(made_kernel),
            start=start,
            rows=rows,
            options=options,
            progress=progress,
        )
    if plan is None:
        plan = plan_fit(X, objective, made_kernel, options)

    def calibration_of(problems, solutions):
        if calibrate is None:
            return None
        return calibrate(
            problems[0],
            solutions[0],
            kernel=made_kernel,
            count=weight * total_weight,
            options=options,
            notify=notify,
        )

    if plan.landmarks:
        return train_landmarks(
            X,
            targets,
            objective,
            made_kernel,
            options,
            plan,
            rows,
            held_out_error=held_out_error,
            calibration_of=calibration_of,
            solve_all=partial(
                solve_all,
                targets=targets,
                objective=objective,
                options=options,
                plan=plan,
                progress=progress,
            ),
        )
    made = make_design(
        plan, made_kernel, X, weight, fit_intercept=options.fit_intercept, notify=notify
    )
    problems = [
        objective.problem(made.design, target, fit_intercept=options.fit_intercept)
        for target in targets
    ]
    starts: list[Any] = [(None, 0.0)] * len(problems)
    if start is not None:
        starts = [
            coefficients_of(made.design, start, problem, k, rows)
            for k, problem in enumerate(problems)
        ]
    solutions = solve_all(
        problems,
        starts,
        targets=targets,
        objective=objective,
        options=options,
        plan=plan,
        progress=progress,
    )
    by_samples = made_kernel is not None and isinstance(made.design, FeatureSpaceDesign)
    if X.dtype != np.float64 or by_samples:
        solutions = [
            _as_kept(problem, solution, target.scale, X, by_samples)
            for problem, solution, target in zip(problems, solutions, targets, strict=True)
        ]
    scales = [target.scale for target in targets]
    if made_kernel is None:
        is_additive = isinstance(problems[0], AdditiveProblem)
        if is_additive and isinstance(made.design, LINEAR_DESIGNS):
            solutions = [
                certify_features(problem, solution, X, square)
                for problem, solution in zip(problems, solutions, strict=True)
            ]
        model: Any = LinearModel.of(made.design, solutions, X.dtype)
        fit = Fit.of(model, objective, plan.solver, solutions, scales)
        gave_up = not any(s.stopped or s.n_iter == options.max_iter for s in solutions)
        is_missed = gave_up and fit.dual_gap.max() > options.tol
        if not (is_missed and is_additive and plan.design == "linear_gram"):
            return fit
        # Inner products of rows have lost what their small columns say.
        again = train(
            X,
            targets,
            objective,
            options=options,
            plan=plan_over_features(X, plan),
            progress=progress,
            asked_by=asked_by,
        )
        return min(fit, again, key=lambda fit: fit.dual_gap.max())
    if isinstance(problems[0], AdditiveProblem) and made.projector is None:
        solutions = [
            certify_samples(problem, solution, made_kernel, X)
            for problem, solution in zip(problems, solutions, strict=True)
        ]
    calibration = calibration_of(problems, solutions)
    stored = solutions if calibration is None else [*solutions, *calibration.models]
    model = KernelModel.of(made_kernel, made.design, made.projector, stored, X, rows)
    fit = Fit.of(model, objective, plan.solver, solutions, scales)
    return fit if calibration is None else calibration.applied(fit, rows)


def _as_kept(problem, solution, scale, X, by_samples):
    """Return a solution whose gap is that of the numbers that a model keeps.

    These are in the precision of the data. A kernel model keeps coefficients of samples: their
    sum is w but for rounding, which can be large where samples nearly cancel.
    """
    shift = 0.0
    if isinstance(problem.design, LINEAR_DESIGNS):
        shift = problem.design.to_features(solution.coef)[1]
    kept = (solution.pull if by_samples else solution.coef).astype(X.dtype).astype(np.float64)
    coef = FeatureDesign(X).represent(kept) if by_samples else kept
    intercept = float(X.dtype.type(solution.intercept + shift))
    if by_samples:
        shift = problem.design.to_features(coef)[1]
    if getattr(problem.design, "is_rounded", False):
        problem = problem.over(problem.design.finest)
    value = problem.objective_at(*scale.standardised(coef, intercept - shift))
    if np.isinf(value):  # a hard margin, missed by rounding
        return solution
    before = solution.objective / scale.unit**2
    floor = getattr(problem, "gap_floor", GAP_FLOOR)
    is_rounded = getattr(problem.design, "is_rounded", False)
    if is_rounded and value - before > _SLIGHT * solution.dual_gap * max(abs(value), floor):
        # A rise that counts has to be that of kernel values which are not rounded.
        problem = problem.over(problem.design.precise)
        value, before = (
            problem.objective_at(*scale.standardised(*model))
            for model in ((coef, intercept - shift), (solution.coef, solution.intercept))
        )
    rise = relative_gap(value, max(value - before, 0.0), floor) * _SUMS
    return replace(solution, dual_gap=solution.dual_gap + rise)


def prepare(X, targets, objective, total_weight, kernel, asked_by=""):
    """Return the objective and the kernel with their numbers, and the samples of positive weight.

    The last of what is returned are the indices of these samples and the sum of the squares of
    their values.
    """
    weight = shared_weight(targets)
    used = weight > 0
    rows = np.arange(X.shape[0])
    is_raw = kernel is not None and not kernel.is_prepared  # kernel values are used as they are
    if not used.all():
        check_finite(X, asked_by)
        rows = np.flatnonzero(used)
        is_square = kernel is not None and kernel.is_precomputed
        X = X[np.ix_(rows, rows)] if is_square else X[rows]
        targets = [target.take(rows, weight[rows].sum()) for target in targets]
        weight = shared_weight(targets)
    square = (check_finite if is_raw else check_scale)(X, asked_by)
    made = None if kernel is None else kernel.resolve(X, weight)
    is_linear = made is None or made.is_linear
    objective = objective.resolve(
        lambda: penalty_unit_of(X, weight, total_weight, is_linear=is_linear)
    )
    return objective, made, X, targets, rows, square


def solve_all(problems, starts, *, targets, objective, options, plan, progress):
    """Return one solution per problem, in the units of y."""
    make_solver = objective.solvers[plan.solver]
    settings = {
        "tol": options.tol,
        "max_iter": options.max_iter,
        "seed": options.seed,
        **plan.solver_options,
    }
    own_threads = make_solver(**settings).own_threads(problems[0].design)
    solutions: list[Solution] = []
    with one_blas_thread() if own_threads else nullcontext():
        if make_solver.solves_together:
            with ExitStack() as stack:
                listeners = [stack.enter_context(progress.problem()) for _ in problems]
                solver = make_solver(**settings, on_iteration=_to_all(listeners))
                found = solver.solve_together(problems, starts)
            return [
                solution.in_units_of_y(target.scale)
                for solution, target in zip(found, targets, strict=True)
            ]
        for problem, start, target in zip(problems, starts, targets, strict=True):
            with progress.problem() as on_iteration:
                solver = make_solver(**settings, on_iteration=on_iteration)
                solutions.append(solver.solve(problem, *start).in_units_of_y(target.scale))
    return solutions


def _to_all(listeners):
    """Return one who listens to iterations for all of them, or None."""
    if None in listeners:
        return None

    def begin():
        ends = [listener() for listener in listeners]

        def end():
            answers = [end() for end in ends]
            return any(answers)

        return end

    return begin
