"""How it is minimised: one file a solver, and the one place where a name becomes a class."""

from optimargin.solvers.base import Solution, Solver
from optimargin.solvers.dcd import DualCD
from optimargin.solvers.newton import Newton

SOLVERS: dict[str, type[Solver]] = {"newton": Newton, "dcd": DualCD}

__all__ = ["SOLVERS", "DualCD", "Newton", "Solution", "Solver"]
