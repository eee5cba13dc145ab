"""Solutions of the problems of a fit, one per output, and what their scores mean."""

from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from optimargin._threads import one_blas_thread
from optimargin.designs.pivots import Landmarks


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


def solve_all(stated, prepared, options, plan, request):
    """Return one solution per problem, in the units of y.

    Parameters
    ----------
    stated : Stated
    prepared : Prepared
    options : Options
    plan : Plan
    request : Request
    """
    problems, starts, progress = stated.problems, stated.starts, request.progress
    solver_type = prepared.objective.solvers[plan.solver]
    make = partial(
        solver_type,
        tol=options.tol,
        max_iter=options.max_iter,
        seed=options.seed,
        **plan.solver_options,
    )
    found = []
    with one_blas_thread() if solver_type.own_threads(problems[0].design) else nullcontext():
        if solver_type.solves_together:
            with ExitStack() as stack:
                listeners = [stack.enter_context(progress.problem()) for _ in problems]
                found = make(on_iteration=_joined(listeners)).solve_together(problems, starts)
        else:
            for problem, start in zip(problems, starts, strict=True):
                with progress.problem() as on_iteration:
                    found.append(make(on_iteration=on_iteration).solve(problem, *start))
    scales = [target.scale for target in prepared.targets]
    return [s.in_units_of_y(scale) for s, scale in zip(found, scales, strict=True)]


def _joined(listeners):
    """Return a listener for all problems, or None."""
    if None in listeners:
        return None

    def begin():
        ends = [listener() for listener in listeners]

        def end():
            answers = [end() for end in ends]
            return any(answers)

        return end

    return begin


def calibrated(problems, solutions, prepared, options, request):
    """Return what the scores of the only output mean, where that is asked for, or None."""
    if request.calibrate is None:
        return None
    return request.calibrate(
        problems[0],
        solutions[0],
        kernel=prepared.kernel,
        count=prepared.weight * request.total_weight,
        options=options,
        notify=request.notify,
    )
