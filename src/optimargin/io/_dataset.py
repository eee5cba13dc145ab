"""What a data file holds, and what a reader needs to know to read it."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from optimargin._core._text import is_number


@dataclass(frozen=True)
class Dataset:
    """Samples read from a file.

    Attributes
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Sparse if less than a third of the values of an svmlight file are given.
    y : ndarray of shape (n_samples,) or None
        Class labels: integers if all of them are, otherwise numbers or text. None if the file has
        no labels.
    format : {"svmlight", "csv", "parquet"}
    feature_names : list of str or None
        From the header of a table.
    label_name : str or None
        The name of the label column.
    zero_based : bool
        Whether the features of an svmlight file are numbered from 0.
    """

    X: np.ndarray | csr_matrix
    y: np.ndarray | None
    format: str
    feature_names: list[str] | None = None
    label_name: str | None = None
    zero_based: bool = False


@dataclass(frozen=True)
class Layout:
    """What a reader cannot see in a file, or what a model requires.

    Attributes
    ----------
    label : str, int or None
        The column of labels in a table: its name, or its number from 1. None is the last one.
    header : bool or None
        Whether the first line of a table holds names. None: yes if none of its cells is a number.
    drop : sequence of str
        Columns of a table to leave out.
    feature_names : list of str or None
        The features to read, in this order. Others are left out, and labels may be missing.
    n_features : int or None
        The required number of features.
    zero_based : bool or None
        Whether svmlight features are numbered from 0. None: yes if a feature 0 occurs.
    """

    label: str | int | None = None
    header: bool | None = None
    drop: tuple[str, ...] = ()
    feature_names: list[str] | None = None
    n_features: int | None = None
    zero_based: bool | None = None


def as_labels(labels):
    """Return labels as integers if all of them are, otherwise unchanged."""
    if labels.dtype.kind == "U":
        if not all(is_number(str(label)) for label in np.unique(labels)):
            return labels
        labels = labels.astype(np.float64)
    whole = np.abs(labels) < 2**53
    if whole.all() and (labels == np.rint(labels)).all():
        return labels.astype(np.int64)
    return labels
