"""Model files taken apart and put together again, as somebody could do it by hand."""

import io
import json
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from optimargin.io import save_model
from optimargin.io._vetting import checksum


def saved(model, **options):
    """Return the bytes of a model file."""
    with TemporaryDirectory() as folder:
        save_model(model, Path(folder, "model"), **options)
        return Path(folder, "model").read_bytes()


def taken_apart(content):
    """Return the entries of an archive by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def put_together(parts, *, sealed=True):
    """Return an archive of entries; if it is sealed, with the right checksum."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    header = json.loads(parts.get("optimargin.json", b"{}"))
    if not sealed or "checksum" not in header:
        return content.getvalue()
    with zipfile.ZipFile(content) as archive:
        header["checksum"] = checksum(archive, header)
    return put_together(parts | {"optimargin.json": json.dumps(header).encode()}, sealed=False)


def nodes_of(tree, loader):
    """Return all parts of a tree that one loader makes."""
    found = []
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            found += [value] if value.get("__loader__") == loader else []
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found


def with_tree(content, change):
    """Return an archive whose tree was changed by a function of the tree and the entries."""
    parts = taken_apart(content)
    tree = json.loads(parts["schema.json"])
    change(tree, parts)
    return put_together(parts | {"schema.json": json.dumps(tree).encode()})


def add_attribute(tree, name, node):
    """Give the object of a tree one more attribute."""
    attributes = tree["content"]
    attributes["content"][name] = node
    attributes["key_types"]["content"].append(dict(attributes["key_types"]["content"][0]))


def plain_node(value, identity):
    """Return the part that is a plain value."""
    return {
        "__class__": "str",
        "__module__": "builtins",
        "__loader__": "JsonNode",
        "content": json.dumps(value),
        "__id__": identity,
    }


def list_node(content, identity, kind="list"):
    """Return the part that is a list or a tuple of other parts."""
    loader = {"list": "ListNode", "tuple": "TupleNode"}[kind]
    return {
        "__class__": kind,
        "__module__": "builtins",
        "__loader__": loader,
        "content": content,
        "__id__": identity,
    }
