from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

class ActiveSystem:
    K: Array
    weight: Array
    side: NDArray[np.intc]
    n_active: int
    def __init__(self, K: Array, weight: Array) -> None: ...
