from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

class Rows: ...

class DenseRows(Rows):
    def __init__(
        self,
        X: NDArray[np.floating],
        center: NDArray[np.float64] | None,
        w: NDArray[np.float64],
        squared_norms: NDArray[np.float64],
    ) -> None: ...

class CSRRows(Rows):
    def __init__(
        self,
        data: NDArray[np.floating],
        indices: NDArray[np.int32],
        indptr: NDArray[np.intp],
        w: NDArray[np.float64],
        squared_norms: NDArray[np.float64],
    ) -> None: ...

class GramRows(Rows):
    def __init__(
        self,
        K: NDArray[np.floating] | None,
        get_row: Callable[[int], NDArray[np.floating]] | None,
        decisions: NDArray[np.float64],
        squared_norms: NDArray[np.float64],
    ) -> None: ...
