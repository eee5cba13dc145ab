"""The design matrix of a kernel restricted to the span of landmarks z_1, ..., z_M.

With w = sum_j b_j phi(z_j) the decision values are K_XZ b and |w|^2 = b' K_ZZ b. In the
coordinates v = L' b, K_ZZ = L L', that is a problem of features like any other: row i is
L^-1 k(Z, x_i). These features are never formed: a product whitens a vector, at M^2 operations,
where whitening all rows would take M^2 per row.
"""

from functools import cached_property

import numpy as np

from optimargin.designs.base import FeatureSpaceDesign
from optimargin.designs.features import FeatureDesign
from optimargin.designs.whitening import Whitening
from optimargin.kernels import PreparedKernel
from optimargin.kernels.prepared import FILLED_ELEMENTS, row_blocks


class LandmarkDesign(FeatureSpaceDesign):
    """Samples given by their kernel values with landmarks.

    Parameters
    ----------
    kernel : Kernel
    X : {ndarray, CSR} of shape (n_samples, n_features)
    landmarks : {ndarray, CSR} of shape (n_landmarks, n_features)
    factor : ndarray of shape (n_landmarks, n_landmarks)
        The lower Cholesky factor of the landmarks' kernel matrix.
    dtype : numpy dtype
        The precision of kernel values.
    max_bytes : float
        Kernel rows are kept up to this limit; the others are computed anew for every product,
        for the samples that take part in it.
    """

    own_threads = True

    def __init__(self, kernel, X, landmarks, factor, *, dtype, max_bytes):
        self.n_samples, self.n_coef = X.shape[0], factor.shape[0]
        self._whitening = Whitening(factor)
        self._rows = X
        self._kernel = PreparedKernel(kernel, landmarks, dtype)
        row_bytes = max(self.n_coef * np.dtype(dtype).itemsize, 1)
        n_kept = int(min(max_bytes // row_bytes, self.n_samples))
        self._kept = np.empty((n_kept, self.n_coef), dtype=dtype)
        for part in self._slices(0, n_kept):
            self._kept[part] = self._kernel.against(X[part])

    def _slices(self, first, last):
        for part in row_blocks(last - first, self.n_coef, n_elements=FILLED_ELEMENTS):
            yield slice(first + part.start, first + part.stop)

    def _parts(self, active=None):
        """Yield (rows, design of their kernel values), for all rows or for those of `active`."""
        n_kept = self._kept.shape[0]
        if n_kept:
            yield slice(0, n_kept), FeatureDesign(self._kept)
        for part in self._slices(n_kept, self.n_samples):
            rows = part
            if active is not None:
                rows = part.start + np.flatnonzero(active[part])
                if rows.size == 0:
                    continue
            yield rows, FeatureDesign(self._kernel.against(self._rows[rows]))

    def landmark_coefficients(self, v):
        """Return b of shape (n_landmarks,) with ``decision(v) == K_XZ @ b``."""
        return self._whitening.for_rows(v)

    def from_landmark_coefficients(self, b):
        """Return the coefficients v of landmark coefficients `b`."""
        return self._whitening.from_rows(b)

    def decision(self, v):
        """Return the values phi_i' w of all samples."""
        b = self.landmark_coefficients(v)
        out = np.empty(self.n_samples)
        for rows, part in self._parts():
            out[rows] = part.decision(b)
        return out

    def represent(self, r):
        """Return the coefficients of sum_i r_i phi_i within the span of the landmarks."""
        out = np.zeros(self.n_coef)
        for rows, part in self._parts(r):
            out += part.represent(r[rows])
        return self._whitening.of_sum(out)

    def weighted_gram(self, weight):
        """Return ``Z.T @ diag(weight) @ Z`` with Z the features and a column of ones."""
        gram = np.zeros((self.n_coef + 1, self.n_coef + 1))
        for rows, part in self._parts(weight):
            gram += part.weighted_gram(weight[rows])
        return self._whitening.of_gram(gram)

    @cached_property
    def squared_norms(self):
        """Squared norms of the features, of shape (n_samples,)."""
        norms = np.empty(self.n_samples)
        for part in self._slices(0, self.n_samples):
            norms[part] = np.square(self.feature_rows(part)).sum(axis=1)
        return norms

    def feature_rows(self, rows):
        """Return the features of the samples `rows`, in double precision."""
        return self.features_of(self._rows[rows])

    def features_of(self, X):
        """Return the features of any samples, of shape (n_samples, n_coef)."""
        values = self._kernel.against(X).astype(np.float64)
        return np.ascontiguousarray(self._whitening.of_sum(values.T).T)
