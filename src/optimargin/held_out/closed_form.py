"""Predictions for samples left out, from the fit itself.

On the active set S of a fit the loss is quadratic: with curvatures c_i, aims a_i (where the pull
c_i (a_i - f_i) of a sample would vanish) and M = K_SS + diag(1 / c), the coefficients and the
intercept solve the bordered system

    [ M  1 ] [theta]   [a]                           [ P   q ]
    [ 1' 0 ] [  b  ] = [0],      whose inverse is    [ q'  . ]    (P = M^-1 without intercept).

Removing the samples B, with the weights of the others kept, asks for theta_B = 0. As long as
no other sample enters or leaves S, that is

    u = (P_BB)^-1 theta_B,   theta' = theta - P_SB u,   b' = b - q_B' u,

and the removed samples of S get the decision values a_B - u; for one sample that is
a_i - theta_i / P_ii. Samples off S do not matter to the fit, so removing them changes nothing.
The feature-space form removes rows from the normal equations instead. Where memberships do
change, Newton steps that start at this point give the exact answer.

A sample of weight w that stands for w equal ones is left out once: the share s = 1 / w of its
weight goes. With h_i = 1 - P_ii / c_i its leverage, u_i is theta_i / (c_i (1 - s h_i)) instead of
theta_i / P_ii, and the model changes by s u_i.

At any point x, with k(x) the kernel values of x with S, the model without sample i has the value
f(x) - u_i g_i(x), where g(x) = P k(x) + q is the *influence* of the aims on f(x): f(x) = g(x)' a.
So one factor gives all models without one sample each, at any point (`left_out_models`).

Derivatives. A function F of held-out decision values changes with the aims by the adjoint: the
solution of the same system with the derivatives of F by (theta, b) on the right-hand side. With
the loss, curvatures and aims change: dF = adjoint' (da + (a - f) dlog c).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from optimargin._linalg import Factor, solve_spd
from optimargin.designs.base import by_space
from optimargin.solvers import Newton

_BLOCK_ELEMENTS = 1 << 20  # 8 MB of float64 for a block of packed rows
_EXACT_GAP = 1e-14
_SINGULAR = 1e-13  # of a pivot that is at most one
_SHARP = 1e-12  # a relative gap at which a point solves the system of its active set


def leave_one_out(problem, coef, intercept, *, share=None, exact=False):
    """Return the decision value of each sample for the model fitted without it.

    Parameters
    ----------
    problem : AdditiveProblem
        Its loss must be piecewise quadratic.
    coef, intercept : ndarray, float
        The solution of `problem`.
    share : ndarray of shape (n_samples,), default=None
        How much of the weight of each sample is left out; all of it by default.
    exact : bool, default=False
        Follow the samples that enter or leave the active set when another one is removed, so
        that the values equal those of a refit. It costs a few Newton steps for each sample
        whose removal changes the active set.

    Returns
    -------
    decision : ndarray of shape (n_samples,)
        With the intercept.
    """
    system = active_system(problem, problem.point(coef, intercept))
    decision = system.leave_one_out(share)
    if exact:
        share = np.ones(decision.size) if share is None else share
        for row in system.active:
            point = point_without(system, np.array([row]), share[row])
            decision[row] = point.decision[row] + point.intercept
    return decision


def models_without(problem, coef, intercept, folds, *, exact=False):
    """Yield the models fitted without each fold.

    Parameters
    ----------
    problem, coef, intercept, exact
        As in `leave_one_out`.
    folds : iterable of ndarray
        The samples of each fold.

    Yields
    ------
    coef : ndarray of shape (n_coef,)
    intercept : float
    """
    system = active_system(problem, problem.point(coef, intercept))
    for rows in folds:
        model = point_without(system, rows) if exact else system.model_without(rows)
        yield model.coef, model.intercept


def point_without(system, rows, share=1.0):
    """Return the exact solution without (a share of) `rows`, by Newton steps from a near one."""
    model = system.model_without(rows) if share == 1.0 else system.point
    reduced = system.problem.without(rows, share)
    point = reduced.point(model.coef, model.intercept)
    if point.relative_gap > _EXACT_GAP:
        solver = Newton(tol=_EXACT_GAP, max_iter=1000)
        solution = solver.solve(reduced, point.coef, point.intercept)
        point = reduced.point(solution.coef, solution.intercept)
    return point


def active_system(problem, point):
    """Return the linear system that the solution of a problem satisfies on its active set."""
    return by_space(problem.design, FeatureSystem, SampleSystem)(problem, point)


class _System(ABC):
    """The active set of a solution.

    Attributes
    ----------
    active : ndarray of shape (n_active,)
    root : ndarray of shape (n_active,)
        Roots of the curvatures.
    aim : ndarray of shape (n_active,)
    """

    def __init__(self, problem, point):
        self.problem = problem
        self.point = point
        self.decision = point.decision + point.intercept
        self.active = np.flatnonzero(point.curvature)
        if np.count_nonzero(point.pull) > np.count_nonzero(point.pull[self.active]):
            raise TypeError(
                f"{type(problem.loss).__name__} has no closed form for samples left out: its pull "
                "must vanish where its curvature does."
            )
        curvature = point.curvature[self.active]
        self.root = np.sqrt(curvature)
        self.aim = self.decision[self.active] + point.pull[self.active] / curvature

    @abstractmethod
    def changes(self, share=None):
        """Return u of shape (n_active,), and where it is known.

        Alone in the active set, a sample leaves no model behind to ask.

        Parameters
        ----------
        share : ndarray of shape (n_samples,), default=None
            How much of the weight of each sample is left out; all of it by default.
        """

    def leave_one_out(self, share=None):
        """Return the decision value of each sample for the model without (a share of) it."""
        return self.own_values(*self.changes(share))

    def own_values(self, change, known):
        """Return the same, given what `changes` returns."""
        decision = self.decision.copy()
        decision[self.active[known]] = (self.aim - change)[known]
        return decision

    def chain(self, adjoint, decision):
        """Return the derivatives of a function by the parameters of the loss.

        Parameters
        ----------
        adjoint, decision : ndarray of shape (n_active,)
            Derivatives by the aims, and decision values of the model they are of.
        """
        problem, point, active = self.problem, self.point, self.active
        log_curvature, aim = problem.loss.parameter_slopes(
            point.pull[active], point.curvature[active], problem.target.take(active)
        )
        return log_curvature @ (adjoint * (self.aim - decision)) + aim @ adjoint


class SampleSystem(_System):
    """Coefficients belong to samples: removing samples down-dates the inverse."""

    def __init__(self, problem, point):
        super().__init__(problem, point)
        self._inverse = None
        self.theta, self.intercept = point.coef[self.active], point.intercept
        if self.active.size:
            self._factor = Factor(self.matrix_of(slice(None)))
            self._ones = self._factor.solve(self.root)
            self._border = self.root @ self._ones
            if point.relative_gap > _SHARP:
                self._settle()

    def _settle(self):
        """Replace an approximate solution by that of the system, which the factor gives."""
        solved = self._factor.solve(self.root * self.aim)
        if self.problem.fit_intercept:
            self.intercept = self.root @ solved / self._border
            solved -= self.intercept * self._ones
        self.theta = self.root * solved
        self.decision[self.active] = self.aim - self.theta / self.root**2

    def matrix_of(self, part):
        """Return ``I + C^1/2 K C^1/2`` of a part of the active set."""
        root = self.root[part]
        A = self.problem.design.block(self.active[part])
        A *= root
        A *= root[:, None]
        A[np.diag_indices_from(A)] += 1.0
        return A

    def changes(self, share=None):
        """Return u, and where it is known."""
        if self.active.size == 0:
            return np.zeros(0), np.zeros(0, dtype=bool)
        root = self._factor.inverse_root()
        pivot = np.einsum("ij,ij->i", root, root)
        if self.problem.fit_intercept:
            pivot -= self._ones**2 / self._border
        if share is not None:
            pivot = 1 - share[self.active] * (1 - pivot)
        known = pivot > _SINGULAR
        change = np.zeros(self.active.size)
        change[known] = self.theta[known] / (self.root[known] ** 2 * pivot[known])
        return change, known

    def influence(self, new):
        """Return the influence of the aims on new samples, of shape (n_new, n_active).

        Parameters
        ----------
        new : ndarray of shape (n_new, n_active)
            Kernel values with the active samples.
        """
        if self.active.size == 0:
            return np.zeros((new.shape[0], 0))
        solved = self._factor.solve((new * self.root).T)
        if self.problem.fit_intercept:
            solved += np.outer(self._ones / self._border, 1.0 - self.root @ solved)
        return solved.T * self.root

    def model_without(self, rows):
        """Return the model without `rows`."""
        coef, intercept = self.point.coef.copy(), self.intercept
        is_left_out = np.isin(self.active, rows)
        left_out = np.flatnonzero(is_left_out)
        if left_out.size == self.active.size:
            return _SampleModel(self, np.zeros_like(coef), intercept, left_out[:0])
        columns = self._inverse_columns(left_out)
        theta = self.theta
        u = theta[left_out] / self.root[left_out]
        if u.size:
            u = solve_spd(np.ascontiguousarray(columns[left_out]), u)
        coef[self.active] = theta - self.root * (columns @ u)
        coef[self.active[left_out]] = 0.0
        if self.problem.fit_intercept:
            intercept -= self._ones[left_out] @ u / self._border
        return _SampleModel(self, coef, intercept, np.flatnonzero(~is_left_out))

    def _inverse_columns(self, left_out):
        """Return columns of P, scaled by the roots of the curvatures."""
        if self._inverse is None:
            self._inverse = self._factor.solve(np.eye(self.active.size))
            if self.problem.fit_intercept:
                self._inverse -= np.outer(self._ones, self._ones / self._border)
        return self._inverse[:, left_out]


class FeatureSystem(_System):
    """Coefficients belong to features: removing samples takes rows from the equations."""

    def __init__(self, problem, point):
        super().__init__(problem, point)
        design, n_coef = problem.design, problem.design.n_coef
        lower = design.weighted_gram(point.curvature)
        matrix = np.tril(lower) + np.tril(lower, -1).T
        matrix[np.arange(n_coef), np.arange(n_coef)] += 1.0
        pull = np.zeros(design.n_samples)
        pull[self.active] = point.curvature[self.active] * self.aim
        right = np.append(design.represent(pull), pull.sum())
        self._size = n_coef + problem.fit_intercept
        self._full = np.ascontiguousarray(matrix[: self._size, : self._size]), right[: self._size]
        if point.relative_gap > _SHARP:
            # An approximate solution is replaced by that of the system.
            coef, intercept = self.split(Factor(self._full[0]).solve(self._full[1]))
            self.decision = design.decision(coef) + intercept

    def changes(self, share=None):
        """Return u, and where it is known."""
        whitened = Factor(self._full[0]).inverse_root()
        leverage = np.empty(self.active.size)
        n_block = max(_BLOCK_ELEMENTS // self._size, 1)
        for first in range(0, self.active.size, n_block):
            part = slice(first, first + n_block)
            image = self._packed(self.active[part]) @ whitened
            leverage[part] = self.root[part] ** 2 * np.einsum("ij,ij->i", image, image)
        if share is not None:
            leverage *= share[self.active]
        known = 1 - leverage > _SINGULAR
        change = np.zeros(self.active.size)
        error = self.aim - self.decision[self.active]
        change[known] = error[known] / (1 - leverage[known])
        return change, known

    def influence(self, new):
        """Return the influence of the aims on new samples, of shape (n_new, n_active).

        Parameters
        ----------
        new : ndarray of shape (n_new, n_coef)
            Their features.
        """
        if self.problem.fit_intercept:
            new = np.column_stack([new, np.ones(new.shape[0])])
        solved = Factor(self._full[0]).solve(new.T)
        out = np.empty((new.shape[0], self.active.size))
        n_block = max(_BLOCK_ELEMENTS // self._size, 1)
        for first in range(0, self.active.size, n_block):
            part = slice(first, first + n_block)
            out[:, part] = (self._packed(self.active[part]) @ solved).T
        return out * self.root**2

    def model_without(self, rows):
        """Return the model without `rows`: their contributions leave the normal equations."""
        matrix, right = self._full
        left_out = np.zeros(self.decision.size, dtype=bool)
        left_out[rows] = True
        gone = np.flatnonzero(left_out[self.active])
        if gone.size:
            gram, sums = self.problem.design.normal_equations(
                self.active[gone], self.root[gone] ** 2, self.aim[gone]
            )
            matrix = np.ascontiguousarray(matrix - gram[: self._size, : self._size])
            right = right - sums[: self._size]
        factor = Factor(matrix)
        return _FeatureModel(self, rows, factor, *self.split(factor.solve(right)))

    def split(self, vector):
        """Return coefficients and intercept."""
        if not self.problem.fit_intercept:
            return vector, self.point.intercept
        return vector[:-1], float(vector[-1])

    def _packed(self, rows):
        packed = self.problem.design.feature_rows(rows)
        if not self.problem.fit_intercept:
            return packed
        return np.column_stack([packed, np.ones(rows.size)])


@dataclass(frozen=True)
class _SampleModel:
    """A model without some samples, in sample space.

    Attributes
    ----------
    system : SampleSystem
    coef : ndarray of shape (n_samples,)
    intercept : float
    kept : ndarray
        Which of the active samples took part.
    """

    system: SampleSystem
    coef: np.ndarray
    intercept: float
    kept: np.ndarray

    def adjoint(self, by_coef, by_intercept):
        """Return the derivatives by the aims of a function of this model, of shape (n_active,).

        Parameters
        ----------
        by_coef : ndarray of shape (n_coef,)
            The derivative of the function by the coefficients.
        by_intercept : float
        """
        system, kept = self.system, self.kept
        adjoint = np.zeros(system.active.size)
        if kept.size:
            root = system.root[kept]
            right = np.column_stack([root * by_coef[system.active[kept]], root])
            x, q = Factor(system.matrix_of(kept)).solve(right).T
            if system.problem.fit_intercept:
                x = x + (by_intercept - root @ x) / (root @ q) * q
            adjoint[kept] = root * x
        return adjoint


@dataclass(frozen=True)
class _FeatureModel:
    """A model without some samples, in feature space.

    Attributes
    ----------
    system : FeatureSystem
    rows : ndarray
        The samples left out.
    factor : Factor
        Of its normal equations.
    coef : ndarray of shape (n_coef,)
    intercept : float
    """

    system: FeatureSystem
    rows: np.ndarray
    factor: Factor
    coef: np.ndarray
    intercept: float

    def adjoint(self, by_coef, by_intercept):
        """Return the derivatives by the aims; see `_SampleModel.adjoint`."""
        system = self.system
        problem = system.problem
        right = np.append(by_coef, by_intercept) if problem.fit_intercept else by_coef
        coef, intercept = system.split(self.factor.solve(right))
        image = problem.design.decision(coef)
        if problem.fit_intercept:
            image += intercept
        image *= system.point.curvature
        image[self.rows] = 0.0
        return image[system.active]
