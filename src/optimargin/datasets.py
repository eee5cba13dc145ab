"""Moved to `optimargin_study.datasets`."""

import sys

from optimargin._moved import MovedModule

sys.modules[__name__] = MovedModule(__name__, "optimargin_study.datasets")
