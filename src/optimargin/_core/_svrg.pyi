import numpy as np
from numpy.typing import NDArray

from optimargin._core._coordinate_descent import Step
from optimargin._core._rows import Rows

class StochasticPass:
    def __init__(self, loss: Step, n_samples: int, *, seed: int) -> None: ...
    def run(
        self,
        rows: Rows,
        snapshot_decision: NDArray[np.float64],
        snapshot_pull: NDArray[np.float64],
        intercept: float,
        eta: float,
        intercept_eta: float,
        n_steps: int,
    ) -> tuple[float, float]: ...
