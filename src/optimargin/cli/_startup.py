"""Keeps the start of the command fast."""

import sys
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


class _Deferred(ModuleType):
    """A placeholder for a module, which loads it on first use."""

    def __getattr__(self, name):
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


@contextmanager
def deferred(*names):
    """Within this block, import these modules without loading them.

    Parameters
    ----------
    *names : str
        Modules that are slow to load. They load on first use; after the block, imports are
        normal again.
    """
    placeholders = {}
    for name in names:
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None:
            placeholders[name] = sys.modules[name] = _Deferred(name)
            sys.modules[name].__spec__ = spec
    try:
        yield
    finally:
        for name, placeholder in placeholders.items():
            if sys.modules.get(name) is placeholder:
                del sys.modules[name]


def import_learning():
    """Import and return what `train` and `select` share.

    Importing scikit-learn imports both modules below. They take half of that time, and fitting a
    classifier needs neither.
    """
    with deferred("scipy.stats", "pandas"):
        from optimargin.cli import _learning
    return _learning
