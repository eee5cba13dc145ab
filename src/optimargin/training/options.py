"""What the user asked of a training."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """What the user asked for.

    Attributes
    ----------
    solver : str
        "auto" or a name.
    tol : float
    max_iter : int
    fit_intercept : bool
    seed : int
    max_bytes : float
        For kernel values that are kept.
    approximation : {"nystrom"} or None
    n_components : int or "auto"
    """

    solver: str = "auto"
    tol: float = 1e-6
    max_iter: int = 1000
    fit_intercept: bool = True
    seed: int = 0
    max_bytes: float = 2e9
    approximation: str | None = None
    n_components: int | str = "auto"
