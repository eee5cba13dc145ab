"""What y means: the one place where it becomes targets, and where scores become predictions.

A task is small and knows all that has to be known of the whole of y, so that any part of the data,
a chunk on a worker for example, can be encoded by itself. A new task is a subclass of `Task`; all
below it sees targets, orientations and weights alone (`optimargin.targets`).
"""

from optimargin.tasks.base import Task
from optimargin.tasks.classification import (
    Classification,
    check_in_memory,
    check_known,
    index_of,
    votes_and_confidence,
    winning_class,
)
from optimargin.tasks.one_class import OneClass
from optimargin.tasks.regression import Regression, as_numbers, one_or_all

__all__ = [
    "Classification",
    "OneClass",
    "Regression",
    "Task",
    "as_numbers",
    "check_in_memory",
    "check_known",
    "index_of",
    "one_or_all",
    "votes_and_confidence",
    "winning_class",
]
