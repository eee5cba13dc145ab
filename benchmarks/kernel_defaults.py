"""Kernel fits at the default settings: ODMClassifier() beside SVC() and that of intelex.

    python benchmarks/kernel_defaults.py [--repeats N]

Standardised features, default parameters, competitors in turn, medians. Ratios are times as fast.
Accuracies are of rows that were not fitted. The gap of SVC is that of its own problem.
"""

import argparse
import warnings

import numpy as np
from competitors import intelex_svc
from large_data import load_large
from report import write
from sets import _whole
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from timing import interleaved_medians, keep_memory, machine

from optimargin import ODMClassifier

SETS = [
    ("magic", 9510),
    ("electricity", 12_000),
    ("htru2", 8949),
    ("phishing", 5527),
    ("adult-a", 5000),
    ("adult-a", 20_000),
    ("ijcnn1", 10_000),
    ("ijcnn1", 35_000),
    ("letter", 10_000),
    ("satimage", 3217),
]
N_TEST = 3000


def data(name, n_samples):
    """Return standardised training rows, other rows, and the labels of both."""
    if name in ("adult-a", "ijcnn1"):
        X, y = load_large(name, scaled=False)
    else:
        X, y = _whole(name)
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X, dtype=np.float64)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:n_samples], order[n_samples : n_samples + N_TEST]
    scaler = StandardScaler().fit(X[train])
    y = np.asarray(y)
    return scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def relative_gap(model, X, y):
    """Return the relative duality gap of a fitted SVC with two classes and C = 1."""
    sign = np.where(y == model.classes_[1], 1.0, -1.0)
    decision = model.decision_function(X)
    coef = model.dual_coef_.ravel()
    square = float(coef @ (decision[model.support_] - float(np.ravel(model.intercept_)[0])))
    primal = 0.5 * square + np.maximum(1 - sign * decision, 0).sum()
    return float((primal - (np.abs(coef).sum() - 0.5 * square)) / primal)


def row(name, n_samples, repeats):
    """Time the competitors on one set."""
    X, y, X_test, y_test = data(name, n_samples)
    makers = {"optimargin": ODMClassifier, "SVC": SVC}
    if intelex_svc.SVC is not None:
        makers["intelex"] = intelex_svc.SVC
    fits = {key: lambda make=make: make().fit(X, y) for key, make in makers.items()}
    models = {key: fit() for key, fit in fits.items()}
    seconds = interleaved_medians(fits, repeats=repeats, budget=40)
    predictions = interleaved_medians(
        {key: lambda model=model: model.predict(X_test) for key, model in models.items()}, repeats
    )
    odm = models["optimargin"]
    found = {
        "set": name,
        "rows": n_samples,
        "features": X.shape[1],
        "optimargin [s]": seconds["optimargin"],
        "SVC [s]": seconds["SVC"],
        "intelex [s]": seconds.get("intelex"),
        "times as fast as SVC": seconds["SVC"] / seconds["optimargin"],
        "times as fast as intelex": seconds.get("intelex", np.nan) / seconds["optimargin"],
        "solver": odm.solver_,
        "gap": float(np.max(odm.dual_gap_)),
        "gap of SVC": relative_gap(models["SVC"], X, y) if len(odm.classes_) == 2 else None,
    }
    for key, model in models.items():
        found[f"accuracy, {key}"] = model.score(X_test, y_test)
        found[f"support vectors, {key}"] = int(model.support_.size)
        found[f"prediction, {key} [s]"] = predictions[key]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    keep_memory()
    rows = []
    for name, n_samples in SETS:
        rows.append(row(name, n_samples, args.repeats))
        print(rows[-1], flush=True)
    means = [
        f"geometric mean over all sets, times as fast as {peer}: "
        f"{np.exp(np.mean(np.log([r[f'times as fast as {peer}'] for r in rows]))):.2f}"
        for peer in ("SVC", "intelex")
    ]
    write(
        "kernel_defaults",
        "RBF kernel, default settings",
        rows,
        machine(),
        means,
        command="python benchmarks/kernel_defaults.py",
    )


if __name__ == "__main__":
    main()
