"""Model files made by hand: refused in words, or loaded and used, with little memory and time."""

import io
import json
import multiprocessing
import resource
import signal
import struct
import time
import warnings
import zipfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.random_projection import SparseRandomProjection

from optimargin import LinearODMClassifier, LinearODMRegressor, ODMClassifier, OneClassODM
from optimargin.io import ModelFileError, load_model
from tests.io.archives import (
    add_attribute,
    list_node,
    nodes_of,
    plain_node,
    put_together,
    saved,
    taken_apart,
)

_MEGABYTES, _SECONDS = 1000, 10  # of a process that loads, and of loading
_PATIENCE = 60  # seconds of the processor, for predictions, too
_SPACE = 3 << 30  # bytes of address space above that of this process: where an attack is stopped
_METHODS = ("predict", "decision_function", "transform", "predict_proba")
_NUMBERS = [-1, 0, 1, 3, 1000, 10**6, 10**9, 2**31, 2**63, 1e308, 0.5, True, None, "x", [], {}]
_LOADERS = [
    "ConstructorFromReduceNode",
    "CachedNode",
    "RandomGeneratorNode",
    "BytearrayNode",
    "ObjectNode",
    "NdArrayNode",
    "SparseMatrixNode",
    "FunctionNode",
    "TypeNode",
    "PartialNode",
    "MaskedArrayNode",
    "SetNode",
]
_CLASSES = [
    ("scipy.sparse._csr", "csr_matrix"),
    ("numpy", "bytes_"),
    ("numpy", "dtype"),
    ("sklearn.preprocessing._data", "StandardScaler"),
    ("sklearn.svm._classes", "SVC"),
    ("optimargin.estimators.odm", "ODMClassifier"),
    ("optimargin.kernels.functions", "PolynomialKernel"),
    ("builtins", "map"),
    ("os", "system"),
]


def archive(rng):
    """Load a file made by hand, in a process of its own, and use what is loaded."""
    content, rows, what = _made(rng)
    found = {"attack": what, "bytes": len(content)} | _in_a_child(content, rows)
    if found.get("megabytes", 0) > _MEGABYTES:
        found["failure"] = f"{found['megabytes']} MB"
    if found.get("seconds", 0) > _SECONDS:
        found["failure"] = f"{found['seconds']} s to load"
    return found


