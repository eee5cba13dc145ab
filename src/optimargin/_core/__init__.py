"""Compiled loops.

Their threads sleep while they wait for work. By default, those of GNU's OpenMP run in circles for a
while, in the hope that there is more to do soon. On a busy machine they then keep each other, and
other processes, from working. The OpenMP runtime reads how to wait when it is loaded, that is here.
"""

import os
from importlib import import_module

_POLICIES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def _load_runtime() -> None:
    """Load OpenMP, told to wait asleep unless the user has said how to wait."""
    is_given = any(name in os.environ for name in _POLICIES)
    if not is_given:
        os.environ["OMP_WAIT_POLICY"] = "passive"
    try:
        import_module("optimargin._core._threads")
    finally:
        if not is_given:
            del os.environ["OMP_WAIT_POLICY"]


_load_runtime()
