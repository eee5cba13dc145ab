"""A table of small fits whose results are stored, so that a change inside the library shows.

Only the public interface is used, and every parameter is given: neither a new home for a class
nor a new default changes what is fitted here.

Every processor rounds in its own way, so results are compared by what a fit promises.

- A direct solve is one linear system in the end. Its condition number is at most
  ``2 C1 |phi|^2 + C1 / C2``, below 2e5 in this table: rounding leaves ten digits.
- An iterative one promises its duality gap. With an objective P and a relative gap g, w is no
  further than ``sqrt(2 g P)`` from the optimal one, so that ``w' phi(x)`` is known to
  ``|phi(x)| sqrt(2 g P)``, and the intercept, which follows the decision values of the samples, to
  the same. Objectives are known to the gap itself.
- A grid promises scores, and the point that the rule for ties chooses: it is compared unless
  another point is at the very edge of the ties.
- A search promises a score. What it chose is compared where the next point is clearly worse.

Results are stored with one digit more than they are compared by, so that they are those of no
processor in particular.

As a script::

    python tests/reference/reference_fits.py --compare             # a table of differences
    python tests/reference/reference_fits.py --write results.json  # store results
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.datasets import (
    dump_svmlight_file,
    load_breast_cancer,
    load_digits,
    load_iris,
    make_classification,
    make_moons,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold

import optimargin
from optimargin._ties import TOLERANCE
from optimargin.chunks import ArrayChunks, NpyChunks, SvmlightChunks

STORE = Path(__file__).with_name("reference_fits.json")

# Allowed differences, relative to the largest absolute value of an array.
TOLERANCES = {
    "direct": 1e-10,  # rounding, times a condition number
    "iterative": 1e-7,  # without a certificate: about the root of a gap, or single precision
    "choice": 1e-9,  # scores of a grid
    "search": TOLERANCE,  # scores of a search without a grid
    "stream": 1e-8,  # passes over batches, step by step the same
}
# Rows and coefficients are rounded to seven digits, and some hundred are summed.
FLOAT32_TOLERANCES = {**dict.fromkeys(TOLERANCES, 1e-5), "choice": 1e-9}
# A width is computed from the data: a grid point does not depend on its last digits.
SAME_POINT = 1e-6
# Points of a search have two digits, in binary logarithms, and rounding may change the last one.
SAME_SEARCHED_POINT = 0.011
SEARCHED_MODEL_TOLERANCE = 1e-2
# Of a score: how much worse the next point is where the choice of a search is compared.
CLEARLY_WORSE = 1e-5


# ---- Data ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """Rows to fit and rows to predict."""

    X: np.ndarray | sp.csr_array
    y: np.ndarray
    X_eval: np.ndarray | sp.csr_array

    def weights(self, how):
        """Return None, positive weights, or weights of which one in seven is zero."""
        if how is None:
            return None
        weight = np.random.RandomState(5).uniform(0.5, 2.0, len(self.y))
        if how == "zeros":
            weight[::7] = 0.0
        return weight


def _split(X, y, n_eval):
    return Data(X[:-n_eval], y[:-n_eval], X[-n_eval:])


def _names(y):
    return np.array(["ash", "beech", "cedar", "date"])[y]


def _mixture(n_samples, n_features, n_classes, seed, n_eval):
    X, y = make_classification(
        n_samples + n_eval,
        n_features,
        n_informative=n_features // 2 + 1,
        n_redundant=1,
        n_classes=n_classes,
        n_clusters_per_class=1,
        class_sep=1.0,
        flip_y=0.05,
        random_state=seed,
    )
    return _split(X, y, n_eval)


def _plane(n_samples, n_features, density, seed, n_classes=2, n_eval=24, scale=1.0):
    """Return normal features, most of them zero if so asked, cut by noisy hyperplanes."""
    rng = np.random.RandomState(seed)
    X = scale * rng.standard_normal((n_samples + n_eval, n_features))
    X[rng.uniform(size=X.shape) > density] = 0.0
    scores = X @ rng.standard_normal((n_features, n_classes - 1 if n_classes == 2 else n_classes))
    scores += 0.5 * scores.std() * rng.standard_normal(scores.shape)
    y = (scores[:, 0] > 0.2).astype(int) if n_classes == 2 else scores.argmax(axis=1)
    return _split(X if density == 1 else sp.csr_array(X), y, n_eval)


def _cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return _split((X / X.max(axis=0))[:184], y[:184], 24)


def _iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.RandomState(6).permutation(len(y))
    return _split(X[order] - X.mean(axis=0), _names(y[order]), 8)


def _digits():
    X, y = load_digits(n_class=4, return_X_y=True)
    return _split(X[:168] / 16.0, y[:168], 8)


def _moons():
    return _split(*make_moons(184, noise=0.25, random_state=3), 24)


def _gram():
    data = _moons()
    return Data(rbf_kernel(data.X, gamma=1.5), data.y, rbf_kernel(data.X_eval, data.X, gamma=1.5))


def _four():
    data = _mixture(160, 8, 4, 12, 8)
    return Data(data.X, _names(data.y), data.X_eval)


DATA = {
    "tall": lambda: _mixture(180, 8, 2, 11, 24),
    "four": _four,
    "large": lambda: _mixture(720, 6, 2, 13, 24),
    "large_four": lambda: _mixture(710, 6, 4, 14, 8),
    "wide": lambda: _plane(60, 150, 1, 21),
    # Of short rows, which the stochastic methods bring to an end.
    "short_wide": lambda: _plane(40, 60, 1, 28, scale=0.2),
    "sparse_tall": lambda: _plane(300, 40, 0.15, 22),
    "sparse_wide": lambda: _plane(80, 300, 0.05, 23),
    "sparse_four": lambda: _plane(200, 30, 0.2, 24, n_classes=4, n_eval=8),
    # More features than the normal equations of chunks are set up for.
    "sparse_very_wide": lambda: _plane(120, 2100, 0.01, 25),
    "sparse_square": lambda: _plane(1200, 1050, 0.01, 27),
    # So many rows that a fit begins with a part of them.
    "many": lambda: _plane(20_000, 32, 1, 29),
    "many_sparse": lambda: _plane(20_000, 40, 0.1, 30),
    "ball": lambda: _plane(90, 4, 1, 26),
    "moons": _moons,
    "gram": _gram,
    "cancer": _cancer,
    "iris": _iris,
    "digits": _digits,
}


@cache
def load(name):
    """Return a set of `DATA`, made once."""
    return DATA[name]()


def cauchy_kernel(X, Y):
    """Return a positive semi-definite kernel as a user writes one."""
    return 1.0 / (1.0 + 0.5 * cdist(X, Y, "sqeuclidean"))


# ---- Every parameter of every estimator -------------------------------------------------------

_SHARED = {
    "fit_intercept": True,
    "tol": 1e-12,
    "max_iter": 20_000,
    "class_weight": None,
    "random_state": 0,
}
_KERNEL = {"kernel": "rbf", "degree": 3, "coef0": 0.0}
_ODM = {"C1": 64.0, "C2": 16.0, "D": 0.2}
_LDM = {"C": 16.0, "lambda1": 2.0, "lambda2": 0.5}
_ODM_GRID = {"C1s": [1.0, 8.0, 64.0], "C2s": [0.5, 4.0], "Ds": [0.0, 0.3]}
_LDM_GRID = {"Cs": [1.0, 16.0], "lambda1s": [0.25, 4.0], "lambda2s": [0.0, 0.5]}
_WIDTHS = {"gammas": None, "widths": None}
_SELECTION = {
    "cv": None,
    "scoring": None,
    "max_evals": 24,
    "max_samples": 1000,
    "n_jobs": 1,
    "verbose": 0,
    "solver": "auto",
}
_CACHE = {"cache_size": 2000}

# The error of decision values is about the root of the gap. No processor certifies much less.
_FINE = 1e-15

SETTINGS = {
    "ODMClassifier": {
        **_ODM,
        **_KERNEL,
        **_SHARED,
        **_CACHE,
        "C1": 256.0,
        "gamma": 0.1,
        "solver": "newton",
        "approximation": None,
        "n_components": "auto",
        "calibration": None,
    },
    "LinearODMClassifier": {
        **_ODM,
        **_SHARED,
        "solver": "newton",
        "warm_start": False,
        "calibration": None,
        "multi_class": "ovr",
    },
    "LDMClassifier": {**_LDM, **_KERNEL, **_SHARED, "C": 128.0, "gamma": 0.1, "solver": "dcd"},
    "LinearLDMClassifier": {**_LDM, **_SHARED, "solver": "interior_point"},
    "ODMClassifierCV": {
        **_ODM_GRID,
        **_WIDTHS,
        **_KERNEL,
        **_SHARED,
        **_SELECTION,
        **_CACHE,
        "calibration": None,
        "multi_class": "ovr",
    },
    "LinearODMClassifierCV": {
        **_ODM_GRID,
        **_SHARED,
        **_SELECTION,
        "calibration": None,
        "multi_class": "ovr",
    },
    "LDMClassifierCV": {**_LDM_GRID, **_WIDTHS, **_KERNEL, **_SHARED, **_SELECTION},
    "LinearLDMClassifierCV": {**_LDM_GRID, **_SHARED, **_SELECTION},
}

NO_GRID = {"C1s": None, "C2s": None, "Ds": None}
NO_LDM_GRID = {"Cs": None, "lambda1s": None, "lambda2s": None}


# ---- Ways to fit ------------------------------------------------------------------------------


def plain_fit(model, X, y, weight):
    """Fit to all rows."""
    model.fit(X, y, sample_weight=weight)


def chunked_fit(model, X, y, weight):
    """Fit to parts of arrays."""
    model.fit_chunks(ArrayChunks(X, y, weight, chunk_rows=max(47, len(y) // 6)))


def npy_fit(model, X, y, weight):
    """Fit to parts of files of arrays."""
    with TemporaryDirectory() as folder:
        paths = [Path(folder, f"{name}.npy") for name in ("X", "y", "weight")]
        for path, array in zip(paths, (X, y, weight), strict=True):
            np.save(path, array)
        chunks = NpyChunks(*paths, chunk_rows=47)
        model.fit_chunks(chunks)
        del chunks  # which keeps the files open


def svmlight_fit(model, X, y, weight):
    """Fit to parts of a text file."""
    with TemporaryDirectory() as folder:
        path = str(Path(folder, "rows.svm"))
        dump_svmlight_file(X, y, path, zero_based=False)
        model.fit_chunks(SvmlightChunks(path, X.shape[1], zero_based=False, chunk_bytes=9000))


def streamed_fit(model, X, y, weight):
    """Two passes over batches."""
    for first in [*range(0, len(y), 50)] * 2:
        batch = slice(first, first + 50)
        part = None if weight is None else weight[batch]
        model.partial_fit(X[batch], y[batch], classes=np.unique(y), sample_weight=part)


def fit_then_stream(model, X, y, weight):
    """Follow a stream from the end of a fit."""
    model.fit(X[:100], y[:100])
    streamed_fit(model, X[100:], y[100:], weight)


def warm_fit(model, X, y, weight):
    """Fit twice, the second time from the end of the first with another penalty."""
    C1 = model.C1
    model.set_params(C1=C1 / 8).fit(X, y, sample_weight=weight)
    model.set_params(C1=C1).fit(X, y, sample_weight=weight)


# ---- Results ----------------------------------------------------------------------------------


_N_STORED = 18  # rows, so that the store stays small


def decisions(model, data, dtype):
    """Return decision values, intercepts and, where there is one, the minimum."""
    out = {
        "decision": model.decision_function(data.X_eval[:_N_STORED].astype(dtype)),
        "intercept": model.intercept_,
    }
    return out | (certificate(model, data) if hasattr(model, "objective_") else {})


def certificate(model, data):
    """Return the minimum, the largest relative gap, and the largest norm of the features."""
    return {
        "objective": model.objective_,
        "gap": np.max(model.dual_gap_),
        "radius": np.sqrt(max(_squared_norms(model, X).max() for X in (data.X, data.X_eval))),
    }


def _squared_norms(model, X):
    kernel = getattr(model, "kernel", "linear")
    if kernel not in ("linear", "poly"):
        return np.ones(1)  # of the positive part of "sigmoid" about that
    squares = X.multiply(X) if sp.issparse(X) else X**2
    squares = np.asarray(squares.sum(axis=1))
    if kernel == "linear":
        return squares
    return (model.gamma_ * squares + model.coef0) ** model.degree


def minimum(model, data, dtype):
    """Return the minimum alone, which is known better than where it is.

    It is told for kernel values in single precision where these are used, the gap for precise ones.
    """
    return {"objective": model.objective_}


def _spread_rows(data, n_rows=16):
    return np.linspace(0, len(data.y) - 1, n_rows).astype(int)


def left_out(model, data, dtype, *, exact):
    """Return the decision values of samples that are left out, a model for each."""
    return {"left_out": model.loo_decision_function(exact=exact)[_spread_rows(data)]}


def left_out_again(model, data, dtype, *, exact):
    """Return the same for data that are passed again, as to a model that was loaded."""
    decision = model.loo_decision_function(data.X.astype(dtype), data.y, exact=exact)
    return {"left_out": decision[_spread_rows(data)]}


def folds_out(model, data, dtype, *, exact):
    """Return the decision values of samples that are left out, a model for each fold."""
    folds = StratifiedKFold(6, shuffle=True, random_state=0)
    return {"left_out": model.kfold_decision_function(folds, exact=exact)[_spread_rows(data)]}


def bounds(model, data, dtype, *, kinds=("printed", "valid", "count")):
    """Return the bounds of the leave-one-out error."""
    return {f"bound_{kind}": model.loo_error_bound(kind=kind) for kind in kinds}


def selected(model, data, dtype):
    """Return what was chosen, with which score, and a few decision values of its model."""
    results = model.cv_results_
    out = {
        "params": results["params"][model.best_index_],
        "best_score": model.best_score_,
        "decision": np.ravel(model.decision_function(data.X_eval.astype(dtype)))[:8],
    }
    grids = [value for name, value in model.get_params().items() if name in _GRIDS]
    if all(grid is None for grid in grids):
        return out | {"margin": _margin(model)}
    return out | {"mean_test_score": results["mean_test_score"]} | certificate(model, data)


def _margin(model):
    """Return how much worse than the chosen point others are, as a share of the score.

    Others are the finalists, or, where nothing else was judged once more, all points.
    """
    results, best = model.cv_results_, model.best_index_
    others = results["is_finalist"].copy()
    if others.sum() == 1:
        others[:] = True
    chosen = results["params"][best]
    others &= [
        distance_of_points(point, chosen) > SAME_SEARCHED_POINT for point in results["params"]
    ]
    scores = results["mean_test_score"]
    if not others.any():
        return 1.0
    return min(1.0 - scores[others].max() / scores[best], 1.0)


def distance_of_points(point, other):
    """Return the largest difference of two parameters, in binary logarithms but for the band."""
    found = 0.0
    for name, value in point.items():
        if np.shape(value) != np.shape(other[name]):
            return np.inf
        if name in ("D", "epsilon"):
            apart = abs(value - other[name])
        else:  # penalties may vanish
            apart = np.log2(np.maximum(value, _SMALLEST) / np.maximum(other[name], _SMALLEST))
        found = max(found, float(np.abs(apart).max()))
    return found


_SMALLEST = np.finfo(np.float64).tiny
_GRIDS = {*_ODM_GRID, *_LDM_GRID, *_WIDTHS}


def run_odm_path(X, y, weight, **params):
    """Return solutions and leave-one-out values of a small grid."""
    path = optimargin.odm_path(X, y, sample_weight=weight, **params)
    out = {
        "objective": path.objective,
        "coef": path.coef[..., :: max(path.coef.shape[-1] // 6, 1)],
        "intercept": path.intercept,
    }
    if path.loo_decision is None:
        return out
    return out | {"left_out": path.loo_decision[:, :: len(y) // 5]}


def run_ldm_path(X, y, weight, **params):
    """Return solutions of a small grid."""
    path = optimargin.ldm_path(X, y, sample_weight=weight, **params)
    return {
        "objective": path.objective,
        "coef": path.coef[..., :: len(y) // 8],
        "intercept": path.intercept,
    }


# ---- The table --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One fit and what is stored of it.

    Attributes
    ----------
    kind : str
        A key of `TOLERANCES`.
    data : str
        A key of `DATA`.
    learn : callable
        Takes the data, the rows in the precision of the case and the weights; returns arrays.
    weight : {None, "positive", "zeros"}
    dtype : str
    warns : str or None
        Words of a warning that must be given.
    """

    kind: str
    data: str
    learn: Callable
    weight: str | None = None
    dtype: str = "float64"
    warns: str | None = None

    def run(self):
        """Return the results as a dict of arrays and of chosen parameters."""
        data = load(self.data)
        X = data.X.astype(self.dtype)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # A fit that does not end at its tolerance is no reference.
            warnings.simplefilter("error", ConvergenceWarning)
            results = self.learn(data, X, data.weights(self.weight), self.dtype)
        expected = [w for w in caught if self.warns is not None and self.warns in str(w.message)]
        if self.warns is not None and not expected:
            raise AssertionError(f"no warning that says {self.warns!r}")
        for w in caught:
            if w not in expected:
                warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
        return {
            name: value if name == "params" else np.asarray(value, dtype=np.float64)
            for name, value in results.items()
        }

    def tolerance(self, entry, bounds, scale):
        """Return the allowed difference of one of the arrays, relative to its scale.

        Parameters
        ----------
        entry : str
        bounds : list of dict
            Results, of which some may tell what is certain about them.
        scale : float
            Of the array.
        """
        if entry == "decision" and self.kind == "search":
            return SEARCHED_MODEL_TOLERANCE
        is_fit = entry in ("decision", "intercept", "objective")
        if self.dtype != "float64":
            return FLOAT32_TOLERANCES["iterative" if is_fit else self.kind]
        rounding = TOLERANCES["direct" if is_fit else self.kind]
        if self.kind in ("direct", "stream") or not is_fit or "gap" not in bounds[0]:
            return TOLERANCES[self.kind]
        if entry == "objective":
            return rounding + sum(float(each["gap"]) for each in bounds)
        return rounding + sum(map(_certified_distance, bounds)) / scale


