"""The linear system of a fixed active set: one contract, and a backend per kind of design."""

from optimargin.systems.base import (
    ActiveSystem,
    Derivatives,
    Folds,
    Form,
    IndefiniteError,
    OutlivedError,
    Values,
)
from optimargin.systems.choice import make_system, system_of
from optimargin.systems.features import FeatureSystem
from optimargin.systems.samples import SampleSystem

__all__ = [
    "ActiveSystem",
    "Derivatives",
    "FeatureSystem",
    "Folds",
    "Form",
    "IndefiniteError",
    "OutlivedError",
    "SampleSystem",
    "Values",
    "make_system",
    "system_of",
]
