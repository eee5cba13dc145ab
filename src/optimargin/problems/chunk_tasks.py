"""What is computed where a chunk of the data is: in this process or on a worker of a cluster.

A chunk is a tuple (X, y, sample_weight) of a few rows as their source delivers them. One pass over
the chunks serves requests of all outputs: rows are read, and their features computed, once.
Every function that answers a request takes the design and the target of a chunk and small arrays,
and returns sums over its rows; `add` joins the results of several chunks. Nothing is remembered
between calls.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from optimargin._checks import check_sparse
from optimargin.designs.features import FeatureDesign, canonical
from optimargin.kernels import PreparedKernel


def as_rows(X):
    """Return rows as a C-contiguous array or canonical CSR of float32 or float64."""
    if not sp.issparse(X):
        X = np.asarray(X)
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
    if sp.issparse(X):
        return canonical(sp.csr_array(check_sparse(X), dtype=dtype))
    return np.ascontiguousarray(X, dtype=dtype)


def columns_of(chunk):
    """Return X, y and weights of a chunk as arrays; y and weights are ones where it has none."""
    X, y, weight = chunk
    X = as_rows(X)
    y = np.ones(X.shape[0]) if y is None else np.asarray(y)
    weight = np.ones(len(y)) if weight is None else np.ascontiguousarray(weight, dtype=np.float64)
    return X, y, weight


def landmark_values(kernel, landmarks, dtype, X):
    """Return the kernel values of rows with landmarks, of shape (n_rows, n_landmarks)."""
    return PreparedKernel(kernel, landmarks, dtype).against(X)


@dataclass(frozen=True)
class ChunkReader:
    """How a chunk becomes features and targets.

    Attributes
    ----------
    task : Task
        Knows what y means; its targets are normalised over all chunks.
    features : callable or None
        Returns the features of rows; by default they are features themselves.
    center : ndarray of shape (n_features,) or None
    """

    task: Any
    features: Callable | None = None
    center: np.ndarray | None = None

    def read(self, chunk):
        """Return the design and the targets of the chunk, one per output."""
        X, y, weight = columns_of(chunk)
        design = FeatureDesign(X if self.features is None else self.features(X), self.center)
        return design, self.task.encode(y, weight)


@dataclass(frozen=True)
class Request:
    """What one output asks of a pass over the chunks.

    Attributes
    ----------
    function : callable
        Of this module.
    output : int
        Whose target is meant.
    loss : Loss
    arguments : tuple
    """

    function: Any
    output: int
    loss: Any
    arguments: tuple


def add(results):
    """Return the sum of numbers, arrays or tuples of these; None stands for nothing."""
    results = [result for result in results if result is not None]
    if not results:
        return None
    if isinstance(results[0], tuple):
        return tuple(add(parts) for parts in zip(*results, strict=True))
    return sum(results[1:], start=results[0])


def serve(chunk, reader: ChunkReader, requests: list[Request]) -> tuple[Any, ...] | None:
    """Return the results of all requests for one chunk."""
    if chunk[0].shape[0] == 0:
        return None
    design, targets = reader.read(chunk)
    return tuple(r.function(design, targets[r.output], r.loss, *r.arguments) for r in requests)


def evaluate(design, target, loss, coef, intercept, factorise: bool):
    """Compute loss, gradient and curvature at a point.

    Returns
    -------
    value : float
        The loss.
    first : ndarray of shape (n_coef + 1,)
        ``Z.T @ pull`` with Z the features and a column of ones.
    second : ndarray
        ``Z.T @ diag(curvature) @ Z``, lower triangle, if `factorise`; else its diagonal and,
        in a second row, its last row.
    """
    value, pull, curvature = loss.evaluate(design.decision(coef), target, intercept)
    first = np.append(design.represent(pull), pull.sum())
    if factorise:
        return value, first, design.weighted_gram(curvature)
    active = np.flatnonzero(curvature)
    total = curvature.sum()
    squares = design.diagonal(active, curvature[active]) - 1.0
    second = np.vstack([np.append(squares, total), np.append(design.represent(curvature), total)])
    return value, first, second


def hessian_product(design, target, loss, coef, intercept, v):
    """Return ``Z.T @ (curvature * (Z[:, :-1] @ v))`` at a point, of shape (n_coef + 1,)."""
    curvature = loss.evaluate(design.decision(coef), target, intercept)[2]
    active = np.flatnonzero(curvature)
    product, image = design.hessian_product(active, curvature[active], v)
    return np.append(product, image.sum())


def slopes(design, target, loss, point, step, lengths):
    """Differentiate the loss along a step, at several lengths of it.

    Parameters
    ----------
    point, step : tuple of (coef, intercept)
    lengths : ndarray of shape (n_lengths,)

    Returns
    -------
    derivatives : ndarray of shape (n_lengths,)
    """
    decision, moved = design.decision(point[0]), design.decision(step[0])
    at = {"offset": point[1], "step": moved, "step_offset": step[1]}
    return np.array([loss.derivatives(decision, target, t, **at)[0] for t in lengths])
