"""The part of `uncertainty.py` about probabilities."""

import numpy as np
from report import write
from rows import paired
from sets import names, split
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.svm import SVC

from optimargin import ODMClassifier, ODMClassifierCV

SPLITS = 5
REFERENCE = "CalibratedClassifierCV(ODMClassifier())"
METHODS = {
    **{
        f"ODMClassifier, {kind}": lambda kind=kind: ODMClassifier(calibration=kind)
        for kind in ("sigmoid", "isotonic", "temperature")
    },
    **{
        f"ODMClassifierCV, {kind}": lambda kind=kind: ODMClassifierCV(calibration=kind)
        for kind in ("sigmoid", "temperature")
    },
    REFERENCE: lambda: CalibratedClassifierCV(ODMClassifier(), ensemble=False),
    "CalibratedClassifierCV(SVC())": lambda: CalibratedClassifierCV(SVC(), ensemble=False),
    "LogisticRegression": lambda: LogisticRegression(max_iter=10_000),
}


def calibration_error(probabilities, y, n_bins=10):
    """Return the mean gap of confidence and accuracy over bins of the confidence."""
    winner = probabilities.argmax(axis=1)
    confidence = probabilities.max(axis=1)
    right = winner == y
    order = np.argsort(confidence, kind="stable")
    parts = np.array_split(order, n_bins)
    gaps = [len(p) * abs(confidence[p].mean() - right[p].mean()) for p in parts if len(p)]
    return sum(gaps) / len(y)


def judged(model, X_test, y_test):
    """Return log loss, Brier score, calibration error and accuracy."""
    probabilities = model.predict_proba(X_test)
    encoded = np.searchsorted(model.classes_, y_test)
    truth = np.eye(len(model.classes_))[encoded]
    row = {
        "log loss": log_loss(encoded, probabilities, labels=np.arange(len(model.classes_))),
        "Brier score": float(((probabilities - truth) ** 2).sum(axis=1).mean()),
        "calibration error": float(calibration_error(probabilities, encoded)),
        "accuracy": float((probabilities.argmax(axis=1) == encoded).mean()),
    }
    made = getattr(model, "calibration_", None)
    if made is not None:  # what the shift of the intercept changes
        decision = model.decision_function(X_test) - made["shift"]
        is_binary = decision.ndim == 1
        winner = decision > 0 if is_binary else decision.argmax(axis=1)
        row["accuracy without shift"] = float((winner == encoded).mean())
    return row


def run(part, rows, n_splits):
    for kind in ("binary", "several"):
        for name in names(kind):
            for seed in range(n_splits or SPLITS):
                data = None
                for method, make in METHODS.items():
                    if rows.missing(set=name, seed=seed, method=method):
                        data = data or split(name, seed)
                        X, y, X_test, y_test = data
                        try:
                            found = judged(make().fit(X, y), X_test, y_test)
                        except ValueError as error:  # folds without a class
                            found = {"error": str(error)[:80]}
                        key = {"set": name, "seed": seed, "method": method, "kind": kind}
                        rows.add({**key, **found})
            print(name, flush=True)


def report(part, rows, machine, command):
    table = []
    for kind in ("binary", "several"):
        some = [row for row in rows if row["kind"] == kind and "error" not in row]
        failed = {(r["set"], r["seed"]) for r in rows if r["kind"] == kind and "error" in r}
        some = [row for row in some if (row["set"], row["seed"]) not in failed]
        values = {
            (method, score): {
                (r["set"], r["seed"]): r[score]
                for r in some
                if r["method"] == method and score in r
            }
            for method in METHODS
            for score in (
                "log loss",
                "Brier score",
                "calibration error",
                "accuracy",
                "accuracy without shift",
            )
        }
        for method in METHODS:
            if not values[method, "log loss"]:
                continue
            against = paired(values[method, "log loss"], values[REFERENCE, "log loss"])
            line = {"classes": kind, "method": method, "sets": against["sets"]}
            for score in ("log loss", "Brier score", "calibration error", "accuracy"):
                line[score] = _mean_of_sets(values[method, score])
            line["log loss beside the reference"] = (
                f"{against['difference']:+.4f} ± {against['standard error']:.4f}"
            )
            without = values[method, "accuracy without shift"]
            line["accuracy by the shift"] = "-"
            if without:
                gain = paired(values[method, "accuracy"], without)
                line["accuracy by the shift"] = (
                    f"{gain['difference']:+.4f} ± {gain['standard error']:.4f}"
                )
            table.append(line)
    notes = [
        f"The reference is `{REFERENCE[:-1]}, ensemble=False)`. Differences are means of sets,",
        "with the standard error over sets. The Brier score is the sum over classes, and the",
        "calibration error the mean gap of confidence and accuracy over ten bins of equal size.",
    ]
    write("uncertainty_probabilities", "Probabilities", table, machine, notes, command=command)


def _mean_of_sets(values):
    sets = sorted({name for name, _ in values})
    return float(np.mean([np.mean([v for k, v in values.items() if k[0] == s]) for s in sets]))
