"""Read numbers from text: svmlight lines and the cells of delimited tables.

A reader either returns everything or raises `TextError` with the line and column where it stopped.
Numbers are correctly rounded: up to 19 digits with a small exponent are exact products of two
doubles (Clinger 1990); Python's own conversion does the rest.
"""

import numpy as np

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.math cimport NAN, fabs, isfinite
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memchr, memcmp

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* s, char** end, PyObject* overflow) except? -1.0

cdef double[23] POWERS
cdef int _power
POWERS[0] = 1.0
for _power in range(1, 23):
    POWERS[_power] = POWERS[_power - 1] * 10.0

# A damaged file can contain any feature number, and a linear model needs memory for all features.
cdef int64_t MAX_FEATURES = 100_000_000
cdef uint64_t MANTISSA = <uint64_t>1 << 53


class TextError(ValueError):
    """Where and why a reader stopped.

    Parameters
    ----------
    message : str
    line : int
        From 1.
    column : int
        From 1: a character in svmlight files, a cell in tables.
    """

    def __init__(self, message, line, column):
        super().__init__(message, line, column)
        self.message, self.line, self.column = message, line, column


cdef const char* read_number(const char* p, const char* end, double* out) except? NULL:
    """Read a decimal number at p; return the end of it, or p itself if there is no number."""
    cdef const char* start = p
    cdef char* stop
    cdef uint64_t mantissa = 0
    cdef int64_t exponent = 0, written = 0
    cdef int n_digits = 0
    cdef bint negative = False, any_digit = False, negative_exponent = False, point = False
    if p < end and (p[0] == c"-" or p[0] == c"+"):
        negative = p[0] == c"-"
        p += 1
    while p < end:
        if c"0" <= p[0] <= c"9":
            any_digit = True
            if n_digits > 0 or p[0] != c"0":
                n_digits += 1
            if n_digits <= 19:
                mantissa = mantissa * 10 + <uint64_t>(p[0] - c"0")
            exponent -= point
        elif p[0] == c"." and not point:
            point = True
        else:
            break
        p += 1
    if not any_digit:
        return start
    if p < end and (p[0] == c"e" or p[0] == c"E"):
        p += 1
        if p < end and (p[0] == c"-" or p[0] == c"+"):
            negative_exponent = p[0] == c"-"
            p += 1
        if p == end or not (c"0" <= p[0] <= c"9"):
            return start
        while p < end and c"0" <= p[0] <= c"9":
            if written < 100_000:
                written = 10 * written + (p[0] - c"0")
            p += 1
        exponent += -written if negative_exponent else written
    if n_digits <= 19 and mantissa <= MANTISSA and -22 <= exponent <= 22:
        out[0] = mantissa / POWERS[-exponent] if exponent < 0 else mantissa * POWERS[exponent]
        if negative:
            out[0] = -out[0]
        return p
    # This reads beyond `end` only while the number continues: the text ends with a zero byte.
    out[0] = PyOS_string_to_double(start, &stop, NULL)
    return p


cdef inline const char* skip_blanks(const char* p, const char* end) noexcept nogil:
    while p < end and (p[0] == c" " or p[0] == c"\t" or p[0] == c"\r"):
        p += 1
    return p


cdef inline const char* skip_spaces(const char* p, const char* end) noexcept nogil:
    while p < end and (p[0] == c" " or p[0] == c"\r"):
        p += 1
    return p


cdef str _shown(const char* p, const char* end):
    """Return the text at p, short enough for a message."""
    cdef const char* stop = p
    while stop < end and stop - p < 20 and not (stop[0] in b" \t\r\n\0"):
        stop += 1
    return repr(p[:stop - p].decode("utf-8", "replace"))


cdef bint _is_rounded(const char* p, const char* end, double number):
    """Return whether the text at p is a whole number other than `number`, which it was read as."""
    cdef str digits = p[:end - p].decode().lstrip("+-").lstrip("0")
    return digits.isdecimal() and int(digits) != int(fabs(number))