def _certified_distance(results):
    """Return how far decision values may be from those of the optimum, an intercept included."""
    objective = max(np.abs(results["objective"]).max(), 1e-3)  # what gaps are relative to
    return 2 * float(results["radius"]) * np.sqrt(2 * float(results["gap"]) * objective)


def _learn(estimator, changes, train, results, data, X, weight, dtype):
    model = getattr(optimargin, estimator)(**{**SETTINGS[estimator], **changes})
    train(model, X, data.y, weight)
    return results(model, data, dtype)


def _follow(path, params, data, X, weight, dtype):
    return path(X, data.y, weight, **params)


CASES: dict[str, Case] = {}
INDEFINITE, LITTLE_ROOM = "positive semi-definite", "cache_size"  # words of expected warnings
_OPTIONS = ("weight", "dtype", "warns")


def _add(name, case):
    if name in CASES:
        raise ValueError(f"two cases are called {name!r}")
    CASES[name] = case


def _case(name, kind, estimator, data, *, train=plain_fit, results=decisions, **changes):
    options = {option: changes.pop(option) for option in _OPTIONS if option in changes}
    learn = partial(_learn, estimator, changes, train, results)
    _add(name, Case(kind, data, learn, **options))


def _path_case(name, kind, path, data, *, weight=None, dtype="float64", **params):
    _add(name, Case(kind, data, partial(_follow, path, params), weight, dtype))


