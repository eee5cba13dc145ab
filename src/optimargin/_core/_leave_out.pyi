from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from optimargin._core._gram_newton import GramNewton

Array: TypeAlias = NDArray[np.float64]

class FoldModels:
    coefficients: Array
    fold: NDArray[np.intc]
    n_folds: int

class LeaveOutNewton(GramNewton):
    def leave_one_out(self, out: Array) -> None: ...
    def leave_folds_out(self, fold: NDArray[np.intc], n_folds: int, out: Array) -> FoldModels: ...
    def fold_gradient(
        self, models: FoldModels, slope: Array, image: Array
    ) -> tuple[Array, Array]: ...
