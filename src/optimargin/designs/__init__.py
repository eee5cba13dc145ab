"""The matrix of features, however it is stored."""

from optimargin.designs.base import Design, FeatureSpaceDesign, SampleSpaceDesign
from optimargin.designs.features import FeatureDesign, canonical, total_variance
from optimargin.designs.gram import GramDesign, LinearGramDesign
from optimargin.designs.landmarks import LandmarkDesign
from optimargin.designs.panels import PanelDesign
from optimargin.designs.pivots import RandomPivots
from optimargin.designs.rounded_gram import RoundedGramDesign
from optimargin.designs.tiles import TileDesign

LINEAR_DESIGNS = (FeatureDesign, LinearGramDesign)
"""Designs of linear data: their coefficients can be turned into those of features, and back."""

__all__ = [
    "LINEAR_DESIGNS",
    "Design",
    "FeatureDesign",
    "FeatureSpaceDesign",
    "GramDesign",
    "LandmarkDesign",
    "LinearGramDesign",
    "PanelDesign",
    "RandomPivots",
    "RoundedGramDesign",
    "SampleSpaceDesign",
    "TileDesign",
    "canonical",
    "total_variance",
]
