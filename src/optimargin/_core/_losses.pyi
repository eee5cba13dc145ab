from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]

def odm_evaluate(
    margin: Vector,
    weight: Vector,
    C1: float,
    C2: float,
    D: float,
    dual: Vector,
    curvature: Vector,
    n_threads: int,
) -> float: ...
def odm_derivatives(
    margin: Vector,
    slope: Vector,
    weight: Vector,
    C1: float,
    C2: float,
    D: float,
    length: float,
    n_threads: int,
) -> tuple[float, float, float]: ...
