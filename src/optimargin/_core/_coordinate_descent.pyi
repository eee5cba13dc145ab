from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimargin._core._rows import Rows

class Step: ...

class BandStep(Step):
    def __init__(
        self,
        target: NDArray[np.float64],
        orientation: NDArray[np.float64],
        ridge1: NDArray[np.float64],
        ridge2: NDArray[np.float64],
        D: float,
    ) -> None: ...

class PythonStep(Step):
    def __init__(self, rule: Any) -> None: ...

class Descent:
    intercept: float
    def __init__(
        self,
        rows: Rows,
        step: Step,
        pull: NDArray[np.float64],
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
