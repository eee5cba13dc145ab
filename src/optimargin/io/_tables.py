"""Tables: text with delimiters, and Parquet."""

import csv
import io
from dataclasses import dataclass

import numpy as np

from optimargin._core._text import TextError, is_number, parse_table
from optimargin.io._dataset import Dataset, as_labels
from optimargin.io._files import DataFileError

_DELIMITERS = b",;\t"


def read_table(text, layout, name):
    """Return the data of a delimited table."""
    text = text.removeprefix(b"\xef\xbb\xbf")
    first, offset, first_line = _first_row(text, name)
    delimiter = max(_DELIMITERS, key=lambda mark: first.count(bytes([mark])))
    try:
        cells = next(csv.reader([first.decode("utf-8")], delimiter=chr(delimiter), strict=True))
    except (UnicodeDecodeError, csv.Error, StopIteration) as error:
        raise DataFileError(f"the first row cannot be read ({error})", name, first_line) from None
    cells = [cell.strip() for cell in cells]
    header = layout.header
    if header is None:
        header = not any(is_number(cell) for cell in cells)
    names = cells if header else None
    if header and len(set(cells)) < len(cells):
        twice = next(cell for cell in cells if cells.count(cell) > 1)
        raise DataFileError(f"two columns are called {twice!r}", name, first_line)
    columns = _choose_columns(names, len(cells), layout, name, first_line)
    kinds = bytearray(b"-" * len(cells))
    for column in columns.features:
        kinds[column] = ord("n")
    if columns.label is not None:
        kinds[columns.label] = ord("t")
    if header:
        start, line = offset + len(first) + 1, first_line + 1
    else:
        start, line = offset, first_line
    try:
        numbers, texts = parse_table(text, delimiter, len(cells), bytes(kinds), start, line)
    except TextError as error:
        raise DataFileError(
            _advice(error.message),
            name,
            error.line,
            error.column,
            names[error.column - 1] if names and error.column <= len(names) else None,
        ) from None
    order = np.argsort(np.argsort(columns.features))
    X = numbers if (np.diff(columns.features) > 0).all() else numbers[:, order]
    y = None if columns.label is None else as_labels(np.array(texts))
    return Dataset(X, y, "csv", columns.names, columns.label_name)


def _first_row(text, name):
    """Return the first line that is not empty, its offset and its number."""
    offset, line = 0, 1
    while True:
        stop = text.find(b"\n", offset)
        row = text[offset:] if stop < 0 else text[offset:stop]
        if row.strip():
            return row, offset, line
        if stop < 0:
            raise DataFileError("the file is empty", name, line)
        offset, line = stop + 1, line + 1


def _advice(message):
    if message.endswith("is not a number"):
        if message[1 : -len("' is not a number")].lower().strip("+-") in ("inf", "infinity", "nan"):
            message = message.replace("a number", "finite")
            return f"{message}: replace the value, or leave the column out with --drop"
        return (
            f"{message}: encode text as numbers, say with --label if these are the classes, or "
            "leave the column out with --drop"
        )
    if message == "the cell is empty":
        return f"{message}: fill missing values, or leave the column out with --drop"
    return message


@dataclass(frozen=True)
class _Columns:
    features: list[int]
    label: int | None
    names: list[str] | None
    label_name: str | None


def _choose_columns(names, n_columns, layout, path, line):
    """Return which columns of a table are features, and which one holds the labels."""

    def index(column, what):
        if names is not None and column in names:
            return names.index(column)
        if str(column).isdecimal() and 1 <= int(column) <= n_columns:
            return int(column) - 1
        known = f"columns are {', '.join(names)}" if names else f"there are {n_columns} columns"
        raise DataFileError(f"no column {column!r} for {what}: {known}", path, line)

    dropped = {index(column, "--drop") for column in layout.drop}
    if layout.feature_names is not None and names is not None:
        missing = [column for column in layout.feature_names if column not in names]
        if missing:
            raise DataFileError(f"no column {missing[0]!r}, which the model needs", path, line)
        features = [names.index(column) for column in layout.feature_names]
        label = names.index(layout.label) if layout.label in names else None
    else:
        kept = n_columns - len(dropped)
        if layout.label is not None and not (names is None and kept == layout.n_features):
            label = index(layout.label, "the labels")
        elif kept == layout.n_features:
            label = None
        else:
            label = n_columns - 1
        features = [j for j in range(n_columns) if j != label and j not in dropped]
    if label is not None and label in dropped:
        raise DataFileError("the column of labels is dropped: name another by --label", path, line)
    if not features:
        raise DataFileError("there are no columns besides the labels", path, line)
    return _Columns(
        features,
        label,
        None if names is None else [names[j] for j in features],
        None if names is None or label is None else names[label],
    )


def read_parquet(text, layout, name):
    """Return the data of a Parquet file."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise DataFileError(
            "reading Parquet needs pyarrow: pip install 'optimargin[parquet]'", name
        ) from None
    try:
        table = pq.read_table(io.BytesIO(text))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataFileError(f"not a readable Parquet file ({error})", name) from None
    columns = _choose_columns(table.column_names, table.num_columns, layout, name, 1)
    X = np.empty((table.num_rows, len(columns.features)))
    for k, j in enumerate(columns.features):
        column = table.column(j)
        kind = column.type
        if not (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        ):
            raise DataFileError(
                _advice(f"{str(column[0].as_py() if len(column) else kind)!r} is not a number"),
                name,
                1,
                j + 1,
                table.column_names[j],
            )
        X[:, k] = column.cast(pa.float64()).to_numpy()
        bad = np.flatnonzero(~np.isfinite(X[:, k]))
        if bad.size:
            raise DataFileError(
                _advice("the cell is empty"), name, int(bad[0]) + 1, j + 1, table.column_names[j]
            )
    y = None
    if columns.label is not None:
        column = table.column(columns.label)
        if column.null_count:
            raise DataFileError(
                "the label is missing",
                name,
                int(np.flatnonzero(column.is_null().to_numpy())[0]) + 1,
                columns.label + 1,
                columns.label_name,
            )
        y = np.array(column.to_pylist())
    return Dataset(X, y, "parquet", columns.names, columns.label_name)
