"""What a data file holds, and what a reader needs to know to read it."""

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_matrix

from optimargin._core._text import is_number

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""What spreadsheets take for the beginning of a formula."""


@dataclass(frozen=True)
class Dataset:
    """Samples read from a file.

    Attributes
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Sparse if less than a third of the values of an svmlight file are given. Missing values
        are NaN. With categories, an array of objects: numbers and text.
    y : ndarray of shape (n_samples,) or None
        Class labels or measurements: integers if all of them are, otherwise numbers or text. None
        if the file has no labels.
    format : {"svmlight", "csv", "parquet"}
    feature_names : list of str or None
        From the header of a table.
    label_name : str or None
        The name of the label column.
    zero_based : bool
        Whether the features of an svmlight file are numbered from 0.
    kinds : list of {"number", "category"} or None
        One per feature of a table.
    left_out : dict of str
        Columns that are no features, and why.
    remarks : tuple of str
        What else the reader found out, for people.
    ids : dict of list
        Columns that were asked for as they are written, and those left out whose cells all
        differ.
    """

    X: np.ndarray | csr_matrix
    y: np.ndarray | None
    format: str
    feature_names: list[str] | None = None
    label_name: str | None = None
    zero_based: bool = False
    kinds: list[str] | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    ids: dict[str, list] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """What a reader cannot see in a file, or what a model requires.

    Attributes
    ----------
    label : str, int or None
        The column of labels in a table: its name, or its number from 1. None is the one called
        target, class, label or y, or else the last one.
    header : bool or None
        Whether the first line of a table holds names. None: yes if none of its cells is a number
        and they do not look like those below them.
    drop : sequence of str
        Columns of a table to leave out.
    keep : sequence of str
        Columns of a table to use even if they look like ids.
    missing : sequence of str
        Cells that mean a missing value, besides empty ones, NA, NaN, null and ?.
    decimal : {",", "."} or None
        The decimal mark. None: what the cells of a column say.
    allow_missing : bool
        Whether values may be missing: they are NaN. Rows without a label are left out.
    allow_text : bool
        Whether text is read as categories; dates, ids and free text are left out then.
    feature_names : list of str or None
        The features to read, in this order. Others are left out, and labels may be missing.
    n_features : int or None
        The required number of features.
    kinds : list of {"number", "category"} or None
        The required kinds of the features.
    zero_based : bool or None
        Whether svmlight features are numbered from 0. None: yes if a feature 0 occurs.
    ids : sequence of str
        Columns of a table to return as they are written.
    has_labels : bool
        Without, all columns of a table are features, except the one that `label` names.
    """

    label: str | int | None = None
    header: bool | None = None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    decimal: str | None = None
    allow_missing: bool = False
    allow_text: bool = False
    feature_names: list[str] | None = None
    n_features: int | None = None
    kinds: list[str] | None = None
    zero_based: bool | None = None
    ids: tuple[str, ...] = ()
    has_labels: bool = True

    @property
    def is_of_model(self) -> bool:
        """Whether a model says what the features are."""
        return self.feature_names is not None or self.n_features is not None


def _unquoted(label):
    return label[1:] if label[:1] == "'" and label[1:2] in FORMULA_STARTS else label


def as_labels(labels):
    """Return labels as integers if all of them are, as numbers if all are, or unchanged.

    But for the apostrophe that `write_data` puts before what a spreadsheet takes for a formula.
    """
    if labels.dtype.kind == "U":
        quoted = np.char.startswith(labels, "'") & (np.char.str_len(labels) > 1)
        if quoted.any():
            labels = np.array([_unquoted(label) for label in labels.tolist()])
        if not all(is_number(str(label)) for label in np.unique(labels)):
            return labels
        labels = labels.astype(np.float64)
    if labels.dtype.kind != "f":
        return labels
    whole = np.abs(labels) < 2**53
    if whole.all() and (labels == np.rint(labels)).all():
        return labels.astype(np.int64)
    return labels
