"""A table of all ways in which the same rows can be given to the same models.

A *row* of the table is a model. Its *case* on data of one shape is the model fitted to a
C-contiguous array in double precision, and what it answers: the shapes have few columns, or more
than sparse rows are filled up to, and all columns filled, or none, one or two, of which centred
kernels think differently. A *cell* of a case is a container of the training rows, a route from
there to the model that is asked, a container of the rows it is asked about, and whether it is asked
about all of them at once. The answers in all cells must be those of the case.
"""

import pickle
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_outlier_detector, is_regressor
from sklearn.metrics.pairwise import rbf_kernel

import optimargin as om
from optimargin.io import load_model, save_model
from optimargin_study.baselines import (
    KernelFisherDiscriminant,
    MarginDistributionGame,
    MarginDistributionOptimizer,
    MaximalAverageMargin,
)
from tests.containers import CONTAINERS, DENSE, in_single_precision, into

N_TRAINING, N_NEW, N_ONE_BY_ONE = 40, 8, 3
COLUMNS = {"few": 12, "many": 530}
FILLED = {"all": None, "none": 0, "one": 1, "two": 2}
SHAPES = list(product(COLUMNS, FILLED))
ROUTES = ("fitted", "pickled", "saved", "cloned")


@dataclass(frozen=True)
class OneContainerKernel:
    """A kernel as a user writes it: for two matrices of one kind."""

    def __call__(self, A, B):
        assert type(A) is type(B)
        products = A @ B.T
        products = products.toarray() if sp.issparse(products) else products
        return (1.0 + 0.1 * products) ** 2


@dataclass(frozen=True)
class Row:
    """A model of the table.

    Attributes
    ----------
    model : estimator
    n_outputs : int
        Classes, or targets of a regressor.
    gammas : bool
        Whether it is given a gamma per feature.
    sparse, saved : bool
        Whether it takes sparse rows, and goes into a model file.
    digits : float
        By how much answers may differ where the training rows came in another container, as
        part of the largest.
    single : float
        The same where one of the containers is in single precision.
    same : float
        The same of answers of one model to rows in double precision.
    """

    model: Any
    n_outputs: int = 1
    gammas: bool = False
    sparse: bool = True
    saved: bool = True
    digits: float = 1e-8
    single: float = 1e-4
    same: float = 1e-10

    @property
    def is_precomputed(self):
        """Whether rows are kernel values."""
        return getattr(self.model, "kernel", None) == "precomputed"

    @property
    def containers(self):
        """The containers that it takes."""
        return CONTAINERS if self.sparse and not self.is_precomputed else DENSE

    @property
    def routes(self):
        """The routes that it goes."""
        return [route for route in ROUTES if self.saved or route != "saved"]

    def on(self, n_features):
        """Return the model for data of so many features."""
        model = clone(self.model)
        if self.gammas:
            model.set_params(gamma=np.linspace(0.2, 1.0, n_features) / n_features)
        return model


SETTINGS = {
    "rbf": {},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 1.0},
    "sigmoid": {"kernel": "sigmoid", "coef0": -0.5},
    "precomputed": {"kernel": "precomputed"},
    "function": {"kernel": OneContainerKernel()},
    "gammas": {},
    "nystrom": {"approximation": "nystrom", "n_components": 100},
}
KERNEL_MACHINES = {
    "ODM": om.ODMClassifier,
    "ODM-regression": om.ODMRegressor,
    "one-class": om.OneClassODM,
    "LDM": om.LDMClassifier,
}


def _kernel_rows():
    for machine, name in product(KERNEL_MACHINES, SETTINGS):
        if (machine, name) != ("LDM", "nystrom"):
            digits = {}
            if name == "nystrom":  # landmarks span what they span only to rounding
                digits = {"digits": 1e-4}
            if name == "function":  # large values, which bounds multiply rounding with
                digits = {"digits": 1e-6, "single": 2e-2}
            model = KERNEL_MACHINES[machine](**SETTINGS[name])
            yield (
                f"{machine}-{name}",
                Row(model, gammas=name == "gammas", saved=name != "function", **digits),
            )


