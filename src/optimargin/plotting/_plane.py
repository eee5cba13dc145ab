"""A grid over the plane of two features."""

from dataclasses import dataclass
from typing import Any

import numpy as np

_MARGIN = 0.08  # free space around the data, relative to their range


@dataclass(frozen=True)
class Plane:
    """A grid around samples.

    Attributes
    ----------
    xx0, xx1 : ndarray of shape (grid_resolution, grid_resolution)
        Coordinates.
    rows : {ndarray, dataframe} of shape (grid_resolution**2, 2)
        Its points, with the names of the features where the samples have some.
    points : ndarray of shape (n_samples, 2)
        The samples.
    feature_names : tuple of two str
    """

    xx0: np.ndarray
    xx1: np.ndarray
    rows: Any
    points: np.ndarray
    feature_names: tuple[str, ...]

    @classmethod
    def around(cls, X, grid_resolution, *, margin=_MARGIN) -> "Plane":
        """Return a grid with that many points per axis, and free space around the samples."""
        points = np.asarray(X, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != 2:
            raise ValueError(f"X has shape {points.shape}: this plot needs exactly two features.")
        if grid_resolution < 2:
            raise ValueError(f"grid_resolution={grid_resolution} is too small: use at least 2.")
        low, high = points.min(axis=0), points.max(axis=0)
        free = margin * np.maximum(high - low, 1e-12)
        sides = [
            np.linspace(a, b, grid_resolution) for a, b in zip(low - free, high + free, strict=True)
        ]
        xx0, xx1 = np.meshgrid(*sides)
        rows: Any = np.column_stack([xx0.ravel(), xx1.ravel()])
        if hasattr(X, "columns"):
            rows = type(X)(rows, columns=X.columns)
        names = getattr(X, "columns", ("feature 0", "feature 1"))
        return cls(xx0, xx1, rows, points, tuple(map(str, names)))
