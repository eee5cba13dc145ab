"""Optimal margin distribution machines: for where you would use an SVM."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimargin._versions import show_versions as show_versions
    from optimargin.estimators.explain import explain_plan as explain_plan
    from optimargin.estimators.ldm import LDMClassifier as LDMClassifier
    from optimargin.estimators.ldm import LinearLDMClassifier as LinearLDMClassifier
    from optimargin.estimators.ldm_cv import LDMClassifierCV as LDMClassifierCV
    from optimargin.estimators.ldm_cv import LinearLDMClassifierCV as LinearLDMClassifierCV
    from optimargin.estimators.odm import LinearODMClassifier as LinearODMClassifier
    from optimargin.estimators.odm import ODMClassifier as ODMClassifier
    from optimargin.estimators.odm_cv import LinearODMClassifierCV as LinearODMClassifierCV
    from optimargin.estimators.odm_cv import ODMClassifierCV as ODMClassifierCV
    from optimargin.estimators.odm_regression import LinearODMRegressor as LinearODMRegressor
    from optimargin.estimators.odm_regression import ODMRegressor as ODMRegressor
    from optimargin.estimators.odm_regression_cv import LinearODMRegressorCV as LinearODMRegressorCV
    from optimargin.estimators.odm_regression_cv import ODMRegressorCV as ODMRegressorCV
    from optimargin.estimators.one_class import OneClassODM as OneClassODM
    from optimargin.selection.paths import LDMPath as LDMPath
    from optimargin.selection.paths import ODMPath as ODMPath
    from optimargin.selection.paths import ldm_path as ldm_path
    from optimargin.selection.paths import ldm_path_decision as ldm_path_decision
    from optimargin.selection.paths import odm_path as odm_path

__version__ = version("optimargin")

# Imported when first asked for (PEP 562): whoever fits one classifier, as the command does, does
# not wait for all of them.
_MODULES = {
    "LDMClassifier": "estimators.ldm",
    "LDMClassifierCV": "estimators.ldm_cv",
    "LDMPath": "selection.paths",
    "LinearLDMClassifier": "estimators.ldm",
    "LinearLDMClassifierCV": "estimators.ldm_cv",
    "LinearODMClassifier": "estimators.odm",
    "LinearODMClassifierCV": "estimators.odm_cv",
    "LinearODMRegressor": "estimators.odm_regression",
    "LinearODMRegressorCV": "estimators.odm_regression_cv",
    "ODMClassifier": "estimators.odm",
    "ODMClassifierCV": "estimators.odm_cv",
    "ODMPath": "selection.paths",
    "ODMRegressor": "estimators.odm_regression",
    "ODMRegressorCV": "estimators.odm_regression_cv",
    "OneClassODM": "estimators.one_class",
    "explain_plan": "estimators.explain",
    "ldm_path": "selection.paths",
    "ldm_path_decision": "selection.paths",
    "odm_path": "selection.paths",
    "show_versions": "_versions",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
