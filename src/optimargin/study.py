"""Moved to `optimargin_study`."""

import sys

from optimargin._moved import MovedModule

_study = MovedModule(__name__, "optimargin_study")
sys.modules[__name__] = _study
for _part in (
    "export",
    "figures",
    "methods",
    "protocol",
    "report",
    "runner",
    "sample_sets",
    "selection",
    "statistics",
    "store",
    "tables",
):
    # So that `import optimargin.study.report` finds it: this module has no folder to look in.
    _module = MovedModule(f"{__name__}.{_part}", f"optimargin_study.{_part}")
    sys.modules[_module.__name__] = _module
    setattr(_study, _part, _module)
