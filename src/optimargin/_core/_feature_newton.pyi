from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

class FeatureNewton:
    coef: Array
    objective: float
    def __init__(
        self, X: Array, target: Array, orientation: Array, weight: Array, fit_intercept: bool
    ) -> None: ...
    def solve(self, C1: float, C2: float, D: float) -> bool: ...
    def solve_path(self, points: Array, coef: Array) -> NDArray[np.bool_]: ...
