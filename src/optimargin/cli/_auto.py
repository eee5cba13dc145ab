"""The work of `optimargin auto`: tuned models, baselines, and predictions for new data."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optimargin._ties import ranking
from optimargin.cli._predictions import as_classes, describe_predictions, predictions_table
from optimargin.cli._preparation import with_steps
from optimargin.cli._searching import search_parameters
from optimargin.cli._tasks import LEAVE_ONE_OUT, SEARCHED, counted
from optimargin.io import DataFileError, read_data
from optimargin.io._files import write_bytes
from optimargin.margins import unwrap

KERNEL_UP_TO = 10_000
"""Samples times outputs: for more, landmarks stand for the kernel matrix."""
_SVM_UP_TO = 5000  # samples: an SVM of more takes minutes in cross-validation


@dataclass(frozen=True)
class Row:
    """One model of the comparison.

    Attributes
    ----------
    name : str
    model : estimator
        With the preparation of its data; baselines are not fitted.
    score : float or None
        Of held-out predictions.
    how : str
        How these were made.
    predicted : ndarray of shape (n_samples,), default=None
        The held-out predictions.
    trained_on : ndarray of int, default=None
        The samples it is for, where these are not all.
    test_score : float, default=None
        On new data.
    """

    name: str
    model: Any
    score: float | None
    how: str
    predicted: np.ndarray | None = None
    trained_on: np.ndarray | None = None
    test_score: float | None = None


@dataclass(frozen=True)
class Tested:
    """Predictions for new data with a target.

    Attributes
    ----------
    path : Path
    y, predicted : ndarray of shape (n_rows,)
        Of the rows that have a target.
    """

    path: Any
    y: np.ndarray
    predicted: np.ndarray


def tune(job, machine, *, tell):
    """Tune a model with a kernel and one without.

    Parameters
    ----------
    job : Job
        Its data are read.
    machine : Machine
        Options that name one of them leave no choice.
    tell : bool
        Whether to show progress.

    Returns
    -------
    found : Found
        The better one.
    rows : list of Row
        Both of them, the better one first.
    """
    candidates = []
    for kind in _machines(job, machine):
        found = search_parameters(job, kind, tell=tell, **_effort(job, kind))
        with job.report.working("leaving one out"):
            predicted = job.task.leave_one_out(unwrap(found.model), found.X, job.samples.y)
        if predicted is None:
            score, how = getattr(found.search, "held_out_score_", None), SEARCHED
        else:
            score, how = job.task.score(job.samples.y, predicted), LEAVE_ONE_OUT
        candidates.append((found, Row(f"{found.name}, tuned", found.model, score, how, predicted)))
    # A linear model comes last, and is simpler: it wins a tie.
    candidates.reverse()
    scores = [-np.inf if row.score is None else row.score for _, row in candidates]
    order = list(ranking(scores))
    return candidates[order[0]][0], [candidates[k][1] for k in order]


def _machines(job, machine):
    """Return the machines to try."""
    is_named = machine.linear or machine.ldm or machine.kernel is not None
    if is_named or machine.solver is not None:
        return [machine]
    return [machine, replace(machine, linear=True)]


def _effort(job, machine):
    """Return how many samples a search uses, so that it takes seconds for many classes, too."""
    n_outputs = 1
    if job.task.name == "classification":
        n_classes = np.unique(job.samples.y).size
        n_outputs = 1 if n_classes == 2 else n_classes
    if machine.linear:
        return {"max_samples": max(1000, 20_000 // n_outputs)}
    n_samples = int(2000 / n_outputs ** (1 / 3))  # a fit costs the cube of them
    if machine.ldm or len(job.samples.y) * n_outputs <= KERNEL_UP_TO:
        return {"max_samples": n_samples}
    return {"landmarks": n_samples}


def compare(job):
    """Cross-validate the baselines.

    Parameters
    ----------
    job : Job

    Returns
    -------
    rows : list of Row
    """
    from sklearn.base import clone
    from sklearn.model_selection import cross_val_predict

    X, y, task = job.samples.X, job.samples.y, job.task
    rows = []
    for name, baseline in task.baselines().items():
        used = None
        X_used, y_used, of = X, y, ""
        if name.startswith("SV") and len(y) > _SVM_UP_TO:
            used = np.sort(np.random.default_rng(0).permutation(len(y))[:_SVM_UP_TO])
            X_used, y_used, of = X[used], y[used], f" of {_SVM_UP_TO} samples"
        model = with_steps(job.steps(), baseline, task.step)
        folds = task.folds(y_used)
        with job.report.working(f"comparing with {name}"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # small classes, iterations: not the user's concern
            predicted = cross_val_predict(clone(model), X_used, y_used, cv=folds)
        how = f"{folds.get_n_splits()}-fold cross-validation{of}"
        rows.append(Row(name, model, task.score(y_used, predicted), how, trained_on=used))
    return rows


def write_held_out(job, row, path):
    """Write what a model predicts for each training sample when it is left out, if known."""
    if row.predicted is None:
        return
    samples = job.samples
    ids = _ids_or_rows(samples, len(samples.y)) | {
        samples.label_name or "target": samples.y.tolist()
    }
    write_bytes(path, predictions_table(row.model, row.predicted, ids, heading="held out").encode())
    job.report.add("held out", f"predictions of each sample left out: {path}", held_out=str(path))


def predict_test(job, rows, test, reading, layout, path):
    """Predict new data, write the predictions, and say how good they are.

    Parameters
    ----------
    job : Job
    rows : list of Row
        The first one predicts; the others are scored beside it.
    test : Path
    reading : Reading
    layout : Layout
        That of the model.
    path : Path
        Of the predictions.

    Returns
    -------
    rows : list of Row
        With scores on the new data, if these have a target.
    tested : Tested or None
    """
    model = rows[0].model
    with job.report.working(f"reading {test}"):
        samples = _read_with_ids(test, reading, layout, job.samples.ids)
    with job.report.working("predicting"):
        predicted = model.predict(samples.X)
        shares = model.predict_proba(samples.X) if hasattr(model, "predict_proba") else None
        scores = None
        if shares is None and hasattr(model, "decision_function"):
            scores = model.decision_function(samples.X)
    ids = _ids_or_rows(samples, predicted.size)
    write_bytes(path, predictions_table(model, predicted, ids, scores, shares).encode())
    n_rows = counted(predicted.size, "row", "rows")
    job.report.add("predicted", f"{n_rows} of {test}: {path}", predictions=str(path))
    known = describe_predictions(model, samples, predicted, job.report, "test ")
    if not known.size:
        return rows, None
    kind: type = float
    y = samples.y[known]
    if job.task.name == "classification":
        kind, y = str, as_classes(y, model.classes_)
    y = y.astype(kind)

    def score(other):
        return job.task.score(y, other.predict(samples.X)[known].astype(kind))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [replace(row, test_score=score(_fitted(row, job.samples))) for row in rows]
    return rows, Tested(test, y, predicted[known].astype(kind))


def _fitted(row, samples):
    """Return the model of a row, fitted if it is a baseline."""
    if row.predicted is not None or row.how == SEARCHED:
        return row.model
    used = slice(None) if row.trained_on is None else row.trained_on
    return row.model.fit(samples.X[used], samples.y[used])


def _read_with_ids(path, reading, layout, ids):
    """Return new data, with the first column that told training samples apart, if it has one."""
    for name in ids:
        try:
            return read_data(path, format=reading.format, layout=replace(layout, ids=(name,)))
        except DataFileError as error:
            if "--ids" not in str(error):
                raise
    return read_data(path, format=reading.format, layout=layout)


def _ids_or_rows(samples, n_rows):
    """Return what tells rows apart: the ids of the table, or their numbers."""
    named = {name: cells for name, cells in samples.ids.items() if not name.startswith("column ")}
    return named or {"row": list(range(1, n_rows + 1))}
