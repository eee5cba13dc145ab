"""What the columns of a table mean: which are features, and of what kind."""

import re
from dataclasses import dataclass

import numpy as np

from optimargin._core._text import is_number
from optimargin.io._dataset import Dataset, as_labels, some_of
from optimargin.io._files import DataFileError

MISSING = frozenset(
    [b"NA", b"N/A", b"n/a", b"#N/A", b"NaN", b"nan", b"-nan", b"<NA>", b"null", b"NULL", b"?", b"."]
)
_LABEL_NAMES = ("target", "class", "label", "y")
# Patterns are compiled when they are first used: the command starts faster.
_ID_NAME = r"(?i:id|index|key|uuid|guid)|.*([_ .-](?i:id|uuid|guid|key)|[a-z]I[Dd])"
_TIME = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[AaPp][Mm])?"
_DATE = (
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})"
    r"|\d{1,2}[- ]?[A-Za-z]{3}[- ]?\d{2,4}|[A-Z][a-z]{2,8} \d{1,2}, \d{4})"
    rf"([ T]{_TIME}(Z|[+-]\d{{2}}:?\d{{2}})?)?|{_TIME}"
)
_POWER = r"([eE][+-]?\d+)?"
# Numbers as they are written with each decimal mark; the other mark may group thousands.
_WRITTEN = {
    ",": (rf"[+-]?(\d{{1,3}}(\.\d{{3}})+|\d*)(,\d+|(?<=\d)){_POWER}"),
    ".": (rf"[+-]?(\d{{1,3}}(,\d{{3}})+|\d*)(\.\d+|(?<=\d)\.?){_POWER}"),
}
_FEW_TEXTS = 20  # different ones in a column, which are categories in any table
_SHARE_OF_NUMBERS = 0.8  # of the cells of a column from which on it holds numbers


@dataclass(frozen=True)
class Choice:
    """Which columns are used, by their place in the file.

    Attributes
    ----------
    features : list of int
    label : int or None
    names : list of str or None
        Those of the whole table.
    """

    features: list[int]
    label: int | None
    names: list[str] | None

    def shown(self, j):
        """Return the name of a column, or its number."""
        return str(j + 1) if self.names is None else self.names[j]


def choose_columns(names, n_columns, layout, path, line):
    """Return which columns of a table are features, and which one holds the labels."""
    is_by_name = layout.feature_names is not None and names is not None
    dropped = {  # new data may lack what was dropped in training
        find_column(column, names, n_columns, "--drop", path, line)
        for column in layout.drop
        if not (is_by_name and column not in names)
    }
    if is_by_name:
        missing = [column for column in layout.feature_names if column not in names]
        if missing:
            raise DataFileError(f"no column {missing[0]!r}, which the model needs", path, line)
        features = [names.index(column) for column in layout.feature_names]
        label = names.index(layout.label) if layout.label in names else None
    elif not layout.has_labels and not layout.is_of_model:
        if layout.label is not None:
            dropped.add(find_column(layout.label, names, n_columns, "the labels", path, line))
        features, label = [j for j in range(n_columns) if j not in dropped], None
    else:
        kept = n_columns - len(dropped)
        if layout.label is not None and not (names is None and kept == layout.n_features):
            label = find_column(layout.label, names, n_columns, "the labels", path, line)
        elif kept == layout.n_features:
            label = None
        else:
            label = _usual_label(names, n_columns)
        features = [j for j in range(n_columns) if j != label and j not in dropped]
    if label is not None and label in dropped:
        raise DataFileError("the column of labels is dropped: name another by --target", path, line)
    if not features:
        raise DataFileError("there are no columns besides the labels", path, line)
    return Choice(features, label, names)


def find_column(column, names, n_columns, what, path, line):
    """Return the place of a column that is given by its name or by its number from 1."""
    if names is not None and column in names:
        return names.index(column)
    if str(column).isdecimal() and 1 <= int(column) <= n_columns:
        return int(column) - 1
    known = f"columns are {', '.join(names)}" if names else f"there are {n_columns} columns"
    raise DataFileError(f"no column {column!r} for {what}: {known}", path, line)