def _in_a_child(content, rows):
    """Return what became of a file in a copy of this process."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    with TemporaryDirectory() as folder:
        path = Path(folder, "model")
        path.write_bytes(content)
        child = fork.Process(target=_load_and_use, args=(path, rows, there))
        child.start()
        there.close()
        try:
            found = here.recv() if here.poll(20 * _PATIENCE) else {"failure": "hangs"}
        except EOFError:
            child.join()
            stopped = child.exitcode == -signal.SIGXCPU
            found = {"failure": "runs on and on" if stopped else f"crash {child.exitcode}"}
        child.kill()
        child.join()
    return found


def _load_and_use(path, rows, pipe):
    warnings.simplefilter("ignore")
    address_space = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (address_space + _SPACE,) * 2)
    used = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + _PATIENCE,) * 2)
    start = time.process_time()
    found = {}
    try:
        model = load_model(path)
    except ModelFileError as error:
        model, found["refused"] = None, str(error)[-200:]
    found["seconds"] = round(time.process_time() - start, 3)
    for method in _METHODS:
        if hasattr(model, method):
            try:
                getattr(model, method)(rows)
            except Exception as error:  # of scikit-learn's steps, any
                found["refused"] = f"by {method}: {type(error).__name__} {error}"[:200]
    found["used"] = round(time.process_time() - start, 3)
    found["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    pipe.send(found)


@cache
def _models():
    """Return files of models, each with rows to predict."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    y, rows = np.arange(40) % 2, sp.csr_matrix(np.where(X > 0, X, 0))
    words = [" ".join(rng.choice(["ant", "bee", "cat", "dog"], 3)) for _ in range(40)]
    mixed = np.column_stack([X.astype(object), rng.choice(["a", "b", "c"], 40)])
    encoder = OneHotEncoder(min_frequency=12, handle_unknown="infrequent_if_exist")
    steps = [("n", make_pipeline(SimpleImputer(), StandardScaler()), [0, 1, 2, 3])]
    steps += [("c", make_pipeline(SimpleImputer(strategy="most_frequent"), encoder), [4])]
    state = np.random.RandomState(0)
    fitted = [
        (ODMClassifier().fit(rows, y), rows),
        (ODMClassifier(kernel="poly", degree=2, calibration="isotonic").fit(X, y), X),
        (
            ODMClassifier(gamma=[0.1, 1.0, 2.0, 0.5], random_state=state).fit(X, np.arange(40) % 3),
            X,
        ),
        (LinearODMRegressor().fit(rows, X[:, :2]), rows),
        (OneClassODM().fit(X), X),
        (make_pipeline(PolynomialFeatures(2), LinearODMClassifier()).fit(X, y), X),
        (
            make_pipeline(PolynomialFeatures(2), LinearODMClassifier()).fit(rows.tocsc(), y),
            rows.tocsc(),
        ),
        (make_pipeline(ColumnTransformer(steps), LinearODMClassifier()).fit(mixed, y), mixed),
        (make_pipeline(OneHotEncoder(), LogisticRegression()).fit(mixed[:, 4:], y), mixed[:, 4:]),
        (
            make_pipeline(CountVectorizer(), TfidfTransformer(), LogisticRegression()).fit(
                words, y
            ),
            words,
        ),
        (
            make_pipeline(SparseRandomProjection(3, random_state=0), LogisticRegression()).fit(
                X, y
            ),
            X,
        ),
        (KNeighborsClassifier(algorithm="brute").fit(rows, y), rows),
        (make_pipeline(KBinsDiscretizer(3), LogisticRegression()).fit(X, y), X),
        (make_pipeline(QuantileTransformer(n_quantiles=9), KMeans(2, n_init=1)).fit(X), X),
    ]
    return [(taken_apart(saved(model)), data) for model, data in fitted]


def _made(rng):
    """Return a file, rows to predict, and what was done to it."""
    parts, rows = _models()[rng.integers(len(_models()))]
    parts = dict(parts)
    tree = json.loads(parts["schema.json"])
    done = []
    for _ in range(rng.integers(1, 4)):
        attack = _ATTACKS[rng.integers(len(_ATTACKS))]
        done.append(attack.__name__)
        attack(tree, parts, rng)
    parts["schema.json"] = json.dumps(tree).encode()
    content = put_together(parts, sealed=rng.random() < 0.95)
    if rng.random() < 0.03:
        content, done = _overlapping(content, rng), [*done, "overlapping"]
    return content, rows, done


def _any(nodes, rng):
    return nodes[rng.integers(len(nodes))] if nodes else {"file": None}


def _number(tree, parts, rng):
    """Change a plain value, and give it an identity of its own: others keep what they are."""
    node = _any(nodes_of(tree, "JsonNode"), rng)
    value = _NUMBERS[rng.integers(len(_NUMBERS))]
    node.update(content=json.dumps(value), __id__=int(rng.integers(10**12)))


def _same_number(tree, parts, rng):
    """Change all plain values that are equal."""
    content = _any(nodes_of(tree, "JsonNode"), rng).get("content")
    value = json.dumps(_NUMBERS[rng.integers(len(_NUMBERS))])
    for node in nodes_of(tree, "JsonNode"):
        if node["content"] == content:
            node["content"] = value


