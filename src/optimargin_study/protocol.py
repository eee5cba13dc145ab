"""The paper's protocol: the units, and the data of each.

A unit is one method on one random half split of one data set for one of the paper's tables. Its
split and its folds depend only on the name of the set and the number of the repeat. So each unit
can be computed again by itself, and all methods get the same halves.
"""

import zlib
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.sparse import issparse
from sklearn.model_selection import StratifiedKFold

from optimargin.kernels import resolve_gamma
from optimargin_study.datasets import list_paper_datasets
from optimargin_study.sample_sets import SAMPLE_SETS, load_set

N_FOLDS = 5
WIDTHS = 2.0 ** np.arange(2, -3, -1)  # multiples of the mean distance, smoothest first
SCALINGS = ("all", "train")


@dataclass(frozen=True)
class Table:
    """One of the paper's tables of accuracies."""

    number: int
    kernel: str
    scale: str
    repeats: int
    title: str


TABLES = {
    2: Table(2, "linear", "regular", 30, "regular data sets, linear kernel"),
    3: Table(3, "rbf", "regular", 30, "regular data sets, RBF kernel"),
    4: Table(4, "linear", "large", 10, "large data sets, linear kernel"),
}


@dataclass(frozen=True, order=True)
class Unit:
    """One method on one split of one data set for one table."""

    table: int
    dataset: str
    repeat: int
    method: str

    def key(self):
        """Return the unit as a tuple."""
        return (self.table, self.dataset, self.repeat, self.method)

    def __str__(self):
        return f"table {self.table}, {self.dataset}, repeat {self.repeat}, {self.method}"

    @property
    def seed(self):
        """The seed of the split and the folds; the same for all methods and kernels."""
        return zlib.crc32(f"{self.dataset}/{self.repeat}".encode())


@dataclass(frozen=True)
class Problem:
    """The data of a unit.

    Attributes
    ----------
    X, X_test : {ndarray, CSR} of shape (n_train, n_features), (n_test, n_features)
    y, y_test : ndarray of shape (n_train,), (n_test,)
        -1 or +1.
    kernel : {"linear", "rbf"}
    seed : int
    """

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    kernel: str
    seed: int

    @cached_property
    def folds(self):
        """Indices of the training and test rows of the folds on which parameters are chosen."""
        smallest = int(np.unique(self.y, return_counts=True)[1].min())
        splitter = StratifiedKFold(min(N_FOLDS, smallest), shuffle=True, random_state=self.seed)
        return list(splitter.split(np.zeros(self.y.size), self.y))

    @cached_property
    def mean_distance(self):
        """The mean distance of the training half, the unit of kernel widths."""
        gamma = resolve_gamma("mean_distance", self.X, np.ones(self.y.size))
        return float((2 * gamma) ** -0.5)

    def gamma(self, width):
        """Return gamma of the RBF kernel for a width in units of the mean distance."""
        return 1.0 / (2 * (width * self.mean_distance) ** 2)

    @property
    def widths(self):
        """The widths to choose from; only None for the linear kernel."""
        return [float(w) for w in WIDTHS] if self.kernel == "rbf" else [None]


def make_problem(unit, scaling="all"):
    """Return the data of a unit.

    Parameters
    ----------
    unit : Unit
    scaling : {"all", "train"}, default="all"
        Features are scaled to [0, 1] by their ranges over the whole set, as in the paper, or over
        the training half.

    Returns
    -------
    problem : Problem

    Examples
    --------
    >>> from optimargin_study.protocol import Unit, make_problem
    >>> problem = make_problem(Unit(2, "wdbc", 1, "odm"))
    >>> problem.X.shape, problem.X_test.shape, len(problem.folds)
    ((284, 30), (285, 30), 5)
    """
    if scaling not in SCALINGS:
        raise ValueError(f"scaling={scaling!r} is unknown: use 'all' or 'train'.")
    X, y = _numeric_set(unit.dataset)
    train, test = half_split(y, unit.seed)
    low, span = _ranges(X if scaling == "all" else X[train])
    X = _scaled(X, low, span)
    kernel = TABLES[unit.table].kernel
    return Problem(X[train], y[train], X[test], y[test], kernel, unit.seed)


def half_split(y, seed):
    """Return the row indices of two random halves; the first has at least two of each class."""
    random = np.random.default_rng(seed)
    while True:
        order = random.permutation(y.size)
        train, test = np.sort(order[: y.size // 2]), np.sort(order[y.size // 2 :])
        counts = np.unique(y[train], return_counts=True)[1]
        if counts.size == 2 and counts.min() >= 2:
            return train, test


@lru_cache(maxsize=4)
def _numeric_set(name):
    X, labels = load_set(name)
    return X, np.where(labels == np.unique(labels)[1], 1, -1)


def _ranges(X):
    """Return the smallest value and the span of each feature; sparse features keep their zero."""
    if issparse(X):
        low = np.zeros(X.shape[1])
        high = np.asarray(abs(X).max(axis=0).todense()).ravel()
    else:
        low, high = X.min(axis=0), X.max(axis=0)
    return low, np.where(high > low, high - low, 1.0)


def _scaled(X, low, span):
    if issparse(X):
        X = X.tocsr(copy=True)
        X.data /= span[X.indices]
        return X
    return (X - low) / span


def set_names(number):
    """Return the sets that a table can contain: the paper's, then the small sample sets."""
    scale = TABLES[number].scale
    return list_paper_datasets(scale) + (list(SAMPLE_SETS) if scale == "regular" else [])


def plan(tables, methods, datasets=None, repeats=None):
    """Return the units of a study, breadth first.

    Parameters
    ----------
    tables : sequence of int
    methods : dict of str to Method
        For each table only the methods that are defined for it are planned.
    datasets : sequence of str, default=None
        By default all of the paper's for a table.
    repeats : int, default=None
        By default as many as in the paper.

    Returns
    -------
    units : list of Unit
        All sets and methods of the first repeat, then those of the second, and so on. So a run
        that is stopped leaves a balanced table.
    """
    units = []
    for number in tables:
        table = TABLES[number]
        wanted = list_paper_datasets(table.scale) if datasets is None else datasets
        names = [name for name in set_names(number) if name in wanted]
        for repeat in range(1, (repeats or table.repeats) + 1):
            units += [
                Unit(number, name, repeat, key)
                for name in names
                for key, method in methods.items()
                if number in method.tables
            ]
    return sorted(units, key=lambda unit: unit.repeat)
