"""What is computed where a chunk of the data is: in this process or on a worker of a cluster.

A chunk is a tuple (X, y, sample_weight) of a few rows as their source delivers them. Every
function here takes a chunk and small arrays and returns a tuple of sums over its rows, or None
for a chunk without rows; `add` joins the tuples of two or more chunks. Nothing is remembered
between calls.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from optimargin.kernels import Kernel, PreparedKernel
from optimargin.problems.feature_design import FeatureDesign, canonical
from optimargin.problems.losses import Loss


def as_rows(X):
    """Return rows as a C-contiguous array or canonical CSR of float32 or float64."""
    if not sp.issparse(X):
        X = np.asarray(X)
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
    if sp.issparse(X):
        return canonical(sp.csr_array(X, dtype=dtype))
    return np.ascontiguousarray(X, dtype=dtype)


@dataclass(frozen=True)
class LandmarkFeatures:
    """Rows as their kernel values with landmarks.

    Attributes
    ----------
    kernel : Kernel
    landmarks : {ndarray, CSR} of shape (n_landmarks, n_features)
    dtype : numpy dtype
    """

    kernel: Kernel
    landmarks: Any
    dtype: Any

    def __call__(self, X):
        """Return the kernel values of shape (n_rows, n_landmarks)."""
        return PreparedKernel(self.kernel, self.landmarks, self.dtype).against(X)


@dataclass(frozen=True)
class ChunkPlan:
    """How a chunk becomes features, labels -1 and +1, and weights.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    class_factor : ndarray of shape (n_classes,)
        What sample weights are multiplied with, so that they sum to one over all chunks.
    positive : int
        The class of label +1.
    features : LandmarkFeatures or None
    center : ndarray of shape (n_features,) or None
    """

    classes: np.ndarray
    class_factor: np.ndarray
    positive: int
    features: LandmarkFeatures | None = None
    center: np.ndarray | None = None

    def apply(self, chunk):
        """Return the design, labels and weights of the chunk."""
        X, y, weight = chunk
        X = as_rows(X)
        encoded = np.searchsorted(self.classes, np.asarray(y))
        scale = self.class_factor[encoded]
        if weight is not None:
            scale = scale * np.asarray(weight, dtype=np.float64)
        if self.features is not None:
            X = self.features(X)
        return FeatureDesign(X, self.center), np.where(encoded == self.positive, 1.0, -1.0), scale


def add(results):
    """Return the sum of the results of several chunks."""
    results = [result for result in results if result is not None]
    if not results:
        return None
    return tuple(sum(parts[1:], start=parts[0]) for parts in zip(*results, strict=True))


def n_rows(chunk):
    """Return the number of rows of a chunk."""
    return chunk[0].shape[0]


def evaluate(
    chunk, plan: ChunkPlan, loss: Loss, coef, intercept, factorise: bool
) -> tuple[Any, ...] | None:
    """Compute loss, gradient and curvature at a point.

    Returns
    -------
    value : float
        The loss.
    first : ndarray of shape (n_coef + 1,)
        ``Z.T @ (y * dual)`` with Z the features and a column of ones.
    second : ndarray
        ``Z.T @ diag(curvature) @ Z``, lower triangle, if `factorise`; else its diagonal and,
        in a second row, its last row.
    """
    if n_rows(chunk) == 0:
        return None
    design, y, weight = plan.apply(chunk)
    margin = y * (design.decision(coef) + intercept)
    value, dual, curvature = loss.evaluate(margin, weight)
    pull = y * dual
    first = np.append(design.represent(pull), pull.sum())
    if factorise:
        return value, first, design.weighted_gram(curvature)
    active = np.flatnonzero(curvature)
    total = curvature.sum()
    squares = design.diagonal(active, curvature[active]) - 1.0
    second = np.vstack([np.append(squares, total), np.append(design.represent(curvature), total)])
    return value, first, second


def hessian_product(
    chunk, plan: ChunkPlan, loss: Loss, coef, intercept, v
) -> tuple[Any, ...] | None:
    """Return ``Z.T @ (curvature * (Z[:, :-1] @ v))`` at a point, of shape (n_coef + 1,)."""
    if n_rows(chunk) == 0:
        return None
    design, y, weight = plan.apply(chunk)
    curvature = loss.evaluate(y * (design.decision(coef) + intercept), weight)[2]
    active = np.flatnonzero(curvature)
    product, image = design.hessian_product(active, curvature[active], v)
    return (np.append(product, image.sum()),)


def slopes(chunk, plan: ChunkPlan, loss: Loss, point, step, lengths) -> tuple[Any, ...] | None:
    """Differentiate the loss along a step, at several lengths of it.

    Parameters
    ----------
    point, step : tuple of (coef, intercept)
    lengths : ndarray of shape (n_lengths,)

    Returns
    -------
    derivatives : ndarray of shape (n_lengths,)
    """
    if n_rows(chunk) == 0:
        return None
    design, y, weight = plan.apply(chunk)
    margin = y * (design.decision(point[0]) + point[1])
    slope = y * (design.decision(step[0]) + step[1])
    return (np.array([loss.derivatives(margin, slope, weight, t)[0] for t in lengths]),)
