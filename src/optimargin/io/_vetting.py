"""Checks of a model file before anything in it is constructed.

A model file may have been made by hand. What it can cost is bounded here. Entries are stored as
they are, and each is one part of the model. What unfolds is counted first: sparse matrices are
compressed, and a tree of small parts becomes objects. Compiled code trusts the indices of sparse
matrices, wherever in a model they are, so all of them are checked.
"""

import json
import re
from hashlib import sha256
from io import BytesIO
from math import prod
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from numpy.lib import format as npy
from scipy.sparse import load_npz

from optimargin._checks import check_sparse
from optimargin.io._files import MAX_EXPANSION

HEADER, SCHEMA = "optimargin.json", "schema.json"
PROTOCOL = 2  # of skops; earlier ones have loaders of their own, and wrote none of these files
_MAX_BYTES = 1e8  # of compressed arrays in a small file
_MAX_COST = 100_000  # parts: about 400 MB and 6 s while they are constructed
_PLAIN_COST = 0.25  # of a plain value, in parts
_MAX_MARKS = 10 * _MAX_COST / _PLAIN_COST  # brackets and commas of JSON text: ten per plain value
_PLAIN_NAME = re.compile(r"[\w-][\w.-]*")
# How parts may be made. Others call what a file names, or share parts within parts without end.
_LOADERS = frozenset(
    ["JsonNode", "TypeNode", "FunctionNode", "SliceNode", "DTypeNode", "BytesNode", "ListNode"]
    + ["TupleNode", "SetNode", "DictNode", "DefaultDictNode", "ObjectNode", "LossNode"]
    + ["NdArrayNode", "MaskedArrayNode", "SparseMatrixNode", "RandomStateNode"]
)
_OBJECTS_OF = ("sklearn.", "optimargin.")
_SIZED_BY_NUMBER = ("bytes_", "void")  # scalar types that make so many bytes of a number


class ModelFileError(ValueError):
    """A model file that cannot be read, or a model that cannot be written to one."""


def check_entries(zip_file, n_bytes, path):
    """Raise for an archive that no model needs: too many entries, odd names, or a huge content."""
    entries = zip_file.infolist()
    names = [entry.filename for entry in entries]
    if len(entries) > _MAX_COST:
        raise _refused(path, f"it has {len(entries)} entries")
    if len(set(names)) < len(names) or not all(map(_PLAIN_NAME.fullmatch, names)):
        raise _refused(path, "it has entries with odd or equal names")
    # Stored entries cannot expand.
    if any(entry.compress_type != ZIP_STORED for entry in entries):
        raise _refused(path, "its entries are compressed")
    if sum(entry.file_size for entry in entries) > n_bytes:
        raise _refused(path, "its entries overlap")


def parse(text, path):
    """Return what JSON text holds, unless it is too much for any model."""
    if sum(map(text.count, (b"[", b"{", b","))) > _MAX_MARKS:
        raise _refused(path, "it is made of too many parts")
    return json.loads(text)


