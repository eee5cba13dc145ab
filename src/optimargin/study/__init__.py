"""The paper's experiments: its protocol, a resumable runner, statistics, tables and a report.

Data flow in one direction: `protocol` lists the units and gives each its data, `methods` defines
what is done with them, `runner` computes what `store` does not have yet, and `statistics`,
`tables`, `figures` and `report` turn the stored results into text, tables and plots.
"""

from optimargin.study.export import export_results, read_export
from optimargin.study.methods import METHODS, Method, find_methods
from optimargin.study.protocol import TABLES, Unit, make_problem, plan
from optimargin.study.runner import run, run_unit
from optimargin.study.store import Result, Store, StoreError

__all__ = [
    "METHODS",
    "TABLES",
    "Method",
    "Result",
    "Store",
    "StoreError",
    "Unit",
    "export_results",
    "find_methods",
    "make_problem",
    "plan",
    "read_export",
    "run",
    "run_unit",
]
