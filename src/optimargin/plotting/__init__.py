"""Plots. They need matplotlib, which is imported when something is drawn."""

from optimargin.plotting._convergence import ConvergenceDisplay
from optimargin.plotting._decision_boundary import DecisionBoundaryDisplay
from optimargin.plotting._margin_distribution import MarginDistributionDisplay
from optimargin.plotting._novelty import NoveltyDisplay
from optimargin.plotting._prediction import RegressionDisplay, plot_curves
from optimargin.plotting._relevance import RelevanceDisplay
from optimargin.plotting._selection import SelectionDisplay
from optimargin.plotting._uncertainty import IntervalDisplay, ReliabilityDisplay

__all__ = [
    "ConvergenceDisplay",
    "DecisionBoundaryDisplay",
    "IntervalDisplay",
    "MarginDistributionDisplay",
    "NoveltyDisplay",
    "RegressionDisplay",
    "RelevanceDisplay",
    "ReliabilityDisplay",
    "SelectionDisplay",
    "plot_curves",
]
