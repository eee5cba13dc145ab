"""Low-rank kernel fits: landmarks that grow, each fit beginning where the smaller one ended."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from optimargin._linalg import Factor
from optimargin._ties import exceeds
from optimargin.designs import LandmarkDesign, RandomPivots
from optimargin.kernels.prepared import check_values
from optimargin.solvers import Newton
from optimargin.training.plan import landmark_dtype

_GROWTH = 4  # between the sizes that lead up to a given number of landmarks
_FEWEST = 64
_AUTO_FIRST, _AUTO_LAST = 128, (1024, 4096)
_AUTO_PER_ROOT = 16.0  # of the number of samples: past that, an exact fit takes far less time
_WORTH_DOUBLING = 0.05  # fall of the held-out error, relative to itself
_ROUGH_TOL = 1e-3


def known_landmarks(kernel, X, landmarks, max_bytes):
    """Return the design of landmarks that were chosen before."""
    dtype = landmark_dtype(X, landmarks.shape[0])
    K = kernel(landmarks.astype(np.float64))
    # They were chosen to be independent; the smallest addition that rounding may ask for.
    factor = Factor(K, shift=np.finfo(np.float64).eps * np.trace(K)).lower
    return LandmarkDesign(kernel, X, landmarks, factor, dtype=dtype, max_bytes=max_bytes)


def grow_landmarks(prepared, options, plan, held_out_error):
    """Return the problems over the landmarks of a fit, and where their solves begin.

    Parameters
    ----------
    prepared : Prepared
    options : Options
    plan : Plan
    held_out_error : callable
        Given a target and held-out decision values, it says how bad these are.

    Returns
    -------
    stage : Stage
    starts : list of (ndarray, float)
    """
    check_values(prepared.kernel, prepared.X)
    training = _LandmarkTraining(prepared, options, plan)
    if options.n_components == "auto":
        return training.grow(held_out_error)
    return training.climb()


@dataclass(frozen=True)
class Stage:
    """The problems over some landmarks."""

    landmarks: object
    design: LandmarkDesign
    problems: list


class _LandmarkTraining:
    """Problems over more and more landmarks of the same data."""

    def __init__(self, prepared, options, plan):
        self._prepared, self._options = prepared, options
        X, kernel = prepared.X, prepared.kernel
        last = options.n_components
        if last == "auto":
            last = int(np.clip(_AUTO_PER_ROOT * np.sqrt(X.shape[0]), *_AUTO_LAST))
        self._last = min(last, X.shape[0])
        dtype = landmark_dtype(X, self._last)
        self._pivots = RandomPivots(
            kernel, X, prepared.weight, self._last, dtype=dtype, seed=options.seed
        )
        self._design = partial(LandmarkDesign, kernel, X, dtype=dtype, max_bytes=plan.max_bytes)

    def stage(self, n_landmarks):
        """Return the problems over the first landmarks."""
        landmarks = self._pivots.first(n_landmarks)
        design = self._design(self._prepared.X[landmarks.rows], landmarks.factor)
        fit_intercept = self._options.fit_intercept
        problems = [
            self._prepared.objective.problem(design, target, fit_intercept=fit_intercept)
            for target in self._prepared.targets
        ]
        return Stage(landmarks, design, problems)

    def climb(self):
        """Solve with fewer landmarks first, roughly, up to the number asked for."""
        rough = Newton(tol=_ROUGH_TOL, max_iter=self._options.max_iter, exact_up_to=0)
        sizes = [self._last]
        while sizes[0] // _GROWTH >= _FEWEST:
            sizes.insert(0, sizes[0] // _GROWTH)
        starts = None
        for size in sizes[:-1]:
            starts = _solved(self.stage(size).problems, starts, rough)
        stage = self.stage(sizes[-1])
        return stage, _extended(stage.problems, starts)

    def grow(self, held_out_error):
        """Double the landmarks until the leave-one-out error stops falling."""
        from optimargin.held_out.closed_form import leave_one_out

        solver = Newton(tol=self._options.tol, max_iter=self._options.max_iter)
        size, starts, error = min(_AUTO_FIRST, self._last), None, None
        while True:
            stage = self.stage(size)
            starts = _solved(stage.problems, starts, solver)
            left_out = np.mean(
                [
                    held_out_error(problem.target, leave_one_out(problem, *start))
                    for problem, start in zip(stage.problems, starts, strict=True)
                ]
            )
            worth_more = error is None or exceeds((1 - _WORTH_DOUBLING) * error, left_out)
            error = left_out
            if stage.landmarks.complete or size == self._last or not worth_more:
                return stage, starts
            size = min(2 * size, self._last)


def _solved(problems, starts, solver):
    """Return coefficients and intercept of the solution of each problem."""
    solutions = (
        solver.solve(problem, *start)
        for problem, start in zip(problems, _extended(problems, starts), strict=True)
    )
    return [(solution.coef, solution.intercept) for solution in solutions]


def _extended(problems, starts):
    """Return the same functions in the coordinates of more landmarks, which begin with theirs."""
    if starts is None:
        return [(np.zeros(problem.design.n_coef), 0.0) for problem in problems]
    return [
        (np.concatenate([coef, np.zeros(problem.design.n_coef - coef.size)]), intercept)
        for problem, (coef, intercept) in zip(problems, starts, strict=True)
    ]
