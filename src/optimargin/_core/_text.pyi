import numpy as np
from numpy.typing import NDArray

class TextError(ValueError):
    message: str
    line: int
    column: int
    def __init__(self, message: str, line: int, column: int) -> None: ...

def parse_svmlight(
    text: bytes,
) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64], NDArray[np.float64]]: ...
def parse_table(
    text: bytes,
    delimiter: int,
    n_columns: int,
    kinds: bytes,
    offset: int,
    first_line: int,
    missing: frozenset[bytes] = ...,
) -> tuple[NDArray[np.float64], list[int], list[list[str | None]], NDArray[np.int64]]: ...
def is_number(text: str) -> bool: ...