def _define_odm():
    case = partial(_case, estimator="ODMClassifier")
    newton = partial(case, kind="direct", solver="newton")
    newton("odm/newton/rbf", data="tall")
    newton("odm/newton/rbf/float32", data="tall", dtype="float32")
    newton("odm/newton/rbf/no_intercept", data="tall", fit_intercept=False)
    newton("odm/newton/rbf/zero_weights", data="tall", weight="zeros")
    newton("odm/newton/rbf/balanced", data="tall", class_weight="balanced")
    newton(
        "odm/newton/rbf/class_and_sample_weight",
        data="tall",
        weight="zeros",
        class_weight={0: 1.0, 1: 3.0},
    )
    newton("odm/newton/rbf/D0", data="tall", D=0.0)
    newton("odm/newton/rbf/C2_0", data="tall", C2=0.0)
    newton("odm/newton/rbf/C2_0_D0", data="moons", C2=0.0, D=0.0)
    newton("odm/newton/rbf/large_C1", data="moons", gamma=0.5, C1=4096.0, C2=1024.0)
    newton("odm/newton/rbf/four", data="four", multi_class="ovr")
    newton(
        "odm/newton/rbf/four_weighted",
        data="four",
        weight="zeros",
        class_weight="balanced",
        multi_class="ovr",
    )
    newton("odm/newton/rbf/wide", data="wide", gamma=0.003)
    newton("odm/newton/rbf/sparse", data="sparse_tall", gamma=0.05)
    newton("odm/newton/rbf/sparse_wide", data="sparse_wide", gamma=0.05)
    newton("odm/newton/rbf/large", data="large")
    newton("odm/newton/rbf/digits", data="digits", gamma=0.05, multi_class="ovr")
    for gamma in ("scale", "auto", "mean_distance"):
        newton(f"odm/newton/gamma_{gamma}", data="tall", gamma=gamma, weight="zeros")
    newton("odm/newton/gamma_mean_distance/sparse", data="sparse_tall", gamma="mean_distance")
    newton("odm/newton/poly", data="tall", kernel="poly", gamma=0.2, degree=2, coef0=1.0)
    newton("odm/newton/poly/odd", data="ball", kernel="poly", gamma=0.3, degree=3, coef0=0.0)
    newton("odm/newton/linear", data="tall", kernel="linear")
    newton("odm/newton/linear/wide", data="wide", kernel="linear")
    newton("odm/newton/linear/sparse", data="sparse_tall", kernel="linear")
    newton("odm/newton/linear/sparse_wide", data="sparse_wide", kernel="linear")
    newton("odm/newton/precomputed", data="gram", kernel="precomputed")
    newton("odm/newton/precomputed/weighted", data="gram", kernel="precomputed", weight="zeros")
    newton("odm/newton/callable", data="tall", kernel=cauchy_kernel)
    sigmoid = {"data": "ball", "kernel": "sigmoid", "gamma": 0.5, "coef0": 0.0}
    newton("odm/newton/sigmoid", warns=INDEFINITE, **sigmoid)
    newton("odm/newton/sigmoid/weighted", warns=INDEFINITE, weight="zeros", **sigmoid)
    newton("odm/auto/rbf", data="tall", solver="auto")
    newton("odm/auto/linear", data="tall", solver="auto", kernel="linear")

    newton_cg = partial(case, kind="iterative", solver="newton_cg", tol=_FINE)
    newton_cg("odm/auto/large", data="large", solver="auto")
    newton_cg("odm/newton_cg/rbf", data="tall")
    newton_cg("odm/newton_cg/large", data="large")
    newton_cg("odm/newton_cg/large/float32", data="large", dtype="float32")
    # Kernel values are rounded to float32 at such a tolerance, and the minimum is all there is.
    newton_cg("odm/newton_cg/large/rounded_kernel", data="large", tol=2e-8, results=minimum)
    newton_cg("odm/newton_cg/large/zero_weights", data="large", weight="zeros")
    small = partial(newton_cg, data="large", warns=LITTLE_ROOM)
    small("odm/newton_cg/large/small_cache", cache_size=1.0)
    # Few samples lie outside the band: there is room for those in the end.
    small("odm/newton_cg/large/cache_of_few", cache_size=1.0, C1=16384.0, C2=0.0, D=0.5)
    newton_cg("odm/newton_cg/large/no_intercept", data="large", fit_intercept=False)
    newton_cg("odm/newton_cg/large/four", data="large_four", multi_class="ovr")
    newton_cg("odm/newton_cg/sparse", data="sparse_tall", gamma=0.05)
    newton_cg("odm/newton_cg/linear", data="tall", kernel="linear")
    newton_cg("odm/newton_cg/poly", data="tall", kernel="poly", gamma=0.2, degree=2, coef0=1.0)
    newton_cg("odm/newton_cg/callable", data="tall", kernel=cauchy_kernel)
    newton_cg("odm/newton_cg/precomputed", data="gram", kernel="precomputed")
    newton_cg("odm/newton_cg/sigmoid", warns=INDEFINITE, **sigmoid)

    dcd = partial(case, kind="iterative", solver="dcd", C1=32.0, C2=8.0, tol=_FINE)
    dcd("odm/dcd/rbf", data="tall")
    dcd("odm/dcd/rbf/no_intercept", data="tall", fit_intercept=False)
    dcd("odm/dcd/rbf/small_cache", data="moons", cache_size=0.15, warns=LITTLE_ROOM)
    dcd("odm/dcd/four", data="four", class_weight="balanced", multi_class="ovr")
    dcd("odm/dcd/linear", data="ball", kernel="linear", weight="zeros")
    dcd("odm/dcd/precomputed", data="gram", kernel="precomputed")
    dcd("odm/dcd/sigmoid", warns=INDEFINITE, **sigmoid)

    nystrom = partial(
        case,
        kind="iterative",
        solver="newton",
        approximation="nystrom",
        n_components=30,
    )
    nystrom("odm/nystrom/rbf", data="tall")
    nystrom("odm/nystrom/rbf/float32", data="tall", dtype="float32")
    nystrom("odm/nystrom/rbf/zero_weights", data="moons", gamma=1.5, weight="zeros")
    nystrom("odm/nystrom/rbf/four", data="four")
    nystrom("odm/nystrom/rbf/sparse", data="sparse_tall", gamma=0.05, solver="auto")
    nystrom("odm/nystrom/linear", data="tall", kernel="linear", n_components=6)
    nystrom("odm/nystrom/poly", data="tall", kernel="poly", gamma=0.2, degree=2, coef0=1.0)
    nystrom("odm/nystrom/auto", data="large", n_components="auto", solver="auto")
    nystrom("odm/nystrom/loo", data="tall", results=partial(left_out, exact=False))
    nystrom("odm/chunks/rbf", data="tall", train=chunked_fit)
    nystrom("odm/chunks/rbf/zero_weights", data="tall", train=chunked_fit, weight="zeros")
    nystrom("odm/chunks/rbf/four", data="four", train=chunked_fit)


