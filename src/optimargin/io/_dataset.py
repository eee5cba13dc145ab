"""What a data file holds, and what a reader needs to know to read it."""

from dataclasses import dataclass, field
from decimal import Decimal
from math import isfinite

import numpy as np
from scipy.sparse import csr_matrix

from optimargin._checks import looks_like_measurements
from optimargin._core._text import is_number

SHOWN_NAMES = 8  # at most, in a message
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
        Class labels or measurements, as `Layout.labels` says. None if the file has no labels.
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
        Notes for the user.
    ids : dict of list
        Columns of `Layout.ids` as they are written, and columns that were left out because all
        their cells differ.
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
    labels : {"classes", "numbers", "text"} or None
        What labels of a table become that are numbers. Classes: integers if they are whole, and if
        labels that are written differently are different numbers; otherwise they remain text.
        Numbers: numbers in any case. Text: as they are written. None: numbers if they look like
        measurements (decimals, or more than 20 different ones), otherwise classes.
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
    labels: str | None = None

    def __post_init__(self):
        for name in ("drop", "keep", "missing", "ids", "feature_names", "kinds"):
            texts = getattr(self, name)
            is_list = isinstance(texts, list | tuple) and all(isinstance(t, str) for t in texts)
            if not (is_list or (texts is None and name in ("feature_names", "kinds"))):
                raise TypeError(f"{name} must be a list of text; got {texts!r}.")
        for name, kinds in {"label": str | int | None, "n_features": int | None}.items():
            if not isinstance(getattr(self, name), kinds):
                raise TypeError(f"{name} must not be {getattr(self, name)!r}.")
        sizes = {len(names) for names in (self.feature_names, self.kinds) if names is not None}
        if len(sizes | {self.n_features} - {None}) > 1:
            raise ValueError("feature_names, kinds and n_features speak of different numbers.")
        choices = {"decimal": (",", "."), "labels": ("classes", "numbers", "text")}
        for name, known in choices.items():
            if getattr(self, name) not in (*known, None):
                raise ValueError(f"{name} must be one of {known} or None.")

    @property
    def is_of_model(self) -> bool:
        """Whether a model says what the features are."""
        return self.feature_names is not None or self.n_features is not None


def some_of(names):
    """Return the first of some names as text, and how many more there are."""
    shown, n_more = ", ".join(names[:SHOWN_NAMES]), len(names) - SHOWN_NAMES
    return f"{shown} and {n_more} more" if n_more > 0 else shown


def as_labels(labels, how=None, plain=None):
    """Return labels as numbers if they are numbers, otherwise as they are written.

    Whole numbers become integers. The apostrophe that `write_data` puts before what a spreadsheet
    takes for a formula is taken off.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Text or numbers.
    how : {"classes", "numbers", "text"}, default=None
        `Layout.labels`.
    plain : dict of str, default=None
        How Python writes the numbers that the texts are, if that is different.

    Returns
    -------
    labels : ndarray of shape (n_samples,)
    remark : str or None
        What the user should know.
    """
    if labels.dtype.kind == "f":
        return _whole(labels), None
    if labels.dtype.kind != "U":
        return labels, None
    quoted = np.char.startswith(labels, "'") & (np.char.str_len(labels) > 1)
    if quoted.any():
        labels = np.array([_unquoted(label) for label in labels.tolist()])
    if how == "text":
        return labels, None
    different, places = np.unique(labels, return_inverse=True)
    texts = [text if plain is None else plain[text] for text in different.tolist()]
    if not all(map(is_number, texts)):
        return labels, None
    numbers = np.array(texts).astype(np.float64)
    if not np.isfinite(numbers).all():
        return labels, None
    if how == "numbers" or (how is None and looks_like_measurements(numbers)):
        return _whole(numbers)[places], None
    values = [number_of(text) for text in texts]
    first: dict[int | Decimal, str] = {}
    for text, value in zip(different.tolist(), values, strict=True):
        other = first.setdefault(value, text)
        if other != text:
            return labels, f"labels {other!r} and {text!r} are one number, but two classes here"
    if plain is not None or not all(isinstance(v, int) and abs(v) < 2**63 for v in values):
        return labels, None
    return np.array(values, dtype=np.int64)[places], None


def number_of(text):
    """Return the exact number that a text is, an int if it is whole; other text as it is."""
    if not is_number(text) or not isfinite(float(text)):
        return text
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else number


def _whole(numbers):
    """Return floats as 64-bit integers if they are whole and fit."""
    fit = (numbers == np.rint(numbers)) & (np.abs(numbers) < 2.0**63)
    return numbers.astype(np.int64) if fit.all() else numbers


def _unquoted(label):
    return label[1:] if label[:1] == "'" and label[1:2] in FORMULA_STARTS else label
