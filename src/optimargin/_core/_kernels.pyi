import numpy as np
from numpy.typing import NDArray

def rbf_in_place(
    K: NDArray[np.floating],
    row_norms: NDArray[np.floating],
    column_norms: NDArray[np.floating],
    gamma: float,
) -> None: ...
def weighted_distances(
    K: NDArray[np.floating],
    row_norms: NDArray[np.floating],
    column_norms: NDArray[np.floating],
    row_weight: NDArray[np.float64],
    column_weight: NDArray[np.float64],
) -> float: ...
