"""Write data files."""

import csv
import io

from scipy.sparse import issparse

from optimargin.io._dataset import FORMULA_STARTS
from optimargin.io._files import write_bytes


def write_data(data, path):
    r"""Write samples and labels to a file, in the format they were read from.

    Parameters
    ----------
    data : Dataset
    path : path-like
        Compressed if it ends in .gz, .bz2 or .xz. ``"-"`` is standard output.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from optimargin.io import read_data, write_data
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "rows.csv")
    ...     _ = path.write_text("size,kind\n1,a\n8,b\n")
    ...     data = read_data(path)
    ...     write_data(data, Path(folder, "copy.csv.gz"))
    ...     copy = read_data(Path(folder, "copy.csv.gz"))
    >>> copy.X.tolist(), copy.y.tolist()
    ([[1.0], [8.0]], ['a', 'b'])
    """
    if data.format == "parquet":
        _write_parquet(data, path)
    elif data.format == "svmlight":
        from sklearn.datasets import dump_svmlight_file  # slow to import

        out = io.BytesIO()
        dump_svmlight_file(data.X, data.y, out, zero_based=data.zero_based)
        write_bytes(path, out.getvalue())
    else:
        write_bytes(path, _table(data).encode())


def _table(data):
    rows = (data.X.toarray() if issparse(data.X) else data.X).tolist()
    if data.y is not None:
        rows = [[*row, label] for row, label in zip(rows, data.y.tolist(), strict=True)]
    if data.feature_names is not None:
        rows.insert(0, data.feature_names + ([data.label_name] if data.y is not None else []))
    return csv_text(rows)


def csv_text(rows):
    """Return rows of cells as the text of a table that is safe to open in a spreadsheet."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(safe_cell, row) for row in rows)
    return out.getvalue()


def safe_cell(value):
    """Return a cell that no spreadsheet takes for a formula.

    Text that begins as a formula does, and is no number, gets an apostrophe in front, which
    spreadsheets do not show.
    """
    if not isinstance(value, str) or not value.startswith(FORMULA_STARTS):
        return value
    try:
        float(value)
    except ValueError:
        return "'" + value
    return value


def _write_parquet(data, path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = dict(zip(data.feature_names, data.X.T, strict=True))
    if data.y is not None:
        columns[data.label_name] = data.y
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, write_page_checksum=True)
    write_bytes(path, out.getvalue())
