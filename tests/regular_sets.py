"""The paper's regular data sets, read for the tests where a copy of them is at hand."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from optimargin_study.datasets import list_paper_datasets

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("OPTIMARGIN_DATA", ROOT.parent / "shared" / "datasets"))
NAMES = list_paper_datasets("regular")  # smallest first
MISSING = "the paper's data sets are not here"
needed = pytest.mark.skipif(not (FOLDER / "manifest.json").is_file(), reason=MISSING)


@cache
def load(name):
    """Return X with every column in [0, 1], categories one-hot, and the labels y."""
    frame = pd.read_csv(FOLDER / f"{name}.csv", keep_default_na=False, na_values=[""])
    y = frame.iloc[:, -1].astype(str).to_numpy()
    X = pd.get_dummies(frame.iloc[:, :-1], dtype=float).to_numpy(dtype=float)
    span = np.ptp(X, axis=0)
    X = (X - X.min(axis=0)) / np.where(span > 0, span, 1.0)
    return np.ascontiguousarray(X), y


@cache
def mean_distance(name):
    """Return the mean Euclidean distance over all ordered pairs of rows."""
    X, _ = load(name)
    return float(np.mean([np.linalg.norm(X - row, axis=1).mean() for row in X]))
