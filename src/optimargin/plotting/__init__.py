"""Pictures of fitted classifiers; matplotlib is imported when something is drawn."""

from optimargin.plotting._margin_distribution import MarginDistributionDisplay

__all__ = ["MarginDistributionDisplay"]
