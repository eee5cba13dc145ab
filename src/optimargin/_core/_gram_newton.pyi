from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

class GramNewton:
    K: Array
    y: Array
    weight: Array
    theta: Array
    decision: Array
    intercept: float
    objective: float
    side: NDArray[np.intc]
    n_iter: int
    n_active: int
    def __init__(self, K: Array, y: Array, weight: Array, fit_intercept: bool) -> None: ...
    def reset(self) -> None: ...
    def refresh(self) -> None: ...
    def adjoint(self, slope: Array, total: float) -> Array: ...
    def solve(self, C1: float, C2: float, D: float, max_iter: int = 200) -> int: ...
