"""What is minimised: losses, design matrices and the problem they make together."""

from optimargin.problems.chunked_problem import ChunkedProblem
from optimargin.problems.feature_design import FeatureDesign, canonical
from optimargin.problems.kernel_design import KernelDesign, LinearGramDesign
from optimargin.problems.landmark_design import LandmarkDesign
from optimargin.problems.ldm_dual import LDMDual
from optimargin.problems.ldm_problem import LDMPoint, LDMProblem
from optimargin.problems.losses import Loss, ODMLoss
from optimargin.problems.margin_problem import MarginProblem, Point
from optimargin.problems.panel_design import PanelDesign

__all__ = [
    "ChunkedProblem",
    "FeatureDesign",
    "KernelDesign",
    "LDMDual",
    "LDMPoint",
    "LDMProblem",
    "LandmarkDesign",
    "LinearGramDesign",
    "Loss",
    "MarginProblem",
    "ODMLoss",
    "PanelDesign",
    "Point",
    "canonical",
]
