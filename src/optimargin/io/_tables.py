"""Tables: text with separators between the cells, and Parquet."""

import csv
import io
import re
from itertools import islice

import numpy as np

from optimargin._core._text import TextError, parse_table
from optimargin.io._columns import (
    MISSING,
    TableAssembler,
    choose_columns,
    find_column,
    is_written_number,
    name_columns,
)
from optimargin.io._files import DataFileError

_SEPARATORS = "\t;|,"  # a comma last: it can be a decimal mark
_SAMPLE_LINES = 50  # read first, to find the separator and the header
_QUOTED = re.compile(rb'"[^"]*"')
_MARKS = {
    b"\xff\xfe": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
}


def read_table(text, layout, name):
    """Return the data of a table of text."""
    text, remarks = _as_utf8(text)
    offset, line = _first_row(text, name)
    separator = find_separator(text) or ","  # a table of one column has none
    if separator == " ":
        text, separator = _with_tabs(text), "\t"
        offset, line = _first_row(text, name)
    rows = _sample_rows(text, offset, separator)
    if not rows:
        raise DataFileError("the first row cannot be read", name, line)
    cells = [cell.strip() for cell in rows[0]]
    names = None
    if _is_header(cells, rows[1:]) if layout.header is None else layout.header:
        if len(rows) > 1 and all(len(row) == len(cells) + 1 for row in rows[1:]):
            cells = ["", *cells]  # as R writes tables: the column of row names has no name
        names = name_columns(cells)
        if len(set(names)) < len(names):
            twice = next(cell for cell in names if names.count(cell) > 1)
            raise DataFileError(
                f"two columns are called {twice!r}: rename one, or say --no-header if the first "
                "line holds data",
                name,
                line,
            )
        offset, line = _after_row(text, offset, line)
    choice = choose_columns(names, len(cells), layout, name, line - (names is not None))
    marks = MISSING | {mark.encode() for mark in layout.missing}

    def parse(kinds):
        try:
            return parse_table(
                text, ord(separator), len(cells), _coded(kinds, len(cells)), offset, line, marks
            )
        except TextError as error:
            named = names[error.column - 1] if names and error.column <= len(names) else None
            raise DataFileError(error.message, name, error.line, error.column, named) from None

    kinds = dict.fromkeys(choice.features, "n")
    if layout.is_of_model and layout.kinds:
        needed = zip(choice.features, layout.kinds, strict=True)
        kinds |= {j: "t" for j, kind in needed if kind == "category"}
    if choice.label is not None:
        kinds[choice.label] = "t"
    numbers, odd, texts, lines = parse(kinds)
    text_columns = dict(zip(sorted(j for j in kinds if kinds[j] == "t"), texts, strict=True))
    if odd:
        text_columns |= dict(zip(odd, parse(dict.fromkeys(odd, "t"))[2], strict=True))
    number_columns = {
        j: numbers[:, k]
        for k, j in enumerate(sorted(j for j in kinds if kinds[j] == "n"))
        if j not in odd
    }
    ids = {}
    for column in layout.ids:
        j = find_column(column, names, len(cells), "--ids", name, line)
        ids[column] = ["" if cell is None else cell for cell in parse({j: "t"})[2][0]]
    labels = None if choice.label is None else text_columns.pop(choice.label)
    if not lines.size:
        raise DataFileError("there are no samples", name, text.count(b"\n") + 1)
    assembler = TableAssembler(
        choice, layout, name, lines, "csv", has_commas=separator != ";", remarks=remarks
    )
    return assembler.assemble(
        number_columns, text_columns, labels, ids, matrix=None if odd else numbers
    )


def find_separator(text):
    """Return the character between the cells of a table, a blank for any run of them, or None."""
    sample = _QUOTED.sub(b"q", text[:50_000])
    lines = [line.strip(b" \r") for line in islice(sample.splitlines(), _SAMPLE_LINES)]
    lines = [line for line in lines if line]
    if len(sample) == 50_000 and len(lines) > 1:
        lines.pop()  # cut off
    counts = {mark: [line.count(mark.encode()) for line in lines] for mark in _SEPARATORS}
    for mark, found in counts.items():
        if min(found, default=0) > 0 and len(set(found[1:])) <= 1 and abs(found[-1] - found[0]) < 2:
            return mark
    most = max(_SEPARATORS, key=lambda mark: counts[mark][0] if lines else 0)
    if lines and counts[most][0]:
        return most
    words = [len(line.split()) for line in lines]
    if words and min(words) > 1 and words.count(words[-1]) >= len(words) / 2:
        return " "
    used = [mark for mark in _SEPARATORS if any(counts[mark])]
    return used[0] if used else None


