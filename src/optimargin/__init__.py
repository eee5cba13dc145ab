"""Optimal margin distribution machines: classifiers for where you would use an SVM."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

# Imported when first asked for (PEP 562): whoever fits one classifier, as the command does, does
# not wait for all of them.
_MODULES = {
    "LDMClassifier": "_ldm",
    "LDMClassifierCV": "_ldm_cv",
    "LDMPath": "_ldm_path",
    "LinearLDMClassifier": "_linear_ldm",
    "LinearLDMClassifierCV": "_ldm_cv",
    "LinearODMClassifier": "_linear_odm",
    "LinearODMClassifierCV": "_odm_cv",
    "ODMClassifier": "_odm",
    "ODMClassifierCV": "_odm_cv",
    "ODMPath": "_path",
    "ldm_path": "_ldm_path",
    "odm_path": "_path",
    "show_versions": "_versions",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