def _define_linear_odm():
    case = partial(_case, estimator="LinearODMClassifier")
    newton = partial(case, kind="direct", solver="newton")
    newton("linear_odm/newton/tall", data="tall")
    newton("linear_odm/newton/tall/float32", data="tall", dtype="float32")
    newton("linear_odm/newton/tall/no_intercept", data="tall", fit_intercept=False)
    newton("linear_odm/newton/tall/zero_weights", data="tall", weight="zeros")
    newton("linear_odm/newton/tall/C2_0_D0", data="tall", C2=0.0, D=0.0)
    newton("linear_odm/newton/cancer", data="cancer", class_weight="balanced")
    newton("linear_odm/newton/iris", data="iris", class_weight={"ash": 2.0, "cedar": 0.5})
    newton("linear_odm/newton/four", data="four")
    newton("linear_odm/newton/wide", data="wide")
    newton("linear_odm/newton/wide/float32", data="wide", dtype="float32")
    newton("linear_odm/newton/sparse_tall", data="sparse_tall", weight="zeros")
    newton("linear_odm/newton/sparse_wide", data="sparse_wide")
    newton("linear_odm/newton/sparse_four", data="sparse_four")
    newton("linear_odm/newton/many_rows", data="many")
    newton("linear_odm/newton/many_rows/sparse", data="many_sparse")
    newton("linear_odm/newton/warm_start", data="four", train=warm_fit, warm_start=True)
    newton("linear_odm/auto/tall", data="tall", solver="auto")
    newton("linear_odm/auto/wide", data="wide", solver="auto")

    iterative = partial(case, kind="iterative", tol=_FINE)
    iterative("linear_odm/auto/sparse_tall", data="sparse_tall", solver="auto")
    iterative("linear_odm/auto/sparse_very_wide", data="sparse_very_wide", solver="auto", C1=512.0)
    iterative("linear_odm/auto/sparse_square", data="sparse_square", solver="auto", C1=16.0)
    # Smaller penalties, at which other solvers are faster.
    for C1 in (0.5, 3.0):
        iterative(
            f"linear_odm/auto/sparse_very_wide/C1_{C1}",
            data="sparse_very_wide",
            solver="auto",
            C1=C1,
            C2=C1 / 4,
        )
    cg = partial(iterative, solver="newton_cg")
    cg("linear_odm/newton_cg/tall", data="tall")
    cg("linear_odm/newton_cg/tall/float32", data="tall", dtype="float32")
    cg("linear_odm/newton_cg/wide", data="wide", fit_intercept=False)
    cg("linear_odm/newton_cg/sparse_tall", data="sparse_tall", weight="zeros")
    cg("linear_odm/newton_cg/sparse_wide", data="sparse_wide")
    cg("linear_odm/newton_cg/four", data="four", class_weight="balanced")
    cg("linear_odm/newton_cg/warm_start", data="sparse_tall", train=warm_fit, warm_start=True)
    dcd = partial(iterative, solver="dcd", C1=8.0, C2=2.0)
    svrg = partial(iterative, solver="svrg", C1=8.0, C2=2.0, tol=3e-15)
    for solver, slow in (("dcd", dcd), ("svrg", svrg)):
        slow(f"linear_odm/{solver}/tall", data="tall")
        slow(f"linear_odm/{solver}/no_intercept", data="ball", fit_intercept=False)
        slow(f"linear_odm/{solver}/sparse_tall", data="sparse_tall", weight="zeros")
        slow(f"linear_odm/{solver}/sparse_four", data="sparse_four")
    dcd("linear_odm/dcd/wide", data="wide")
    dcd("linear_odm/dcd/sparse_wide", data="sparse_wide")
    svrg("linear_odm/svrg/wide", data="short_wide", C1=1.0, C2=0.25, tol=1e-15)

    chunks = partial(iterative, train=chunked_fit, solver="auto", tol=1e-12)
    chunks("linear_odm/chunks/dense", data="tall")
    chunks("linear_odm/chunks/dense/float32", data="tall", dtype="float32")
    chunks("linear_odm/chunks/dense/zero_weights", data="tall", weight="zeros")
    chunks("linear_odm/chunks/dense/four", data="four", class_weight="balanced")
    chunks("linear_odm/chunks/sparse", data="sparse_tall")
    chunks("linear_odm/chunks/sparse/four", data="sparse_four")
    chunks("linear_odm/chunks/sparse_very_wide", data="sparse_very_wide", C1=4.0, C2=1.0, tol=1e-14)
    chunks("linear_odm/chunks/many_rows", data="many")
    chunks("linear_odm/chunks/npy", data="tall", train=npy_fit, weight="zeros")
    chunks("linear_odm/chunks/svmlight", data="sparse_tall", train=svmlight_fit)

    stream = partial(case, kind="stream", solver="auto", train=streamed_fit)
    stream("linear_odm/stream/dense", data="tall")
    stream("linear_odm/stream/dense/float32", data="tall", dtype="float32")
    stream("linear_odm/stream/dense/zero_weights", data="tall", weight="zeros")
    stream("linear_odm/stream/four", data="four", class_weight={"ash": 2.0, "date": 0.5})
    stream("linear_odm/stream/sparse", data="sparse_tall", fit_intercept=False)
    stream("linear_odm/stream/after_fit", data="tall", train=fit_then_stream)


