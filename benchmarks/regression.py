"""Regression beside other libraries: errors, time to tune, and time to fit.

    python regression.py accuracy    12 sets, 5 half splits, at most 500 training samples
    python regression.py outliers    the same with gross errors in 5 % of the training targets
    python regression.py speed       fits of large data, on a quiet machine; a few minutes
    python regression.py report      tables of what was measured, results/regression.md

Rows go to results/regression_*.jsonl as they come; a run that is started again goes on. y is
standardised for the SVR grid, whose penalty and epsilon depend on its units; no other method needs
that. All grids are scored by 5 folds.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from time import perf_counter

import numpy as np
from sets import _whole, names, split
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import make_regression
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.metrics import mean_absolute_error, root_mean_squared_error
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR, LinearSVR

from optimargin import LinearODMRegressor, LinearODMRegressorCV, ODMRegressor, ODMRegressorCV

FOLDER = Path(__file__).parent / "results"
SPLITS = 5
FOLDS = KFold(5, shuffle=True, random_state=0)
REFERENCE = "SVR grid"
OUTLIER_SHARE, OUTLIER_SIZE = 0.05, 10.0  # of the samples; in standard deviations


def _standardised(model):
    return TransformedTargetRegressor(model, transformer=StandardScaler())


def svr_grid(scale):
    """Return 60 points: C, gamma and epsilon."""
    grid = {
        "C": [0.1, 1.0, 10.0, 100.0, 1000.0],
        "gamma": [g * scale for g in (1 / 16, 1 / 4, 1.0, 4.0)],
        "epsilon": [0.01, 0.1, 0.3],
    }
    svr = SVR(max_iter=1_000_000)
    return _standardised(GridSearchCV(svr, grid, cv=FOLDS, scoring="neg_mean_absolute_error"))


def ridge_grid(scale):
    """Return 60 points: alpha and gamma."""
    grid = {
        "alpha": 10.0 ** np.arange(-5, 5),
        "gamma": [g * scale for g in (1 / 64, 1 / 16, 1 / 8, 1 / 4, 1.0, 4.0)],
    }
    model = GridSearchCV(
        KernelRidge(kernel="rbf"), grid, cv=FOLDS, scoring="neg_mean_absolute_error"
    )
    return _standardised(model)


def _process():
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    return GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)


# Given gamma="scale" as a number.
METHODS = {
    "ODMRegressor": lambda scale: ODMRegressor(),
    "ODMRegressorCV": lambda scale: ODMRegressorCV(),
    "LinearODMRegressor": lambda scale: LinearODMRegressor(),
    "LinearODMRegressorCV": lambda scale: LinearODMRegressorCV(),
    "SVR": lambda scale: SVR(),
    "SVR grid": svr_grid,
    "KernelRidge grid": ridge_grid,
    "Gaussian process": lambda scale: _process(),
    "random forest": lambda scale: RandomForestRegressor(random_state=0),
    "boosting": lambda scale: HistGradientBoostingRegressor(random_state=0),
    "RidgeCV": lambda scale: RidgeCV(np.logspace(-4, 4, 25)),
}
WITH_OUTLIERS = {
    "ODMRegressorCV": METHODS["ODMRegressorCV"],
    "ODMRegressorCV, trimmed": lambda scale: ODMRegressorCV(outliers="trim"),
    "SVR grid": svr_grid,
    "KernelRidge grid": ridge_grid,
    "random forest": METHODS["random forest"],
    "boosting": METHODS["boosting"],
}


def with_outliers(y, seed):
    """Return targets with gross errors, and which they are."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(y.size, round(OUTLIER_SHARE * y.size), replace=False)
    spoilt = y.astype(float)
    spoilt[rows] += OUTLIER_SIZE * y.std() * rng.choice([-1.0, 1.0], rows.size)
    return spoilt, rows


def accuracy(path, methods, *, spoil):
    """Measure errors on test halves, and the time of each fit."""
    done = {(row["set"], row["split"], row["method"]) for row in read(path)}
    for seed in range(SPLITS):
        for name in names("regression"):
            X, y, X_test, y_test = split(name, seed)
            spoilt, bad = with_outliers(y, seed) if spoil else (y, np.empty(0, dtype=int))
            scale = 1.0 / (X.shape[1] * X.var())
            for method, make in methods.items():
                if (name, seed, method) in done:
                    continue
                model = make(scale)
                start = perf_counter()
                predicted = model.fit(X, spoilt).predict(X_test)
                row = {
                    "set": name,
                    "split": seed,
                    "method": method,
                    "rmse": float(root_mean_squared_error(y_test, predicted)),
                    "mae": float(mean_absolute_error(y_test, predicted)),
                    "seconds": perf_counter() - start,
                }
                if hasattr(model, "outliers_"):
                    found = set(model.outliers_.tolist())
                    row["caught"] = len(found & set(bad.tolist())) / max(bad.size, 1)
                    row["clean dropped"] = len(found - set(bad.tolist()))
                write(path, row)


