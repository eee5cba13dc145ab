"""All that writes a file: two versions of it each, written and read."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from optimargin import LinearODMClassifier, ODMClassifier
from optimargin.io import load_model, read_data, save_model, write_data
from optimargin.io._dataset import Dataset
from optimargin_study import find_methods, plan
from optimargin_study.export import export_results, read_export
from optimargin_study.store import Result


@dataclass(frozen=True)
class Writer:
    """A kind of file.

    Attributes
    ----------
    write : callable
        Of a version, 0 or 1, and a path.
    read : callable
        Of a path; returns what can be compared, and raises an error for half a file.
    suffix : str
    """

    write: Callable[[int, Path], None]
    read: Callable[[Path], Any]
    suffix: str


@cache
def _rows(version):
    rng = np.random.default_rng(version)
    X = rng.normal(size=(400, 20))
    return X, (X[:, 0] > 0).astype(int)


@cache
def _model(version):
    kind = LinearODMClassifier if version == 0 else ODMClassifier
    return kind().fit(*_rows(0))


def _write_model(version, path):
    save_model(_model(version), path)


def _read_model(path):
    return load_model(path).decision_function(_rows(0)[0]).tobytes()


def _write_table(version, path):
    X, y = _rows(version)
    write_data(Dataset(X, y, format="csv"), path)


def _read_table(path):
    data = read_data(path)
    return data.X.tobytes(), data.y.tobytes()


def _write_export(version, path):
    units = plan([2, 3], find_methods(["lda", "odm"]), ["wdbc", "iris"], 20 * (version + 1))
    export_results(
        [Result(u, 0.5, {"C1": 1.0}, 0.1, 0.1, 1e-7, u.seed, {}, None, "machine") for u in units],
        path,
    )


WRITERS = {
    "model": Writer(_write_model, _read_model, ".skops"),
    "table": Writer(_write_table, _read_table, ".csv"),
    "compressed table": Writer(_write_table, _read_table, ".csv.gz"),
    "export": Writer(_write_export, read_export, ".csv"),
    "compressed export": Writer(_write_export, read_export, ".csv.gz"),
}
