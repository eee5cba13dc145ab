from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

class SmallSystems:
    theta: Array
    decision: Array
    aim: Array
    intercept: Array
    objective: Array
    n_problems: int
    def __init__(
        self,
        rows: list[NDArray[np.intp]],
        n_outputs: list[int],
        target: Array,
        orientation: Array,
        weight: list[Array],
        fit_intercept: bool,
    ) -> None: ...
    def change_kernel(self, K: Array) -> None: ...
    def solve(self, losses: Array, n_threads: int) -> None: ...
    def curvature(self) -> Array: ...
    def left_out(self, share: Array | None = None) -> Array: ...
    def leave_folds_out(self, fold: NDArray[np.intc], n_folds: int, n_threads: int) -> Array: ...
    def differentiate(
        self, fold: NDArray[np.intc], n_folds: int, slope: Array, n_threads: int
    ) -> tuple[Array, Array, Array, Array]: ...
    def by_kernel(self, left: Array, coef: Array, n_samples: int) -> Array: ...
    def adjoint(self, slope: Array, total: Array) -> Array: ...