ITERATIVE = {"tol": 1e-9, "max_iter": 5000}
TO_ITS_TOL = {"digits": 1e-4}
IN_SINGLE = {"digits": 1e-3, "same": 1e-6}  # kernel values of predictions, too
SEARCHES = {"max_evals": 6}
ROWS = {
    **dict(_kernel_rows()),
    # solvers that samples so few do not take by themselves: kernel values in other storages
    "ODM-newton_cg": Row(om.ODMClassifier(solver="newton_cg", **ITERATIVE), **TO_ITS_TOL),
    "ODM-dcd": Row(om.ODMClassifier(solver="dcd", **ITERATIVE), **TO_ITS_TOL),
    "ODM-bcd": Row(om.ODMClassifier(solver="bcd", tol=1e-6), **IN_SINGLE),
    "ODM-rough": Row(
        om.ODMClassifier(solver="newton_cg", tol=1e-2), digits=0.3, single=0.3, same=1e-6
    ),
    "LinearODM": Row(om.LinearODMClassifier()),
    "LinearODM-newton_cg": Row(
        om.LinearODMClassifier(solver="newton_cg", **ITERATIVE), **TO_ITS_TOL
    ),
    "LinearODM-dcd": Row(om.LinearODMClassifier(solver="dcd", **ITERATIVE), **TO_ITS_TOL),
    "LinearODM-svrg": Row(om.LinearODMClassifier(solver="svrg", **ITERATIVE), **TO_ITS_TOL),
    "LinearODM-regression": Row(om.LinearODMRegressor()),
    "LinearLDM": Row(om.LinearLDMClassifier()),
    "LinearLDM-dcd": Row(om.LinearLDMClassifier(solver="dcd", **ITERATIVE), **TO_ITS_TOL),
    # several outputs
    "LinearODM-pairs": Row(om.LinearODMClassifier(), n_outputs=3),
    "LinearODM-rest": Row(om.LinearODMClassifier(multi_class="ovr"), n_outputs=3),
    "ODM-pairs": Row(om.ODMClassifier(), n_outputs=3),
    "ODM-rest": Row(om.ODMClassifier(multi_class="ovr"), n_outputs=3),
    "LDM-rest": Row(om.LDMClassifier(), n_outputs=3),
    "ODM-regressions": Row(om.ODMRegressor(epsilon=0.1), n_outputs=2),
    "LinearODM-regressions": Row(om.LinearODMRegressor(), n_outputs=2),
    # probabilities
    "ODM-sigmoid-map": Row(om.ODMClassifier(calibration="sigmoid")),
    "ODM-temperature": Row(om.ODMClassifier(calibration="temperature"), n_outputs=3),
    "LinearODM-isotonic": Row(om.LinearODMClassifier(calibration="isotonic")),
    # searches
    "ODM-CV": Row(om.ODMClassifierCV(**SEARCHES)),
    "ODM-CV-poly": Row(om.ODMClassifierCV(kernel="poly", **SEARCHES)),
    "ODM-CV-widths": Row(om.ODMClassifierCV(relevance=True, **SEARCHES), single=0.2),
    "ODM-CV-nystrom": Row(om.ODMClassifierCV(**SETTINGS["nystrom"], **SEARCHES), digits=1e-4),
    "ODM-CV-grid": Row(om.ODMClassifierCV(C1s=[1, 16], C2s=[4], Ds=[0.2], widths=[0.5, 1])),
    "LinearODM-CV": Row(om.LinearODMClassifierCV(**SEARCHES)),
    "LDM-CV": Row(om.LDMClassifierCV(max_evals=2, cv=2)),
    "LinearLDM-CV": Row(om.LinearLDMClassifierCV(max_evals=2, cv=2)),
    "ODM-regression-CV": Row(om.ODMRegressorCV(**SEARCHES)),
    "LinearODM-regression-CV": Row(om.LinearODMRegressorCV(**SEARCHES)),
    **{
        type(model).__name__: Row(model, sparse=False, saved=False)
        for model in (
            KernelFisherDiscriminant(),
            MarginDistributionGame(),
            MarginDistributionOptimizer(),
            MaximalAverageMargin(),
        )
    },
}


