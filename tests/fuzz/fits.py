"""Random fits over all that is legal, however extreme, each judged by `exact`."""

import time
import traceback
import warnings
from tempfile import NamedTemporaryFile

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_regressor
from sklearn.exceptions import ConvergenceWarning

from optimargin import (
    LDMClassifier,
    LDMClassifierCV,
    LinearLDMClassifier,
    LinearLDMClassifierCV,
    LinearODMClassifier,
    LinearODMClassifierCV,
    LinearODMRegressor,
    LinearODMRegressorCV,
    ODMClassifier,
    ODMClassifierCV,
    ODMRegressor,
    ODMRegressorCV,
    OneClassODM,
)
from tests.cases import untidy_csr
from tests.fuzz import exact

_SLACK = 1e-9  # by which a claimed gap may be below the true one
_STEPS = 12


def kernel_fit(rng):
    """Fit `ODMClassifier`; half of the problems have more than 700 samples."""
    n_samples = _size(rng, 701, 820) if rng.random() < 0.5 else _size(rng, 2, 300)
    data = _data(rng, n_samples, _size(rng, 1, 60))
    kernel = {"kernel": "rbf", "gamma": _choose(rng, "scale", "mean_distance", _ten(rng, -10, 10))}
    if rng.random() < 0.3:
        kernel = {
            "kernel": _choose(rng, "poly", "poly", "linear"),
            "gamma": _choose(rng, "scale", _ten(rng, -3, 1)),
            "degree": int(_choose(rng, 2, 3, 4)),
            "coef0": float(_choose(rng, 0.0, 1.0)),
        }
    solver = str(_choose(rng, "auto", "auto", "auto", "newton", "newton_cg"))
    model = ODMClassifier(**_penalties(rng), **kernel, solver=solver)
    if kernel["kernel"] == "rbf" and rng.random() < 0.3:
        model.set_params(solver=str(_choose(rng, "dcd", "bcd")))
    return _judge(model, data, _kernel_problem)


def linear_fit(rng):
    """Fit `LinearODMClassifier`."""
    shape = _choose(rng, (200, 60), (3000, 20), (50, 300), (5001, 5))
    data = _data(rng, _size(rng, 2, shape[0]), _size(rng, 1, shape[1]))
    solver = str(_choose(rng, "auto", "auto", "auto", "newton", "newton_cg"))
    model = LinearODMClassifier(**_penalties(rng), solver=solver)
    return _judge(model, data, _linear_problem)


def other_fit(rng):
    """Fit one of the other estimators, which must end with finite numbers or refuse in words."""
    X, y, weight, dense = _data(rng, _size(rng, 2, 150), _size(rng, 1, 20))
    penalties = _penalties(rng)
    ldm = {
        "C": _ten(rng, -10, 12),
        "lambda1": _ten(rng, -10, 6),
        "lambda2": float(_choose(rng, 0.0, _ten(rng, -10, 3))),
        "fit_intercept": penalties["fit_intercept"],
    }
    of_numbers = {
        "C1": penalties["C1"],
        "C2": None if penalties["C1"] is None else _ten(rng, -10, 12),
        "epsilon": _choose(rng, 0.0, "scale", _ten(rng, -10, 10)),
        "fit_intercept": penalties["fit_intercept"],
    }
    one_class = {name: penalties[name] for name in ("C1", "C2", "D")}
    gamma = _ten(rng, -10, 10)
    model = _choose(
        rng,
        LDMClassifier(**ldm, gamma=gamma),
        LinearLDMClassifier(**ldm),
        ODMClassifier(**penalties, approximation="nystrom", gamma=gamma),
        ODMClassifier(**penalties, calibration=str(_choose(rng, "sigmoid", "isotonic"))),
        ODMClassifierCV(max_evals=8),
        LinearODMClassifierCV(max_evals=8),
        LDMClassifierCV(max_evals=8),
        LinearLDMClassifierCV(max_evals=8),
        ODMClassifier(**penalties, solver="dcd", gamma=_ten(rng, -4, 4), max_iter=50),
        LinearODMClassifier(**penalties, solver="svrg", max_iter=20),
        ODMRegressor(**of_numbers, gamma=gamma),
        LinearODMRegressor(**of_numbers),
        ODMRegressorCV(max_evals=8),
        LinearODMRegressorCV(max_evals=8),
        OneClassODM(**one_class, gamma=gamma),
    )
    if is_regressor(model):
        y = (y + rng.normal(size=len(y))) * _ten(rng, -8, 8) + _choose(rng, 0.0, _ten(rng, -8, 8))
    return _judge(model, (X, y, weight, dense), None)