def _usual_label(names, n_columns):
    """Return the only column with a usual name for labels, or the last one."""
    usual = [j for j, name in enumerate(names or ()) if name.lower() in _LABEL_NAMES]
    return usual[0] if len(usual) == 1 else n_columns - 1


class TableAssembler:
    """Makes a `Dataset` of columns of numbers and of text.

    Parameters
    ----------
    choice : Choice
    layout : Layout
    path : str
        For messages.
    lines : ndarray of shape (n_rows,)
        The line of each row, for messages.
    format : str
    has_commas : bool, default=True
        Whether commas may group thousands. They do not where semicolons separate the cells.
    remarks : sequence of str, default=()
        What the reader has found out.
    """

    def __init__(self, choice, layout, path, lines, format, *, has_commas=True, remarks=()):
        self._choice, self._layout = choice, layout
        self._path, self._lines, self._format = path, lines, format
        self._has_commas = has_commas
        self._left_out = {}
        self._with_commas = []
        self._found_ids = {}
        self._remarks = list(remarks)

    def assemble(self, numbers, texts, labels, ids, matrix=None):
        """Return the data.

        Parameters
        ----------
        numbers : dict of int to ndarray of shape (n_rows,)
            Columns of numbers by their place, NaN where missing.
        texts : dict of int to list of str or None
            The other columns.
        labels : list of str or None, ndarray, or None
            The column of labels.
        ids : dict of str to list
        matrix : ndarray of shape (n_rows, len(numbers)), default=None
            All columns of numbers side by side, which saves a copy.
        """
        layout, features = self._layout, self._choice.features
        required = layout.kinds if layout.is_of_model and layout.kinds else [None] * len(features)
        columns = {}
        for j, kind in zip(features, required, strict=True):
            column = numbers[j] if j in numbers else self._interpreted(j, texts[j], kind)
            if column is not None and not (kind is None and self._is_useless(j, column)):
                columns[j] = self._with_marks(column)
        if not columns:
            raise DataFileError(f"no feature is left: {self.reasons()}", self._path, 1)
        self._check_missing(columns)
        y, rows = (None, slice(None)) if labels is None else self._labels(labels)
        names = None if self._choice.names is None else [self._choice.names[j] for j in columns]
        kinds = [
            "number" if column.dtype.kind == "f" else "category" for column in columns.values()
        ]
        X = matrix
        if matrix is None or list(columns) != list(numbers) or layout.missing:
            X = _stacked(list(columns.values()))
        label = self._choice.label
        if self._with_commas:
            shown = some_of([repr(name) for name in self._with_commas])
            self._remarks.append(f"commas are decimal marks in {shown}")
        return Dataset(
            X if isinstance(rows, slice) else X[rows],
            y,
            self._format,
            names,
            None if names is None or label is None else self._choice.names[label],
            kinds=kinds,
            left_out=self._left_out,
            remarks=tuple(self._remarks),
            ids={
                name: cells if isinstance(rows, slice) else [cells[row] for row in rows]
                for name, cells in (self._found_ids | ids).items()
            },
        )

    def reasons(self):
        """Return why columns were left out, as text."""
        return "; ".join(f"{name!r} {reason}" for name, reason in self._left_out.items())

    def _interpreted(self, j, cells, required):
        """Return a column of text as floats or objects, or None if it is left out."""
        known = [cell for cell in cells if cell is not None]
        different = dict.fromkeys(known)
        values = None
        if required != "category":
            values = self._as_numbers(j, cells, different)
        if values is not None:
            return values
        if required == "number" or (required is None and self._is_mostly_numbers(known, different)):
            self._refuse_cell(j, cells, required)
        if required is None:
            reason = self._is_no_category(j, cells, known, different)
            if reason is not None:
                self._left_out[self._choice.shown(j)] = reason
                if len(different) == len(cells):
                    self._found_ids[self._choice.shown(j)] = cells
                return None
        column = np.empty(len(cells), dtype=object)
        column[:] = [np.nan if cell is None else cell for cell in cells]
        return column

    def _as_numbers(self, j, cells, different):
        """Return the floats that the cells are with one of the decimal marks, or None."""
        if not different:
            return np.full(len(cells), np.nan)
        plain = self._plainly(j, cells, different)
        if plain is None:
            return None
        values = {cell: float(number) for cell, number in plain.items()}
        if not np.isfinite(list(values.values())).all():
            return None
        self._note_commas(j, plain)
        return np.array([np.nan if cell is None else values[cell] for cell in cells])

    def _plainly(self, j, cells, different, *, may_ask=True):
        """Return texts that are numbers with one of the decimal marks as Python writes them.

        None if they are not, or if both marks are possible and nobody is to be asked.
        """
        marks = [
            mark for mark in _WRITTEN if all(re.fullmatch(_WRITTEN[mark], c) for c in different)
        ]
        if not marks or not any("," in cell for cell in different):
            return None
        mark = self._layout.decimal if self._layout.decimal in marks else None
        if mark is None and self._layout.decimal is not None:
            return None
        if mark is None and len(marks) > 1 and self._has_commas:
            if not may_ask:
                return None
            cell = next(cell for cell in different if "," in cell)
            raise self._error(
                j,
                cells.index(cell),
                f"{cell!r} can be read in two ways: say --decimal , or --decimal .",
            )
        mark = marks[0] if mark is None else mark
        other = "." if mark == "," else ","
        return {cell: cell.replace(other, "").replace(mark, ".") for cell in different}

    def _note_commas(self, j, plain):
        """Note a column whose numbers have decimal commas."""
        if any(c.rfind(",") > c.rfind(".") and "." in number for c, number in plain.items()):
            self._with_commas.append(self._choice.shown(j))

    def _is_mostly_numbers(self, known, different):
        plain = {text for text in different if is_number(text) or _is_infinite(text)}
        return sum(cell in plain for cell in known) >= _SHARE_OF_NUMBERS * len(known)

    def _refuse_cell(self, j, cells, required):
        """Raise an error for the first cell of a column of numbers that is none."""
        row, cell = next(
            (i, cell)
            for i, cell in enumerate(cells)
            if cell is not None and not (is_number(cell) and np.isfinite(float(cell)))
        )
        if _is_infinite(cell):
            fault = "is not finite"
        else:
            fault = "is too large" if is_number(cell) else "is not a number"
        why = ", which the model needs here" if required else ""
        raise self._error(
            j,
            row,
            f"{_short(cell)} {fault}{why}: correct it, say --missing {_short(cell)} if it means a "
            "missing value, or leave the column out with --drop",
        )

    def _is_no_category(self, j, cells, known, different):
        """Return why a column of text is left out, or None; raise an error if text is refused."""
        if all(re.fullmatch(_DATE, text) for text in different):
            reason = "holds dates or times"
            advice = "is a date or time: make numbers of it, such as years"
        elif (len(different) == len(known) > 5) or len(different) > max(_FEW_TEXTS, len(known) / 2):
            reason = f"has {len(different)} different texts in {len(known)} rows: ids, free text?"
            advice = ""
        else:
            reason, advice = None, ""
        if not self._layout.allow_text:
            row = cells.index(next(text for text in different if not is_number(text)))
            advice = advice or (
                "is not a number: --encode onehot makes numbers of categories, --target names the "
                "column of the classes"
            )
            raise self._error(
                j, row, f"{_short(cells[row])} {advice}, and --drop leaves the column out"
            )
        return None if self._choice.shown(j) in self._layout.keep else reason

    def _is_useless(self, j, column):
        """Return whether a new column is left out: an index, an id, or no values at all."""
        name = self._choice.shown(j)
        if column.dtype.kind != "f":
            return False
        reason = None
        if np.isnan(column).all():
            if self._layout.allow_missing:
                reason = "has no values"
        elif name not in self._layout.keep and self._choice.names is not None:
            is_id = re.fullmatch(_ID_NAME, name) and column.size > 5
            if (_is_unnamed(name, j) or is_id) and _are_different_integers(column):
                reason = "is an id: all values differ" if is_id else "numbers the rows"
        if reason is not None:
            self._left_out[name] = reason
            if not np.isnan(column).any():
                self._found_ids[name] = column.astype(np.int64).tolist()
        return reason is not None

    def _with_marks(self, column):
        """Return a column of numbers with NaN for those that mean a missing value."""
        marks = [float(mark) for mark in self._layout.missing if is_number(mark)]
        if column.dtype.kind != "f" or not marks:
            return column
        return np.where(np.isin(column, marks), np.nan, column)

    def _check_missing(self, columns):
        if self._layout.allow_missing:
            return
        for j, column in columns.items():
            bad = np.flatnonzero(column != column)  # NaN, in columns of text, too
            if bad.size:
                raise self._error(
                    j,
                    int(bad[0]),
                    "the value is missing: fill such cells with --impute median, or leave the "
                    "column out with --drop",
                )

    def _labels(self, labels):
        """Return the labels, and the rows that have one."""
        if isinstance(labels, list):
            missing = np.array([label is None for label in labels], dtype=bool)
            labels = np.array(labels, dtype=object)
        else:
            missing = labels != labels
        rows: slice | np.ndarray = slice(None)
        label = self._choice.label
        if missing.all() and self._layout.is_of_model:  # to be predicted
            return None, rows
        if missing.any() and not self._layout.is_of_model:
            rows = self._labelled(label, missing)
        known = self._known(label, labels[~missing])
        if known.size < missing.size and self._layout.is_of_model:
            y = np.full(missing.size, None, dtype=object)
            y[~missing] = known.tolist()
            return y, rows
        return known, rows

    def _labelled(self, label, missing):
        """Return the rows that have a label; raise an error if none may be missing."""
        first = int(np.flatnonzero(missing)[0])
        if not self._layout.allow_missing:
            raise self._error(label, first, "the label is missing")
        rows = np.flatnonzero(~missing)
        if not rows.size:
            raise self._error(label, first, "no row has a label")
        n_gone = int(missing.sum())
        self._remarks.append(
            f"{n_gone} {'row has' if n_gone == 1 else 'rows have'} no label and "
            f"{'is' if n_gone == 1 else 'are'} left out"
        )
        return rows

    def _known(self, label, labels):
        """Return labels, none of which is missing, as classes or measurements."""
        plain, how = None, self._layout.labels
        if labels.dtype.kind == "O":
            different = dict.fromkeys(labels.tolist())
            if how != "text" and not all(map(is_number, different)):
                may_ask = how != "classes" and not self._layout.is_of_model
                plain = self._plainly(label, labels.tolist(), different, may_ask=may_ask)
            labels = labels.astype(str)
        y, remark = as_labels(labels, how, plain)
        if remark is not None:
            self._remarks.append(remark)
        if plain is not None and y.dtype.kind in "if":
            self._note_commas(label, plain)
        return y

    def _error(self, j, row, message):
        name = None if self._choice.names is None else self._choice.names[j]
        line = int(self._lines[row]) if len(self._lines) else 1
        return DataFileError(message, self._path, line, j + 1, name)


def _stacked(columns):
    """Return columns side by side: of floats if all of them are."""
    if all(column.dtype.kind == "f" for column in columns):
        return np.stack(columns, axis=1)
    X = np.empty((columns[0].size, len(columns)), dtype=object)
    for k, column in enumerate(columns):
        X[:, k] = column
    return X


def name_columns(names):
    """Return names for all columns: those without one get their number."""
    return [name or f"column {j + 1}" for j, name in enumerate(names)]


def is_written_number(text):
    """Return whether a text is a number with one of the decimal marks."""
    return any(re.fullmatch(pattern, text) for pattern in _WRITTEN.values() if text)


def _are_different_integers(column):
    return np.array_equal(column, np.rint(column)) and np.unique(column).size == column.size


def _is_unnamed(name, j):
    return name in (f"column {j + 1}", f"Unnamed: {j}", "rownames", "index")


def _is_infinite(text):
    return text.lower().lstrip("+-") in ("inf", "infinity")


def _short(text):
    """Return a cell as it is shown in messages."""
    return repr(text if len(text) <= 40 else text[:37] + "...")
