from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Data: TypeAlias = NDArray[np.floating]
Index: TypeAlias = NDArray[np.integer]

def csr_matvec(
    data: Data,
    indices: Index,
    indptr: Index,
    rows: Index | None,
    v: Vector,
    out: Vector,
    n_threads: int,
) -> None: ...
def csr_rmatvec(
    data: Data, indices: Index, indptr: Index, r: Vector, partial: Vector, n_threads: int
) -> None: ...
def csr_squared_norms(data: Data, indptr: Index, out: Vector, n_threads: int) -> None: ...
def csr_weighted_squares(
    data: Data, indices: Index, indptr: Index, rows: Index, weight: Vector, out: Vector
) -> None: ...
def csr_weighted_gram(
    data: Data,
    indices: Index,
    indptr: Index,
    rows: Index,
    weight: Vector,
    partial: Vector,
    n_threads: int,
) -> None: ...
def csr_gram(
    data: Data,
    indices: Index,
    indptr: Index,
    column_data: Data,
    column_indices: Index,
    column_indptr: Index,
    out: Vector,
    n_threads: int,
) -> None: ...
def scaled_block(gram: Vector, rows: Index, scale: Vector, out: Vector, n_threads: int) -> None: ...
def csr_hessian_product(
    data: Data,
    indices: Index,
    indptr: Index,
    rows: Index,
    weight: Vector,
    v: Vector,
    image: Vector,
    partial: Vector,
    n_threads: int,
) -> None: ...
