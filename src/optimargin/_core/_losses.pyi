from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]

def band_evaluate(
    decision: Vector,
    offset: float,
    target: Vector,
    orientation: Vector,
    weight: Vector,
    C1: float,
    C2: float,
    D: float,
    pull: Vector,
    curvature: Vector,
    n_threads: int,
) -> float: ...
def band_conjugate(
    pull: Vector,
    target: Vector,
    orientation: Vector,
    weight: Vector,
    C1: float,
    C2: float,
    D: float,
) -> float: ...
def band_derivatives(
    decision: Vector,
    offset: float,
    step: Vector | None,
    step_offset: float,
    target: Vector,
    orientation: Vector,
    weight: Vector,
    C1: float,
    C2: float,
    D: float,
    length: float,
    n_threads: int,
) -> tuple[float, float, float]: ...
