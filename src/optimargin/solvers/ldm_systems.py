"""The linear algebra of the interior point method, in feature space and in sample space.

A system (`ldm_system` makes the one that suits a design) holds the primal point that belongs to
s = y d and moves along with it:

    start(s)         put it at s
    factorise(e)     prepare for steps with dg + ds / e = rho
    solve(rho)       ds of such a step
    advance(length)  move along the last step
    point(d)         the certified point of the problem
"""

import numpy as np
from scipy.linalg import solve_triangular

from optimargin._core._rows import GramRows
from optimargin._linalg import Factor
from optimargin.designs.base import by_space
from optimargin.problems.ldm_dual import LDMDual


class FeatureSystem:
    """The equations in z = (w, b): a matrix of the size of the features."""

    def __init__(self, problem):
        self.problem, design = problem, problem.design
        self.n_coef = design.n_coef
        self.size = self.n_coef + problem.fit_intercept
        weight, y = problem.weight, problem.y
        mean = np.append(design.represent(weight * y), weight @ y)[: self.size]
        Q = 2 * problem.lambda1 * (self._gram(weight) - np.outer(mean, mean))
        Q[np.arange(self.n_coef), np.arange(self.n_coef)] += 1.0
        self.Q = Q
        self.diagonal = self._leverages()

    def _leverages(self):
        """Return an upper bound of the diagonal of H."""
        norms = self.problem.design.squared_norms
        largest = np.max(norms)
        return np.maximum(norms, 1e-10 * largest if largest > 0 else 1.0)

    def _gram(self, weight):
        gram = self.problem.design.weighted_gram(weight)[: self.size, : self.size]
        return np.tril(gram) + np.tril(gram, -1).T

    def start(self, s):
        """Put the primal point at that of `s` (with a free intercept: near it)."""
        self.s = s
        self._rhs = self._transpose(s)
        ridge = np.zeros(self.size)
        ridge[self.n_coef :] = 1e-12 + (self.problem.kappa == 0)
        self.z = Factor(self.Q + np.diag(ridge)).solve(self._rhs)
        self.score = self._scores(self.z)

    def factorise(self, weight):
        self._weight = weight
        self._factor = Factor(self.Q + self._gram(weight))

    def solve(self, rho):
        """Return ds and remember the step that belongs to it."""
        residual = self._transpose(self.s) - self.Q @ self.z
        right = residual + self._transpose(self._weight * rho)
        self._dz = self._factor.solve(right)
        self._dscore = self._scores(self._dz)
        self._ds = self._weight * (rho - self._dscore)
        return self._ds

    def advance(self, length):
        self.s = self.s + length * self._ds
        self.z = self.z + length * self._dz
        self.score = self.score + length * self._dscore

    def _whitened(self):
        """Return the rows of Z L^-T for Q = L L'."""
        design = self.problem.design
        Z = np.ones((design.n_samples, self.size))
        Z[:, : self.n_coef] = design.feature_rows(np.arange(design.n_samples))
        L = Factor(self.Q).lower
        return np.ascontiguousarray(solve_triangular(L, Z.T, lower=True, check_finite=False).T)

    def exact_diagonal(self):
        """Return the diagonal of H."""
        if self.problem.lambda1 == 0:
            return self.problem.design.squared_norms
        return np.square(self._whitened()).sum(axis=1)

    def move_intercept(self):
        """Put the intercept at the minimum of the objective."""
        self.z[-1] = 0.0
        decision = self._scores(self.z)
        self.z[-1] = self.problem.best_intercept(decision)[0]
        self.score = decision + self.z[-1]

    def point(self, d):
        intercept = float(self.z[-1]) if self.problem.fit_intercept else 0.0
        return self.problem.point(np.ascontiguousarray(self.z[: self.n_coef]), intercept, d)

    def _scores(self, z):
        scores = self.problem.design.decision(np.ascontiguousarray(z[: self.n_coef]))
        return scores + z[-1] if self.problem.fit_intercept else scores

    def _transpose(self, r):
        return np.append(self.problem.design.represent(r), r.sum())[: self.size]


class SampleSystem:
    """The equations in s, with the matrix of the dual in memory."""

    @classmethod
    def of(cls, problem):
        """Return the system of a problem, its dual made for it."""
        return cls(LDMDual.of(problem))

    def __init__(self, dual):
        self.dual, self.H = dual, dual.H
        self.problem = dual.problem
        # Samples that centring leaves nothing of have rounding errors for a norm.
        norms = np.max(dual.problem.design.squared_norms)
        self.diagonal = np.maximum(np.diagonal(dual.H), 1e-10 * norms if norms > 0 else 1.0)

    def start(self, s):
        """Put the primal point at that of `s` (with a free intercept: near it)."""
        self.s, self.c = s, 0.0
        if self.dual.kappa:
            self.c = float(s.sum()) / self.dual.kappa
        self.f = self.H @ s
        self.score = self.f + self.c

    def factorise(self, weight):
        self._rows = np.flatnonzero(weight)
        self._root = np.sqrt(weight[self._rows])
        whole = self._rows.size == weight.size
        M = self.H * self._root if whole else self.H[np.ix_(self._rows, self._rows)] * self._root
        M *= self._root[:, None]
        M[np.arange(self._rows.size), np.arange(self._rows.size)] += 1.0
        self._factor = Factor(M)

    def solve(self, rho):
        """Return ds and remember the step that belongs to it."""
        right = np.column_stack([self._root * rho[self._rows], self._root])
        p, q = self._root * self._factor.solve(right).T
        self._dc = 0.0
        if self.dual.kappa is not None:
            lack = self.s.sum() - self.dual.kappa * self.c
            curvature = self.dual.kappa + q.sum()
            self._dc = (lack + p.sum()) / curvature if curvature > 0 else 0.0
        self._ds = np.zeros_like(rho)
        self._ds[self._rows] = p - self._dc * q
        return self._ds

    def advance(self, length):
        self.s = self.s + length * self._ds
        self.c += length * self._dc
        self.f = self.H @ self.s
        self.score = self.f + self.c

    def rows(self, s):
        """Return the rows for coordinate descent from `s`, and their squared norms."""
        norms = np.maximum(np.diagonal(self.H), 0.0)
        return GramRows(self.H, None, self.H @ s, norms), norms

    def move_intercept(self):
        """Put the intercept at the minimum of the objective."""
        self.c = self.dual.problem.best_intercept(self.f)[0]
        self.score = self.f + self.c

    def point(self, d):
        return self.dual.point(d, self.c)


def ldm_system(problem):
    """Return the system of a problem."""
    return by_space(problem.design, FeatureSystem, SampleSystem.of)(problem)
