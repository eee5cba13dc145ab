"""Low-rank kernel fits: landmarks that grow, each fit beginning where the smaller one ended."""

from dataclasses import replace
from functools import partial

import numpy as np
from scipy.linalg import cholesky

from optimargin.landmarks import RandomPivots
from optimargin.leave_one_out import leave_one_out
from optimargin.problems import LandmarkDesign, MarginProblem

_GROWTH = 4  # between the sizes that lead up to a given number of landmarks
_FEWEST = 64
_AUTO_FIRST, _AUTO_LAST = 128, 4096
_WORTH_DOUBLING = 0.05  # fall of the leave-one-out error, relative to itself
_DOUBLE_UP_TO = 1 << 24  # kernel values up to which double precision costs nothing that matters


def landmark_dtype(X, n_landmarks):
    """Return the precision of kernel values: that of the data where there are few of them."""
    return X.dtype if X.shape[0] * n_landmarks <= _DOUBLE_UP_TO else np.dtype(np.float32)


def known_landmarks(kernel, X, landmarks, max_bytes):
    """Return the design of landmarks that were chosen before."""
    dtype = landmark_dtype(X, landmarks.shape[0])
    K = kernel(landmarks.astype(np.float64))
    # They were chosen to be independent; the smallest addition that rounding may ask for.
    K[np.diag_indices_from(K)] += np.finfo(np.float64).eps * np.trace(K)
    factor = cholesky(K, lower=True)
    return LandmarkDesign(kernel, X, landmarks, factor, dtype=dtype, max_bytes=max_bytes)


class LandmarkTraining:
    """The training problems of an estimator, restricted to the span of landmarks.

    Parameters
    ----------
    kernel : Kernel
    X : {ndarray, CSR} of shape (n_samples, n_features)
    weight : ndarray of shape (n_samples,)
    n_components : int or "auto"
    max_bytes : float
        Memory for kernel values.
    seed : int
    """

    def __init__(self, kernel, X, weight, n_components, *, max_bytes, seed):
        self.n_components = n_components
        last = _AUTO_LAST if n_components == "auto" else n_components
        self._last = min(last, X.shape[0])
        dtype = landmark_dtype(X, self._last)
        self._pivots = RandomPivots(kernel, X, weight, self._last, dtype=dtype, seed=seed)
        self._X = X
        self._design = partial(LandmarkDesign, kernel, X, dtype=dtype, max_bytes=max_bytes)

    def design(self, n_landmarks):
        """Return the design of the first landmarks."""
        self.landmarks = self._pivots.first(n_landmarks)
        return self._design(self._X[self.landmarks.rows], self.landmarks.factor)

    def solve(self, training, rough, fine):
        """Solve with more and more landmarks.

        Parameters
        ----------
        training : TrainingProblems
            Over any design.
        rough, fine : Solver
            For sizes on the way to a given number, and for sizes that may be the last.

        Returns
        -------
        training : TrainingProblems
            The same problems over the design of the last size.
        starts : list of tuple
            Coefficients and intercept to begin each of them at.
        """
        if self.n_components == "auto":
            return self._grow(training, fine)
        sizes = [self._last]
        while sizes[0] // _GROWTH >= _FEWEST:
            sizes.insert(0, sizes[0] // _GROWTH)
        starts = None
        for size in sizes[:-1]:
            training = _over(self.design(size), training)
            starts = _solutions(training.problems, starts, rough)
        training = _over(self.design(sizes[-1]), training)
        return training, _extended(training.problems, starts)

    def _grow(self, training, solver):
        """Double the landmarks until the leave-one-out error stops falling."""
        size, starts, error = min(_AUTO_FIRST, self._last), None, np.inf
        while True:
            training = _over(self.design(size), training)
            starts = _solutions(training.problems, starts, solver)
            left_out = [
                problem.weight @ (problem.y * leave_one_out(problem, *start) <= 0)
                for problem, start in zip(training.problems, starts, strict=True)
            ]
            worth_more = np.mean(left_out) < (1 - _WORTH_DOUBLING) * error
            error = np.mean(left_out)
            if self.landmarks.complete or size == self._last or not worth_more:
                return training, starts
            size = min(2 * size, self._last)


def _over(design, training):
    """Return the problems of `training` over another design."""
    problems = [
        MarginProblem(p.loss, design, p.y, p.weight, fit_intercept=p.fit_intercept)
        for p in training.problems
    ]
    return replace(training, design=design, problems=problems)


def _solutions(problems, starts, solver):
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
