"""Methods that the paper compares with or cites, as small estimators for two classes.

They are meant for comparison: fits keep the whole Gram matrix, and there are no sample weights.
"""

from optimargin.baselines._average_margin import MaximalAverageMargin
from optimargin.baselines._fisher import KernelFisherDiscriminant
from optimargin.baselines._margin_game import MarginDistributionGame
from optimargin.baselines._margin_optimizer import MarginDistributionOptimizer

__all__ = [
    "KernelFisherDiscriminant",
    "MarginDistributionGame",
    "MarginDistributionOptimizer",
    "MaximalAverageMargin",
]