def _define_left_out():
    kernel = partial(_case, kind="direct", estimator="ODMClassifier", solver="newton")
    linear = partial(_case, kind="direct", estimator="LinearODMClassifier", solver="newton")
    for exact in (False, True):
        end = "exact" if exact else "closed"
        loo, folds = partial(left_out, exact=exact), partial(folds_out, exact=exact)
        kernel(f"odm/loo/{end}", data="tall", results=loo)
        kernel(f"odm/loo/{end}/four", data="four", results=loo, weight="zeros", multi_class="ovr")
        kernel(f"odm/folds/{end}", data="tall", results=folds)
        linear(f"linear_odm/loo/{end}", data="tall", results=loo)
        linear(f"linear_odm/loo/{end}/wide", data="wide", results=loo)
        linear(f"linear_odm/loo/{end}/sparse", data="sparse_tall", results=loo, weight="zeros")
        linear(f"linear_odm/folds/{end}", data="iris", results=folds)
        linear(f"linear_odm/folds/{end}/sparse", data="sparse_tall", results=folds)
    kernel("odm/loo/passed", data="moons", results=partial(left_out_again, exact=False))
    kernel(
        "odm/loo/after_newton_cg",
        data="large",
        solver="newton_cg",
        results=partial(left_out, exact=False),
    )
    kernel("odm/bounds", data="tall", fit_intercept=False, results=bounds)
    kernel("odm/bounds/intercept", data="four", results=bounds, multi_class="ovr")
    linear("linear_odm/bounds", data="tall", fit_intercept=False, weight="zeros", results=bounds)
    printed = partial(bounds, kinds=("printed",))
    ldm = partial(_case, kind="iterative", results=printed, fit_intercept=False)
    ldm("ldm/bounds", estimator="LDMClassifier", data="tall")
    ldm("linear_ldm/bounds", estimator="LinearLDMClassifier", data="four")


