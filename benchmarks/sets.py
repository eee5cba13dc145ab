"""The data sets of the studies of accuracy: binary, several classes, sparse text, regression.

Beside the paper's regular sets (`data.py`) these are the further sets of the folder ``more`` beside
that of the paper's sets, sets that come with scikit-learn, and generated ones. Of large sets a
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
from scipy.sparse import issparse
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


def _with_noise(make, n_noise, **settings):
    """Return a set, standardised, with further features that say nothing about its classes."""
    X, y = make(**settings)
    noise = np.random.default_rng(len(y)).standard_normal((len(y), n_noise))
    return np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), noise]), y


_N = 1500  # samples of a generated set


def _spirals(n_classes):
    """Return spirals in a plane, with noise."""
    rng = np.random.default_rng(n_classes)
    y = rng.integers(0, n_classes, _N)
    angle = rng.uniform(0, 3 * np.pi, _N)
    turned = angle + 2 * np.pi * y / n_classes
    X = np.column_stack([angle * np.cos(turned), angle * np.sin(turned)])
    return X + rng.normal(0, 0.5, X.shape), y


def _parity(n_features, n_noise):
    """Return the sign of a product of some features, among others that say nothing."""
    X = np.random.default_rng(n_features).standard_normal((_N, n_features + n_noise))
    return X, (X[:, :n_features].prod(axis=1) > 0).astype(int)


def _ring(n_features, n_noise, n_classes=2):
    """Return classes by the distance from the origin in some features, a tenth of them wrong."""
    rng = np.random.default_rng(n_features)
    X = rng.standard_normal((_N, n_features + n_noise))
    y = _parts(np.square(X[:, :n_features]).sum(axis=1), n_classes)
    return X, np.where(rng.random(_N) < 0.1, rng.integers(0, n_classes, _N), y)


def _parts(target, n_parts):
    """Return in which of as many parts of about the same size each value lies."""
    quantiles = np.quantile(target, np.arange(1, n_parts) / n_parts)
    return np.searchsorted(quantiles, target, side="left")


GENERATED = {
    "generated": {  # two classes
        "moons": partial(datasets.make_moons, _N, noise=0.3, random_state=0),
        "moons and 10": partial(
            _with_noise, datasets.make_moons, 10, n_samples=_N, noise=0.2, random_state=1
        ),
        "circles and 5": partial(
            _with_noise,
            datasets.make_circles,
            5,
            n_samples=_N,
            noise=0.1,
            factor=0.5,
            random_state=0,
        ),
        "hastie": partial(datasets.make_hastie_10_2, _N, random_state=2),
        "clusters 20": partial(
            datasets.make_classification, _N, 20, n_informative=5, flip_y=0.05, random_state=3
        ),
        "clusters 60": partial(
            datasets.make_classification, _N, 60, n_informative=8, random_state=4
        ),
        "clusters dense": partial(
            datasets.make_classification,
            _N,
            12,
            n_informative=12,
            n_redundant=0,
            n_clusters_per_class=4,
            flip_y=0.1,
            random_state=5,
        ),
        "quantiles": partial(
            datasets.make_gaussian_quantiles,
            n_samples=_N,
            n_features=8,
            n_classes=2,
            random_state=0,
        ),
    },
    "generated several": {
        "clusters of 4": partial(
            datasets.make_classification, _N, 20, n_informative=6, n_classes=4, random_state=6
        ),
        "clusters of 8": partial(
            datasets.make_classification,
            _N,
            30,
            n_informative=10,
            n_classes=8,
            flip_y=0.05,
            random_state=7,
        ),
        "clusters uneven": partial(
            datasets.make_classification,
            _N,
            15,
            n_informative=8,
            n_classes=5,
            weights=[0.5, 0.3, 0.1, 0.06, 0.04],
            random_state=8,
        ),
        "quantiles of 3": partial(
            datasets.make_gaussian_quantiles,
            n_samples=_N,
            n_features=6,
            n_classes=3,
            random_state=0,
        ),
        "quantiles and 10": partial(
            _with_noise,
            datasets.make_gaussian_quantiles,
            10,
            n_samples=_N,
            n_features=3,
            n_classes=4,
            random_state=9,
        ),
        "blobs": partial(datasets.make_blobs, _N, 10, centers=12, cluster_std=5.0, random_state=10),
    },
    "kept generated": {  # two classes
        "spirals": partial(_spirals, 2),
        "parity of 3 and 3": partial(_parity, 3, 3),
        "ring of 4 and 4": partial(_ring, 4, 4),
        "clusters 10": partial(
            datasets.make_classification,
            _N,
            10,
            n_informative=4,
            n_redundant=4,
            class_sep=0.7,
            random_state=11,
        ),
        "clusters 100": partial(
            datasets.make_classification, _N, 100, n_informative=10, random_state=12
        ),
        "clusters rare": partial(
            datasets.make_classification,
            _N,
            25,
            n_informative=10,
            weights=[0.9],
            class_sep=0.5,
            random_state=13,
        ),
        "hypercube": partial(
            datasets.make_classification,
            _N,
            8,
            n_informative=8,
            n_redundant=0,
            n_clusters_per_class=8,
            random_state=14,
        ),
        "blobs of 2": partial(
            datasets.make_blobs, _N, 30, centers=2, cluster_std=12.0, random_state=15
        ),
    },
    "kept generated several": {
        "spirals of 3": partial(_spirals, 3),
        "ring of 5 and 0": partial(_ring, 5, 0, 3),
        "ring of 3 and 6": partial(_ring, 3, 6, 5),
        "clusters of 3": partial(
            datasets.make_classification,
            _N,
            40,
            n_informative=5,
            n_classes=3,
            flip_y=0.1,
            random_state=16,
        ),
        "clusters of 6": partial(
            datasets.make_classification,
            _N,
            10,
            n_informative=10,
            n_redundant=0,
            n_classes=6,
            random_state=17,
        ),
        "clusters of 12": partial(
            datasets.make_classification,
            _N,
            20,
            n_informative=10,
            n_classes=12,
            n_clusters_per_class=1,
            random_state=18,
        ),
        "clusters of 7, rare": partial(
            datasets.make_classification,
            _N,
            12,
            n_informative=8,
            n_classes=7,
            weights=[0.4, 0.3, 0.2, 0.04, 0.03, 0.02, 0.01],
            random_state=19,
        ),
        "blobs of 20": partial(
            datasets.make_blobs, _N, 6, centers=20, cluster_std=3.5, random_state=20
        ),
    },
}
KEPT_LARGE = ("cod-rna", "ijcnn1", "w8a")
KEPT_PARTS = {"kept": 2, "kept several": 4}  # parts into which targets of regression are cut


def names(kind):
    """Return the names of all sets of a kind.

    Kinds are "binary", "several", "text", "regression", "generated" (of two classes) and
    "generated several". Nothing is chosen on those of "kept", "kept several", "kept generated" and
    "kept generated several", which are there to confirm choices: large sets of the paper, and sets
    of regression with the target cut at its quantiles.
    """
    if kind in GENERATED:
        return list(GENERATED[kind])
    if kind in KEPT_PARTS:
        real = [name for name in names("regression") if name not in FRIEDMAN]
        cut = [f"{name} in {KEPT_PARTS[kind]}" for name in real]
        return [*KEPT_LARGE, *cut] if kind == "kept" else cut
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
    for made in (FRIEDMAN, *GENERATED.values()):
        if name in made:
            return made[name]()
    if name.startswith("text-"):
        return _text(int(name[5:]))
    if name == "farm-ads":
        return load_large(name)
    if name in KEPT_LARGE:
        X, y = load_large(name)
        return X.toarray() if issparse(X) else X, y
    if " in " in name:
        X, target = _whole(name.rsplit(" in ", 1)[0])
        return X, _parts(target, int(name.rsplit(" in ", 1)[1]))
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
