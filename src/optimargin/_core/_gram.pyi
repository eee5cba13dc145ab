import numpy as np
from numpy.typing import NDArray

def panel_product(
    buffer: NDArray[np.floating],
    bounds: NDArray[np.intp],
    offsets: NDArray[np.intp],
    V: NDArray[np.float64],
    partial: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def rows_product(
    K: NDArray[np.floating], v: NDArray[np.float64], out: NDArray[np.float64]
) -> None: ...
