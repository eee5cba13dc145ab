import numpy as np
from numpy.typing import NDArray

def descend(
    K: NDArray[np.float32],
    target: NDArray[np.float64],
    orientation: NDArray[np.float64],
    ridge1: NDArray[np.float64],
    ridge2: NDArray[np.float64],
    D: float,
    pull: NDArray[np.float64],
    decision: NDArray[np.float64],
    intercept: float,
    intercept_scale: float,
    largest: float,
    tol: float,
    floor: float,
    max_epochs: int,
    seed: int,
) -> tuple[int, float, float]: ...
