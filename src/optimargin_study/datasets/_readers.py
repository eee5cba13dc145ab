"""Read original files as published.

Table readers return a data frame with the class in its last column; `svmlight` and `miniboone`
return features and labels.
"""

import bz2
import io

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.io import arff
from sklearn.datasets import load_svmlight_files

# The file has no header row.
_ECHOCARDIOGRAM = [
    "survival",
    "still_alive",
    "age_at_heart_attack",
    "pericardial_effusion",
    "fractional_shortening",
    "epss",
    "lvdd",
    "wall_motion_score",
    "wall_motion_index",
    "mult",
    "name",
    "group",
    "class",
]


def read_table(path):
    """Read the file of a mirror: a header row, the class last, empty cells for missing values."""
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def read_arff(paths, name):
    """Read one ARFF file; a question mark is a missing value."""
    data, meta = arff.loadarff(io.StringIO(paths[0].read_text(encoding="utf-8", errors="replace")))
    frame = pd.DataFrame({column: data[column] for column in meta.names()})
    for column in frame.select_dtypes(include="object").columns:
        text = frame[column].str.decode("utf-8").str.strip("'\" ")
        frame[column] = text.mask(text == "?")
    return frame.rename(columns={frame.columns[-1]: "class"})


def read_delimited(paths, name):
    """Read files of values without a header row."""
    if name == "echocardiogram":
        lines = [line.split(",") for line in paths[0].read_text().splitlines() if line.strip()]
        # One row of the file lacks a field, and it is not known which one.
        rows = [line for line in lines if len(line) == len(_ECHOCARDIOGRAM)]
        frame = pd.DataFrame(rows, columns=_ECHOCARDIOGRAM).drop(columns="name")
        frame = frame.mask(frame == "?")
        return frame.apply(pd.to_numeric).dropna(subset="class").astype({"class": int})
    if name == "promoters":
        rows = [line.split(",") for line in paths[0].read_text().splitlines() if line.strip()]
        sequences = pd.DataFrame([list(sequence.strip()) for _, _, sequence in rows])
        return sequences.assign(**{"class": [sign.strip() for sign, *_ in rows]})
    if name == "parkinsons":
        frame = pd.read_csv(paths[0]).drop(columns="name")
        return frame.assign(**{"class": frame.pop("status")})
    separator = {"planning": r"\s+", "austra": r"\s+"}.get(name, ",")
    parts = [pd.read_csv(path, header=None, sep=separator) for path in paths]
    return pd.concat(parts, ignore_index=True)


def read_svmlight(paths, name, n_features):
    """Read and stack files of sparse rows, plain or compressed by bzip2."""
    streams = [
        io.BytesIO(bz2.decompress(path.read_bytes())) if path.suffix == ".bz2" else str(path)
        for path in paths
    ]
    parts = load_svmlight_files(streams, n_features=n_features)
    return sp.vstack(parts[::2], format="csr"), np.concatenate(parts[1::2]).astype(int)


def read_miniboone(paths, name):
    """Read particle events: the first line counts signal and background, in that order."""
    with paths[0].open() as file:
        n_signal, n_background = map(int, file.readline().split())
        X = np.loadtxt(file)
    return X, np.repeat([1, -1], [n_signal, n_background])
