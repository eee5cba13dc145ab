from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

class QuadraticRows:
    theta: Array
    pivot: Array
    ridge: Array
    intercept: Array
    objective: Array
    def __init__(
        self,
        n_samples: int,
        owns: list[NDArray[np.intp]],
        values: list[Array],
        orientations: list[Array],
        weights: list[Array],
        fit_intercept: bool,
    ) -> None: ...
    def solve(self, K: Array, penalty: float, n_threads: int) -> bool: ...
    def leave_folds_out(
        self, fold: NDArray[np.intc], n_folds: int, out: Array, n_threads: int
    ) -> None: ...
    def fold_gradient(
        self, fold: NDArray[np.intc], n_folds: int, slope: Array, n_threads: int
    ) -> tuple[Array, Array]: ...
