"""Systems with an approximation of a kernel matrix by few landmarks instead of itself."""

import numpy as np
from scipy.linalg import solve_triangular

from optimargin._linalg import Factor
from optimargin._threads import for_each
from optimargin.designs.features import FeatureDesign

_N_LANDMARKS = 200
_MOST_LANDMARKS = 500  # where penalties are large and few directions do not suffice
_LANDMARK_SHARE = 8  # of the samples, one of which may then be a landmark
_LARGE_CURVATURE = 8.0  # of the loss of one sample, in units of the largest kernel value


class Coarse:
    """A Nystrom approximation B B' of a kernel matrix.

    Parameters
    ----------
    design : SampleSpaceDesign
    curvature : float
        Of the loss of one sample.

    Attributes
    ----------
    design : FeatureDesign
        The features B of all samples.
    damping : float
        The mean diagonal of what the approximation leaves over.
    """

    def __init__(self, design, curvature):
        n_samples = design.n_samples
        n_landmarks = min(_N_LANDMARKS, n_samples)
        if curvature * np.max(design.squared_norms, initial=0.0) > _LARGE_CURVATURE:
            most = min(_MOST_LANDMARKS, n_samples // _LANDMARK_SHARE)
            n_landmarks = max(n_landmarks, most)
        landmarks = np.random.default_rng(0).permutation(n_samples)[:n_landmarks]
        columns = design.columns(landmarks)
        block = columns[landmarks]
        # Rounding of float32 values makes a kernel matrix indefinite.
        shift = 1e-6 * np.sqrt(n_landmarks) * (np.trace(block) / n_landmarks or 1.0)
        triangle = Factor(block, shift=shift).lower.astype(np.float32)
        B = solve_triangular(triangle, columns.T.astype(np.float32), lower=True, overwrite_b=True)
        B = np.ascontiguousarray(B.T)
        left_over = design.squared_norms - np.einsum("ij,ij->i", B, B)
        self.damping = max(float(left_over.mean()), 0.0)
        self.design = FeatureDesign(B)

    def restricted(self, samples, n_outputs):
        """Return the systems of these samples, in this order."""
        return CoarseSystems(self.design.X[samples], n_outputs)


class CoarseSystems:
    """Systems with ``diag(1 / weight) + B B'``, whose weights change from one to the next.

    Parameters
    ----------
    B : ndarray of shape (n_samples, n_landmarks)
    n_outputs : int
        Each has its own weights.
    """

    def __init__(self, B, n_outputs):
        self._B = B
        n_samples, n_landmarks = B.shape
        self._weight = np.zeros((n_outputs, n_samples), dtype=np.float32)
        self._gram = np.zeros((n_outputs, n_landmarks, n_landmarks))

    def solve(self, outputs, weight, right, total):
        """Return the steps of variables and intercepts.

        Parameters
        ----------
        outputs : ndarray of shape (n_running,)
        weight : ndarray of shape (n_running, n_padded)
            ``1 / (ridge + damping)`` where variables may move, otherwise zero.
        right : ndarray of shape (n_running, n_padded)
        total : ndarray of shape (n_running,) or None
            The sums that the steps have to cancel; None without an intercept.
        """
        n_samples = self._B.shape[0]
        weight = weight.astype(np.float32)[:, :n_samples]
        sides = right.astype(np.float32)[None, :, :n_samples]
        if total is not None:
            sides = np.concatenate([sides, np.ones_like(sides)])
        sides = sides * weight
        inner = sides @ self._B
        for n, k in enumerate(outputs):
            self._update(k, weight[n])
            factor = Factor(self._gram[k] + np.eye(self._gram.shape[1]))
            inner[:, n] = factor.solve(inner[:, n].T.astype(np.float64)).T
        solved = sides - weight * (inner @ self._B.T)
        step = np.zeros(right.shape)
        intercept_step = np.zeros(outputs.size)
        step[:, :n_samples] = solved[0]
        if total is not None:
            spread = solved[1].sum(axis=1, dtype=np.float64)
            excess = step.sum(axis=1) + total
            intercept_step = np.divide(excess, spread, out=intercept_step, where=spread > 0)
            step[:, :n_samples] -= intercept_step[:, None] * solved[1]
        return step, intercept_step

    def _update(self, k, weight):
        """Give these weights to the Gram matrix of an output; only rows that changed count."""
        change = weight - self._weight[k]
        rows = np.flatnonzero(change)
        if rows.size > weight.size // 2:
            rows, change = np.flatnonzero(weight), weight
            self._gram[k] = 0.0
        self._weight[k] = weight
        halves = np.array_split(rows, 2)
        parts = np.zeros((2, *self._gram.shape[1:]), dtype=np.float32)

        def multiply(half):
            B = self._B[halves[half]]
            np.dot(B.T, change[halves[half], None] * B, out=parts[half])

        for_each(multiply, range(2), work=rows.size * self._gram.shape[1] ** 2)
        self._gram[k] += parts.sum(axis=0)
