from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from optimargin._core._active_system import ActiveSystem

Array: TypeAlias = NDArray[np.float64]

INDEFINITE: str

class GramNewton(ActiveSystem):
    target: Array
    orientation: Array
    theta: Array
    decision: Array
    intercept: float
    objective: float
    n_iter: int
    def __init__(
        self, K: Array, target: Array, orientation: Array, weight: Array, fit_intercept: bool
    ) -> None: ...
    def refresh(self) -> None: ...
    def adjoint(self, slope: Array, total: float) -> Array: ...
    def solve(self, C1: float, C2: float, D: float, max_iter: int = 200) -> int: ...
    def solve_path(self, points: Array, theta: Array, intercept: Array) -> None: ...
