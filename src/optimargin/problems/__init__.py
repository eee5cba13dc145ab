"""What is minimised: losses, design matrices and the problem they make together."""

from optimargin.problems.designs import FeatureDesign, KernelDesign, LinearGramDesign
from optimargin.problems.losses import Loss, ODMLoss
from optimargin.problems.margin_problem import MarginProblem, Point

__all__ = [
    "FeatureDesign",
    "KernelDesign",
    "LinearGramDesign",
    "Loss",
    "MarginProblem",
    "ODMLoss",
    "Point",
]
