"""From data to a fit: plan, design, problems, solver, model.

Training on chunks is in `chunks`, which a fit in memory does not need to import.
"""

from optimargin.training.models import Fit, KernelModel, LinearModel
from optimargin.training.options import Options
from optimargin.training.plan import Plan, plan_fit
from optimargin.training.prepare import Request
from optimargin.training.rebuild import OtherDataError, Rebuilt, rebuild
from optimargin.training.train import train

__all__ = [
    "Fit",
    "KernelModel",
    "LinearModel",
    "Options",
    "OtherDataError",
    "Plan",
    "Rebuilt",
    "Request",
    "plan_fit",
    "rebuild",
    "train",
]
