from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

class Rows: ...

class DenseRows(Rows):
    def __init__(
        self,
        X: NDArray[np.floating],
        center: NDArray[np.float64] | None,
        w: NDArray[np.float64],
        squared_norms: NDArray[np.float64],
    ) -> None: ...

class CSRRows(Rows):
    def __init__(
        self,
        data: NDArray[np.floating],
        indices: NDArray[np.int32],
        indptr: NDArray[np.intp],
        w: NDArray[np.float64],
        squared_norms: NDArray[np.float64],
    ) -> None: ...

class GramRows(Rows):
    def __init__(
        self,
        K: NDArray[np.floating] | None,
        get_row: Callable[[int], NDArray[np.floating]] | None,
        decisions: NDArray[np.float64],
        squared_norms: NDArray[np.float64],
    ) -> None: ...

class Step: ...

class ODMStep(Step):
    def __init__(
        self, ridge1: NDArray[np.float64], ridge2: NDArray[np.float64], D: float
    ) -> None: ...

class BoxStep(Step):
    def __init__(
        self, lower: NDArray[np.float64], upper: NDArray[np.float64], target: float
    ) -> None: ...

class Descent:
    intercept: float
    def __init__(
        self,
        rows: Rows,
        step: Step,
        y: NDArray[np.float64],
        dual: NDArray[np.float64],
        *,
        intercept: float,
        intercept_scale: float,
        seed: int,
    ) -> None: ...
    @property
    def is_shrunk(self) -> bool: ...
    def unshrink(self) -> None: ...
    def recentre(self) -> float: ...
    def epoch(self) -> float: ...
