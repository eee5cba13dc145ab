"""Data in chunks: files that are larger than memory, read one part at a time.

`LinearODMClassifier.fit_chunks` and, with ``approximation="nystrom"``, `ODMClassifier.fit_chunks`
take any of these. Every pass reads all chunks once, and only one is in memory at a time. The model
is the same as that of `fit` on all rows.
"""

from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from optimargin._core._text import TextError, parse_svmlight
from optimargin.io._data import find_feature
from optimargin.io._files import DataFileError, compression_of
from optimargin.problems.chunk_tasks import add

_CHUNK_BYTES = 32 << 20


class Chunks(ABC):
    """A sequence of chunks ``(X, y, sample_weight)``; ``sample_weight`` may be None.

    A subclass defines how many chunks there are and how to read one. Reading a chunk twice must
    give the same rows.
    """

    feature_names: np.ndarray | None = None
    """Names of the features, or None."""

    @abstractmethod
    def __len__(self):
        """Return the number of chunks."""

    @abstractmethod
    def load(self, k):
        """Return chunk `k`."""

    def place(self, k):
        """Return where chunk `k` comes from, for messages, as far as that is known."""
        return ""

    def gather(self, task, *arguments):
        """Return ``task(k, chunk, *arguments)`` of all chunks, in order."""
        return [self._done(k, task, k, self.load(k), *arguments) for k in range(len(self))]

    def reduce(self, task, *arguments):
        """Return the sum of ``task(chunk, *arguments)`` over all chunks."""
        total = None
        for k in range(len(self)):
            total = add([total, self._done(k, task, self.load(k), *arguments)])
        return total

    def _done(self, k, task, *arguments):
        """Return what a task makes of chunk `k`; its errors name the place of the chunk."""
        try:
            return task(*arguments)
        except (ValueError, TypeError) as error:
            place = self.place(k)
            if place:
                error.args = (f"{place}: {error}",)
            raise


