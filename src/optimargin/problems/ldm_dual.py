"""The dual of the large margin distribution machine in sample space: a quadratic over a box.

    min over d   1/2 s' H s + (1's)^2 / (2 kappa) - sum_i d_i,   s = y d,   lower <= d <= upper

Without an intercept the middle term is absent and H = G (I + A G)^-1, G the Gram matrix. No
inverse of A is needed, which has y in its null space. In samples scaled by the roots of their
weights, G' = W^1/2 G W^1/2, A becomes a (I - B B') with a = 2 l1 and orthonormal B, so that

    G'(I + A'G')^-1 = S + a (S B) (B' (I + a G')^-1 B)^-1 (S B)',    S = G' (I + a G')^-1.

B is the label vector; with an intercept, the indicators of the two classes, and H is centred,
(I - 1u') H (I - u1'). Only a decides about S: one eigendecomposition of G' serves every l1, and
one factor every class of a multi-class problem.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, lapack

from optimargin.problems.ldm import LDMProblem


class Shrinkage:
    """``S = G' (I + a G')^-1`` of one Gram matrix; the last one is kept, for further classes.

    Parameters
    ----------
    gram : ndarray of shape (n_samples, n_samples)
        Scaled by the roots of the weights.
    for_all : bool, default=False
        Whether an eigendecomposition is to serve every a; a Cholesky factor, which is cheaper,
        serves one.
    """

    def __init__(self, gram, *, for_all=False):
        self._gram, self._a = gram, None
        self._make = self._by_eigenvectors if for_all else self._by_factor

    def __call__(self, a):
        """Return ``(S, solve)``, where ``solve(R)`` is ``(I + a G')^-1 R``."""
        if a != self._a:
            self._a, self._made = a, self._make(a)
        return self._made

    def _by_factor(self, a):
        if a == 0:
            return self._gram, lambda R: R
        n_samples = self._gram.shape[0]
        diagonal = np.arange(n_samples)
        M = a * self._gram
        M[diagonal, diagonal] += 1.0
        factor = cho_factor(M, lower=True, overwrite_a=True, check_finite=False)

        def solve(R):
            return cho_solve(factor, R, check_finite=False)

        if a * np.trace(self._gram) < n_samples:
            # S is close to G': forming it as (I - inverse) / a would cancel.
            return solve(self._gram), solve
        S = np.tril(lapack.dpotri(factor[0], lower=1)[0])
        S *= -1.0 / a
        S += np.tril(S, -1).T
        S[diagonal, diagonal] += 1.0 / a
        return S, solve

    @cached_property
    def _eigen(self):
        values, vectors = eigh(self._gram, check_finite=False)
        return np.maximum(values, 0.0), vectors

    def _by_eigenvectors(self, a):
        values, vectors = self._eigen
        shrunk = 1.0 / (1.0 + a * values)

        def solve(R):
            return vectors @ (shrunk[:, None] * (vectors.T @ R))

        return (vectors * (values * shrunk)) @ vectors.T, solve


def scaled_gram(problem):
    """Return the Gram matrix of a sample-space problem scaled by the roots of the weights."""
    root = np.sqrt(problem.weight)
    gram = problem.design.gram()
    gram *= root
    gram *= root[:, None]
    return gram


@dataclass(frozen=True)
class LDMDual:
    """A dual problem with its matrix in memory.

    Attributes
    ----------
    problem : LDMProblem
    H : ndarray of shape (n_samples, n_samples)
    kappa : float or None
        None without an intercept; zero stands for the constraint ``1's = 0``.
    """

    problem: LDMProblem
    H: np.ndarray
    kappa: float | None

    @classmethod
    def of(cls, problem, shrinkage=None):
        """Return the dual of a sample-space problem.

        Parameters
        ----------
        problem : LDMProblem
        shrinkage : Shrinkage, default=None
            That of the scaled Gram matrix, where problems share it.
        """
        weight, y = problem.weight, problem.y
        root = np.sqrt(weight)
        if shrinkage is None:
            shrinkage = Shrinkage(scaled_gram(problem))
        a = 2 * problem.lambda1
        S, solve = shrinkage(a)
        if a > 0:
            B = (root * y)[:, None]
            if problem.fit_intercept:
                B = np.column_stack([np.where(y > 0, root, 0.0), np.where(y < 0, root, 0.0)])
                B /= np.linalg.norm(B, axis=0)
            SB = S @ B
            S = S + (a * SB) @ np.linalg.solve(B.T @ solve(B), SB.T)
        H = S / root
        H /= root[:, None]
        if not problem.fit_intercept:
            return cls(problem, np.ascontiguousarray(H), None)
        u = problem.balanced
        Hu = H @ u
        H -= Hu
        H -= Hu[:, None]
        H += u @ Hu
        return cls(problem, np.ascontiguousarray(H), problem.kappa)

    def point(self, box_dual, center):
        """Return the point of the problem that a dual solution stands for.

        Parameters
        ----------
        box_dual : ndarray of shape (n_samples,)
        center : float
            The centred intercept.
        """
        problem = self.problem
        # Outside the box, variables of dependent samples can be huge and cancel badly.
        box_dual = np.clip(box_dual, problem.lower, problem.upper)
        s = problem.y * box_dual
        theta = s - problem.variance_gradient(self.H @ s + center)
        decision = problem.design.decision(theta)
        intercept = 0.0
        if self.kappa is not None:
            intercept = center - float(problem.balanced @ decision)
        return problem.point(theta, intercept, box_dual, decision)
