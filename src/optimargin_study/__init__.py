"""The paper's experiments: its protocol, a resumable runner, statistics, tables and a report.

Data flow in one direction: `protocol` lists the units and gives each its data, `methods` defines
what is done with them, `runner` computes what `store` does not have yet, and `statistics`,
`tables`, `figures` and `report` turn the stored results into text, tables and plots. `datasets` is
the registry of the paper's data, `baselines` are the methods that it compares with.

Of the library it uses documented names only, as any other program would.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimargin_study.export import export_results as export_results
    from optimargin_study.export import read_export as read_export
    from optimargin_study.methods import METHODS as METHODS
    from optimargin_study.methods import Method as Method
    from optimargin_study.methods import find_methods as find_methods
    from optimargin_study.protocol import TABLES as TABLES
    from optimargin_study.protocol import Unit as Unit
    from optimargin_study.protocol import make_problem as make_problem
    from optimargin_study.protocol import plan as plan
    from optimargin_study.runner import run as run
    from optimargin_study.runner import run_unit as run_unit
    from optimargin_study.store import Result as Result
    from optimargin_study.store import Store as Store
    from optimargin_study.store import StoreError as StoreError

# Imported when first asked for (PEP 562): the baselines need none of it, nor does the list of data
# sets.
_MODULES = {
    "METHODS": "methods",
    "TABLES": "protocol",
    "Method": "methods",
    "Result": "store",
    "Store": "store",
    "StoreError": "store",
    "Unit": "protocol",
    "export_results": "export",
    "find_methods": "methods",
    "make_problem": "protocol",
    "plan": "protocol",
    "read_export": "export",
    "run": "runner",
    "run_unit": "runner",
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
