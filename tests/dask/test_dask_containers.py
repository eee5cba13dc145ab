"""Models of blocks give the same answers whatever containers the same rows come in."""

from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from tests.containers import CONTAINERS, in_single_precision, into, names
from tests.equivalence_table import differences, quiet

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
from optimargin.dask import (  # noqa: E402
    DaskLinearODMClassifier,
    DaskLinearODMRegressor,
    DaskODMClassifier,
    DaskODMRegressor,
    DaskOneClassODM,
)

N_TRAINING, N_NEW, N_BLOCK = 40, 10, 16
SHAPES = list(product([12, 530], [None, 0, 1, 2]))  # columns, and how many of them are filled
# One container of rows per block, in turn.
BLOCKS = {
    **{name: [name] for name in CONTAINERS if not name.startswith(("pandas", "polars"))},
    "dense and sparse": ["C-64", "CSR-64"],
    "precisions": ["F-32", "C-64"],
    "all kinds": ["CSC-32", "F-64", "CSR-64"],
    "table-64": None,
    "table-32": None,
}
# Where all samples are landmarks, their order does not matter.
LANDMARKS = {"n_components": N_TRAINING, "tol": 1e-10}
MODELS = {
    "LinearODM": DaskLinearODMClassifier(tol=1e-10),
    "ODM": DaskODMClassifier(**LANDMARKS),
    "ODM-poly": DaskODMClassifier(kernel="poly", degree=2, coef0=1.0, **LANDMARKS),
    "LinearODM-regression": DaskLinearODMRegressor(tol=1e-10),
    "ODM-regression": DaskODMRegressor(**LANDMARKS),
    "one-class": DaskOneClassODM(**LANDMARKS),
}
METHODS = ("decision_function", "predict", "score_samples", "p_values")
DIGITS, SINGLE_DIGITS = 1e-4, 5e-3
every_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module", autouse=True)
def client():
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.Client(processes=False, **options) as client:
        yield client


def in_blocks(kind, X):
    """Return rows as a collection of blocks."""
    if BLOCKS[kind] is None:
        frame = pd.DataFrame(into(f"C-{kind[-2:]}", X), columns=names(X.shape[1]))
        return dd.from_pandas(frame, npartitions=3)
    blocks = []
    for k, first in enumerate(range(0, len(X), N_BLOCK)):
        container = BLOCKS[kind][k % len(BLOCKS[kind])]
        rows = into(container, X[first : first + N_BLOCK])
        rows = sp.csr_array(rows) if container.startswith("CSR") else rows
        blocks.append(da.from_delayed(dask.delayed(rows), shape=rows.shape, dtype=rows.dtype))
    return da.concatenate(blocks)


@cache
def data(n_features, n_filled):
    rng = np.random.default_rng([n_features, n_filled or 0])
    X = rng.normal(size=(N_TRAINING + N_NEW, n_features)) + 1.0
    if n_filled is not None:
        X[:, n_filled:] *= rng.random((len(X), n_features - n_filled)) < 0.1
    y = (X - X.mean(axis=0)) @ rng.normal(size=n_features)
    X, y = in_single_precision(X), y[:N_TRAINING] / y.std()
    return X[:N_TRAINING], y, X[N_TRAINING:]


def fitted(name, kind, X, y):
    y = y if "regression" in name else (y > 0).astype(int)
    with quiet():
        blocks = da.from_array(y, chunks=N_BLOCK if BLOCKS[kind] else -1)
        if BLOCKS[kind] is None:
            blocks = dd.from_pandas(pd.Series(y), npartitions=3)
        return clone(MODELS[name]).fit(in_blocks(kind, X), blocks)


def asked(model, rows, compute):
    with quiet():
        said = [getattr(model, method)(rows) for method in METHODS if hasattr(model, method)]
    found = [method for method in METHODS if hasattr(model, method)]
    return dict(zip(found, compute(*said), strict=True))


@cache
def expected(name, shape):
    X, y, new = data(*shape)
    model = fitted(name, "C-64", X, y)
    return asked(model.to_local(), new, lambda *said: said)


def check(name, shape, fit, asks):
    X, y, new = data(*shape)
    model = fitted(name, fit, X, y)
    here = [(kind, asked(model, in_blocks(kind, new), dask.compute)) for kind in asks]
    here += [
        (container, asked(model.to_local(), into(container, new), lambda *said: said))
        for container in CONTAINERS
    ]
    for kind, said in here:
        is_double = not any("32" in k or "all" in k or k == "precisions" for k in (fit, kind))
        worst = differences(said, expected(name, shape))
        limit = DIGITS if is_double else SINGLE_DIGITS
        assert max(worst.values()) <= limit, (shape, fit, kind, worst)


@every_model
def test_a_sample_of_blocks_gives_the_answers_of_the_first(name):
    number, kinds = list(MODELS).index(name), list(BLOCKS)
    fit = kinds[(2 * number + 3) % len(kinds)]
    check(name, SHAPES[3 * number % len(SHAPES)], fit, kinds[number % 3 :: 3])


@pytest.mark.slow
@every_model
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_blocks_give_the_answers_of_the_first(name, shape):
    for fit in BLOCKS:
        check(name, shape, fit, list(BLOCKS))
