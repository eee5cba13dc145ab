"""Files in chunks of any size: every row once, and errors that name the line."""

import io
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.sparse import vstack
from sklearn.datasets import load_svmlight_file

from optimargin.chunks import NpyChunks, ParquetChunks, SvmlightChunks
from optimargin.io import DataFileError, read_data

_N_FEATURES = 60
_BAD = [
    "x 1:1",
    "1 1:x",
    "1 2:1 2:1",
    "1 2:1 1:1",
    "1 99:1",
    "1 1",
    "1 1:nan",
    "9007199254740993 1:1",
]


def chunks(rng):
    """Read a file in chunks, sound, damaged or shortened meanwhile."""
    start = time.process_time()
    kind = (_text, _text, _arrays, _parquet)[rng.integers(4)]
    with TemporaryDirectory() as folder:
        found = {"kind": kind.__name__} | kind(rng, Path(folder))
    return found | {"seconds": round(time.process_time() - start, 3)}


def _text(rng, folder):
    zero_based = bool(rng.integers(2))
    lines = [_line(rng, zero_based) for _ in range(rng.integers(1, 60))]
    bad = int(rng.integers(len(lines) + 1)) if rng.random() < 0.3 else None
    if bad is not None:
        lines.insert(bad, str(rng.choice(_BAD)))
    end = "\r\n" if rng.random() < 0.2 else "\n"
    content = (end.join(lines) + end * int(rng.integers(3))).encode()
    path = folder / "rows.svm"
    path.write_bytes(content)
    size = int(rng.choice([rng.integers(1, 40), rng.integers(1, len(content) + 10)]))
    found = {"bytes": len(content), "chunk_bytes": size, "bad": bad}
    try:
        made = SvmlightChunks(path, _N_FEATURES, zero_based=zero_based, chunk_bytes=size)
        parts = [made.load(k) for k in range(len(made))]
    except DataFileError as error:
        refused = found | {"refused": str(error)[-200:]}
        if bad is None or error.line != bad + 1 or error.path != str(path):
            return refused | {"failure": f"line {bad and bad + 1}, not {error.line}"}
        return refused
    if bad is not None:
        return found | {"failure": f"{lines[bad]!r} was read"}
    if not parts or not sum(len(part[1]) for part in parts):
        return found
    X, y = load_svmlight_file(io.BytesIO(content), n_features=_N_FEATURES, zero_based=zero_based)
    same = np.array_equal(np.concatenate([part[1] for part in parts]), y)
    same = same and (vstack([part[0] for part in parts]) != X).nnz == 0
    return found if same else found | {"failure": "other rows than in the file"}


def _line(rng, zero_based):
    kind = rng.random()
    if kind < 0.1:
        return str(rng.choice(["", " ", "\t", "  \t "]))
    if kind < 0.2:
        return "#" + " note" * int(rng.integers(40))
    first = 0 if zero_based else 1
    n_features = int(rng.choice([0, 1, 3, _N_FEATURES]))
    features = np.sort(rng.choice(_N_FEATURES, n_features, replace=False)) + first
    blank = " \t"[rng.integers(2)] * int(rng.integers(1, 3))
    cells = [str(rng.integers(-2, 3)), *(["qid:3"] if rng.random() < 0.1 else [])]
    cells += [f"{j}:{rng.normal():.3g}" for j in features]
    note = str(rng.choice(["", "# note", " # 7:1", " "]))
    return blank[: rng.integers(2)] + blank.join(cells) + note


def _arrays(rng, folder):
    dtype = rng.choice(["<f8", ">f4", "<i2", "|u1"])
    shape = int(rng.integers(1, 200)), int(rng.integers(1, 8))
    X = np.asarray(rng.integers(0, 99, shape), dtype=dtype, order=str(rng.choice(["C", "F"])))
    y = np.array(["ant", "bee", "c"])[rng.integers(3, size=shape[0])]
    paths = folder / "X.npy", folder / "y.npy"
    np.save(paths[0], X)
    np.save(paths[1], y)
    n_rows = int(rng.integers(1, shape[0] + 5))
    found = {"shape": shape, "chunk_rows": n_rows, "dtype": str(dtype)}
    cut = int(rng.integers(paths[0].stat().st_size)) if rng.random() < 0.5 else None
    if cut is not None and rng.random() < 0.5:
        os.truncate(paths[0], cut)
        cut = -1
    try:
        made = NpyChunks(*paths, chunk_rows=n_rows)
        if cut is not None:
            os.truncate(paths[0], cut)
        parts = [made.load(k) for k in range(len(made))]
    except DataFileError as error:
        known = cut is not None and error.path == str(paths[0])
        return found | {"refused": str(error)[-200:]} | ({} if known else {"failure": "an error"})
    if cut is not None:
        return found | {"failure": "a file that was cut short is read"}
    same = np.array_equal(np.concatenate([part[0] for part in parts]), X)
    same = same and np.array_equal(np.concatenate([part[1] for part in parts]), y)
    return found if same else found | {"failure": "other rows than in the file"}


def _parquet(rng, folder):
    """Flip bits of the pages of a file with checksums."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile, write_table

    X = rng.normal(size=(int(rng.integers(2, 300)), 3))
    y = rng.integers(0, 2, len(X))
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
    path = folder / "rows.parquet"
    options = {
        "compression": str(rng.choice(["none", "snappy", "zstd"])),
        "use_dictionary": bool(rng.integers(2)),
        "row_group_size": int(rng.integers(1, len(X) + 1)),
        "data_page_version": str(rng.choice(["1.0", "2.0"])),
    }
    write_table(table, path, write_page_checksum=True, **options)
    n_footer = ParquetFile(path).metadata.serialized_size + 8
    content = bytearray(path.read_bytes())
    n_flips = int(rng.integers(4))
    for place in rng.integers(4, max(len(content) - n_footer, 5), n_flips):
        content[place] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)
    found = options | {"flips": n_flips}
    for read in (_in_chunks, _at_once):
        try:
            same = all(map(np.array_equal, read(path), (X, y)))
        except DataFileError as error:
            found["refused"] = str(error)[-200:]
            if not n_flips:
                return found | {"failure": "a sound file is refused"}
        else:
            if not same:
                return found | {"failure": f"other numbers {read.__name__}"}
    return found


def _in_chunks(path):
    made = ParquetChunks(path, "y")
    parts = [made.load(k) for k in range(len(made))]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _at_once(path):
    data = read_data(path)
    return data.X, data.y