def _array(tree, parts, rng):
    """Change numbers, shape or type of an array."""
    name = _any(nodes_of(tree, "NdArrayNode"), rng).get("file")
    if name not in parts or parts[name][:1] != b"\x93":
        return
    value = np.load(io.BytesIO(parts[name])).copy()
    which = rng.integers(5)
    if which == 0 and value.size and value.dtype.kind in "iuf":
        odd = [-1, 0, 10**6, 2**31 - 1] + (
            [np.nan, np.inf, 1e308] if value.dtype.kind == "f" else []
        )
        value.flat[rng.integers(value.size)] = odd[rng.integers(len(odd))]
    elif which == 1:
        value = value.ravel()[: rng.integers(value.size + 1)]
    elif which == 2:
        kind = str(rng.choice(["c16", "i8", "U5", "f2", "?", "i4", "f4"]))
        with suppress(ValueError):  # empty bytes are no number
            value = value.astype(kind)
    elif which == 3:
        value = np.resize(value, [int(k) for k in rng.integers(0, 9, rng.integers(4))])
    else:
        value = np.tile(value, int(rng.choice([2, 1000])))[: 10**6]
    out = io.BytesIO()
    np.save(out, value)
    parts[name] = out.getvalue()


def _announcement(tree, parts, rng):
    """Let an array announce a size that it does not have."""
    name = _any(nodes_of(tree, "NdArrayNode"), rng).get("file")
    if name in parts:
        out = io.BytesIO()
        shape = tuple(int(k) for k in rng.choice([0, 3, 10**6, 10**9, 10**18], rng.integers(3)))
        descr = str(rng.choice(["<f8", "|S0", "<U1", "|O", "|V8", "<c16"]))
        header = {"descr": descr, "fortran_order": bool(rng.integers(2)), "shape": shape}
        np.lib.format.write_array_header_1_0(out, header)
        parts[name] = out.getvalue() + bytes(int(rng.choice([0, 24, 4000])))


def _matrix(tree, parts, rng):
    """Change a sparse matrix, or put another one into its place."""
    name = _any(nodes_of(tree, "SparseMatrixNode"), rng).get("file")
    if name not in parts or parts[name][:2] != b"PK":
        return
    with np.load(io.BytesIO(parts[name])) as archive:
        arrays = {key: archive[key] for key in archive}
    key = str(rng.choice(sorted(arrays)))
    value = arrays[key]
    if key == "format":
        arrays[key] = np.array(str(rng.choice(["csc", "coo", "dia", "bsr", "x"])).encode())
    elif rng.random() < 0.3:
        arrays[key] = value.ravel()[: rng.integers(value.size + 1)]
    elif value.size and value.ndim:
        value.flat[rng.integers(value.size)] = rng.choice([-1, 4, 5000, 2**31 - 1])
    if rng.random() < 0.2:
        size = int(rng.choice([10, 10**9, 10**12]))
        places = {"row": np.zeros(0, "i4"), "col": np.zeros(0, "i4"), "data": np.zeros(0)}
        arrays = places | {"format": np.array(b"coo"), "shape": np.array([size, size])}
    out = io.BytesIO()
    (np.savez_compressed if rng.integers(2) else np.savez)(out, **arrays)
    parts[name] = out.getvalue()


