"""Features of many samples for a search: products over samples in the precision that is given.

Samples have few features Z: their own, or those of landmarks. With K the kernel values between
samples and landmarks and A = L L' those between landmarks, Z = K L^-T. Systems over them are solved
in float64.
"""

import numpy as np
from scipy.linalg import blas, solve_triangular

from optimargin._linalg import Factor
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.systems import Form


class PlainFeatures(FeatureSpaceDesign):
    """Features of samples, and a column of ones beside them.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_coef + 1)
        Its type is the precision of products over samples; the last column is one.
    """

    def __init__(self, Z):
        self.n_samples, self.n_coef = Z.shape[0], Z.shape[1] - 1
        self._Z = Z

    @classmethod
    def of(cls, X):
        """Return the design of an array of features."""
        return cls(np.column_stack([X, np.ones(X.shape[0], dtype=X.dtype)]))

    def feature_rows(self, rows):
        """Return the features of the samples `rows`, float64."""
        return self._Z[rows, : self.n_coef].astype(np.float64)

    def take(self, rows):
        """Return the design of the samples `rows` alone."""
        return PlainFeatures(self._Z[rows])

    def decisions(self, V, rows=None):
        """Return ``Z @ V`` of a vector or of columns, of all samples or of `rows`, float64."""
        Z = self._Z[:, : self.n_coef] if rows is None else self._Z[rows, : self.n_coef]
        return (Z @ V.astype(Z.dtype)).astype(np.float64)

    decision = decisions

    def decision_on(self, rows, v):
        """Return ``Z[rows] @ v``."""
        return self.decisions(v, rows)

    def represents(self, R):
        """Return ``Z.T @ R``, float64; only samples of which some are not zero are read."""
        rows = np.flatnonzero(R.any(axis=1) if R.ndim > 1 else R)
        Z = self._Z[:, : self.n_coef]
        if 2 * rows.size < R.shape[0]:
            Z, R = Z[rows], R[rows]
        return (Z.T @ R.astype(Z.dtype)).astype(np.float64)

    represent = represents

    def weighted_gram(self, weight):
        """Return ``[Z, 1].T @ diag(weight) @ [Z, 1]``, float64; weights may be negative."""
        total = np.zeros((self.n_coef + 1, self.n_coef + 1))
        for some in self.blocks(np.flatnonzero(weight)):
            part, scale = self._Z[some], weight[some].astype(self._Z.dtype)
            if (scale < 0).any():
                total += (part * scale[:, None]).T @ part
            else:
                part *= np.sqrt(scale)[:, None]
                total += part.T @ part  # which NumPy knows to be symmetric
        return total


class LandmarkFeatures(PlainFeatures):
    """The features of landmarks.

    Parameters
    ----------
    K : ndarray of shape (n_samples, n_landmarks), F-contiguous or not
        Kernel values; overwritten. Their type is the precision of products over samples.
    A : ndarray of shape (n_landmarks, n_landmarks), float64
        Those between landmarks; overwritten.
    """

    def __init__(self, K, A):
        n_samples, n_landmarks = K.shape
        # Rounding must not make landmarks dependent.
        A[np.diag_indices_from(A)] += 8 * np.finfo(K.dtype).eps
        factor = Factor(A)
        self._factor = factor.lower
        inverse = factor.inverse_root().T
        multiply = blas.strmm if K.dtype == np.float32 else blas.dtrmm
        Z = np.empty((n_samples, n_landmarks + 1), dtype=K.dtype)
        Z[:, n_landmarks] = 1.0
        Z[:, :n_landmarks] = multiply(
            1.0, inverse.astype(K.dtype, order="F"), K.T, lower=1, overwrite_b=1
        ).T
        super().__init__(Z)

    def feature_forms(self, *products):
        """Return the derivatives by kernel values.

        With b = L^-T w and u = L^-T v for the pairs (left, w) and (right, v), they are
        ``left' dK b + right' dK u - u' dA b``.
        """
        (left, coef), (right, adjoint) = products
        b, u = (
            solve_triangular(self._factor, each, lower=True, trans="T", check_finite=False)
            for each in (coef, adjoint)
        )
        return [
            Form("landmarks", np.hstack([left, right]).T, np.hstack([b, u]).T),
            Form("between", -u.T, b.T),
        ]
