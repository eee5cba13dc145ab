"""Methods that the paper compares with or cites, as small estimators for two classes.

They are meant for comparison: fits keep the whole Gram matrix, and there are no sample weights.
"""

from optimargin_study.baselines._average_margin import MaximalAverageMargin
from optimargin_study.baselines._fisher import KernelFisherDiscriminant
from optimargin_study.baselines._margin_game import MarginDistributionGame
from optimargin_study.baselines._margin_optimizer import MarginDistributionOptimizer

__all__ = [
    "KernelFisherDiscriminant",
    "MarginDistributionGame",
    "MarginDistributionOptimizer",
    "MaximalAverageMargin",
]
