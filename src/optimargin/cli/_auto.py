"""The work of `optimargin auto`: tuned models, baselines, and predictions for new data."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optimargin._ties import ranking
from optimargin.cli._model import read_new_data
from optimargin.cli._predictions import (
    as_classes,
    describe_predictions,
    predictions_table,
    probability_columns,
    score_columns,
)
from optimargin.cli._preparation import with_steps
from optimargin.cli._searching import search_parameters
from optimargin.cli._tasks import LEAVE_ONE_OUT, SEARCHED, counted
from optimargin.io import DataFileError
from optimargin.io._files import write_bytes
from optimargin.margins import unwrap

KERNEL_UP_TO = 10_000
"""Samples times outputs of a kernel model without landmarks: ten seconds for a fit, measured on two
cores. An SVM, which is fitted to folds, gets half as many samples."""


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
    found : Found, default=None
        The search, of models that are ours.
    left_out : ndarray of shape (n_samples,), default=None
        What is predicted for each sample when it is left out, where that was computed.
    trained_on : ndarray of int, default=None
        The samples used, if not all.
    test_score : float, default=None
        On new data.
    """

    name: str
    model: Any
    score: float | None
    how: str
    found: Any = None
    left_out: np.ndarray | None = None
    trained_on: np.ndarray | None = None
    test_score: float | None = None


@dataclass(frozen=True)
class Predicted:
    """Predictions for samples whose target is known.

    Attributes
    ----------
    of : str
        Which samples these are.
    y, values : ndarray of shape (n_rows,)
    """

    of: str
    y: np.ndarray
    values: np.ndarray


def tune(job, machine, *, tell):
    """Tune a model with a kernel and one without.

    Both are judged alike: on the folds of the baselines where the library has closed forms for
    both, otherwise on the folds of their searches. For many samples every held-out value takes
    long, and leaving one out, which the report tells anyway, differs little from leaving a fold
    out: then it takes the place of the folds.

    Parameters
    ----------
    job : Job
        Its data are read.
    machine : Machine
        If an option names one of them, only that one is tuned.
    tell : bool
        Whether to show progress.

    Returns
    -------
    rows : list of Row
        The better one first.
    """
    task, y = job.task, job.samples.y
    folds = task.folds(y) if len(y) <= KERNEL_UP_TO else None
    tuned, values = [], []
    for kind in _machines(job, machine):
        options = {"approximation": "nystrom"} if _needs_landmarks(job, kind) else {}
        found = search_parameters(job, kind, tell=tell, **options)
        what = "leaving folds out" if folds else "leaving one out"
        with job.report.working(what), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of small classes: not the user's concern
            values.append(task.held_out(unwrap(found.model), found.X, y, folds))
        tuned.append(found)
    if any(predicted is None for predicted in values):
        scores, how = [getattr(f.search, "held_out_score_", None) for f in tuned], SEARCHED
    else:
        scores = [task.score(y, predicted) for predicted in values]
        how = _folds_told(folds) if folds else LEAVE_ONE_OUT
    left_out = [None if folds else predicted for predicted in values]
    rows = [
        Row(f"{found.name}, tuned", found.model, score, how, found, predicted)
        for found, score, predicted in zip(tuned, scores, left_out, strict=True)
    ]
    return [rows[k] for k in ranking([-np.inf if s is None else s for s in scores])]


def _machines(job, machine):
    """Return the machines to try; the first is the simplest, and wins a tie."""
    is_named = machine.linear or machine.ldm or machine.kernel is not None
    if is_named or machine.solver is not None:
        return [machine]
    return [replace(machine, linear=True), machine]


def _needs_landmarks(job, machine):
    """Return whether landmarks stand for the kernel matrix of a machine."""
    if machine.linear or machine.ldm:
        return False
    n_outputs = 1
    if job.task.name == "classification":
        n_classes = np.unique(job.samples.y).size
        n_outputs = 1 if n_classes == 2 else n_classes
    return len(job.samples.y) * n_outputs > KERNEL_UP_TO


def _folds_told(folds, of=""):
    return f"{folds.get_n_splits()}-fold cross-validation{of}"


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
        most = KERNEL_UP_TO // 2
        if name.startswith("SV") and len(y) > most:
            used = np.sort(np.random.default_rng(0).permutation(len(y))[:most])
            X_used, y_used, of = X[used], y[used], f" of {most} samples"
        model = with_steps(job.steps(), baseline, task.step)
        folds = task.folds(y_used)
        with job.report.working(f"comparing with {name}"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # small classes, iterations: not the user's concern
            predicted = cross_val_predict(clone(model), X_used, y_used, cv=folds)
        score = task.score(y_used, predicted)
        rows.append(Row(name, model, score, _folds_told(folds, of), trained_on=used))
    return rows


def write_held_out(job, row, values, path):
    """Write what a model predicts for each training sample when it is left out, if known."""
    if values is None:
        return
    samples = job.samples
    ids = _ids_or_rows(samples, len(samples.y)) | {
        samples.label_name or "target": samples.y.tolist()
    }
    write_bytes(path, predictions_table(row.model, values, ids, heading="held out").encode())
    job.report.add("held out", f"predictions of each sample left out: {path}", held_out=str(path))


def predict_test(job, rows, test, reading, path):
    """Predict new data, write the predictions, and say how good they are.

    Parameters
    ----------
    job : Job
    rows : list of Row
        The first one predicts; the others are scored beside it.
    test : Path
    reading : Reading
    path : Path
        Of the predictions.

    Returns
    -------
    rows : list of Row
        With scores on the new data, if these have a target.
    tested : Predicted or None
    """
    model = rows[0].model
    with job.report.working(f"reading {test}"):
        samples = _read_with_ids(job, test, reading)
    with job.report.working("predicting"):
        predicted = model.predict(samples.X)
        columns = {}
        if hasattr(model, "predict_proba"):
            columns = probability_columns(model, samples.X, job.data)
        elif hasattr(model, "decision_function"):
            columns = score_columns(model, samples.X)
    ids = _ids_or_rows(samples, predicted.size)
    write_bytes(path, predictions_table(model, predicted, ids, columns).encode())
    n_rows = counted(predicted.size, "row", "rows")
    job.report.add("predicted", f"{n_rows} of {test}: {path}", predictions=str(path))
    known = describe_predictions(model, samples, predicted, job.report, "test")
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
    return rows, Predicted(f"on {test}", y, predicted[known].astype(kind))


def _fitted(row, samples):
    """Return the model of a row, fitted if it is a baseline."""
    if row.found is not None:
        return row.model
    used = slice(None) if row.trained_on is None else row.trained_on
    return row.model.fit(samples.X[used], samples.y[used])


def _read_with_ids(job, path, reading):
    """Return new data, with the first column that told training samples apart, if it has one."""
    layout = job.layout_of_new_data()
    for name in job.samples.ids:
        try:
            return read_new_data(path, layout, reading, (name,))
        except DataFileError as error:
            if "--ids" not in str(error):
                raise
    return read_new_data(path, layout, reading)


def _ids_or_rows(samples, n_rows):
    """Return what tells rows apart: the ids of the table, or their numbers."""
    named = {name: cells for name, cells in samples.ids.items() if not name.startswith("column ")}
    return named or {"row": list(range(1, n_rows + 1))}
