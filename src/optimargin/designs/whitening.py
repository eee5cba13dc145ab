"""Orthonormal coordinates in the span of landmarks.

With K_ZZ = L L' the kernel matrix of the landmarks, features are L^-1 k(Z, x). A vector of
coordinates v acts on kernel rows as L^-T v, and sums over kernel rows become sums over features
by L^-1: no row is ever whitened itself.
"""

import numpy as np
from scipy.linalg import solve_triangular


class Whitening:
    """The change of coordinates that a Cholesky factor describes.

    Parameters
    ----------
    factor : ndarray of shape (n_landmarks, n_landmarks)
        Lower triangular.
    """

    def __init__(self, factor):
        self.factor = factor
        self.size = factor.shape[0]

    def for_rows(self, v):
        """Return the landmark coefficients ``L^-T v``."""
        return solve_triangular(self.factor, v, lower=True, trans="T", check_finite=False)

    def from_rows(self, b):
        """Return the coordinates ``L' b`` of landmark coefficients."""
        return self.factor.T @ b

    def of_sum(self, u):
        """Return ``L^-1 u`` for a sum `u` of kernel rows, or for the columns of a matrix."""
        return solve_triangular(self.factor, u, lower=True, check_finite=False)

    def of_gram(self, gram):
        """Whiten, in place, the lower triangle of ``[K, 1].T @ diag(c) @ [K, 1]``."""
        inner = gram[:-1, :-1]
        inner[...] = np.tril(inner) + np.tril(inner, -1).T
        inner[...] = self.of_sum(self.of_sum(inner).T)
        gram[-1, :-1] = self.of_sum(gram[-1, :-1])
        return gram


class NoWhitening:
    """Features that are their own coordinates.

    Parameters
    ----------
    size : int
        Number of features.
    """

    def __init__(self, size):
        self.size = size

    def for_rows(self, v):
        """Return `v`."""
        return v

    def of_sum(self, u):
        """Return `u`."""
        return u

    def of_gram(self, gram):
        """Return `gram`."""
        return gram
