"""Optimal margin distribution machines: classifiers for where you would use an SVM."""

from importlib.metadata import version

from optimargin._ldm import LDMClassifier
from optimargin._ldm_cv import LDMClassifierCV, LinearLDMClassifierCV
from optimargin._ldm_path import LDMPath, ldm_path
from optimargin._linear_ldm import LinearLDMClassifier
from optimargin._linear_odm import LinearODMClassifier
from optimargin._odm import ODMClassifier
from optimargin._odm_cv import LinearODMClassifierCV, ODMClassifierCV
from optimargin._path import ODMPath, odm_path
from optimargin._versions import show_versions

__version__ = version("optimargin")

__all__ = [
    "LDMClassifier",
    "LDMClassifierCV",
    "LDMPath",
    "LinearLDMClassifier",
    "LinearLDMClassifierCV",
    "LinearODMClassifier",
    "LinearODMClassifierCV",
    "ODMClassifier",
    "ODMClassifierCV",
    "ODMPath",
    "ldm_path",
    "odm_path",
    "show_versions",
]