@dataclass(frozen=True)
class Cell:
    """Where the rows come from, and how the model is asked."""

    fit: str
    route: str
    ask: str
    one_by_one: bool = False


def cells_of(row):
    """Return all cells of a row on data of one shape."""
    containers = row.containers
    return [
        Cell(fit, route, ask, one_by_one)
        for fit, route, ask in product(containers, row.routes, containers)
        for one_by_one in ((False, True) if route == "fitted" else (False,))
    ]


@dataclass(frozen=True)
class Case:
    """A row on data of one shape.

    Attributes
    ----------
    row : Row
    X, new : ndarray of shape (n_samples, n_features)
        Numbers that float32 has, too.
    y : ndarray
    answers : dict of ndarray
        Of the model of reference.
    """

    row: Row
    X: np.ndarray
    y: np.ndarray
    new: np.ndarray
    answers: dict = field(default_factory=dict)

    def fitted(self, container):
        """Return the model fitted to the training rows in a container."""
        with quiet():
            return self.row.on(self.X.shape[1]).fit(into(container, self.X), self.y)


@cache
def case(name, columns, filled):
    """Return the case of a row on data of a shape, with the answers that all cells must give."""
    row = ROWS[name]
    n_features, n_filled = COLUMNS[columns], FILLED[filled]
    rng = np.random.default_rng([n_features, n_filled or 0, n_filled is None])
    return made(row, n_features, n_filled, 0.2 if n_features < 100 else 0.05, rng)


def made(row, n_features, n_filled, share, rng):
    """Return the case of a row on random data.

    Parameters
    ----------
    row : Row
    n_features : int
    n_filled : int or None
        How many columns have no zeros; None means all.
    share : float
        Of the other columns that is not zero.
    rng : Generator
    """
    here = Case(row, *_data(row, n_features, n_filled, share, rng))
    here.answers.update(ask(here, here.fitted("C-64"), "C-64"))
    return here


def _data(row, n_features, n_filled, share, rng):
    X = rng.normal(size=(N_TRAINING + N_NEW, n_features)) + 1.0
    if n_filled is not None:
        is_zero = rng.random(X.shape) > share
        is_zero[:, :n_filled] = False
        X[is_zero] = 0.0
        X[:, :n_filled] += 3.0
    score = (X - X.mean(axis=0)) @ rng.normal(size=(n_features, row.n_outputs))
    score = score / score.std(axis=0) + 0.3 * rng.normal(size=score.shape)
    y = score[:N_TRAINING, 0] if row.n_outputs == 1 else score[:N_TRAINING]
    if not is_regressor(row.model):
        rank = score[:N_TRAINING, 0].argsort().argsort() / N_TRAINING
        y = np.floor(rank * row.n_outputs) if row.n_outputs > 1 else (rank > 0.4).astype(float)
    X, new = X[:N_TRAINING], X[N_TRAINING:]
    if row.is_precomputed:
        new = rbf_kernel(new, X, gamma=1.0 / n_features)
        X = rbf_kernel(X, gamma=1.0 / n_features)
    return in_single_precision(X), y, in_single_precision(new)


def gone(model, route, case, container):
    """Return a fitted model at the end of a route."""
    if route == "pickled":
        return pickle.loads(pickle.dumps(model))
    if route == "saved":
        with TemporaryDirectory() as folder:
            path = Path(folder, "model.skops")
            save_model(model, path)
            return load_model(path)
    if route == "cloned":
        with quiet():
            return clone(model).fit(into(container, case.X), case.y)
    return model


JUMPING = ("p_values", "loo_error_bound")
"""Answers that count, or divide by, what rounding may move to the other side."""
METHODS = ("decision_function", "predict", "predict_proba", "score_samples", "p_values")
AGAIN = (
    "loo_decision_function",
    "loo_prediction",
    "loo_score_samples",
    "loo_error_bound",
)


