"""Large data sets for timings: halves of the paper's large sets, and generated text-like data."""

import lzma

import numpy as np
import pandas as pd
import scipy.sparse as sp
from data import FOLDER, _manifest
from sklearn.datasets import load_svmlight_file

LARGE_NAMES = ("adult-a", "w8a", "ijcnn1", "cod-rna", "farm-ads")


def load_large(name, scaled=True):
    """Return the whole set; CSR for the text files, otherwise dense.

    Features are in [0, 1], or as in the file if not `scaled`.
    """
    entry = _manifest()[name]
    path = FOLDER / entry["file"]
    if path.suffix == ".xz":
        with lzma.open(path) as file:
            X, y = load_svmlight_file(file, n_features=entry["features"])
        if name != "ijcnn1":  # the others are non-negative and at most one already
            return X, y
        X = X.toarray()
    else:
        frame = pd.read_csv(path)
        X = frame.iloc[:, :-1].to_numpy(np.float64)
        y = frame.iloc[:, -1].to_numpy(np.float64)
    return (X - X.min(axis=0)) / np.ptp(X, axis=0) if scaled else X, y


def halves(name, seed=0, *, scaled=True):
    """Return X_train, X_test, y_train, y_test of a random half split."""
    X, y = load_large(name, scaled)
    order = np.random.default_rng(seed).permutation(y.size)
    train, test = np.sort(order[: y.size // 2]), np.sort(order[y.size // 2 :])
    return X[train], X[test], y[train], y[test]


def text_like(n_samples, n_features=47_000, mean_length=75, seed=0):
    """Return sparse rows of unit length with Zipf-distributed columns, and labels.

    The shape is that of rcv1: about `mean_length` different words per row, frequent words in most
    rows. The label is the sign of a linear function of the row with 5 % noise.
    """
    rng = np.random.default_rng(seed)
    popularity = 1.0 / (np.arange(n_features) + 10.0)
    cumulative = np.cumsum(popularity / popularity.sum())
    lengths = np.maximum(rng.poisson(mean_length * 1.3, n_samples), 5)
    columns = np.searchsorted(cumulative, rng.random(lengths.sum())).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    idf = np.log(1.0 / popularity)
    X = sp.csr_array((idf[columns], columns, indptr), shape=(n_samples, n_features))
    X.sum_duplicates()
    X.data = (1 + np.log(X.data / idf[X.indices])) * idf[X.indices]
    norms = np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1]))
    X.data /= np.repeat(norms, np.diff(X.indptr))
    score = X @ rng.standard_normal(n_features)
    y = np.where(score > np.median(score), 1.0, -1.0)
    flip = rng.random(n_samples) < 0.05
    y[flip] = -y[flip]
    return X, y