class ArrayChunks(Chunks):
    """Parts of arrays, which may be memory-mapped.

    Parameters
    ----------
    X : {array, sparse matrix} of shape (n_samples, n_features)
    y : array of shape (n_samples,), default=None
        May be missing for novelty detection.
    sample_weight : array of shape (n_samples,), default=None
    chunk_rows : int, default=None
        Rows per chunk; by default about 32 MB of data.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from optimargin import LinearODMClassifier
    >>> from optimargin.chunks import ArrayChunks
    >>> X, y = make_classification(1000, random_state=0)
    >>> model = LinearODMClassifier().fit_chunks(ArrayChunks(X, y, chunk_rows=300))
    >>> bool(abs(model.objective_ - LinearODMClassifier().fit(X, y).objective_) < 1e-6)
    True
    """

    def __init__(self, X, y=None, sample_weight=None, *, chunk_rows=None):
        lengths = {A.shape[0] for A in (X, y, sample_weight) if A is not None}
        if len(lengths) > 1:
            raise ValueError(
                f"X, y and sample_weight have different numbers of rows: {sorted(lengths)}."
            )
        self._arrays = X, y, sample_weight
        if chunk_rows is None:
            n_values = X.nnz // max(X.shape[0], 1) if hasattr(X, "nnz") else X.shape[1]
            chunk_rows = max(_CHUNK_BYTES // max(8 * n_values, 1), 1)
        self._chunk_rows = _positive("chunk_rows", chunk_rows)

    def __len__(self):
        return -(-self._arrays[0].shape[0] // self._chunk_rows)

    def load(self, k):
        """Return chunk `k`."""
        part = slice(k * self._chunk_rows, (k + 1) * self._chunk_rows)
        return tuple(None if A is None else A[part] for A in self._arrays)

    def place(self, k):
        """Return the numbers of the rows of chunk `k`."""
        stop = min((k + 1) * self._chunk_rows, self._arrays[0].shape[0])
        return f"rows {k * self._chunk_rows + 1} to {stop}"


class NpyChunks(ArrayChunks):
    """Parts of ``.npy`` files, which are never read completely.

    Parameters
    ----------
    X, y : path
        Files of shapes (n_samples, n_features) and (n_samples,); `y` may be missing for novelty
        detection.
    sample_weight : path, default=None
    chunk_rows : int, default=None
        Rows per chunk; by default about 32 MB of data.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from optimargin import LinearODMClassifier
    >>> from optimargin.chunks import NpyChunks
    >>> with TemporaryDirectory() as folder:
    ...     X, y = Path(folder, "X.npy"), Path(folder, "y.npy")
    ...     np.save(X, np.linspace(-1, 1, 100)[:, None])
    ...     np.save(y, np.arange(100) // 50)
    ...     model = LinearODMClassifier().fit_chunks(NpyChunks(X, y))
    >>> model.predict([[-0.5], [0.5]]).tolist()
    [0, 1]
    """

    def __init__(self, X, y=None, sample_weight=None, *, chunk_rows=None):
        paths = {"X": X, "y": y, "sample_weight": sample_weight}
        arrays = {
            name: _NpyRows(_existing(name, path))
            for name, path in paths.items()
            if path is not None
        }
        if len(arrays["X"].shape) != 2:
            raise ValueError(f"X must have two dimensions; {X} has shape {arrays['X'].shape}.")
        super().__init__(**arrays, chunk_rows=chunk_rows)

    def place(self, k):
        """Return the file, and the numbers of the rows of chunk `k`."""
        return f"{self._arrays[0].path}, {super().place(k)}"


class _NpyRows:
    """The rows of a ``.npy`` file, read when they are asked for.

    Reading raises an error where the file has become shorter. A mapped file would kill the
    process then.
    """

    def __init__(self, path):
        try:
            mapped = np.load(path, mmap_mode="r")
            self.shape, self._dtype, self._offset = mapped.shape, mapped.dtype, mapped.offset
        except (ValueError, OSError, EOFError, AttributeError) as error:
            raise DataFileError(f"not a complete .npy file of numbers ({error})", path) from None
        self.path = path
        self._is_fortran = not mapped.flags.c_contiguous

    def __getitem__(self, rows):
        first, stop, _ = rows.indices(self.shape[0])
        width = int(np.prod(self.shape[1:]))
        with self.path.open("rb") as file:
            if not self._is_fortran:
                values = self._read(file, first * width, (stop - first) * width)
                return values.reshape(stop - first, *self.shape[1:])
            n_rows = self.shape[0]  # columns lie one after the other
            columns = [self._read(file, j * n_rows + first, stop - first) for j in range(width)]
            return np.stack(columns, axis=1)

    def _read(self, file, first, count):
        file.seek(self._offset + first * self._dtype.itemsize)
        values = np.fromfile(file, self._dtype, count)
        if values.size < count:
            raise DataFileError("the file is shorter than when it was opened", self.path)
        return values


class SvmlightChunks(Chunks):
    r"""Byte ranges of a text file in svmlight format, which must not be compressed.

    Parameters
    ----------
    path : path
    n_features : int
        Number of features: one chunk alone need not contain the last of them.
    zero_based : bool, default=False
        Whether the first feature has number 0.
    chunk_bytes : int, default=32 MB
        Bytes of the file per chunk.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from optimargin import LinearODMClassifier
    >>> from optimargin.chunks import SvmlightChunks
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "rows.svm")
    ...     _ = path.write_text("1 1:2 3:1\n-1 2:2\n" * 20)
    ...     model = LinearODMClassifier().fit_chunks(SvmlightChunks(path, n_features=3))
    >>> model.coef_.shape
    (1, 3)
    """

    def __init__(self, path, n_features, *, zero_based=False, chunk_bytes=_CHUNK_BYTES):
        self._path = _existing("path", path)
        self._n_features = _positive("n_features", n_features)
        self._zero_based = bool(zero_based)
        self._chunk_bytes = _positive("chunk_bytes", chunk_bytes)
        self._size = self._path.stat().st_size
        with self._path.open("rb") as file:
            kind = compression_of(file.read(8))
        if kind is not None:
            raise ValueError(f"{self._path} is compressed by {kind}: expand it first.")

    def __len__(self):
        return -(-self._size // self._chunk_bytes)

    def load(self, k):
        """Return the rows whose lines begin in the byte range of chunk `k`."""
        if self._path.stat().st_size != self._size:
            raise DataFileError("the file has changed since it was opened", self._path)
        with self._path.open("rb") as file:
            start, stop = self._line_from(file, k), self._line_from(file, k + 1)
            file.seek(start)
            text = file.read(stop - start)
        try:
            y, indices, indptr, values = parse_svmlight(text)
        except TextError as error:
            raise self._error(error.message, start, error.line, error.column) from None
        first = 0 if self._zero_based else 1
        bad = indices[(indices < first) | (indices >= first + self._n_features)]
        if bad.size:
            known = f"features are numbered from {first} to {first + self._n_features - 1}"
            message = f"feature {bad[0]}: {known}; see n_features and zero_based"
            raise self._error(message, start, *find_feature(text, bad[0]))
        X = csr_matrix((values, indices - first, indptr), shape=(y.size, self._n_features))
        return X, y, None

    def place(self, k):
        """Return the file, and the line where chunk `k` begins."""
        with self._path.open("rb") as file:
            start = self._line_from(file, k)
        return f"{self._path}, lines from {self._n_lines_before(start) + 1} on"

    def _line_from(self, file, k):
        """Return where the first line begins that begins in chunk `k`, or behind it."""
        if k == 0:
            return 0
        file.seek(k * self._chunk_bytes - 1)
        file.readline()
        return file.tell()

    def _n_lines_before(self, start):
        n_lines = 0
        with self._path.open("rb") as file:
            while start > 0 and (block := file.read(min(start, _CHUNK_BYTES))):
                n_lines += block.count(b"\n")
                start -= len(block)
        return n_lines

    def _error(self, message, start, line, column):
        """Return the error for a line of a chunk that begins at byte `start`."""
        return DataFileError(message, self._path, self._n_lines_before(start) + line, column)


class ParquetChunks(Chunks):
    """Row groups of Parquet files; needs pyarrow.

    Parameters
    ----------
    path : path or list of path
        A file, a folder of ``.parquet`` files, or a list of files.
    label : str, default=None
        The column with the class labels; None for novelty detection, where there are none.
    sample_weight : str, default=None
        A column with weights.
    columns : list of str, default=None
        The features, by default all other columns. They must be numeric.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pathlib import Path
    >>> from pyarrow.parquet import write_table
    >>> from tempfile import TemporaryDirectory
    >>> from optimargin import LinearODMClassifier
    >>> from optimargin.chunks import ParquetChunks
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "rows.parquet")
    ...     write_table(pa.table({"size": [1.0, 2.0, 8.0, 9.0], "kind": list("aabb")}), path)
    ...     model = LinearODMClassifier().fit_chunks(ParquetChunks(path, label="kind"))
    >>> model.feature_names_in_.tolist(), model.classes_.tolist()
    (['size'], ['a', 'b'])
    """

    def __init__(self, path, label=None, sample_weight=None, *, columns=None):
        paths = path if isinstance(path, list | tuple) else [path]
        files = []
        for item in (_existing("path", p) for p in paths):
            files.extend(sorted(item.glob("*.parquet")) if item.is_dir() else [item])
        if not files:
            raise ValueError(f"path {path} holds no .parquet file.")
        special = [name for name in (label, sample_weight) if name is not None]
        self._groups = []
        for file in files:
            with _reading_parquet(file) as parquet:
                self._groups += [(file, k) for k in range(parquet.num_row_groups)]
                names = parquet.schema_arrow.names
            if columns is None:  # of the first file; the others must have them
                columns = [name for name in names if name not in special]
            missing = [name for name in (*special, *columns) if name not in names]
            if missing:
                raise ValueError(f"{file} has no column {missing[0]!r}; it has {names}.")
        self._label, self._weight = label, sample_weight
        self._columns = list(columns)
        self.feature_names = np.array(columns, dtype=object)

    def __len__(self):
        return len(self._groups)

    def place(self, k):
        """Return the file, and which of its row groups chunk `k` is, from 0."""
        path, group = self._groups[k]
        return f"{path}, row group {group}"

    def load(self, k):
        """Return row group `k`."""
        path, group = self._groups[k]
        special = [name for name in (self._label, self._weight) if name is not None]
        with _reading_parquet(path) as parquet:
            table = parquet.read_row_group(group, columns=[*self._columns, *special])
        X = np.column_stack([table[name].to_numpy() for name in self._columns])
        weight = None if self._weight is None else table[self._weight].to_numpy()
        y = None if self._label is None else table[self._label].to_numpy()
        return X, y, weight


@contextmanager
def _reading_parquet(path):
    """Yield an open Parquet file, whose pages are checked where it holds checksums of them."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path, page_checksum_verification=True) as parquet:
            yield parquet
    except (pa.ArrowException, OSError) as error:
        raise DataFileError(f"not a readable Parquet file ({error})", path) from None


def _existing(name, path):
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{name}: there is no file {path}.")
    return path


def _positive(name, value):
    if int(value) != value or value < 1:
        raise ValueError(f"{name} must be a positive integer; got {value}.")
    return int(value)
