"""What `predict` and `auto` share: tables of predictions, and how good they are."""

import numpy as np

from optimargin.cli._preparation import count_new_categories, transformed
from optimargin.cli._tasks import counted, task_of
from optimargin.io._dataset import SHOWN_NAMES, number_of, some_of
from optimargin.io._write import csv_text
from optimargin.margins import unwrap


def score_columns(estimator, X):
    """Return the decision values as columns of a table, by name."""
    scores = estimator.decision_function(X)
    if scores.ndim == 1:
        return {"score": scores.tolist()}
    return dict(zip(_named("score", estimator), scores.T.tolist(), strict=True))


def probability_columns(estimator, X, model):
    """Return the probability of each class as columns of a table, by name.

    Parameters
    ----------
    estimator : estimator
    X : {ndarray, CSR matrix}
    model : Path
        The model file, for errors, which say what to do instead.
    """
    if hasattr(estimator, "predict_proba"):
        shares = estimator.predict_proba(X)
        return dict(zip(_named("probability", estimator), shares.T.tolist(), strict=True))
    if hasattr(estimator, "classes_"):
        raise ValueError(
            f"--probabilities: {model} has scores, not probabilities. Use --scores, a "
            "model of `optimargin select`, or in Python ODMClassifier(calibration='sigmoid')."
        )
    if hasattr(estimator, "p_values"):
        raise ValueError(f"--probabilities: {model} detects novelties: use --p-values.")
    raise ValueError(f"--probabilities: {model} predicts numbers, not classes.")


def _named(what, estimator):
    return [f"{what} {label}" for label in estimator.classes_.tolist()]


def p_value_column(estimator, X, model):
    """Return the p-values of a novelty detector as a column; raise an error for other models.

    Parameters
    ----------
    estimator : estimator
    X : {ndarray, CSR matrix}
    model : Path
        The model file, for the message.
    """
    if task_of(estimator).name != "novelty":
        raise ValueError(f"--p-values: {model} was not trained with --task novelty.")
    return {"p_value": unwrap(estimator).p_values(transformed(estimator, X)).tolist()}


def refuse_line_ends(estimator):
    """Raise an error if a label has a line end: one label per line could not be told apart."""
    for label in getattr(estimator, "classes_", np.empty(0)).tolist():
        if "\n" in str(label) or "\r" in str(label):
            raise ValueError(
                f"the label {label!r} has a line end, so that labels cannot be written one per "
                "line: write a table, with --ids or --scores."
            )


def predictions_table(estimator, predicted, ids, columns=None, *, heading=None):
    """Return predictions as the text of a CSV table.

    Parameters
    ----------
    estimator : estimator
    predicted : ndarray of shape (n_samples,)
    ids : dict of str to list
        Columns that come first.
    columns : dict of str to list, default=None
        Columns that come last.
    heading : str, default=None
        Of the column of predictions; by default what they are.
    """
    if heading is None:
        heading = "prediction" if task_of(estimator).name == "regression" else "label"
    columns = columns or {}
    cells = zip(*ids.values(), predicted.tolist(), *columns.values(), strict=True)
    return csv_text([[*ids, heading, *columns], *cells])


def describe_predictions(estimator, samples, predicted, report, of=""):
    """Add to the report how good predictions are, where the data have a target.

    Parameters
    ----------
    estimator : estimator
    samples : Dataset
    predicted : ndarray of shape (n_samples,)
    report : Report
    of : str, default=""
        Begins the names of the lines and facts.

    Returns
    -------
    rows : ndarray
        The samples that were compared.
    """
    n_new = count_new_categories(estimator, samples.X)
    if n_new:
        report.add(
            "new categories",
            f"{counted(n_new, 'cell holds', 'cells hold')} a category that the model does not know",
            n_new_categories=n_new,
        )
    task, y = task_of(estimator), samples.y
    if task.name == "novelty":
        _describe_alarms(y, predicted, samples.label_name, report)
    if y is None or task.name == "novelty":
        return np.arange(0)
    rows = np.arange(predicted.size)
    if y.dtype.kind == "O":
        rows = np.flatnonzero([label is not None for label in y])
    if task.name == "regression":
        try:
            values = y[rows].astype(np.float64)
        except ValueError:
            report.add("note", "the target of the data is text: no error")
            return rows[:0]
        task.judge(values, predicted[rows]).tell(report, of)
        return rows
    labels = as_classes(y[rows], estimator.classes_)
    is_known = np.isin(labels, estimator.classes_.astype(str))
    if not is_known.any():
        report.add("note", "no label in the data is a class of the model: no accuracy")
        return rows[:0]
    if not is_known.all():
        _describe_unknown(labels[~is_known], report)
    is_right = predicted[rows].astype(str) == labels
    judged = task.judge_score(labels, float(is_right.mean()), f" ({is_right.sum()} of {rows.size})")
    facts = {"n_right": int(is_right.sum()), "majority_share": judged.baseline["accuracy"]}
    judged.tell(report, of, **{f"{of}_{k}" if of else k: fact for k, fact in facts.items()})
    return rows


def _describe_unknown(labels, report):
    """Add how many rows have labels that the model does not know."""
    others = np.unique(labels)
    shown = some_of([repr(str(label)) for label in others])
    report.add(
        "unknown labels",
        f"{counted(labels.size, 'row has a label', 'rows have a label')} that the model does not "
        f"know; counted as wrong: {shown}",
        n_unknown_labels=int(labels.size),
    )


def as_classes(labels, classes):
    """Return labels as the classes of a model that they are, as text; other labels as they are.

    Text is compared as it is written; numbers are compared by their values, so that 1 and 1.0 are
    the same, however the file as a whole was read.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
    classes : ndarray of shape (n_classes,)
    """
    by_value = classes.dtype.kind in "iuf" or labels.dtype.kind in "iuf"

    def key(label):
        return number_of(str(label)) if by_value else str(label)

    known = {key(label): str(label) for label in classes.tolist()}
    return np.array([known.get(key(label), str(label)) for label in labels.tolist()], dtype=str)


def _describe_alarms(y, predicted, label_name, report):
    """Add how many samples are outliers, also by label where a column of labels is named."""
    alarms = predicted == -1
    n_alarms = int(alarms.sum())
    text = f"{n_alarms} of {predicted.size} samples ({n_alarms / max(predicted.size, 1):.1%})"
    report.add("outliers", text, n_outliers=n_alarms)
    if y is None or label_name is None:
        return
    labels, counts = np.unique(y.astype(str), return_counts=True)
    if labels.size > SHOWN_NAMES:
        return  # measurements, or too many classes to be read
    for label, count in zip(labels, counts, strict=True):
        of_label = int(alarms[y.astype(str) == label].sum())
        report.add(f"of {label!s}", f"{of_label} of {count} ({of_label / count:.1%})")
