"""Predictions for samples left out, without fitting again."""

from optimargin.held_out.bounds import error_bound, ldm_printed_bound
from optimargin.held_out.closed_form import leave_folds_out, leave_one_out
from optimargin.held_out.engine import make_refitter
from optimargin.held_out.refitter import Derivatives, Folds, HeldOut, Refitter

__all__ = [
    "Derivatives",
    "Folds",
    "HeldOut",
    "Refitter",
    "error_bound",
    "ldm_printed_bound",
    "leave_folds_out",
    "leave_one_out",
    "make_refitter",
]