def parse_svmlight(bytes text):
    """Return (labels, indices, indptr, values) of svmlight text, as written.

    A line is ``label index:value index:value ...`` with increasing indices; ``#`` starts a
    comment, and empty lines are skipped. The ``qid:number`` of rankings is not used.
    """
    cdef const char* base = PyBytes_AS_STRING(text)
    cdef const char* end = base + PyBytes_GET_SIZE(text)
    cdef Py_ssize_t n_lines = text.count(b"\n") + 1, n_values = text.count(b":")
    cdef double[::1] labels = np.empty(n_lines)
    cdef int64_t[::1] indptr = np.zeros(n_lines + 1, dtype=np.int64)
    cdef int32_t[::1] indices = np.empty(n_values, dtype=np.int32)
    cdef double[::1] values = np.empty(n_values)
    cdef Py_ssize_t n_rows = 0, k = 0, line = 0
    cdef const char* p = base
    cdef const char* stop
    cdef const char* begin
    cdef const char* after
    cdef double number = 0.0
    cdef int64_t index, last
    while p < end:
        line += 1
        begin = p
        stop = <const char*>memchr(p, c"\n", end - p)
        if stop == NULL:
            stop = end
        after = <const char*>memchr(p, c"#", stop - p)
        last = -1
        p = skip_blanks(p, stop if after == NULL else after)
        if p == stop or p[0] == c"#":
            p = stop + 1
            continue
        after = read_number(p, stop, &number)
        if after == p or not (after == stop or after[0] in b" \t\r#"):
            raise TextError(f"expected a number as label, found {_shown(p, stop)}",
                            line, p - begin + 1)
        if not isfinite(number):
            raise TextError(f"the label {_shown(p, stop)} is too large", line, p - begin + 1)
        if fabs(number) >= MANTISSA and _is_rounded(p, after, number):
            raise TextError(
                f"the label {_shown(p, stop)} has too many digits: it would be read as "
                f"{int(number)}. Use other labels, or write a measurement as {number!r}",
                line, p - begin + 1)
        labels[n_rows] = number
        p = skip_blanks(after, stop)
        if stop - p > 4 and memcmp(p, b"qid:", 4) == 0:
            while p < stop and not (p[0] in b" \t\r#"):
                p += 1
            p = skip_blanks(p, stop)
        while p < stop and p[0] != c"#":
            index, after = 0, p
            while after < stop and c"0" <= after[0] <= c"9" and index <= MAX_FEATURES:
                index = 10 * index + (after[0] - c"0")
                after += 1
            if index > MAX_FEATURES:
                raise TextError(
                    f"feature number {_shown(p, stop)} is above the limit of {MAX_FEATURES:,}",
                    line, p - begin + 1)
            if after == p or after == stop or after[0] != c":":
                raise TextError(f"expected feature:value, found {_shown(p, stop)}",
                                line, p - begin + 1)
            if index <= last:
                raise TextError(
                    f"feature {index} follows feature {last}: features must be in increasing "
                    "order, each once", line, p - begin + 1)
            last = index
            p = after + 1
            after = read_number(p, stop, &number)
            if after == p or not (after == stop or after[0] in b" \t\r#"):
                raise TextError(f"expected a number after '{index}:', found {_shown(p, stop)}",
                                line, p - begin + 1)
            if not isfinite(number):
                raise TextError(f"the value {_shown(p, stop)} is too large", line, p - begin + 1)
            indices[k] = index
            values[k] = number
            k += 1
            p = skip_blanks(after, stop)
        n_rows += 1
        indptr[n_rows] = k
        p = stop + 1
    return (
        np.asarray(labels)[:n_rows],
        np.asarray(indices)[:k],
        np.asarray(indptr)[:n_rows + 1],
        np.asarray(values)[:k],
    )


cdef bytes _cell_bytes(const char* p, const char* stop):
    """Return a cell without the blanks and quotes around it."""
    cdef bytes raw = p[:stop - p].strip()
    if len(raw) > 1 and raw[0] == 34 and raw[len(raw) - 1] == 34:
        raw = raw[1:len(raw) - 1].replace(b'""', b'"').strip()
    return raw


cdef object _cell_text(const char* p, const char* stop, dict seen, frozenset missing,
                       Py_ssize_t line, Py_ssize_t column):
    """Return the text of a cell, None if it is missing; equal texts share one object."""
    cdef bytes raw = _cell_bytes(p, stop)
    if not raw or raw in missing:
        return None
    text = seen.get(raw)
    if text is None:
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise TextError("the text is not UTF-8", line, column) from None
        seen[raw] = text
    return text


cdef bint _cell_number(const char* p, const char* stop, frozenset missing, double* out) except -1:
    """Read the number in a cell, NaN if it is missing; return whether that was possible."""
    cdef const char* first = skip_spaces(p, stop)
    cdef const char* after = read_number(first, stop, out)
    cdef bytes raw
    if after != first and skip_spaces(after, stop) == stop:
        return isfinite(out[0])
    raw = _cell_bytes(p, stop)
    out[0] = NAN
    if not raw or raw in missing:
        return True
    first = PyBytes_AS_STRING(raw)  # a quoted number
    after = read_number(first, first + len(raw), out)
    return after == first + len(raw) and isfinite(out[0])


