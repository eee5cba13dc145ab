from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

class BoxQP:
    n_steps: int
    def __init__(self, Q: Array) -> None: ...
    def solve(
        self,
        b: Array,
        width: Array,
        a: Array,
        tol: float,
        n_sweeps: int = 0,
        max_steps: int = 20_000,
    ) -> bool: ...
