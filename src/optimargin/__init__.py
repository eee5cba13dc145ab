"""Optimal margin distribution machines: classifiers for where you would use an SVM."""

from importlib.metadata import version

from optimargin._linear_odm import LinearODMClassifier
from optimargin._odm import ODMClassifier

__version__ = version("optimargin")

__all__ = ["LinearODMClassifier", "ODMClassifier"]
