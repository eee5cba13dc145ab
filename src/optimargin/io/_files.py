"""Files as bytes: compressed or not, from standard input; written completely or not at all."""

import bz2
import gzip
import io
import lzma
import os
import sys
import zlib
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

_COMPRESSION = {
    "gzip": (gzip, b"\x1f\x8b", ".gz"),
    "bzip2": (bz2, b"BZh", ".bz2"),
    "xz": (lzma, b"\xfd7zXZ\x00", ".xz"),
}
_MAX_BYTES = 10**9  # of a table that is a small compressed file
MAX_EXPANSION = 200  # bytes of content for each byte of a compressed file


class DataFileError(ValueError):
    """A data file that cannot be read, with the line and column where reading stopped.

    Parameters
    ----------
    message : str
        What is wrong, and what to do about it.
    path : str
        The file.
    line : int, default=None
        From 1.
    column : int, default=None
        From 1: a character of an svmlight line, a cell of a table.
    name : str, default=None
        The name of that column.
    """

    def __init__(self, message, path, line=None, column=None, name=None):
        where = str(path)
        if line is not None:
            where += f", line {line}"
        if column is not None:
            where += f", column {column}"
        if name is not None:
            where += f" ({name!r})"
        super().__init__(f"{where}: {message}")
        self.path, self.line, self.column, self.name = str(path), line, column, name


def shown_path(path):
    """Return the name of a file for messages."""
    return "standard input" if str(path) == "-" else str(path)


def read_bytes(path):
    """Return the content of a file, uncompressed; ``-`` is standard input.

    The compression is detected from the first bytes.
    """
    name = shown_path(path)
    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    except OSError as error:
        raise DataFileError(f"cannot be read: {error.strerror or error}", name) from None
    kind = compression_of(content)
    return content if kind is None else _expanded(content, kind, name)


def compression_of(content):
    """Return how a content is compressed, given how it begins; None if it is not."""
    kinds = (kind for kind, (_, magic, _) in _COMPRESSION.items() if content.startswith(magic))
    return next(kinds, None)


def _expanded(content, kind, name):
    """Return expanded data; refuse those that expand far more than a table does."""
    module = _COMPRESSION[kind][0]
    limit = max(_MAX_BYTES, MAX_EXPANSION * len(content))
    try:
        with module.open(io.BytesIO(content)) as file:
            text = file.read(limit + 1)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise DataFileError(f"the {kind} data are damaged or cut short ({error})", name) from None
    if len(text) > limit:
        raise DataFileError(
            f"the {kind} data expand to more than {MAX_EXPANSION} times their size: such a file "
            "can be an attack; expand it yourself if it is not",
            name,
        )
    return text


@contextmanager
def write_atomically(path):
    """Yield a temporary path to write to; on success it becomes `path`, otherwise it is removed.

    So there is never an incomplete file, neither for readers nor after an interrupt. A link stays
    a link: the file that it points to is replaced. A pipe or a device is written to.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    OSError
        If it cannot be written; what was there is unchanged.
    """
    named = path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file.")
    is_special = path.exists() and not path.is_file()
    if not is_special:
        path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(f"The folder {path.parent} does not exist: create it first.")
    temporary = None
    try:
        # Keep the suffix: some writers choose the format by it.
        with NamedTemporaryFile(
            dir=None if is_special else path.parent,
            prefix=f".{path.stem}-",
            suffix=path.suffix,
            delete=False,
        ) as file:
            temporary = Path(file.name)
        yield temporary
        if is_special:
            path.write_bytes(temporary.read_bytes())
            return
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(_mode(path))
        temporary.replace(path)
    except OSError as error:
        if error.errno is None:
            raise
        reason = f"{error.strerror or error}; nothing was written"
        raise OSError(error.errno, reason, str(named)) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _mode(path):
    """Return the permissions of the file to be replaced, or those of a new file."""
    if path.exists():
        return path.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def write_bytes(path, content):
    """Write a file completely or not at all, compressed according to its suffix.

    Equal contents make equal files.

    Parameters
    ----------
    path : path-like
        Compressed if it ends in ``.gz``, ``.bz2`` or ``.xz``; ``-`` is standard output. A link
        stays a link: the file that it points to is replaced.
    content : bytes

    Raises
    ------
    OSError
        If it cannot be written; what was there is unchanged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from optimargin.io import write_bytes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_bytes(Path(folder) / "note.txt.gz", b"kept")
    ...     [path.name for path in Path(folder).iterdir()]
    ['note.txt.gz']
    """
    for module, _, suffix in _COMPRESSION.values():
        if str(path).endswith(suffix):
            dateless = {"mtime": 0} if module is gzip else {}
            content = module.compress(content, **dateless)
    if str(path) == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    with write_atomically(path) as temporary:
        temporary.write_bytes(content)
