"""Damaged data and model files: read, or refused in words."""

import io
import json
import time
import zipfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optimargin import (
    LDMClassifier,
    LinearLDMClassifier,
    LinearODMClassifier,
    LinearODMRegressor,
    ODMClassifier,
    ODMClassifierCV,
    ODMRegressor,
    OneClassODM,
)
from optimargin.io import DataFileError, ModelFileError, load_model, read_data, save_model
from tests.io.mutations import SVMLIGHT, TABLE, mutate

_METHODS = ("predict", "decision_function", "predict_proba", "p_values")


def data_file(rng):
    """Read a damaged data file."""
    start = time.process_time()
    with TemporaryDirectory() as folder:
        path = Path(folder, "rows")
        path.write_bytes(mutate((SVMLIGHT, TABLE)[rng.integers(2)], rng))
        try:
            data = read_data(path)
        except DataFileError as error:
            return {"refused": str(error)[-200:], "seconds": time.process_time() - start}
    values = data.X.data if sp.issparse(data.X) else data.X
    found = {"seconds": time.process_time() - start}
    return found if np.isfinite(values).all() else found | {"failure": "values are not finite"}


def model_file(rng):
    """Load a damaged model file; what is accepted must predict, or refuse in words."""
    start = time.process_time()
    content, X = _models()[rng.integers(len(_models()))]
    content = damaged_model(content, rng)
    with TemporaryDirectory() as folder:
        path = Path(folder, "model")
        path.write_bytes(content)
        try:
            model = load_model(path)
        except ModelFileError as error:
            return {"refused": str(error)[-200:], "seconds": time.process_time() - start}
        left = [p.name for p in Path(folder).iterdir() if p.name != "model"]
    found = {"seconds": time.process_time() - start}
    for method in _METHODS:
        if not hasattr(model, method):
            continue
        try:
            scores = getattr(model, method)(X)
        except ValueError as error:
            return found | {"refused": f"by {method}: {error}"[:200]}
        if scores.dtype.kind == "f" and not np.isfinite(scores).all():
            return found | {"failure": f"{method} is not finite"}
    return found | {"failure": f"left {left}"} if left else found


@cache
def _models():
    """Return files of several models, each with rows to predict."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 4)), np.arange(40) % 3
    rows = sp.csr_matrix(np.where(X > 0, X, 0))
    fitted = [
        (ODMClassifier().fit(X, y), X),
        (ODMClassifier().fit(rows, y > 0), rows),
        (LinearODMClassifier().fit(X, y), X),
        (ODMClassifier(kernel="precomputed").fit(X @ X.T, y > 1), X @ X.T),
        (ODMClassifier(approximation="nystrom", n_components=5).fit(X, y > 0), X),
        (ODMClassifier(gamma=[0.1, 1.0, 2.0, 0.5]).fit(X, y), X),
        (ODMClassifier(calibration="sigmoid").fit(X, y), X),
        (ODMClassifier(calibration="isotonic").fit(X, y > 0), X),
        (ODMClassifierCV(max_evals=4).fit(X, y), X),
        (LinearLDMClassifier().fit(X, y > 0), X),
        (LDMClassifier().fit(X, y > 0), X),
        (ODMRegressor().fit(X, X[:, 0]), X),
        (LinearODMRegressor().fit(rows, X[:, :2]), rows),
        (OneClassODM().fit(X), X),
        (make_pipeline(StandardScaler(), LinearODMClassifier()).fit(X, y), X),
    ]
    made = []
    with TemporaryDirectory() as folder:
        for model, data in fitted:
            save_model(model, Path(folder, "model"))
            made.append((Path(folder, "model").read_bytes(), data))
    return made


def damaged_model(content, rng):
    """Return the content of a model file with changed bytes, or with parts that do not fit."""
    return _damaged_bytes(content, rng) if rng.random() < 0.4 else _damaged_parts(content, rng)


def _damaged_bytes(content, rng):
    content = bytearray(content)
    for _ in range(rng.integers(1, 9)):
        place = int(rng.integers(len(content)))
        if rng.random() < 0.1:
            del content[place:]
            break
        content[place] = rng.integers(256)
    return bytes(content)


def _damaged_parts(content, rng):
    """Return an archive that is sound, with parts that do not fit together."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    arrays = [name for name in parts if name.endswith((".npy", ".npz"))]
    name = str(rng.choice(arrays))
    kind = rng.integers(4)
    if kind == 0:
        parts[name] = _damaged_array(parts[name], rng)
    elif kind == 1:
        other = str(rng.choice(arrays))
        parts[name], parts[other] = parts[other], parts[name]
    elif kind == 2:
        schema = json.loads(parts["schema.json"])
        _damage_tree(schema, rng)
        parts["schema.json"] = json.dumps(schema).encode()
    else:
        odd = ["../outside.npy", "/etc/outside", "a/b.npy", "link", name]
        parts[f"{rng.choice(odd)}"] = b"x"
    out = io.BytesIO()
    compressed = zipfile.ZIP_DEFLATED if rng.random() < 0.05 else zipfile.ZIP_STORED
    with zipfile.ZipFile(out, "w", compressed) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return out.getvalue()


def _damaged_array(part, rng):
    out = io.BytesIO()
    if part[:2] == b"PK":
        matrix = sp.load_npz(io.BytesIO(part))
        place = rng.integers(max(matrix.nnz, 1))
        which = rng.integers(4)
        if which == 0:
            matrix.indices[place] = rng.choice([-1, 4, 5000, 2 * 10**9])
        elif which == 1:
            matrix.indptr[rng.integers(len(matrix.indptr))] = rng.choice([-1, 10**6])
        elif which == 2:
            matrix.data[place] = rng.choice([np.nan, np.inf])
        else:
            matrix.data = matrix.data[:-1]
        sp.save_npz(out, matrix)
        return out.getvalue()
    value = np.load(io.BytesIO(part))
    which = rng.integers(5)
    if which == 0 and value.dtype.kind == "f" and value.size:
        value.flat[rng.integers(value.size)] = rng.choice([np.nan, np.inf, 1e308])
    elif which == 1:
        value = value.ravel()[: rng.integers(value.size + 1)]
    elif which == 2:
        value = value.astype(rng.choice(["complex128", "int64", "U5", "float16", "bool"]))
    elif which == 3 and value.dtype.kind in "iu" and value.size:
        value.flat[rng.integers(value.size)] = rng.choice([-1, 10**6, 2**62])
    else:
        value = value[..., None]
    np.save(out, value)
    return out.getvalue()


def _damage_tree(node, rng):
    """Change a random leaf or type of a tree."""
    leaves = []

    def collect(value):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in items:
            if isinstance(child, dict | list):
                collect(child)
            else:
                leaves.append((value, key))

    collect(node)
    holder, key = leaves[rng.integers(len(leaves))]
    options = ["os", "system", "builtins", "eval", "numpy", "ndarray", "null", '"x"', "-1", 7, None]
    holder[key] = options[rng.integers(len(options))]