def _define_ldm():
    case = partial(_case, kind="iterative", estimator="LDMClassifier")
    sigmoid = {"data": "ball", "kernel": "sigmoid", "gamma": 0.5, "coef0": 0.0}
    for solver in ("dcd", "interior_point"):
        ldm = partial(case, solver=solver)
        ldm(f"ldm/{solver}/rbf", data="tall")
        ldm(f"ldm/{solver}/rbf/no_intercept", data="tall", fit_intercept=False)
        ldm(f"ldm/{solver}/rbf/zero_weights", data="tall", weight="zeros")
        ldm(f"ldm/{solver}/rbf/svm", data="moons", gamma=1.5, lambda1=0.0, lambda2=0.0)
        ldm(f"ldm/{solver}/four", data="four", class_weight="balanced")
        ldm(f"ldm/{solver}/linear", data="tall", kernel="linear")
        ldm(f"ldm/{solver}/linear_wide", data="wide", kernel="linear")
        ldm(f"ldm/{solver}/sparse", data="sparse_tall", gamma=0.05)
    case("ldm/dcd/float32", data="tall", solver="dcd", dtype="float32")
    case("ldm/dcd/precomputed", data="gram", solver="dcd", kernel="precomputed")
    case("ldm/dcd/sigmoid", solver="dcd", warns=INDEFINITE, **sigmoid)
    case("ldm/interior_point/callable", data="tall", solver="interior_point", kernel=cauchy_kernel)
    case("ldm/dcd/gamma_mean_distance", data="tall", solver="dcd", gamma="mean_distance")
    case("ldm/auto/small", data="tall", solver="auto", gamma="scale")
    case("ldm/auto/more_rows", data="sparse_tall", solver="auto", gamma=0.1)

    case = partial(_case, kind="iterative", estimator="LinearLDMClassifier")
    for solver in ("dcd", "interior_point"):
        ldm = partial(case, solver=solver)
        ldm(f"linear_ldm/{solver}/tall", data="tall")
        ldm(f"linear_ldm/{solver}/no_intercept", data="tall", fit_intercept=False)
        ldm(f"linear_ldm/{solver}/wide", data="wide")
        ldm(f"linear_ldm/{solver}/sparse_tall", data="sparse_tall", weight="zeros")
        ldm(f"linear_ldm/{solver}/sparse_wide", data="sparse_wide")
        ldm(f"linear_ldm/{solver}/four", data="four", class_weight="balanced")
    # The stochastic method comes to an end where no margin sits at the kink of the hinge loss.
    mean = partial(case, solver="svrg", C=0.05, lambda1=1.0, lambda2=0.5, tol=3e-15)
    mean("linear_ldm/svrg/tall", data="tall")
    mean("linear_ldm/svrg/no_intercept", data="tall", fit_intercept=False)
    mean("linear_ldm/svrg/four", data="four", class_weight="balanced")
    hinge = partial(case, solver="svrg", C=0.5, lambda1=0.5, lambda2=0.0, tol=_FINE)
    hinge("linear_ldm/svrg/wide", data="short_wide")
    hinge("linear_ldm/svrg/sparse_tall", data="sparse_tall", weight="zeros")
    hinge("linear_ldm/svrg/sparse_wide", data="sparse_wide", lambda1=0.1)
    case("linear_ldm/interior_point/float32", data="tall", dtype="float32")
    case("linear_ldm/dcd/sparse_square", data="sparse_square", solver="dcd", tol=1e-14)
    case("linear_ldm/auto/sparse_square", data="sparse_square", solver="auto", tol=1e-14)
    case("linear_ldm/auto/tall", data="cancer", solver="auto")
    case("linear_ldm/auto/sparse_wide", data="sparse_wide", solver="auto")


def _define_paths():
    odm = {
        "C1s": [2.0, 32.0],
        "C2s": [1.0],
        "Ds": [0.0, 0.4],
        "gammas": None,
        "widths": None,
        "kernel": "rbf",
        "degree": 3,
        "coef0": 0.0,
        "fit_intercept": True,
        "class_weight": None,
        "loo": True,
        "n_jobs": 1,
    }
    path = partial(_path_case, kind="direct", path=run_odm_path)
    path("odm_path/rbf", data="tall", **odm | {"gammas": [0.1, 0.5]})
    path("odm_path/rbf/widths", data="tall", weight="positive", **odm | {"widths": [0.5, 1.0]})
    path("odm_path/rbf/float32", data="moons", dtype="float32", **odm | {"gammas": [1.5]})
    path("odm_path/linear", data="tall", **odm | {"kernel": "linear"})
    path("odm_path/linear/wide", data="wide", **odm | {"kernel": "linear", "loo": False})
    path(
        "odm_path/linear/four",
        data="sparse_four",
        **odm | {"kernel": "linear", "Ds": [0.2], "class_weight": "balanced"},
    )
    path(
        "odm_path/poly",
        data="tall",
        **odm | {"kernel": "poly", "gammas": [0.2], "degree": 2, "coef0": 1.0},
    )
    ldm = {
        "Cs": [1.0, 16.0],
        "lambda1s": [0.0, 2.0],
        "lambda2s": [0.5],
        "kernel": "rbf",
        "gamma": 0.3,
        "degree": 3,
        "coef0": 0.0,
        "fit_intercept": True,
        "class_weight": None,
        "tol": 1e-12,
        "max_iter": 20_000,
    }
    path = partial(_path_case, kind="iterative", path=run_ldm_path)
    path("ldm_path/rbf", data="tall", **ldm)
    path("ldm_path/weighted", data="tall", weight="positive", **ldm | {"gamma": "scale"})
    path("ldm_path/four", data="four", **ldm | {"Cs": [4.0], "fit_intercept": False})
    path(
        "ldm_path/linear",
        data="wide",
        **ldm | {"kernel": "linear", "lambda1s": [2.0], "tol": 1e-10},
    )