def _bomb(tree, parts, rng):
    """Put in an archive that expands, under any name."""
    loader = ("SparseMatrixNode", "NdArrayNode")[rng.integers(2)]
    node = _any(nodes_of(tree, loader), rng)
    size = int(rng.choice([10**6, 9 * 10**7, 4 * 10**8]))
    method = (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)[rng.integers(3)]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        names = ["data.npy", "indices.npy", "indptr.npy", "format.npy", "shape.npy"]
        header = io.BytesIO()
        shape = {"descr": "<f8", "fortran_order": False, "shape": (size // 8,)}
        np.lib.format.write_array_header_1_0(header, shape)
        with archive.open(str(rng.choice(names)), "w", force_zip64=True) as file:
            file.write(header.getvalue())
            for _ in range(size // 10**6):
                file.write(bytes(10**6))
    content = bytearray(out.getvalue())
    if rng.random() < 0.5:
        struct.pack_into("<L", content, content.rfind(b"PK\x01\x02") + 24, 1000)
    parts.pop(node.get("file"), None)
    node["file"] = str(rng.choice(["bomb.npz", "bomb.npy", "bomb.dat", "bomb"]))
    parts[node["file"]] = bytes(content)


def _exchange(tree, parts, rng):
    """Let two parts have the entries, or the identities, of each other."""
    nodes = [n for kind in ("NdArrayNode", "SparseMatrixNode") for n in nodes_of(tree, kind)]
    one, other = _any(nodes, rng), _any(nodes, rng)
    key = ("file", "__id__")[rng.integers(2)]
    if key in one and key in other:
        one[key], other[key] = other[key], one[key]
    if rng.random() < 0.3 and "file" in other:
        one["file"] = other["file"]


def _many_times(tree, parts, rng):
    """Name one array again and again."""
    node = _any(nodes_of(tree, "NdArrayNode"), rng)
    if node.get("file") in parts and rng.random() < 0.7:
        out = io.BytesIO()
        np.save(out, np.zeros(10**5))
        parts[node["file"]] = out.getvalue()
    for k in range(int(rng.choice([2, 1000]))):
        _attribute(tree, node | {"__id__": 10**13 + k}, rng)


def _many_parts(tree, parts, rng):
    """Add lists of many small parts, or of parts that are lists."""
    n_parts = int(10 ** rng.uniform(1, 5.7))
    kinds = ["json", "list", "function", "object", "marks"]
    kind = kinds[rng.integers(len(kinds))]
    small = {
        "json": plain_node(7, None),
        "list": list_node([], None),
        "function": {"__class__": "exp", "__module__": "numpy", "__loader__": "FunctionNode"},
        "object": {
            "__class__": "StandardScaler",
            "__module__": "sklearn.preprocessing._data",
            "__loader__": "ObjectNode",
        },
        "marks": [[]],
    }[kind]
    _attribute(tree, list_node([small] * n_parts, 10**14), rng)


def _nested(tree, parts, rng):
    """Add lists within lists, or lists of the same lists."""
    depth = int(rng.choice([5, 40, 200, 2000]))
    node = list_node([], 10**12)
    short = rng.random() < 0.5
    for k in range(1, depth if depth < 300 or not short else 40):
        again = list_node([], 10**12 + k - 1) if short else plain_node(1, None)
        node = list_node([node, again], 10**12 + k)
        if k > 150:
            break
    _attribute(tree, node, rng)


def _loader(tree, parts, rng):
    """Let a part be made in another way, or be of another class."""
    loaders = ("JsonNode", "ListNode", "DictNode", "ObjectNode", "NdArrayNode", "TypeNode")
    node = _any([n for kind in loaders for n in nodes_of(tree, kind)], rng)
    if rng.random() < 0.5:
        node["__loader__"] = str(rng.choice(_LOADERS))
    if rng.random() < 0.7:
        node["__module__"], node["__class__"] = _CLASSES[rng.integers(len(_CLASSES))]


def _missing(tree, parts, rng):
    """Leave out an attribute, or the protocol."""
    node = _any(nodes_of(tree, "DictNode"), rng)
    names = list(node["content"]) if isinstance(node.get("content"), dict) else []
    if names and rng.random() < 0.8:
        place = int(rng.integers(len(names)))
        del node["content"][names[place]]
        if rng.random() < 0.9 and isinstance(node.get("key_types", {}).get("content"), list):
            del node["key_types"]["content"][place : place + 1]
    else:
        tree["protocol"] = int(rng.integers(-1, 4))


def _attribute(tree, node, rng):
    with suppress(KeyError, TypeError, AttributeError, IndexError):  # it may have been attacked
        add_attribute(tree, f"odd{rng.integers(10**9)}_", node)


def _overlapping(content, rng):
    content = bytearray(content)
    place = content.find(b"PK\x01\x02")
    if place > 0:
        struct.pack_into("<LL", content, place + 20, len(content), len(content))
    return bytes(content)


_ATTACKS = [_number] * 4 + [_array] * 3 + [_same_number, _announcement, _matrix, _matrix, _bomb]
_ATTACKS += [_exchange, _many_times, _many_parts, _nested, _loader, _loader, _missing]
