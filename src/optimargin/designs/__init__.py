"""The matrix of features, however it is stored."""

from optimargin.designs.base import Design, FeatureSpaceDesign, SampleSpaceDesign
from optimargin.designs.features import FeatureDesign, canonical, total_variance
from optimargin.designs.gram import GramDesign, LinearGramDesign
from optimargin.designs.kernel import KernelMatrix
from optimargin.designs.landmarks import LandmarkDesign
from optimargin.designs.pivots import RandomPivots

LINEAR_DESIGNS = (FeatureDesign, LinearGramDesign)
"""Designs of linear data: their coefficients can be turned into those of features, and back."""

__all__ = [
    "LINEAR_DESIGNS",
    "Design",
    "FeatureDesign",
    "FeatureSpaceDesign",
    "GramDesign",
    "KernelMatrix",
    "LandmarkDesign",
    "LinearGramDesign",
    "RandomPivots",
    "SampleSpaceDesign",
    "canonical",
    "total_variance",
]