def _define_grids():
    case = partial(_case, kind="choice", results=selected)
    odm = partial(case, estimator="ODMClassifierCV")
    gammas = {"gammas": [0.05, 0.3]}
    odm("odm_cv/grid/loo", data="tall", **gammas)
    odm("odm_cv/grid/loo/roc_auc", data="tall", scoring="roc_auc", **gammas)
    odm("odm_cv/grid/loo/smooth", data="tall", scoring="smooth", widths=[0.5, 1.0])
    odm("odm_cv/grid/loo/zero_weights", data="tall", weight="zeros", **gammas)
    odm("odm_cv/grid/loo/iris", data="iris", widths=[0.5, 1.0], class_weight="balanced")
    odm("odm_cv/grid/loo/linear", data="tall", kernel="linear", scoring="accuracy")
    odm("odm_cv/grid/loo/linear_wide", data="wide", kernel="linear", fit_intercept=False)
    odm("odm_cv/grid/loo/precomputed", data="gram", kernel="precomputed")
    odm("odm_cv/grid/loo/two_threads", data="moons", n_jobs=2, gammas=[0.5, 2.0])
    odm("odm_cv/grid/loo/float32", data="moons", dtype="float32", gammas=[0.5, 2.0])
    odm("odm_cv/grid/cv5", data="tall", cv=5, **gammas)
    odm("odm_cv/grid/cv5/roc_auc", data="tall", cv=5, scoring="roc_auc", **gammas)
    odm("odm_cv/grid/cv5/four", data="four", cv=5, scoring="accuracy", gammas=[0.1])
    odm(
        "odm_cv/grid/cv5/poly",
        data="tall",
        cv=5,
        kernel="poly",
        gammas=[0.1, 0.2],
        degree=2,
        coef0=1.0,
    )
    odm(
        "odm_cv/grid/cv5/sigmoid",
        data="ball",
        cv=5,
        kernel="sigmoid",
        gammas=[0.5],
        warns=INDEFINITE,
    )
    linear = partial(case, estimator="LinearODMClassifierCV")
    linear("linear_odm_cv/grid/loo", data="tall")
    linear("linear_odm_cv/grid/loo/sparse", data="sparse_tall", scoring="roc_auc")
    linear("linear_odm_cv/grid/loo/four", data="four", weight="zeros")
    linear("linear_odm_cv/grid/cv5", data="tall", cv=5, scoring="accuracy")
    linear("linear_odm_cv/grid/cv5/iris", data="iris", cv=5)
    linear("linear_odm_cv/grid/cv5/wide", data="wide", cv=5, scoring="roc_auc")
    ldm = partial(case, estimator="LDMClassifierCV")
    ldm("ldm_cv/grid", data="tall", **gammas)
    ldm("ldm_cv/grid/cv5/roc_auc", data="tall", cv=5, scoring="roc_auc", **gammas)
    ldm("ldm_cv/grid/cv5/linear", data="tall", cv=5, kernel="linear", scoring="accuracy")
    ldm("ldm_cv/grid/cv5/iris", data="iris", cv=5, widths=[1.0])
    linear = partial(case, estimator="LinearLDMClassifierCV")
    linear("linear_ldm_cv/grid", data="tall")
    linear("linear_ldm_cv/grid/cv5/roc_auc", data="sparse_tall", cv=5, scoring="roc_auc")
    linear("linear_ldm_cv/grid/cv5/wide", data="wide", cv=5, scoring="accuracy")


def _define_searches():
    case = partial(_case, kind="search", results=selected)
    odm = partial(case, estimator="ODMClassifierCV", **NO_GRID)
    odm("odm_cv/search/rbf", data="tall")
    odm("odm_cv/search/rbf/float32", data="tall", dtype="float32")
    odm("odm_cv/search/rbf/iris", data="iris")
    odm("odm_cv/search/rbf/zero_weights", data="tall", weight="zeros")
    odm("odm_cv/search/rbf/balanced", data="moons", class_weight="balanced")
    odm("odm_cv/search/rbf/sparse", data="sparse_tall", fit_intercept=False)
    odm("odm_cv/search/rbf/max_samples", data="large", max_samples=120)
    odm("odm_cv/search/rbf/roc_auc", data="tall", scoring="roc_auc")
    odm("odm_cv/search/rbf/cv3", data="tall", cv=3)
    odm("odm_cv/search/rbf/cv3/iris", data="iris", cv=3)
    odm("odm_cv/search/rbf/cv3/zero_weights", data="moons", cv=3, weight="zeros")
    odm("odm_cv/search/linear", data="tall", kernel="linear")
    odm("odm_cv/search/linear/wide", data="wide", kernel="linear")
    odm("odm_cv/search/linear/cv3/iris", data="iris", kernel="linear", cv=3)
    poly = {"kernel": "poly", "degree": 2, "coef0": 1.0}
    odm("odm_cv/search/poly", data="ball", **poly)
    odm("odm_cv/search/poly/cv3", data="ball", cv=3, **poly)
    odm("odm_cv/search/precomputed", data="gram", kernel="precomputed")
    linear = partial(case, estimator="LinearODMClassifierCV", **NO_GRID)
    linear("linear_odm_cv/search", data="tall")
    linear("linear_odm_cv/search/iris", data="iris")
    linear("linear_odm_cv/search/sparse", data="sparse_tall", weight="zeros")
    linear("linear_odm_cv/search/wide", data="wide", fit_intercept=False)
    linear("linear_odm_cv/search/cv3", data="tall", cv=3)
    linear("linear_odm_cv/search/cv3/wide", data="sparse_wide", cv=3)
    ldm = partial(case, estimator="LDMClassifierCV", **NO_LDM_GRID)
    ldm("ldm_cv/search", data="moons")
    ldm("ldm_cv/search/cv3", data="ball", cv=3)
    ldm("ldm_cv/search/cv3/linear", data="tall", cv=3, kernel="linear")
    linear = partial(case, estimator="LinearLDMClassifierCV", **NO_LDM_GRID)
    linear("linear_ldm_cv/search", data="tall")
    linear("linear_ldm_cv/search/cv3/iris", data="iris", cv=3)
    linear("linear_ldm_cv/search/cv3/wide", data="wide", cv=3)