def ask(case, model, container, *, one_by_one=False, again=True):
    """Return all that a model says about rows in a container, and where they are passed again.

    Parameters
    ----------
    case : Case
    model : estimator
        Fitted.
    container : str
    one_by_one : bool
        Whether rows are asked about one at a time, a few of them.
    again : bool
        Whether held-out values are asked for, with the training rows in the same container.
    """
    methods = [name for name in METHODS if hasattr(model, name)]
    with quiet():
        if one_by_one:
            rows = [into(container, case.new[i : i + 1]) for i in range(N_ONE_BY_ONE)]
            return {
                name: np.concatenate([getattr(model, name)(row) for row in rows])
                for name in methods
            }
        new = into(container, case.new)
        said = {name: getattr(model, name)(new) for name in methods}
        if again:
            said.update(_asked_again(case, model, container, new))
    return said


def _asked_again(case, model, container, new):
    X, y, said = into(container, case.X), case.y, {}
    for name in AGAIN:
        if hasattr(model, name):
            said[name] = np.asarray(getattr(model, name)(X=X, **_with_y(model, y)))
    training = {"given": (X, y)} | ({"kept": None} if hasattr(model, "_training_data") else {})
    for word, training_data in training.items():
        if hasattr(model, "predict_interval") and case.row.n_outputs == 1:
            interval = model.predict_interval(new, 0.8, training_data=training_data)[1]
            said[f"predict_interval, {word}"] = interval
        if hasattr(model, "predict_set"):
            said[f"predict_set, {word}"] = model.predict_set(new, 0.8, training_data=training_data)[
                1
            ]
    return said


def _with_y(model, y):
    return {} if is_outlier_detector(model) else {"y": y}


def differences(said, expected):
    """Return by how much answers differ, as part of the largest, or of one if that is more.

    Labels differ by what decision values allow: they may be others where these are near a border.
    """
    found = {}
    for name, answer in said.items():
        answer, right = np.atleast_1d(answer), np.atleast_1d(expected[name])[: np.size(answer)]
        right = right[: len(answer)]
        assert answer.shape == right.shape, f"{name}: {answer.shape} instead of {right.shape}"
        answer, right = answer.astype(np.float64), right.astype(np.float64)
        change = np.zeros(answer.shape)
        np.subtract(answer, right, out=change, where=answer != right)  # infinite ends are equal
        if name == "predict" and "decision_function" in expected:
            change = (change != 0) * _distance_to_border(expected["decision_function"])[
                : len(right)
            ]
            right = expected["decision_function"]
        size = np.abs(right[np.isfinite(right)]).max(initial=1.0)
        found[name] = float(np.abs(change).max(initial=0.0) / size)
    return found


def _distance_to_border(decision):
    if decision.ndim == 1:
        return np.abs(decision)
    highest = np.sort(decision, axis=1)
    return highest[:, -1] - highest[:, -2]


def tolerance(row, cell):
    """Return by how much answers may differ from those of the same model, and of another fit."""
    is_single = "32" in cell.fit + cell.ask
    return (row.single, row.single) if is_single else (row.same, row.digits)


def check_cells(here, cells, exact=np.inf):
    """Check that the answers in cells with one container of training rows are those of a case.

    Parameters
    ----------
    here : Case
    cells : list of Cell
    exact : float
        Answers that jump are compared where no more digits than these are lost.
    """
    model = here.fitted(cells[0].fit)
    same = ask(here, model, "C-64", again=False)
    asked = {}
    for cell in cells:
        if cell.route not in asked:
            asked[cell.route] = gone(model, cell.route, here, cell.fit)
        again = cell.route == "fitted"
        said = ask(here, asked[cell.route], cell.ask, one_by_one=cell.one_by_one, again=again)
        own = {method: answer for method, answer in said.items() if method in same}
        limits = tolerance(here.row, cell)
        for found, expected, digits in zip((own, said), (same, here.answers), limits, strict=True):
            worst = differences(found, expected)
            worst = {method: by for method, by in worst.items() if not by <= digits}
            if digits > exact:
                worst = {method: by for method, by in worst.items() if method not in JUMPING}
            assert not worst, f"{cell}: {worst}"


@contextmanager
def quiet():
    """Ignore what is said of small and rough fits, and of arrays without names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
