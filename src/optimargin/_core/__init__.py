"""Compiled loops.

Their threads sleep while they wait for work. By default, those of GNU's OpenMP run in circles for a
while, in the hope that there is more to do soon. On a busy machine they then keep each other, and
other processes, from working. The OpenMP runtime reads how to wait when it is loaded, that is here.
"""

import os

_POLICIES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def _load_runtime() -> None:
    if any(name in os.environ for name in _POLICIES):
        from optimargin._core import _threads  # noqa: F401

        return
    os.environ["OMP_WAIT_POLICY"] = "passive"
    try:
        from optimargin._core import _threads  # noqa: F401
    finally:
        del os.environ["OMP_WAIT_POLICY"]


_load_runtime()
