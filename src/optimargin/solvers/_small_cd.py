"""Dual coordinate descent without the interpreter, for the band loss over small Gram matrices.

The same steps as those of `dcd`. Hundreds of pairs of classes take as long as one problem of all
their samples.
"""

from dataclasses import replace

import numpy as np

from optimargin._core._small_descent import descend
from optimargin.designs.rounded_gram import RoundedGramDesign
from optimargin.losses import BandLoss
from optimargin.solvers.base import certified_solution

_GAP_SHARE = 0.7  # of the tolerance; the rest is for rounding
_INTERCEPT_SHARE = 0.1  # of the largest kernel value
_MOST_EPOCHS = 300  # which take longer than the Newton steps that do the rest


def is_small(problem):
    """Return whether a problem is one of these."""
    return isinstance(problem.design, RoundedGramDesign) and isinstance(problem.loss, BandLoss)


def solve_small(solver, problem, coef, intercept):
    """Return the solution of a problem that `is_small`, for a `DualCD`.

    Where rounding limits the certificate, or convergence is slow, Newton steps on precise values
    go on.
    """
    design, target, loss = problem.design, problem.target, problem.loss
    pull = np.zeros(design.n_samples) if coef is None else coef.copy()
    decision = np.zeros(design.n_samples) if coef is None else design.decision(coef)
    largest = float(np.max(design.squared_norms))
    scale = max(_INTERCEPT_SHARE * largest, 1.0 / loss.smoothness)
    allowed = _GAP_SHARE * solver.tol
    with np.errstate(divide="ignore"):
        ridge1, ridge2 = (1.0 / (2 * penalty * target.weight) for penalty in (loss.C1, loss.C2))

    def run(intercept, max_epochs, seed):
        return descend(
            design.K,
            target.value,
            target.orientation,
            ridge1,
            ridge2,
            loss.D,
            pull,
            decision,
            intercept,
            scale if problem.fit_intercept else 0.0,
            largest,
            allowed,
            problem.gap_floor,
            max_epochs,
            seed,
        )

    most = min(solver.max_iter, _MOST_EPOCHS)
    if solver.on_iteration is None:
        n_iter, intercept, _ = run(intercept, most, solver.seed)
    else:
        for n_iter in solver.iterations():
            _, intercept, gap = run(intercept, 1, solver.seed + n_iter)
            if gap <= allowed or n_iter == most:
                break
    found = replace(certified_solution(problem, pull, intercept, decision)[0], n_iter=n_iter)
    if found.dual_gap <= solver.tol or solver.stopped or n_iter == solver.max_iter:
        return found
    from optimargin.solvers.newton import Newton  # whose systems coordinate descent solves, too

    newton = Newton(
        tol=solver.tol,
        max_iter=solver.max_iter - n_iter,
        seed=solver.seed,
        on_iteration=solver.on_iteration,
    )
    better = newton.solve(problem.over(design.precise), found.coef, found.intercept)
    return replace(better, n_iter=n_iter + better.n_iter)
