"""How it is minimised: one file a solver, and the one place where a name becomes a class."""

from optimargin.solvers.base import Solution, Solver
from optimargin.solvers.dcd import DualCD
from optimargin.solvers.newton import Newton
from optimargin.solvers.newton_cg import NewtonCG
from optimargin.solvers.svrg import SVRG

SOLVERS: dict[str, type[Solver]] = {
    "newton": Newton,
    "newton_cg": NewtonCG,
    "dcd": DualCD,
    "svrg": SVRG,
}

__all__ = ["SOLVERS", "SVRG", "DualCD", "Newton", "NewtonCG", "Solution", "Solver"]
