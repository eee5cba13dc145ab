import numpy as np
from numpy.typing import NDArray

from optimargin._core._coordinate_descent import Step
from optimargin._core._rows import Rows

class BoxStep(Step):
    def __init__(
        self,
        y: NDArray[np.float64],
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        target: float,
    ) -> None: ...

class MeanStep(Step):
    mean: float
    def __init__(
        self,
        y: NDArray[np.float64],
        weight: NDArray[np.float64],
        C: float,
        lambda1: float,
        lambda2: float,
        mean: float,
    ) -> None: ...

class TwoSamplePass:
    def __init__(
        self,
        y: NDArray[np.float64],
        weight: NDArray[np.float64],
        C: float,
        lambda1: float,
        *,
        seed: int,
    ) -> None: ...
    def run(
        self,
        rows: Rows,
        offset_decision: NDArray[np.float64],
        snapshot_margin: NDArray[np.float64],
        share: NDArray[np.float64],
        intercept: float,
        eta: float,
        intercept_eta: float,
        n_steps: int,
    ) -> tuple[float, float]: ...
