import numpy as np
from numpy.typing import NDArray

from optimargin._core._rows import Rows

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
