"""Models of this library, and pipelines that end in one, as archives that skops reads.

skops imports all of scikit-learn before it writes a file, which takes longer than many fits. A
model of this library consists of numbers, text, arrays and a `Kernel`, and so do many steps of
pipelines. For these, the format of skops (protocol 2, which later versions still read) takes a
dozen lines: a tree of nodes in ``schema.json``, each with its type and its loader, and one file per
array. skops itself writes models with other parts, and does all reading, where safety matters.
"""

import json
from io import BytesIO
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from scipy.sparse import csr_array, csr_matrix, save_npz
from sklearn.base import BaseEstimator

from optimargin.estimators._base import BaseLearner
from optimargin.io._vetting import PROTOCOL
from optimargin.kernels import Kernel
from optimargin.margins import unwrap

_CONTAINERS: dict[type, str] = {list: "ListNode", tuple: "TupleNode"}
_KEYS = (str, int, float)


class NotPlainError(TypeError):
    """The object has parts that this writer does not know."""


def archive_model(model):
    """Return a model as the bytes of a skops archive.

    Parameters
    ----------
    model : object

    Returns
    -------
    content : bytes

    Raises
    ------
    NotPlainError
        If it does not end in an estimator of this library, or has parts that are not plain.
    """
    if not isinstance(unwrap(model), BaseLearner):
        raise NotPlainError(f"{type(model).__name__} is not a model of this library.")
    buffer = BytesIO()
    with ZipFile(buffer, "w", ZIP_STORED) as archive:
        tree = _Tree(archive).node(model) | {"protocol": PROTOCOL}
        archive.writestr("schema.json", json.dumps(tree, indent=2))
    return buffer.getvalue()


class _Tree:
    """Turns objects into nodes, and arrays into entries of the archive."""

    def __init__(self, archive):
        self._archive = archive
        self._n_nodes = 0

    def node(self, value):
        """Return the node of `value`, with all nodes below it."""
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return self._named(str, "JsonNode", content=json.dumps(value), is_json=True)
        if kind in _CONTAINERS:
            return self._named(kind, _CONTAINERS[kind], content=[self.node(v) for v in value])
        if kind is dict and all(type(key) in _KEYS for key in value):
            key_types = [self._named(type(key), "TypeNode") for key in value]
            return self._named(
                dict,
                "DictNode",
                content={key: self.node(v) for key, v in value.items()},
                key_types=self._named(list, "ListNode", content=key_types),
            )
        if (kind is np.ndarray and not value.dtype.hasobject) or isinstance(value, np.generic):
            return self._stored(kind, "NdArrayNode", "numpy", ".npy", np.save, value)
        if kind in (csr_matrix, csr_array):
            return self._stored(kind, "SparseMatrixNode", "scipy", ".npz", save_npz, value)
        if kind is np.ndarray and value.ndim == 1 and all(type(v) is str for v in value):
            content = [self.node(v) for v in value]
            shape = self.node(value.shape)
            return self._named(kind, "NdArrayNode", content=content, type="json", shape=shape)
        if kind is slice:
            ends = {"start": value.start, "stop": value.stop, "step": value.step}
            return self._named(kind, "SliceNode", content=ends)
        if isinstance(value, BaseEstimator | Kernel):
            return self._named(kind, "ObjectNode", content=self.node(value.__getstate__()))
        raise NotPlainError(f"{kind.__name__} is not plain.")

    def _stored(self, kind, loader, type, suffix, write, value):
        content = BytesIO()
        write(content, value)
        node = self._named(kind, loader, type=type)
        node["file"] = f"{node['__id__']}{suffix}"
        self._archive.writestr(node["file"], content.getbuffer())
        return node

    def _named(self, kind, loader, **rest):
        self._n_nodes += 1
        return {
            "__class__": kind.__name__,
            "__module__": kind.__module__,
            "__loader__": loader,
            **rest,
            "__id__": self._n_nodes,
        }
