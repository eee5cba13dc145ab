"""Modules that are in `optimargin_study` now: their old names lead there, with a warning."""

import warnings
from importlib import import_module
from types import ModuleType
from typing import Any


class MovedModule(ModuleType):
    """A module under its old name.

    Parameters
    ----------
    name : str
        The old name.
    new : str
        The module that has what is asked for; imported when something is.
    """

    def __init__(self, name, new):
        super().__init__(name, f"Moved to `{new}`.")
        self._new = new

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(self._new), name)
        if name != "__all__":
            warnings.warn(
                f"{self.__name__}.{name} has moved: use {self._new}.{name} instead.",
                DeprecationWarning,
                stacklevel=2,
            )
        return value

    def __dir__(self):
        return dir(import_module(self._new))
