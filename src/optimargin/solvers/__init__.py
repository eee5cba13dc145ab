"""How it is minimised: one file per solver, and the one place where a name becomes a class."""

from optimargin.solvers.base import Solution, Solver, UnsuitableProblemError
from optimargin.solvers.block_cd import BlockCD
from optimargin.solvers.chunked_newton import ChunkedNewton
from optimargin.solvers.dcd import DualCD
from optimargin.solvers.interior_point import InteriorPoint
from optimargin.solvers.ldm_dcd import LDMDualCD
from optimargin.solvers.ldm_svrg import LDMSVRG
from optimargin.solvers.newton import Newton
from optimargin.solvers.newton_cg import NewtonCG
from optimargin.solvers.svrg import SVRG

SOLVERS: dict[str, type[Solver]] = {
    "newton": Newton,
    "newton_cg": NewtonCG,
    "dcd": DualCD,
    "bcd": BlockCD,
    "svrg": SVRG,
}

# For `LDMProblem`, whose hinge loss has no gradient.
LDM_SOLVERS: dict[str, type[Solver]] = {
    "dcd": LDMDualCD,
    "interior_point": InteriorPoint,
    "svrg": LDMSVRG,
}

__all__ = [
    "LDMSVRG",
    "LDM_SOLVERS",
    "SOLVERS",
    "SVRG",
    "BlockCD",
    "ChunkedNewton",
    "DualCD",
    "InteriorPoint",
    "LDMDualCD",
    "Newton",
    "NewtonCG",
    "Solution",
    "Solver",
    "UnsuitableProblemError",
]