for _define in (
    _define_odm,
    _define_linear_odm,
    _define_left_out,
    _define_ldm,
    _define_paths,
    _define_grids,
    _define_searches,
):
    _define()


def run_case(name):
    """Return the results of one case: small arrays, and the parameters that were chosen."""
    return CASES[name].run()


# ---- Stored results ---------------------------------------------------------------------------


def load_store(path=STORE):
    """Return the stored results by name."""
    stored = json.loads(Path(path).read_text(encoding="utf-8"))
    return {
        name: {
            entry: value if entry == "params" else np.array(value, dtype=np.float64)
            for entry, value in results.items()
        }
        for name, results in stored.items()
    }


def write_store(path, results):
    """Store results, one line for each case."""
    lines = [
        f"{json.dumps(name)}:{json.dumps(_rounded(name, values), separators=(',', ':'))}"
        for name, values in results.items()
    ]
    Path(path).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _rounded(name, values):
    """Return results as lists, with one digit more than they are compared by."""
    if "gap" in values:  # the next larger power of ten, which is certified as well
        values = values | {"gap": 10.0 ** np.ceil(np.log10(values["gap"]))}
    stored = {}
    for entry, value in values.items():
        if entry == "params":
            stored[entry] = {key: float(f"{number:.8g}") for key, number in value.items()}
        elif entry in _BOUNDS:
            stored[entry] = float(f"{float(value):.2g}")
        else:
            scale = _scale(entry, values)
            allowed = CASES[name].tolerance(entry, [values, values], scale)
            n_digits = 1 - int(np.floor(np.log10(allowed * scale)))
            stored[entry] = np.round(value, n_digits).tolist()
    return stored


@dataclass(frozen=True)
class Difference:
    """How far one array is from the stored one, in units of its largest absolute value."""

    entry: str
    found: float
    allowed: float

    @property
    def ok(self):
        """Whether it is as close as it must be."""
        return self.found <= self.allowed


def compare(name, results, stored):
    """Return the differences of all entries of a case, the most excessive first."""
    case = CASES[name]
    if set(results) != set(stored):
        raise ValueError(f"{name}: entries are {sorted(results)}, stored were {sorted(stored)}")
    differences = []
    is_clear = _is_clear(case, stored)
    if "params" in stored and is_clear:
        allowed = SAME_SEARCHED_POINT if case.kind == "search" else SAME_POINT
        differences.append(
            Difference("params", distance_of_points(results["params"], stored["params"]), allowed)
        )
    for entry, old in stored.items():
        if entry in _BOUNDS or (entry == "decision" and not is_clear):
            continue
        new = results[entry]
        if new.shape != old.shape:
            raise ValueError(f"{name}: {entry} has shape {new.shape}, stored was {old.shape}")
        # An intercept may be next to zero: it counts as a part of the decision values.
        scale = _scale(entry, stored)
        found = float(np.abs(new - old).max() / scale)
        found = found if np.isfinite(found) else np.inf
        allowed = case.tolerance(entry, [results, stored], scale)
        differences.append(Difference(entry, found, allowed))
    return sorted(differences, key=lambda d: -d.found / d.allowed)


def _is_clear(case, stored):
    """Return whether no other point is so good that rounding could choose it."""
    if case.kind == "search":
        return stored["margin"] > CLEARLY_WORSE
    if case.kind != "choice":
        return True
    scores = stored["mean_test_score"]
    edge = scores.max() - TOLERANCE * abs(scores.max())
    return (np.abs(scores - edge) > 2 * TOLERANCES["choice"]).all()


def _scale(entry, stored):
    names = {entry, _SCALE_OF.get(entry, entry)} & {*stored}
    return max(np.abs(stored[name]).max() for name in names) or 1.0


_BOUNDS = {"params", "gap", "radius", "margin"}  # what is not compared as an array
_SCALE_OF = {"intercept": "decision"}


def _print_comparison(path, names):
    """Print one line for each case and the largest differences of each kind."""
    stored, failed, worst = load_store(path), [], {}
    print(f"{'name':44s} {'kind':9s} {'entry':15s} {'difference':>10s} {'allowed':>8s}        time")
    for name in names:
        kind, start = CASES[name].kind, time.perf_counter()
        try:
            difference = compare(name, run_case(name), stored[name])[0]
        except Exception as error:  # the other cases are still of interest
            print(f"{name:44s} {kind:9s} FAIL {type(error).__name__}: {error}")
            failed.append(name)
            continue
        print(
            f"{name:44s} {kind:9s} {difference.entry:15s} {difference.found:10.1e} "
            f"{difference.allowed:8.0e}  {'ok  ' if difference.ok else 'FAIL'} "
            f"{time.perf_counter() - start:5.2f}",
            flush=True,
        )
        if not difference.ok:
            failed.append(name)
        share = difference.found / difference.allowed
        key = kind, CASES[name].dtype
        count, largest, where = worst.get(key, (0, 0.0, name))
        worst[key] = (count + 1, *max((largest, where), (share, name)))
    for (kind, dtype), (count, share, name) in worst.items():
        print(f"{count:3d} {kind} {dtype}: up to {share:.1e} of what is allowed, {name}")
    print(f"{len(names)} cases, {len(failed)} FAIL{': ' if failed else ''}{', '.join(failed)}")
    return not failed


def main():
    """Write or compare stored results."""
    parser = argparse.ArgumentParser(description="Fits with stored results.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", metavar="PATH", help="store the results of this build")
    what.add_argument("--compare", action="store_true", help="show differences from the store")
    parser.add_argument("--store", default=STORE, help="the stored results to compare with")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    arguments = parser.parse_args()
    names = [name for name in CASES if arguments.only in name]
    print(f"optimargin {optimargin.__version__} of {optimargin.__file__}")
    if arguments.compare:
        return 0 if _print_comparison(arguments.store, names) else 1
    results = {name: run_case(name) for name in names}
    write_store(arguments.write, results)
    print(f"{len(results)} cases, {Path(arguments.write).stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