def parse_table(bytes text, char delimiter, Py_ssize_t n_columns, bytes kinds,
                Py_ssize_t offset, Py_ssize_t first_line, frozenset missing=frozenset()):
    """Return the cells of a delimited table.

    Parameters
    ----------
    text : bytes
    delimiter : int
        Its character code.
    n_columns : int
    kinds : bytes of length n_columns
        ``n`` for numbers, ``t`` for text, ``-`` for a column that is left out.
    offset : int
        Where the table begins in `text`.
    first_line : int
        The number of that line.
    missing : frozenset of bytes
        Cells that mean a missing value, besides the empty one.

    Returns
    -------
    numbers : ndarray of shape (n_rows, number of "n" columns)
        NaN where a cell is missing.
    odd : list of int
        The "n" columns with a cell that is no finite number; their values are meaningless.
    texts : list of list of str or None
        The cells of each "t" column; None where a cell is missing.
    lines : ndarray of shape (n_rows,)
        The line where each row begins.
    """
    cdef const char* base = PyBytes_AS_STRING(text)
    cdef const char* end = base + PyBytes_GET_SIZE(text)
    cdef bytearray state = bytearray(kinds)
    cdef char* kind = PyByteArray_AS_STRING(state)
    cdef Py_ssize_t n_numeric = 0, n_lines = text.count(b"\n", offset) + 1, j
    for j in range(n_columns):
        n_numeric += kind[j] == c"n"
    cdef double[:, ::1] numbers = np.empty((n_lines, n_numeric))
    cdef int64_t[::1] lines = np.empty(n_lines, dtype=np.int64)
    cdef list texts = [[] for code in kinds if code == c"t"]
    cdef dict seen = {}
    cdef const char* p = base + offset
    cdef const char* stop
    cdef Py_ssize_t n_rows = 0, line = first_line, column, k, t, opened
    while p < end:
        p = skip_spaces(p, end)
        if p == end:
            break
        if p[0] == c"\n":
            p += 1
            line += 1
            continue
        column, k, t, lines[n_rows] = 0, 0, 0, line
        while True:
            p = skip_spaces(p, end)
            stop = p
            if stop < end and stop[0] == c'"':  # quoted: ends at a quote that is not doubled
                opened = line
                stop += 1
                while stop < end and not (stop[0] == c'"' and (stop + 1 == end or stop[1] != c'"')):
                    line += stop[0] == c"\n"
                    stop += 2 if stop[0] == c'"' else 1
                if stop >= end:
                    raise TextError("a quoted cell is never closed", opened, column + 1)
                stop += 1
                stop = skip_spaces(stop, end)
                if stop < end and stop[0] != delimiter and stop[0] != c"\n":
                    raise TextError(f"unexpected {_shown(stop, end)} after a quoted cell",
                                    line, column + 1)
            else:
                while stop < end and stop[0] != delimiter and stop[0] != c"\n":
                    stop += 1
            if column < n_columns:
                if kind[column] == c"n":
                    if not _cell_number(p, stop, missing, &numbers[n_rows, k]):
                        kind[column] = c"x"
                    k += 1
                elif kind[column] == c"x":  # odd: found out in an earlier row
                    k += 1
                elif kind[column] == c"t":
                    (<list>texts[t]).append(
                        _cell_text(p, stop, seen, missing, lines[n_rows], column + 1))
                    t += 1
            column += 1
            p = stop
            if p >= end or p[0] == c"\n":
                break
            p += 1  # the delimiter
        if column != n_columns:
            raise TextError(f"expected {n_columns} cells, found {column}", lines[n_rows],
                            min(column, n_columns + 1))
        n_rows += 1
        line += 1
        p += 1
    odd = [j for j in range(n_columns) if kind[j] == c"x"]
    return np.asarray(numbers)[:n_rows], odd, texts, np.asarray(lines)[:n_rows]


def is_number(str text):
    """Return whether a cell with this text would be read as a number."""
    cdef bytes raw = text.strip().encode("utf-8")
    cdef const char* p = PyBytes_AS_STRING(raw)
    cdef const char* end = p + PyBytes_GET_SIZE(raw)
    cdef double number = 0.0
    return end > p and read_number(p, end, &number) == end