def checksum(zip_file, header):
    """Return the checksum of all entries, and of what the header says besides it."""
    said = {key: value for key, value in header.items() if key != "checksum"}
    digest = sha256(json.dumps(said, sort_keys=True).encode())
    for name in sorted(zip_file.namelist()):
        if name != HEADER:
            content = zip_file.read(name)
            digest.update(f"\n{name} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()


def check_content(zip_file, n_bytes, kernels, path):
    """Raise for a model that would cost too much, or whose arrays are not what they say.

    Parameters
    ----------
    zip_file : ZipFile
    n_bytes : int
        The size of the file.
    kernels : list of str
        Names of the kernel classes. Those of other packages may be constructed, too.
    path : path-like
        For messages.
    """
    archives = []
    for name in zip_file.namelist():
        content = zip_file.read(name)
        if content.startswith(npy.MAGIC_PREFIX):
            _check_array(BytesIO(content), len(content))
        elif content.startswith(b"PK"):  # what NumPy opens as an archive, whatever its name
            archives.append(name)
    n_expanded = sum(_expanded_size(zip_file.read(name), path) for name in archives)
    if n_expanded > max(_MAX_BYTES, MAX_EXPANSION * n_bytes):
        raise _refused(path, f"it expands to {n_expanded / 1e6:.0f} MB")
    schema = parse(zip_file.read(SCHEMA), path)
    if schema["protocol"] < PROTOCOL:
        raise _refused(path, f"its protocol is {schema['protocol']}")
    _Census(zip_file.namelist(), kernels, path).count(schema)
    for name in archives:
        _check_sparse_archive(zip_file.read(name))


def _refused(path, why):
    return ModelFileError(f"{path} is refused: {why}.")


def _expanded_size(content, path):
    with ZipFile(BytesIO(content)) as archive:
        entries = archive.infolist()
    # Other methods expand a little input at once, whatever size is announced.
    if any(entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for entry in entries):
        raise _refused(path, "its matrices are compressed in an unusual way")
    return sum(entry.file_size for entry in entries)


def _check_array(file, size):
    """Raise ValueError unless an array has the size that its header announces."""
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    shape, _, dtype = read_header[npy.read_magic(file)](file)
    n_values = prod(shape)
    if dtype.hasobject or n_values * dtype.itemsize != size - file.tell():
        raise ValueError("an array is not of the size that it announces")
    if n_values * dtype.itemsize == 0 and max(shape, default=0) > _MAX_BYTES:
        raise ValueError(f"an array of shape {shape} is empty")


def _check_sparse_archive(content):
    """Raise ValueError unless the arrays of a sparse matrix fit together."""
    with ZipFile(BytesIO(content)) as archive:
        for entry in archive.infolist():
            with archive.open(entry) as file:
                _check_array(file, entry.file_size)
    matrix = check_sparse(load_npz(BytesIO(content)))
    if matrix.format in ("csr", "csc", "bsr"):
        matrix.check_format(full_check=True)
    elif 8 * sum(matrix.shape) > _MAX_BYTES:  # what it takes to compress it
        raise ValueError(f"a {matrix.format} matrix has shape {matrix.shape}")


class _Census:
    """Counts the parts of a model, and raises for parts that no model needs.

    Parameters
    ----------
    names : list of str
        The entries of the archive.
    kernels : list of str
    path : path-like
    """

    def __init__(self, names, kernels, path):
        self._names, self._kernels, self._path = set(names), set(kernels), path
        self._cost = 0.0
        self._sizes = {}  # numbers of parts within a part, by its identity
        self._owners = {}  # identities by the names of entries

    def count(self, value):
        """Return the number of parts in a JSON value."""
        inner = value.values() if isinstance(value, dict) else value
        n_parts = sum([self.count(v) for v in inner if isinstance(v, dict | list)])
        if isinstance(value, list) or "__loader__" not in value:
            return n_parts
        self._add(value, n_parts + 1)
        return n_parts + 1

    def _add(self, part, n_parts):
        loader, identity = part["__loader__"], part.get("__id__")
        name = f"{part['__module__']}.{part['__class__']}"
        is_odd = {
            "ObjectNode": not (name.startswith(_OBJECTS_OF) or name in self._kernels),
            "NdArrayNode": part["__class__"] in _SIZED_BY_NUMBER,
        }
        if loader not in _LOADERS or is_odd.get(loader, False):
            raise _refused(
                self._path,
                f"it asks for {name} ({loader}), which no model needs. Such a file can be an "
                "attack; nothing of it was run",
            )
        # Parts of one identity are one object, made of the first that comes. As all are of the
        # same size, there are no more parts than are written here, and none is within itself.
        is_new = not identity or identity not in self._sizes
        if not is_new and self._sizes[identity] != n_parts:
            raise _refused(self._path, "two of its parts have one identity")
        if is_new:
            self._sizes[identity] = n_parts
            self._cost += _PLAIN_COST if loader in ("JsonNode", "TypeNode") else 1
        if self._cost > _MAX_COST:
            raise _refused(
                self._path,
                "it is made of too many parts, such as categories or words. Use joblib.dump for "
                "such models of your own",
            )
        if "file" in part:
            is_own = identity and self._owners.setdefault(part["file"], identity) == identity
            if not is_own or part["file"] not in self._names:
                raise _refused(self._path, f"its entry {part['file']!r} is not that of one part")
