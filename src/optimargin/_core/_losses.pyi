import numpy as np
from numpy.typing import NDArray

def odm_evaluate(
    margin: NDArray[np.float64],
    weight: NDArray[np.float64],
    C1: float,
    C2: float,
    D: float,
    dual: NDArray[np.float64],
    curvature: NDArray[np.float64],
    n_threads: int,
) -> float: ...
