"""The data sets of the studies of accuracy: binary, several classes, sparse text, regression.

Beside the paper's regular sets (`data.py`) these are the further sets of the folder ``more`` beside
that of the paper's sets, sets that come with scikit-learn, and generated text. Of large sets a
study sees at most 500 training and 2000 test samples.
"""

import json
import lzma
from functools import lru_cache, partial
from zlib import crc32

import numpy as np
import pandas as pd
from data import FOLDER, load, preprocessor, regular_names
from large_data import load_large
from sklearn import datasets
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import train_test_split

MORE = FOLDER.parent / "more"
MAX_TRAIN, MAX_TEST = 500, 2000
FAMILIES = [  # variants of the same data: a choice on one is not independent of the other
    {"austra", "australian", "credit-a"},
    {"colic", "colic.ORIG"},
    {"credit-g", "german"},
    {"heart", "heart-c", "heart-h", "heart-statlog"},
    {"house", "house-votes", "vote"},
    {"vehicle", "vehicle4"},
    {"breast", "cancer", "wdbc"},
    {"text-0", "text-1", "text-2", "text-3"},
]
BUNDLED = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "digits": datasets.load_digits,
    "cancer": datasets.load_breast_cancer,
    "diabetes progression": datasets.load_diabetes,  # "diabetes" is one of the paper's sets
}
FRIEDMAN = {  # generators, with noise about a tenth of the standard deviation
    "friedman1": partial(datasets.make_friedman1, 1000, noise=1.0, random_state=0),
    "friedman2": partial(datasets.make_friedman2, 1000, noise=125.0, random_state=0),
    "friedman3": partial(datasets.make_friedman3, 1000, noise=0.1, random_state=0),
}


def names(kind):
    """Return the names of all sets of a kind: "binary", "several", "text" or "regression"."""
    if kind == "text":
        return ["text-0", "text-1", "text-2", "text-3", "farm-ads"]
    entries = json.loads((MORE / "manifest.json").read_text())["sets"]
    task = {"binary": "binary", "several": "multiclass"}.get(kind, kind)
    more = [entry["name"] for entry in entries if entry["task"] == task]
    if kind == "regression":
        return [*more, "diabetes progression", *FRIEDMAN]
    if kind == "binary":
        return [*regular_names(), *more]
    return [*more, "iris", "wine", "digits"]


def halves_of_sets(kind):
    """Return two halves of the sets; variants of the same data are in the same half."""
    halves: list[list[str]] = [[], []]
    every = sorted(names(kind), key=lambda name: crc32(name.encode()))
    done: set[str] = set()
    for name in every:
        if name not in done:
            family = next((f for f in FAMILIES if name in f), {name}) & set(every)
            min(halves, key=len).extend(sorted(family))
            done |= family
    return halves


@lru_cache(maxsize=2)
def _whole(name):
    """Return all samples: a data frame, an array or a sparse matrix, and the labels."""
    if name in BUNDLED:
        return BUNDLED[name](return_X_y=True)
    if name in FRIEDMAN:
        return FRIEDMAN[name]()
    if name.startswith("text-"):
        return _text(int(name[5:]))
    if name == "farm-ads":
        return load_large(name)
    if name in regular_names():
        return load(name)
    entries = {e["name"]: e for e in json.loads((MORE / "manifest.json").read_text())["sets"]}
    path = MORE / entries[name]["file"]
    if path.suffix == ".xz":
        with lzma.open(path) as file:
            X, y = datasets.load_svmlight_file(file)
        return X.toarray(), y
    frame = pd.read_csv(path)
    X, y = frame.iloc[:, :-1], frame.iloc[:, -1].to_numpy()
    if entries[name]["task"] != "regression":
        y = y.astype(str)
    text = X.select_dtypes(exclude="number").columns
    return X.astype(dict.fromkeys(text, "category")), y


def _text(seed):
    """Return word counts of texts from two vocabularies that overlap, weighted by rarity."""
    rng = np.random.default_rng(seed)
    n_words, n_texts = 20_000, 4000
    common = rng.zipf(1.3, size=400_000) % n_words
    topics = rng.permutation(n_words).reshape(2, -1)[:, :300]
    y = rng.integers(0, 2, n_texts)
    counts = np.zeros((n_texts, n_words), dtype=np.float32)
    for row, topic in zip(counts, y, strict=True):
        np.add.at(row, rng.choice(common, 60), 1)
        np.add.at(row, rng.choice(topics[topic], 1 + seed), 1)
    return TfidfTransformer().fit_transform(counts).tocsr(), y


def split(name, seed, scaling="standard"):
    """Return X_train, y_train, X_test, y_test of a half split, scaled by the training part."""
    X, y = _whole(name)
    is_text = name in names("text")
    limit = 2000 if is_text else MAX_TRAIN
    train, test = train_test_split(
        np.arange(len(y)),
        train_size=min(len(y) // 2, limit),
        test_size=min(len(y) - len(y) // 2, MAX_TEST),
        stratify=None if name in names("regression") else y,
        random_state=seed,
    )
    if is_text:
        return X[train], y[train], X[test], y[test]
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.asarray(X))
    scaler = preprocessor(scaling).fit(frame.iloc[train])
    X_train, X_test = (scaler.transform(frame.iloc[rows]) for rows in (train, test))
    return np.ascontiguousarray(X_train), y[train], np.ascontiguousarray(X_test), y[test]
