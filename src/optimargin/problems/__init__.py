"""What is minimised: a penalty on w and a loss of all samples."""

from optimargin.certificates import relative_gap
from optimargin.problems.additive import AdditiveProblem, Point
from optimargin.problems.chunked import ChunkedProblem
from optimargin.problems.ldm import LDMPoint, LDMProblem
from optimargin.problems.ldm_dual import LDMDual

__all__ = [
    "AdditiveProblem",
    "ChunkedProblem",
    "LDMDual",
    "LDMPoint",
    "LDMProblem",
    "Point",
    "relative_gap",
]
