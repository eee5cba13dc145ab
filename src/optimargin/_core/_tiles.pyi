import numpy as np
from numpy.typing import NDArray

TILE_SIZE: int

def pack(values: NDArray[np.floating], scale: float, tiles: NDArray) -> None: ...
def product(
    tiles: NDArray,
    V: NDArray[np.floating],
    partial: NDArray[np.float64],
    work: NDArray[np.float32],
    n_threads: int,
) -> None: ...
def epoch(
    tiles: NDArray,
    unit: float,
    order: NDArray[np.intp],
    n_samples: int,
    passes: int,
    pull: NDArray[np.float64],
    decision: NDArray[np.float64],
    target: NDArray[np.float64],
    orientation: NDArray[np.float64],
    ridge1: NDArray[np.float64],
    ridge2: NDArray[np.float64],
    half_width: NDArray[np.float64],
    intercept: NDArray[np.float64],
    intercept_scale: float,
    work: NDArray[np.float32],
    change: NDArray[np.float64],
    moved: NDArray[np.float32],
    n_threads: int,
) -> None: ...