def _judge(model, data, make_problem):
    """Fit, and return what happened as a dict; `failure` says what must not."""
    X, y, weight, dense = data
    found = {"model": repr(model), "shape": list(dense.shape), "kind": type(X).__name__}
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, y, sample_weight=weight)
            decide = model.predict if is_regressor(model) else model.decision_function
            decision = decide(X)
        except ValueError as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            kind = "refused" if where.line.startswith("raise") else "failure"  # by NumPy's words
            return found | {kind: f"{where.name}: {error}"[:300]}
        finally:
            found["seconds"] = round(time.process_time() - start, 3)
    others = {
        str(w.message)[:200]
        for w in caught
        if not issubclass(w.category, ConvergenceWarning | UserWarning)
    }
    if others:
        found["failure"] = f"warnings: {sorted(others)}"
    found["warned"] = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    numbers = [v for v in vars(model).values() if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
    if not all(np.isfinite(part).all() for part in [*numbers, decision]):
        return found | {"failure": "numbers that are not finite"}
    claim = float(np.max(getattr(model, "dual_gap_", np.nan)))
    found["claim"] = claim
    if claim > getattr(model, "tol", np.inf) and not found["warned"] and dense.dtype == np.float64:
        found["failure"] = "above the tolerance without a warning"
    if make_problem is None:
        return found
    if not claim < 1:  # says of itself that it is no solution
        return found
    band = exact.Band(
        np.where(y == model.classes_[1], 1.0, -1.0), weight, model.C1_, model.C2_, model.D
    )
    problem, z = make_problem(model, dense, band)
    value, gain, is_optimum = exact.gain(problem, z, _STEPS)
    found |= {"objective": value, "gain": gain, "optimum": is_optimum}
    if not gain <= claim + _SLACK + problem.rounding(z) / abs(value or 1.0):
        found["failure"] = "the gap claimed is below the true one"
    return found


def _kernel_problem(model, X, band):
    if model.kernel == "linear":  # coefficients of samples cancel in the norm
        w = model.dual_coef_[0].astype(np.longdouble) @ X[model.support_].astype(np.longdouble)
        z = np.append(w, model.intercept_).astype(np.float64)
        return exact.LinearProblem(X.astype(np.float64), band, model.fit_intercept), z
    gamma = getattr(model, "gamma_", 1.0)
    K = exact.kernel_matrix(model.kernel, X, gamma, model.degree, model.coef0)
    z = np.zeros(len(X) + 1)
    z[model.support_], z[-1] = model.dual_coef_[0], model.intercept_[0]
    return exact.KernelProblem(K, band, model.fit_intercept), z


def _linear_problem(model, X, band):
    z = np.append(model.coef_[0], model.intercept_).astype(np.float64)
    return exact.LinearProblem(X.astype(np.float64), band, model.fit_intercept), z


def _data(rng, n_samples, n_features):
    """Return rows in some container, labels, weights, and the same rows as a dense array."""
    X = rng.normal(size=(n_samples, n_features))
    score = X @ rng.normal(size=n_features) + rng.choice([0.0, 0.5, 3.0]) * rng.normal(
        size=n_samples
    )
    y = (score > rng.normal()).astype(int)
    if rng.random() < 0.1:  # one sample of a class
        y[:] = 0
    y[0], y[-1] = 0, 1
    if rng.random() < 0.3:
        X *= 10.0 ** rng.uniform(-8, 8, size=n_features)
    if rng.random() < 0.2:
        X[:, rng.integers(n_features)] += 10.0 ** rng.integers(0, 7)
    if rng.random() < 0.2:
        X[rng.random(n_samples) < 0.3] = 0.0
    if rng.random() < 0.2:
        X[rng.integers(0, n_samples, n_samples // 2)] = X[
            rng.integers(0, n_samples, n_samples // 2)
        ]
    weight = np.ones(n_samples)
    if rng.random() < 0.3:
        weight = 10.0 ** rng.uniform(*_choose(rng, (-1, 1), (-12, 12)), size=n_samples)
    if rng.random() < 0.2:
        X = X.astype(np.float32)
    container = _choose(rng, "plain", "plain", "fortran", "frozen", "mapped", "csr", "untidy")
    if container in ("csr", "untidy"):
        X = np.where(rng.random(X.shape) < rng.choice([0.1, 0.5, 1.0]), X, X.dtype.type(0))
        made = sp.csr_array(X)
        if container == "untidy" and np.count_nonzero(X, axis=1).all():
            made = untidy_csr(X)
            X = made.toarray()
        return made, y, weight, X
    if container == "fortran":
        return np.asfortranarray(X), y, weight, X
    if container == "mapped":
        with NamedTemporaryFile() as file:
            mapped = np.memmap(file.name, dtype=X.dtype, mode="w+", shape=X.shape)
            mapped[...] = X
            return np.memmap(file.name, dtype=X.dtype, mode="r", shape=X.shape), y, weight, X
    if container == "frozen":
        X.flags.writeable = False
    return X, y, weight, X


def _penalties(rng):
    C1 = _choose(rng, None, _ten(rng, -2, 6), _ten(rng, -10, 12))
    C2 = _choose(rng, None, 0.0, _ten(rng, -10, 12) if C1 is not None else None)
    D = float(_choose(rng, 0.0, 0.2, 0.999, rng.uniform(0, 0.999)))
    return {"C1": C1, "C2": C2, "D": D, "fit_intercept": bool(rng.random() < 0.7)}


def _ten(rng, low, high):
    return float(10.0 ** rng.uniform(low, high))


def _size(rng, low, high):
    """Return a number of samples or features, small ones as often as large ones."""
    return int(np.exp(rng.uniform(np.log(low), np.log(high + 1))))


def _choose(rng, *options):
    return options[rng.integers(len(options))]
