"""The 42 data sets of the paper: a registry, recipes and loaders."""

from optimargin_study.datasets._files import CorruptDatasetError, DatasetUnavailableError
from optimargin_study.datasets._load import list_paper_datasets, load_paper_dataset
from optimargin_study.datasets._registry import PaperSet, find_set

__all__ = [
    "CorruptDatasetError",
    "DatasetUnavailableError",
    "PaperSet",
    "find_set",
    "list_paper_datasets",
    "load_paper_dataset",
]