def _as_utf8(text):
    """Return the text in UTF-8, and what had to be assumed for that."""
    for mark, encoding in _MARKS.items():
        if text.startswith(mark) and b"\0" in text[:100]:
            return text[2:].decode(encoding, "replace").encode(), []
    text = text.removeprefix(b"\xef\xbb\xbf")
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("cp1252", "replace").encode(), [
            "the text is not UTF-8: read as Windows-1252"
        ]
    return text, []


def _with_tabs(text):
    """Return a table with blanks between its cells as one with tabs, line by line."""
    text = re.sub(rb"(?m)^[ \t]+|[ \t\r]+$", b"", text)
    return re.sub(rb'("[^"]*")|[ \t]+', lambda found: found[1] or b"\t", text)


def _sample_rows(text, offset, separator):
    """Return the cells of the first rows, as far as they can be read."""
    sample = text[offset : offset + 200_000].decode("utf-8", "ignore").replace("\0", "")
    rows = []
    try:
        for row in csv.reader(io.StringIO(sample), delimiter=separator, skipinitialspace=True):
            if any(cell.strip() for cell in row):
                rows.append(row)
            if len(rows) > _SAMPLE_LINES:
                break
    except csv.Error:
        pass
    return rows


def _is_header(cells, rows):
    """Return whether a first row holds names: no numbers, and not what the columns hold."""
    if any(is_written_number(cell) for cell in cells):
        return False
    below = [[row[j].strip() for row in rows if len(row) == len(cells)] for j in range(len(cells))]
    repeated = sum(bool(cell) and cell in column for cell, column in zip(cells, below, strict=True))
    return repeated <= len(cells) / 2


def _first_row(text, name):
    """Return the offset and the number of the first line that is not empty."""
    offset, line = 0, 1
    while True:
        stop = text.find(b"\n", offset)
        row = text[offset:] if stop < 0 else text[offset:stop]
        if row.strip():
            return offset, line
        if stop < 0:
            raise DataFileError("the file is empty", name, line)
        offset, line = stop + 1, line + 1


def _after_row(text, offset, line):
    """Return where the row after the first one begins: quoted cells may contain line ends."""
    while True:
        stop = text.find(b"\n", offset)
        if stop < 0:
            return len(text), line + 1
        n_quotes = text.count(b'"', offset, stop)
        offset, line = stop + 1, line + 1
        if n_quotes % 2 == 0:
            return offset, line
        stop = text.find(b'"', offset)
        if stop < 0:
            return len(text), line
        line += text.count(b"\n", offset, stop)
        offset = stop + 1


def _coded(kinds, n_columns):
    """Return the kinds of columns as the parser takes them."""
    return "".join(kinds.get(j, "-") for j in range(n_columns)).encode()


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
        table = pq.read_table(io.BytesIO(text), page_checksum_verification=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataFileError(f"not a readable Parquet file ({error})", name) from None
    names = name_columns(["" if _is_index(n) else n for n in table.column_names])
    choice = choose_columns(names, table.num_columns, layout, name, 1)

    def is_number_type(kind):
        tests = (
            pa.types.is_integer,
            pa.types.is_floating,
            pa.types.is_boolean,
            pa.types.is_decimal,
        )
        return any(test(kind) for test in tests)

    def as_texts(j):
        return [None if cell is None else str(cell) for cell in table.column(j).to_pylist()]

    kinds = dict.fromkeys(choice.features)
    if layout.is_of_model and layout.kinds:
        kinds = dict(zip(choice.features, layout.kinds, strict=True))
    numbers, texts = {}, {}
    for j, kind in kinds.items():
        column = table.column(j)
        if kind != "category" and is_number_type(column.type):
            values = column.cast(pa.float64()).to_numpy()
            if np.isinf(values).any():
                texts[j] = as_texts(j)
            else:
                numbers[j] = values
        else:
            texts[j] = as_texts(j)
    labels = None
    if choice.label is not None:
        column = table.column(choice.label)
        is_text = column.null_count or not is_number_type(column.type)
        if is_text or pa.types.is_decimal(column.type):
            labels = as_texts(choice.label)
        else:
            labels = column.to_numpy()
    ids = {
        column: as_texts(find_column(column, names, table.num_columns, "--ids", name, 1))
        for column in layout.ids
    }
    if not table.num_rows:
        raise DataFileError("there are no samples", name, 1)
    lines = np.arange(1, table.num_rows + 1)
    assembler = TableAssembler(choice, layout, name, lines, "parquet")
    return assembler.assemble(numbers, texts, labels, ids)


def _is_index(name):
    """Return whether pandas wrote a column for an index without a name."""
    return re.fullmatch(r"__index_level_\d+__", name) is not None
