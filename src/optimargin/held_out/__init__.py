"""Predictions for samples left out, without fitting again.

The refitters of the search are in `refitter`, `compiled` and `ldm`; `engine` chooses among them.
They are not imported here: a single fit does not need them.
"""

from optimargin.held_out.bounds import error_bound, ldm_printed_bound
from optimargin.held_out.closed_form import leave_one_out, models_without

__all__ = ["error_bound", "ldm_printed_bound", "leave_one_out", "models_without"]
