"""Training sets whose problems are solved for one parameter setting after another.

A learner holds one training set, all its one-vs-rest problems and the last solution, from
which the next solve starts. `KernelLearner` works on a Gram matrix, `LinearLearner` on the
features where they are fewer than the samples. Both offer

    fit(C1, C2, D)                solve every problem
    predict_path(points)          fit at each point, and predict_test()
    leave_one_out()               held-out decision values in closed form
    leave_folds_out(folds)        the same for the folds of a `Folds`
    fold_gradient(slope)          derivatives of a function of the latter's result
    predict_test()                decision values of the test samples it was given
    test_gradient(slope)          derivatives of a function of the latter's result

Derivatives are by log C1 at a fixed ratio C2 / C1, by the logarithm of that ratio, by D and,
where the learner can change it, by the logarithm of the kernel's width.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq
from sklearn.utils.extmath import safe_sparse_dot

from optimargin._core._feature_newton import FeatureNewton
from optimargin._core._leave_out import LeaveOutNewton
from optimargin.leave_one_out import make_system
from optimargin.problems import FeatureDesign, LinearGramDesign, MarginProblem, ODMLoss
from optimargin.solvers import SOLVERS

_COMPILED_UP_TO = 2**21  # elements of X: above, the interpreter's share in a solve is small
_FEW_FEATURES = 256  # up to which updates by single rows beat products of matrices


@dataclass(frozen=True)
class Folds:
    """Repeated partitions of the samples.

    Attributes
    ----------
    fold : ndarray of shape (n_repeats, n_samples), dtype intc
    n_folds : int
    """

    fold: np.ndarray
    n_folds: int

    def models(self):
        """Yield ``(repeat, samples left out)`` for every model."""
        for repeat, fold in enumerate(self.fold):
            for k in range(self.n_folds):
                yield repeat, np.flatnonzero(fold == k)

    @classmethod
    def stratified(cls, encoded, n_folds, n_repeats, random_state):
        """Deal the samples of every class out to the folds, in random order.

        Parameters
        ----------
        encoded : ndarray of shape (n_samples,)
            Classes, as integers from 0.
        n_folds, n_repeats : int
        random_state : RandomState
        """
        fold = np.empty((n_repeats, encoded.size), dtype=np.intc)
        for repeat in range(n_repeats):
            shuffled = random_state.permutation(encoded.size)
            in_classes = shuffled[np.argsort(encoded[shuffled], kind="stable")]
            fold[repeat, in_classes] = np.arange(encoded.size) % n_folds
        return cls(fold, n_folds)


class Learner(ABC):
    """One training set whose problems are solved for one parameter setting after another.

    Attributes
    ----------
    solutions : list
        What the last `fit` found for each problem, with its `intercept` and `objective`.
    """

    solutions: list

    @abstractmethod
    def fit(self, *parameters):
        """Solve every problem, starting from the last solution; return self."""

    @abstractmethod
    def predict_test(self):
        """Return decision values of the test samples, of shape (n_test, n_problems)."""

    def predict_path(self, points):
        """Return decision values of the test samples for one parameter setting after another.

        Parameters
        ----------
        points : ndarray of shape (n_points, n_parameters)

        Returns
        -------
        decisions : ndarray of shape (n_points, n_test, n_problems)
        """
        return np.array([self.fit(*point).predict_test() for point in points])

    @property
    def intercept(self):
        return np.array([solution.intercept for solution in self.solutions])

    @property
    def objective(self):
        return np.array([solution.objective for solution in self.solutions])


class KernelLearner(Learner):
    """One-vs-rest problems over one Gram matrix.

    Parameters
    ----------
    K : ndarray of shape (n_samples, n_samples), float64, C-contiguous
    signs : ndarray of shape (n_problems, n_samples)
        -1.0 or 1.0.
    weight : ndarray of shape (n_samples,)
        Positive, summing to one.
    fit_intercept : bool
    K_test : ndarray of shape (n_test, n_samples), default=None
    """

    def __init__(self, K, signs, weight, fit_intercept, K_test=None):
        self.K = K
        self.K_test = K_test
        self.weight = weight
        self.problems = [LeaveOutNewton(K, y, weight, fit_intercept) for y in signs]
        self.solutions = self.problems  # each is both
        self.slope_of_kernel = None

    def fit(self, C1, C2, D):
        self.C1, self.C2 = C1, C2
        for problem in self.problems:
            problem.solve(C1, C2, D)
        return self

    def predict_path(self, points):
        n_points, n_samples = len(points), self.weight.size
        decisions = np.empty((n_points, self.K_test.shape[0], len(self.problems)))
        theta, intercept = np.empty((n_points, n_samples)), np.empty((n_points, 1))
        for k, problem in enumerate(self.problems):
            problem.solve_path(points, theta, intercept[:, 0])
            decisions[..., k] = theta @ self.K_test.T + intercept
        return decisions

    @property
    def coef(self):
        return np.array([problem.theta for problem in self.problems])

    def change_kernel(self, K, K_test=None, slope=None, slope_test=None):
        """Go on with another kernel, and its derivative by the logarithm of its width."""
        np.copyto(self.K, K)
        self.K_test = K_test
        self.slope_of_kernel, self.slope_of_test_kernel = slope, slope_test
        for problem in self.problems:
            problem.refresh()

    def leave_one_out(self):
        out = np.empty((len(self.problems), self.weight.size))
        for problem, values in zip(self.problems, out, strict=True):
            problem.leave_one_out(values)
        return out.T

    def leave_folds_out(self, folds):
        out = np.empty((len(self.problems), *folds.fold.shape))
        self._fold_coef = [
            problem.leave_folds_out(folds.fold, folds.n_folds, values)
            for problem, values in zip(self.problems, out, strict=True)
        ]
        return np.moveaxis(out, 0, -1)

    def fold_gradient(self, folds, slope):
        gradient = np.zeros(4)
        n_samples = folds.fold.shape[1]
        members = folds.fold[:, None, :] == np.arange(folds.n_folds)[:, None]
        for k, problem in enumerate(self.problems):
            of_problem = np.ascontiguousarray(slope[..., k])
            of_model = (members * of_problem[:, None, :]).reshape(-1, n_samples)
            by_loss, adjoint = problem.fold_gradient(
                folds.fold, folds.n_folds, of_problem, of_model @ self.K
            )
            gradient[:3] += by_loss
            if self.slope_of_kernel is not None:
                gradient[3] += np.vdot(adjoint @ self.slope_of_kernel, self._fold_coef[k])
        return gradient

    def predict_test(self):
        return np.stack(
            [self.K_test @ problem.theta + problem.intercept for problem in self.problems], axis=1
        )

    def test_gradient(self, slope):
        gradient = np.zeros(4)
        for k, problem in enumerate(self.problems):
            of_problem = np.ascontiguousarray(slope[:, k])
            adjoint = problem.adjoint(of_problem @ self.K_test, of_problem.sum())
            active = problem.side != 0
            theta, side = problem.theta[active], problem.side[active]
            curvature = 2 * np.where(side > 0, self.C2, self.C1) * self.weight[active]
            by_ridge = adjoint[active] * theta / curvature
            gradient[0] += by_ridge.sum()
            gradient[1] += by_ridge[side > 0].sum()
            gradient[2] += adjoint[active] @ (problem.y[active] * side)
            if self.slope_of_kernel is not None:
                gradient[3] += of_problem @ (self.slope_of_test_kernel @ problem.theta)
                gradient[3] -= adjoint @ (self.slope_of_kernel @ problem.theta)
        return gradient


class LinearGramLearner(KernelLearner):
    """Linear data with more features than samples.

    Parameters
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
    signs, weight, fit_intercept
        As in `KernelLearner`.
    center : ndarray of shape (n_features,) or None
        See `FeatureDesign`.
    X_test : {ndarray, CSR} of shape (n_test, n_features), default=None
    """

    def __init__(self, X, signs, weight, fit_intercept, center, X_test=None):
        self.design = LinearGramDesign(X, center)
        K_test = None if X_test is None else centred_products(X_test, X, center)
        super().__init__(self.design.K, signs, weight, fit_intercept, K_test)

    @property
    def coef(self):
        return np.array([self.design.features(problem.theta)[0] for problem in self.problems])

    @property
    def intercept(self):
        return np.array(
            [
                problem.intercept + self.design.features(problem.theta)[1]
                for problem in self.problems
            ]
        )


def centred_products(X, Y, center):
    """Return ``(X - center) @ (Y - center).T``."""
    products = safe_sparse_dot(X, Y.T, dense_output=True).astype(np.float64, copy=False)
    if center is None:
        return products
    return products - (X @ center)[:, None] - Y @ center + center @ center


class LinearLearner(Learner):
    """One-vs-rest problems over features, fewer than the samples.

    Parameters
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
    signs, weight, fit_intercept
        As in `KernelLearner`.
    center : ndarray of shape (n_features,) or None
        See `FeatureDesign`.
    X_test : {ndarray, CSR} of shape (n_test, n_features), default=None
    """

    def __init__(self, X, signs, weight, fit_intercept, center, X_test=None):
        self.design = FeatureDesign(X, center)
        self.test_design = FeatureDesign(X[:0] if X_test is None else X_test, center)
        self.signs = signs
        self.weight = weight
        self.fit_intercept = fit_intercept
        self.solutions = []
        self._compiled = []
        is_small = X.shape[1] <= _FEW_FEATURES and X.shape[0] * X.shape[1] <= _COMPILED_UP_TO
        if is_small and not self.design.is_sparse:
            rows = self._columns(self.design)
            self._compiled = [FeatureNewton(rows, y, weight, fit_intercept) for y in signs]
        # Where the compiled solver was, all that is left to do is to certify what it found.
        exactly = {"exact_up_to": 0.0} if self._compiled else {}
        self._solver = SOLVERS["newton"](tol=1e-12, max_iter=1000, **exactly)

    def fit(self, C1, C2, D):
        self._problems = [
            MarginProblem(
                ODMLoss(C1, C2, D), self.design, y, self.weight, fit_intercept=self.fit_intercept
            )
            for y in self.signs
        ]
        starts = [(last.coef, last.intercept) for last in self.solutions]
        if self._compiled:
            starts = [self._compiled_solution(newton, C1, C2, D) for newton in self._compiled]
        self.solutions = [
            self._solver.solve(problem, *start)
            for problem, start in zip_longest(self._problems, starts, fillvalue=(None, 0.0))
        ]
        return self

    def _compiled_solution(self, newton, C1, C2, D):
        newton.solve(C1, C2, D)
        coef = newton.coef.copy()
        return (coef[:-1], float(coef[-1])) if self.fit_intercept else (coef, 0.0)

    def predict_path(self, points):
        if not self._compiled:
            return super().predict_path(points)
        test = self._columns(self.test_design)
        decisions = np.empty((len(points), test.shape[0], len(self.signs)))
        coef = np.empty((len(points), test.shape[1]))
        for k, newton in enumerate(self._compiled):
            if not newton.solve_path(points, coef).all():
                return super().predict_path(points)  # slower, for the ill-conditioned
            decisions[..., k] = coef @ test.T
        return decisions

    def _columns(self, design):
        """Return the centred features, and a column of ones where an intercept is fitted."""
        X = np.asarray(design.X, dtype=np.float64)
        if design.center is not None:
            X = X - design.center
        return np.column_stack([X, np.ones(len(X))]) if self.fit_intercept else X

    @property
    def coef(self):
        return np.array([self.design.features(s.coef)[0] for s in self.solutions])

    @property
    def intercept(self):
        return np.array([s.intercept + self.design.features(s.coef)[1] for s in self.solutions])

    def _systems(self):
        return [
            make_system(problem, solution.coef, solution.intercept)
            for problem, solution in zip(self._problems, self.solutions, strict=True)
        ]

    def leave_one_out(self):
        return np.stack([system.leave_one_out() for system in self._systems()], axis=1)

    def leave_folds_out(self, folds):
        out = np.empty((*folds.fold.shape, len(self.signs)))
        self._models = []
        for k, system in enumerate(self._systems()):
            for repeat, rows in folds.models():
                matrix, right = system.equations_without(rows)
                model = _FeatureModel(system, matrix, right, rows)
                out[repeat, rows, k] = model.decision[rows]
                self._models.append((k, repeat, model))
        return out

    def fold_gradient(self, folds, slope):
        gradient = np.zeros(4)
        for k, repeat, model in self._models:
            gradient[:3] += model.gradient(self.design, model.rows, slope[repeat, model.rows, k])
        return gradient

    def predict_test(self):
        return np.stack(
            [self.test_design.decision(s.coef) + s.intercept for s in self.solutions], axis=1
        )

    def test_gradient(self, slope):
        gradient = np.zeros(4)
        every = np.arange(slope.shape[0])
        for k, system in enumerate(self._systems()):
            matrix, right = system.full_equations
            model = _FeatureModel(system, matrix, right, every[:0])
            gradient[:3] += model.gradient(self.test_design, every, slope[:, k])
        return gradient


class _FeatureModel:
    """The ridge solution on the active set without some rows, and its derivatives."""

    def __init__(self, system, matrix, right, rows):
        self.system, self.rows = system, rows
        try:
            factor = cho_factor(matrix, lower=True, check_finite=False)
            self._solve = lambda b: cho_solve(factor, b, check_finite=False)
        except LinAlgError:
            self._solve = lambda b: lstsq(matrix, b, check_finite=False)[0]
        self.decision = self._apply(self._solve(right))

    def _apply(self, vector):
        design = self.system.problem.design
        if not self.system.problem.fit_intercept:
            return design.decision(vector)
        return design.decision(vector[:-1]) + vector[-1]

    def gradient(self, design, rows, slope):
        """Differentiate a function of the decision values of `rows` of `design`."""
        problem, point = self.system.problem, self.system.point
        spread = np.zeros(design.n_samples)
        spread[rows] = slope
        right = design.represent(spread)
        if problem.fit_intercept:
            right = np.append(right, slope.sum())
        adjoint = self._apply(self._solve(right)) * point.curvature
        adjoint[self.rows] = 0.0
        adjoint = adjoint[self.system.active]
        by_curvature = adjoint * (self.system.target - self.decision[self.system.active])
        above = point.dual[self.system.active] < 0
        outwards = problem.y[self.system.active] * np.where(above, 1.0, -1.0)
        return np.array([by_curvature.sum(), by_curvature[above].sum(), adjoint @ outwards])
