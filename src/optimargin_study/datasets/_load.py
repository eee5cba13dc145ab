"""Load data sets of the paper in the form that the paper used."""

import lzma
import re

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_svmlight_file
from sklearn.utils import Bunch

from optimargin_study.datasets import _readers
from optimargin_study.datasets._files import (
    CorruptDatasetError,
    downloaded_files,
    mirror_file,
)
from optimargin_study.datasets._recipes import RECIPES
from optimargin_study.datasets._registry import find_set, registry

SCALES = ("regular", "large")


def list_paper_datasets(scale=None):
    """Return the names of the paper's data sets, in the order of its Table 1.

    Parameters
    ----------
    scale : {"regular", "large"}, default=None
        Both by default.

    Returns
    -------
    names : list of str

    Examples
    --------
    >>> from optimargin_study.datasets import list_paper_datasets
    >>> len(list_paper_datasets()), len(list_paper_datasets("regular"))
    (42, 32)
    """
    if scale is not None and scale not in SCALES:
        raise ValueError(f"scale={scale!r} is unknown: use 'regular', 'large' or None.")
    return [name for name, s in registry().items() if scale in (None, s.scale)]


def load_paper_dataset(name, *, return_X_y=False):
    """Load a data set of the paper.

    Looks in the mirror that the environment variable ``OPTIMARGIN_DATA`` names, then in the
    user's cache (``OPTIMARGIN_CACHE``, by default a folder of the platform), then downloads the
    originals. The set wdbc comes with scikit-learn and is always available.

    Parameters
    ----------
    name : str
        A name of `list_paper_datasets`, or an alias such as "kdda2010".
    return_X_y : bool, default=False
        Return only the features and the labels.

    Returns
    -------
    dataset : Bunch
        With ``data`` (ndarray or CSR matrix of shape (n_samples, n_features), float64),
        ``target`` (ndarray of str of shape (n_samples,), two classes), ``feature_names`` (list,
        None for sparse data), ``name``, ``source`` and ``info``, the registry's entry. Features
        are not scaled. Each category is one column, as the paper's numbers of features imply; its
        values are numbered 0, 1, ... in the order of the registry, or else in natural order.

    Examples
    --------
    >>> from optimargin_study.datasets import load_paper_dataset
    >>> load_paper_dataset("wdbc").data.shape
    (569, 30)
    """
    info = find_set(name)
    path = mirror_file(info.name)
    if path is not None:
        source = str(path)
        X, y, names = _from_mirror(info, path)
    elif info.reader == "scikit-learn":
        source = "scikit-learn"
        bunch = load_breast_cancer()
        X, y, names = bunch.data, bunch.target_names[bunch.target], list(bunch.feature_names)
    else:
        paths = downloaded_files(info)
        source = ", ".join(info.urls)
        X, y, names = _from_originals(info, paths)
    y = np.asarray(y).astype(str)
    _check_form(info, X, y, source)
    if return_X_y:
        return X, y
    return Bunch(data=X, target=y, feature_names=names, name=info.name, source=source, info=info)


def _from_mirror(info, path):
    try:
        if ".svm" in path.name:
            with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
                X, y = load_svmlight_file(file, n_features=info.expected_shape[1])
            return _dense_if_narrow(X), y.astype(int), None
        frame = _readers.read_table(path)
    except (OSError, ValueError, lzma.LZMAError) as error:
        raise CorruptDatasetError(f"{path} cannot be read: {error}") from error
    X, y, names = _numbers(frame, info.categories)
    if info.name == "colon-cancer":
        X = _standardised(_standardised(X, axis=1), axis=0)
    return X, y, names


def _from_originals(info, paths):
    try:
        if info.reader == "svmlight":
            X, y = _readers.read_svmlight(paths, info.name, info.expected_shape[1])
            return _dense_if_narrow(X), y, None
        if info.reader == "miniboone":
            return *_readers.read_miniboone(paths, info.name), None
        read = {"arff": _readers.read_arff, "delimited": _readers.read_delimited}[info.reader]
        frame = read(paths, info.name)
        frame = RECIPES.get(info.name, lambda frame: frame)(frame)
        return _numbers(frame, info.categories)
    except (OSError, ValueError, KeyError, IndexError, StopIteration) as error:
        raise CorruptDatasetError(
            f"{', '.join(map(str, paths))}: not the files that the recipe of {info.name!r} "
            f"expects ({error}). Remove them to download them again."
        ) from error


def _dense_if_narrow(X):
    """Return a matrix with few features or few rows as a dense array."""
    return X.toarray() if X.shape[1] <= 50 or X.shape[0] <= 1000 else X


def _check_form(info, X, y, source):
    """Raise an error if the data do not have the form described in the registry."""
    counts = tuple(sorted(np.unique(y, return_counts=True)[1].tolist(), reverse=True))
    expected = (*info.expected_shape, info.class_counts or counts)
    found = (*X.shape, counts)
    if found != expected or len(counts) != 2:
        raise CorruptDatasetError(
            f"Data set {info.name!r} from {source} has (instances, features, class sizes) "
            f"{found}, expected {expected}: the recipe was written for another source."
        )
    values = X.data if hasattr(X, "indptr") else X
    if not np.isfinite(values).all():
        raise CorruptDatasetError(f"Data set {info.name!r} from {source} has missing values.")


def _numbers(frame, categories):
    """Return features as numbers, labels, and the names of the features."""
    X, y = frame.iloc[:, :-1], frame.iloc[:, -1]
    columns = [
        column.to_numpy(np.float64)
        if pd.api.types.is_numeric_dtype(column)
        else _codes(column.astype(str), categories.get(str(name)))
        for name, column in X.items()
    ]
    return np.column_stack(columns), y.to_numpy(), [str(name) for name in X.columns]


def _codes(column, values=None):
    """Return the values of a category as numbers, by default in natural order: 5-9, 10-14."""
    if values is None:
        values = sorted(column.unique(), key=_natural)
    return column.map({value: k for k, value in enumerate(values)}).to_numpy(np.float64)


def _natural(text):
    parts = re.split(r"(\d+)", text)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts if part]


def _standardised(X, axis):
    """Return X with mean 0 and variance 1 along an axis, as on the LIBSVM page."""
    return (X - X.mean(axis=axis, keepdims=True)) / X.std(axis=axis, keepdims=True)
