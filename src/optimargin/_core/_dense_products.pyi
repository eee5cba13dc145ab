from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Data: TypeAlias = NDArray[np.floating]
Index: TypeAlias = NDArray[np.integer]

def sum_of_squares(values: Data, partial: Vector, n_threads: int) -> float: ...
def dense_moments(
    X: Data, pivot: Vector, weight: Vector, partial: Vector, squares: Vector, n_threads: int
) -> None: ...
def dense_matvec(
    X: Data, rows: Index | None, v: Vector, shift: float, out: Vector, n_threads: int
) -> None: ...
def dense_rmatvec(X: Data, r: Vector, partial: Vector, n_threads: int) -> None: ...
def dense_weighted_gram(
    X: Data,
    center: Vector,
    rows: Index,
    root: Vector,
    sign: float,
    packed: Vector,
    partial: Vector,
    n_threads: int,
) -> None: ...
def dense_hessian_product(
    X: Data,
    center: Vector,
    rows: Index,
    weight: Vector,
    v: Vector,
    image: Vector,
    partial: Vector,
    n_threads: int,
) -> None: ...