def speed(path):
    """Measure fits against `LinearSVR` and `SVR`, one after another, three times each."""
    X, y = make_regression(200_000, 54, n_informative=30, noise=50.0, random_state=0)
    X += 1.0
    C1 = 32.0 * len(X) / X.var(axis=0).sum()
    exact = LinearODMRegressor(C1=C1, tol=1e-14).fit(X, y)
    floor = objective(exact, X, y, C1)

    def suboptimality(model):
        return (objective(model, X, y, C1) - floor) / (C1 * y.var())

    for _ in range(3):
        seconds, model = timed(LinearODMRegressor(C1=C1), X, y)
        about = {"data": "linear 200000 x 54", "method": "LinearODMRegressor"}
        write(path, {**about, "seconds": seconds, "gap": suboptimality(model)})
        for dual, tols in ((True, (1e-1,)), (False, (1e-2, 1e-4, 1e-6))):
            for tol in tols:
                rival = LinearSVR(
                    C=C1 / len(X),
                    loss="squared_epsilon_insensitive",
                    dual=dual,
                    tol=tol,
                    intercept_scaling=100.0,
                    max_iter=20 if dual else 300,  # epochs of the dual take seconds each
                    random_state=0,
                )
                seconds, model = timed(rival, X, y)
                about = {"data": "linear 200000 x 54", "method": f"LinearSVR dual={dual}"}
                write(path, {**about, "tol": tol, "seconds": seconds, "gap": suboptimality(model)})
    for name, X, y in kernel_data():
        unit = (y - y.mean()) / y.std()
        for _ in range(3):
            for method, model, target in (
                ("ODMRegressor", ODMRegressor(), y),
                ("SVR", SVR(), y),
                ("SVR, y standardised", SVR(), unit),
            ):
                seconds, model = timed(model, X, target)
                write(path, {"data": f"{name} {len(X)}", "method": method, "seconds": seconds})


def objective(model, X, y, C1):
    """Return ``|w|^2 / 2 + C1 mean((y - f)^2)``, at the best intercept."""
    w = np.ravel(model.coef_)
    residual = y - X @ w
    return 0.5 * w @ w + C1 * np.mean((residual - residual.mean()) ** 2)


def kernel_data():
    """Yield name, rows of variance one, and targets."""
    for name in ("kin8nm", "cpusmall", "bank8FM"):
        for n_rows in (2000, 8000):
            yield name, *whole(name, n_rows)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 10))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=len(X))
    yield "generated", X, y


def whole(name, n_rows):
    """Return some rows of a set, scaled to variance one."""
    X, y = _whole(name)
    X = np.ascontiguousarray(StandardScaler().fit_transform(np.asarray(X, dtype=float)))
    rows = np.random.default_rng(0).permutation(len(y))[:n_rows]
    return X[rows], np.asarray(y, dtype=float)[rows]


def timed(model, X, y):
    """Return the seconds of a fit, and the fitted model."""
    start = perf_counter()
    model.fit(X, y)
    return perf_counter() - start, model


def read(path):
    """Return the rows of a file, none if there is no such file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write(path, row):
    """Append a row."""
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(row, flush=True)


def ratios_of(rows):
    """Return mean log ratios to the SVR grid over sets with standard errors, and times."""
    cells = defaultdict(dict)
    for row in rows:
        cells[row["method"]][row["set"], row["split"]] = row
    reference = cells[REFERENCE]
    lines = [["method", f"RMSE / {REFERENCE}", f"MAE / {REFERENCE}", f"median time / {REFERENCE}"]]
    for method, found in cells.items():
        parts = []
        for error in ("rmse", "mae"):
            by_set = defaultdict(list)
            for place in found.keys() & reference.keys():
                by_set[place[0]].append(np.log(found[place][error] / reference[place][error]))
            means = np.array([np.mean(values) for values in by_set.values()])
            parts.append(f"{means.mean():+.3f} ± {means.std(ddof=1) / np.sqrt(means.size):.3f}")
        ratios = [found[p]["seconds"] / reference[p]["seconds"] for p in found if p in reference]
        lines.append([method, *parts, f"{np.median(ratios):.4f}"])
    return lines


def markdown(lines):
    """Return a table, its first line the header."""
    head, *rest = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([head, "|---" * len(lines[0]) + "|", *rest])


def restructured(title, lines):
    """Return the same for the documentation."""
    head, *rest = [", ".join(f'"{cell}"' for cell in line) for line in lines]
    rows = "\n".join(f"   {line}" for line in rest)
    return f".. csv-table:: {title}\n   :header: {head}\n\n{rows}\n"


def report():
    """Write the tables."""
    parts = [
        "# Regression",
        "Mean logarithms of ratios over 12 sets, 5 half splits each, with the standard error over "
        "sets.",
    ]
    titles = {"accuracy": "As they are", "outliers": "With gross errors in 5 % of the targets"}
    for_docs = []
    for what, title in titles.items():
        rows = read(FOLDER / f"regression_{what}.jsonl")
        if rows:
            parts += [f"## {what}", markdown(ratios_of(rows))]
            for_docs.append(restructured(title, ratios_of(rows)))
    (FOLDER / "regression.rst").write_text("\n".join(for_docs))
    rows = read(FOLDER / "regression_speed.jsonl")
    if rows:
        best = defaultdict(lambda: np.inf)
        for row in rows:
            key = (row["data"], row["method"], row.get("tol", ""))
            best[key] = min(best[key], row["seconds"])
        gaps = {(r["data"], r["method"], r.get("tol", "")): r.get("gap") for r in rows}
        lines = [
            "| data | method | tol | seconds, best of 3 | suboptimality |",
            "|---|---|---|---|---|",
        ]
        for key, seconds in best.items():
            gap = "" if gaps[key] is None else f"{gaps[key]:.1e}"
            lines.append(f"| {key[0]} | {key[1]} | {key[2]} | {seconds:.3f} | {gap} |")
        parts += ["## speed", "\n".join(lines)]
    text = "\n\n".join(parts) + "\n"
    (FOLDER / "regression.md").write_text(text)
    print(text)


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else "report"
    path = FOLDER / f"regression_{what}.jsonl"
    if what == "accuracy":
        accuracy(path, METHODS, spoil=False)
    elif what == "outliers":
        accuracy(path, WITH_OUTLIERS, spoil=True)
    elif what == "speed":
        speed(path)
    report()
