"""Data in chunks: files that are larger than memory, read one part at a time.

`LinearODMClassifier.fit_chunks` and, with ``approximation="nystrom"``, `ODMClassifier.fit_chunks`
take any of these. Every pass reads all chunks once, and only one is in memory at a time. The model
is the same as that of `fit` on all rows.
"""

from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

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

    def gather(self, task, *arguments):
        """Return ``task(k, chunk, *arguments)`` of all chunks, in order."""
        return [task(k, self.load(k), *arguments) for k in range(len(self))]

    def reduce(self, task, *arguments):
        """Return the sum of ``task(chunk, *arguments)`` over all chunks."""
        total = None
        for k in range(len(self)):
            total = add([total, task(self.load(k), *arguments)])
        return total


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


class NpyChunks(ArrayChunks):
    """Parts of ``.npy`` files, which are memory-mapped and never read completely.

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
            name: np.load(_existing(name, path), mmap_mode="r")
            for name, path in paths.items()
            if path is not None
        }
        if arrays["X"].ndim != 2:
            raise ValueError(f"X must have two dimensions; {X} has shape {arrays['X'].shape}.")
        super().__init__(**arrays, chunk_rows=chunk_rows)


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

    def __len__(self):
        return -(-self._path.stat().st_size // self._chunk_bytes)

    def load(self, k):
        """Return the rows that begin in the byte range of chunk `k`."""
        X, y = load_svmlight_file(
            self._path,
            n_features=self._n_features,
            zero_based=self._zero_based,
            offset=k * self._chunk_bytes,
            length=self._chunk_bytes,
        )
        return X, y, None


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
        from pyarrow.parquet import ParquetFile

        paths = path if isinstance(path, list | tuple) else [path]
        files = []
        for item in (_existing("path", p) for p in paths):
            files.extend(sorted(item.glob("*.parquet")) if item.is_dir() else [item])
        if not files:
            raise ValueError(f"path {path} holds no .parquet file.")
        self._groups = [
            (file, k) for file in files for k in range(ParquetFile(file).num_row_groups)
        ]
        names = ParquetFile(files[0]).schema_arrow.names
        special = [name for name in (label, sample_weight) if name is not None]
        wanted = [*special, *([] if columns is None else columns)]
        missing = [name for name in wanted if name not in names]
        if missing:
            raise ValueError(f"{files[0]} has no column {missing[0]!r}; it has {names}.")
        self._label, self._weight = label, sample_weight
        if columns is None:
            columns = [name for name in names if name not in special]
        self._columns = list(columns)
        self.feature_names = np.array(columns, dtype=object)

    def __len__(self):
        return len(self._groups)

    def load(self, k):
        """Return row group `k`."""
        from pyarrow.parquet import ParquetFile

        path, group = self._groups[k]
        special = [name for name in (self._label, self._weight) if name is not None]
        table = ParquetFile(path).read_row_group(group, columns=[*self._columns, *special])
        X = np.column_stack([table[name].to_numpy() for name in self._columns])
        weight = None if self._weight is None else table[self._weight].to_numpy()
        y = None if self._label is None else table[self._label].to_numpy()
        return X, y, weight


def _existing(name, path):
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{name}: there is no file {path}.")
    return path


def _positive(name, value):
    if int(value) != value or value < 1:
        raise ValueError(f"{name} must be a positive integer; got {value}.")
    return int(value)
