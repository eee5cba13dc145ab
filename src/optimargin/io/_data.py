"""Read data files; their format is detected. Also the svmlight (LIBSVM) format itself."""

import re

from scipy.sparse import csr_matrix

from optimargin._core._text import TextError, parse_svmlight
from optimargin.io._dataset import Dataset, Layout, as_labels
from optimargin.io._files import DataFileError, read_bytes, shown_path
from optimargin.io._tables import find_separator, read_parquet, read_table

FORMATS = ("svmlight", "csv", "parquet")
_FEATURE = re.compile(rb"\s\d+:")
_CELLS = re.compile(rb"[,;|]|\t[^\t]*[-/. ]\d+:\d\d|\t\d\d?:\d\d(:|\t|$)")  # also times of day
_DENSE_SHARE = 1 / 3  # of nonzeros, from which on a dense matrix is no larger, and faster


def read_data(path, *, format=None, layout=None):
    r"""Read samples and labels from a file.

    Parameters
    ----------
    path : path-like
        The file, plain or compressed by gzip, bzip2 or xz. ``"-"`` is standard input.
    format : {"svmlight", "csv", "parquet"}, default=None
        Detected from the content by default.
    layout : Layout, default=None
        Which column of a table holds the labels, and so on.

    Returns
    -------
    data : Dataset

    Raises
    ------
    DataFileError
        If the file cannot be read; the message says where.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from optimargin.io import read_data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "flowers.csv")
    ...     _ = path.write_text("length,width,kind\n5.1,3.5,setosa\n6.2,2.9,versicolor\n")
    ...     data = read_data(path)
    >>> data.X
    array([[5.1, 3.5],
           [6.2, 2.9]])
    >>> [str(label) for label in data.y]
    ['setosa', 'versicolor']
    """
    layout = Layout() if layout is None else layout
    if format is not None and format not in FORMATS:
        raise ValueError(f"format={format!r} is unknown: use one of {', '.join(FORMATS)}.")
    name = shown_path(path)
    text = read_bytes(path)
    if not text.strip():
        raise DataFileError("the file is empty", name, 1)
    format = _sniff(text, name) if format is None else format
    reader = {"svmlight": _read_svmlight, "csv": read_table, "parquet": read_parquet}[format]
    try:
        data = reader(text, layout, name)
    except TextError as error:
        raise DataFileError(error.message, name, error.line, error.column) from None
    if data.X.shape[0] == 0:
        raise DataFileError("there are no samples", name, text.count(b"\n") + 1)
    if layout.n_features is not None and data.X.shape[1] != layout.n_features:
        raise DataFileError(
            f"the file has {data.X.shape[1]} features, the model {layout.n_features}", name, 1
        )
    return data


def _sniff(text, name):
    if text.startswith(b"PAR1"):
        return "parquet"
    lines = [line for line in text[:20_000].splitlines()[:50] if line.strip()]
    lines = [line for line in lines if not line.lstrip().startswith(b"#")] or lines
    if any(_FEATURE.search(line) and not _CELLS.search(line) for line in lines):
        return "svmlight"
    if find_separator(text) is not None or b"\0" in text[:100]:
        return "csv"
    raise DataFileError(
        "neither svmlight (label feature:value ...) nor a table with commas, semicolons, tabs, | "
        "or blanks between its cells: name the format with --format",
        name,
        1,
    )


def _read_svmlight(text, layout, name):
    labels, indices, indptr, values = parse_svmlight(text)
    zero_based = layout.zero_based
    lowest = int(indices.min(initial=1))
    if zero_based is None:
        zero_based = lowest == 0
    elif lowest == 0 and not zero_based:
        line, column = find_feature(text, 0)
        raise DataFileError(
            "features of this model are numbered from 1, found 0", name, line, column
        )
    if not zero_based:
        indices = indices - 1
    n_features = int(indices.max(initial=0)) + 1
    X = csr_matrix((values, indices, indptr), shape=(labels.size, n_features))
    if layout.n_features is not None:
        # A feature that no training sample had is ignored, as in LIBSVM.
        X.resize(labels.size, layout.n_features)
    if X.nnz >= _DENSE_SHARE * X.shape[0] * X.shape[1]:
        X = X.toarray()
    return Dataset(X, as_labels(labels)[0], "svmlight", zero_based=bool(zero_based))


def find_feature(text, number):
    """Return line and column where a feature is first used."""
    match = re.search(rb"[ \t]0*%d:" % number, text)
    if match is None:
        return 1, 1
    before = text[: match.start() + 1]
    return before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
