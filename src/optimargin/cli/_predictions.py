"""What `predict` and `auto` share: tables of predictions, and how good they are."""

import csv
import io

import numpy as np

from optimargin.cli._preparation import count_new_categories, transformed
from optimargin.cli._tasks import counted, root_mean_square, task_of
from optimargin.io._dataset import number_of
from optimargin.io._write import safe_cell
from optimargin.margins import unwrap

_SHOWN_LABELS = 5


def probabilities_of(estimator, X, model):
    """Return the probability of each class, or raise an error that says what to do instead.

    Parameters
    ----------
    estimator : estimator
    X : {ndarray, CSR matrix}
    model : Path
        The model file, for the message.
    """
    if not hasattr(estimator, "predict_proba"):
        if not hasattr(estimator, "classes_"):
            if hasattr(estimator, "p_values"):
                raise ValueError(f"--probabilities: {model} detects novelties: use --p-values.")
            raise ValueError(f"--probabilities: {model} predicts numbers, not classes.")
        raise ValueError(
            f"--probabilities: {model} has scores, not probabilities. Use --scores, a "
            "model of `optimargin select`, or in Python ODMClassifier(calibration='sigmoid')."
        )
    return estimator.predict_proba(X)


def p_values_of(estimator, X, model):
    """Return p-values of a novelty detector, or raise an error that says what the model is.

    Parameters
    ----------
    estimator : estimator
    X : {ndarray, CSR matrix}
    model : Path
        The model file, for the message.
    """
    if task_of(estimator).name != "novelty":
        raise ValueError(f"--p-values: {model} was not trained with --task novelty.")
    return unwrap(estimator).p_values(transformed(estimator, X))


def refuse_line_ends(estimator):
    """Raise an error if a label has a line end: one label per line could not be told apart."""
    for label in getattr(estimator, "classes_", np.empty(0)).tolist():
        if "\n" in str(label) or "\r" in str(label):
            raise ValueError(
                f"the label {label!r} has a line end, so that labels cannot be written one per "
                "line: write a table, with --ids or --scores."
            )


def predictions_table(
    estimator, predicted, ids, scores=None, probabilities=None, *, p_values=None, heading=None
):
    """Return predictions as the text of a CSV table.

    Parameters
    ----------
    estimator : estimator
    predicted : ndarray of shape (n_samples,)
    ids : dict of str to list
        Columns that come first.
    scores, probabilities, p_values : ndarray, default=None
        Columns that come last.
    heading : str, default=None
        Of the column of predictions; by default what they are.
    """
    if heading is None:
        heading = "prediction" if task_of(estimator).name == "regression" else "label"
    header = [*ids, heading]
    columns = [*ids.values(), predicted.tolist()]
    if scores is not None:
        rows = scores.reshape(predicted.size, -1)
        labels = [""] if rows.shape[1] == 1 else [f" {x}" for x in estimator.classes_.tolist()]
        header += [f"score{label}" for label in labels]
        columns += rows.T.tolist()
    if probabilities is not None:
        header += [f"probability {label}" for label in estimator.classes_.tolist()]
        columns += probabilities.T.tolist()
    if p_values is not None:
        header.append("p_value")
        columns.append(p_values.tolist())
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(safe_cell, header))
    writer.writerows(map(safe_cell, row) for row in zip(*columns, strict=True))
    return out.getvalue()


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
    y = samples.y
    rows = np.arange(0)
    if task_of(estimator).name == "novelty":
        _describe_alarms(y, predicted, samples.label_name, report)
        return rows
    if y is None:
        return rows
    rows = np.arange(predicted.size)
    if y.dtype.kind == "O":
        rows = np.flatnonzero([label is not None for label in y])
    if task_of(estimator).name == "regression":
        return _describe_numbers(task_of(estimator), y, rows, predicted, report, of)
    labels = as_classes(y[rows], estimator.classes_)
    is_known = np.isin(labels, estimator.classes_.astype(str))
    if not is_known.any():
        report.add("note", "no label in the data is a class of the model: no accuracy")
        return rows[:0]
    if not is_known.all():
        others, counts = np.unique(labels[~is_known], return_counts=True)
        shown = ", ".join(repr(str(label)) for label in others[:_SHOWN_LABELS])
        shown += ", ..." if others.size > _SHOWN_LABELS else ""
        n_unknown = int(counts.sum())
        report.add(
            "unknown labels",
            f"{counted(n_unknown, 'row has a label', 'rows have a label')} that the model does not "
            f"know; counted as wrong: {shown}",
            n_unknown_labels=n_unknown,
        )
    right = int(np.sum(predicted[rows].astype(str) == labels))
    most, share = task_of(estimator).majority(labels)
    facts = {"accuracy": right / rows.size, "n_right": right, "majority_share": share}
    report.add(
        f"{of}accuracy",
        f"{right / rows.size:.4f} ({right} of {rows.size}), always {str(most)!r}: {share:.4f}",
        **_prefixed(facts, of),
    )
    return rows


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
    if labels.size > _SHOWN_LABELS:
        return  # measurements, or too many classes to be read
    for label, count in zip(labels, counts, strict=True):
        of_label = int(alarms[y.astype(str) == label].sum())
        report.add(f"of {label!s}", f"{of_label} of {count} ({of_label / count:.1%})")


def _describe_numbers(task, y, rows, predicted, report, of):
    try:
        values = y[rows].astype(np.float64)
    except ValueError:
        report.add("note", "the target of the data is text: no error")
        return rows[:0]
    rmse, r2 = root_mean_square(predicted[rows] - values), task.score(values, predicted[rows])
    always = root_mean_square(values - values.mean())
    report.add(
        f"{of}error",
        f"{rmse:.4g} root mean square, always their mean: {always:.4g}; R² {r2:.4f}",
        **_prefixed({"rmse": rmse, "r2": r2}, of),
    )
    return rows


def _prefixed(facts, of):
    return {f"{of.strip()}_{name}" if of else name: fact for name, fact in facts.items()}
