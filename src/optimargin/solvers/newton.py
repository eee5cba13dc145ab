"""Semismooth Newton with an exact line search.

Problem    min over w, b   1/2 |w|^2 + sum_i w_i l(s_i (t_i - phi_i' w - b))

The gradient of a piecewise quadratic loss is piecewise linear, so that a step solves a linear
system on the active set (`optimargin.systems`), in feature space or in sample space. When that set
no longer changes the step is exact, so the method ends after a few steps; Phi' C Phi is then
brought up to date from the rows that joined or left the set.

Reference: S. S. Keerthi and D. DeCoste, A modified finite Newton method for fast solution of
large scale linear SVMs, JMLR 6 (2005).
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from optimargin._threads import FACTORISE_ALONE_UP_TO
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.designs.features import FeatureDesign
from optimargin.solvers.base import Solution, Solver
from optimargin.solvers.dcd import DualCD
from optimargin.systems.choice import make_system
from optimargin.systems.samples import SampleSystem

_EXACT_GAP = float(np.finfo(np.float64).eps) ** 1.5  # relative, of a final active set
_SHORT_STEP = 0.5  # length up to which a kink of the loss counts as what stopped a step

# Crossovers of the start, read off benchmarks/dense.py and benchmarks/linear.py.
_SUBSAMPLE_FROM = 5e7  # operations of a step from which a solve on a subsample pays off
_SUBSAMPLE_SHARE = 8  # of the rows, one is in the subsample
_STARTING_EPOCHS = 12  # of coordinate descent, for sparse rows


class Newton(Solver):
    """Semismooth Newton by factorisation, in feature space or in sample space.

    Parameters
    ----------
    tol, max_iter, seed, on_iteration
        See `Solver`.
    exact_up_to : float, default=2e8
        Go on past `tol` until the active set is final where a step takes at most that many
        operations.
    """

    def __init__(self, *, tol, max_iter, seed=0, on_iteration=None, exact_up_to=2e8):
        super().__init__(tol=tol, max_iter=max_iter, seed=seed, on_iteration=on_iteration)
        self.exact_up_to = exact_up_to

    @classmethod
    def own_threads(cls, design):
        # Wide sparse data are solved in sample space; large factorisations are left to BLAS.
        in_features = isinstance(design, FeatureSpaceDesign) and design.n_samples >= design.n_coef
        return design.own_threads and (in_features or design.n_samples <= FACTORISE_ALONE_UP_TO)

    def _solve(self, problem, coef, intercept):
        system = make_system(problem.design, fit_intercept=problem.fit_intercept)
        return self.solve_with(system, problem, coef, intercept)

    def _start(self, problem, system):
        """Return where to begin: where that pays off, the end of a cheaper problem."""
        if not isinstance(system, SampleSystem):
            pays_off = system.operations >= _SUBSAMPLE_FROM
            return self._start_on_some(problem) if pays_off else (None, 0.0)
        if isinstance(problem.design, FeatureDesign):  # most of the active set, by a few epochs
            start = DualCD(tol=self.tol, max_iter=_STARTING_EPOCHS).solve(problem)
            return start.coef, start.intercept
        factor = problem.design.low_rank_factor
        if factor is None:
            return None, 0.0
        rough = Newton(tol=self.tol, max_iter=self.max_iter)
        start = rough.solve(problem.over(FeatureDesign(factor)))
        return start.pull, start.intercept

    def _start_on_some(self, problem):
        """Solve a subsample, if it is one of many more rows than features."""
        design = problem.design
        size = design.n_samples // _SUBSAMPLE_SHARE
        if design.n_coef > size / 10:
            return None, 0.0
        # The certificate does not depend on the start, so a fixed seed is as good as any.
        rows = np.sort(np.random.default_rng(0).choice(design.n_samples, size, replace=False))
        part = problem.over(design.take(rows), rows)
        rough: Solver
        if isinstance(design, FeatureDesign) and design.is_sparse:
            rough = DualCD(tol=1e-2, max_iter=_STARTING_EPOCHS)
        else:
            rough = Newton(tol=1e-3, max_iter=self.max_iter, exact_up_to=0)
        start = rough.solve(part)
        return start.coef, start.intercept

    def solve_with(self, system, problem, coef=None, intercept=0.0):
        """Minimise with a system that is kept, as are its factors for what is asked next.

        Parameters
        ----------
        system : ActiveSystem
            Over the design of the problem.
        problem : AdditiveProblem
        coef, intercept : ndarray or None, float
            Where to begin.
        """
        if coef is None:
            coef, intercept = self._start(problem, system)
        point = problem.point(coef, intercept)
        done = _EXACT_GAP if system.operations <= self.exact_up_to else self.tol
        steps = _FactoredSteps(self, problem, system, done)
        return Solution.from_point(*descend(self, steps, point))


class Steps(ABC):
    """Newton steps: where they come from, and which of them are taken.

    Attributes
    ----------
    done : float
        The relative gap at which there is no need for another step.
    """

    done: float

    @abstractmethod
    def advance(self, point):
        """Make a step; return where to go on from, and whether to end there."""

    def finish(self, point):
        """Return the last iterate as it is to be kept."""
        return point


def descend(solver, steps, point):
    """Take Newton steps until the gap is small, or until nothing is gained any more.

    Parameters
    ----------
    solver : Solver
        Whose iterations are counted.
    steps : Steps
    point : Point

    Returns
    -------
    point : Point
    n_iter : int
    """
    n_iter = 1
    if point.relative_gap > steps.done:
        for n_iter in solver.iterations():  # noqa: B007
            point, is_last = steps.advance(point)
            if is_last or point.relative_gap <= steps.done:
                break
    return steps.finish(point), n_iter


class _FactoredSteps(Steps):
    """Steps of an `ActiveSystem`.

    Samples that stop a step short sit at a kink of the loss, beyond which their curvature is
    larger: it is kept until a long step is possible again.
    """

    def __init__(self, solver, problem, system, done):
        self._tol, self._problem, self._system, self.done = solver.tol, problem, system, done
        self._curvature: Any = None

    def advance(self, point):
        if self._curvature is None:
            self._curvature = point.curvature
        direction = self._system.step(point, self._curvature)
        moved, length = self._problem.step(point, *direction)
        # The gap may rise on the way; if the objective does not decrease either, only
        # rounding error is left.
        descended = moved.value < point.value - 1e-14 * abs(point.value)
        progress = length > 0 and (descended or moved.gap < 0.5 * point.gap)
        # If nothing decreased, the step length is rounding noise: treat it as a full step.
        is_final = length == 1 or not descended
        same_active_set = is_final and np.array_equal(moved.curvature, point.curvature)
        stiffer = moved.curvature
        if length <= _SHORT_STEP:
            stiffer = np.maximum(self._curvature, stiffer)
            if np.array_equal(stiffer, self._curvature):
                beyond = self._problem.curvature_after(point, *direction)
                stiffer = np.maximum(stiffer, beyond)
            progress = progress or not np.array_equal(stiffer, self._curvature)
        self._curvature = stiffer
        if moved.value <= point.value or moved.gap < point.gap:
            point = moved
        settled = same_active_set and point.relative_gap <= self._tol
        return point, settled or not progress
