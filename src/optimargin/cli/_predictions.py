"""What `predict` and `auto` share: tables of predictions, and how good they are."""

import csv
import io

import numpy as np

from optimargin.cli._tasks import counted, root_mean_square, task_of

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
            raise ValueError(f"--probabilities: {model} predicts numbers, not classes.")
        raise ValueError(
            f"--probabilities: {model} has scores, not probabilities. Use --scores, or calibrate it "
            "in Python: CalibratedClassifierCV(FrozenEstimator(load_model(...))).fit(X, y), and "
            "save that with optimargin.io.save_model."
        )
    return estimator.predict_proba(X)


def predictions_table(estimator, predicted, ids, scores=None, probabilities=None):
    """Return predictions as the text of a CSV table.

    Parameters
    ----------
    estimator : estimator
    predicted : ndarray of shape (n_samples,)
    ids : dict of str to list
        Columns that come first.
    scores, probabilities : ndarray, default=None
        Columns that come last.
    """
    is_classifier = hasattr(estimator, "classes_")
    header = [*ids, "label" if is_classifier else "prediction"]
    columns = [*ids.values(), predicted.tolist()]
    if scores is not None:
        rows = scores.reshape(predicted.size, -1)
        labels = estimator.classes_.tolist()
        header += ["score"] if rows.shape[1] == 1 else [f"score {label}" for label in labels]
        columns += rows.T.tolist()
    if probabilities is not None:
        header += [f"probability {label}" for label in estimator.classes_.tolist()]
        columns += probabilities.T.tolist()
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(zip(*columns, strict=True))
    return out.getvalue()


def describe_predictions(estimator, samples, predicted, report):
    """Add to the report how good predictions are, where the data have a target.

    Parameters
    ----------
    estimator : estimator
    samples : Dataset
    predicted : ndarray of shape (n_samples,)
    report : Report

    Returns
    -------
    rows : ndarray
        The samples that were compared.
    """
    y = samples.y
    rows = np.arange(0)
    if y is None:
        return rows
    rows = np.arange(predicted.size)
    if y.dtype.kind == "O":
        rows = np.flatnonzero([label is not None for label in y])
    if task_of(estimator).name == "regression":
        return _describe_numbers(y, rows, predicted, report)
    known = estimator.classes_.astype(str)
    labels = y[rows].astype(str)
    is_known = np.isin(labels, known)
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
            f"know and count as wrong: {shown}",
            n_unknown_labels=n_unknown,
        )
    right = int(np.sum(predicted[rows].astype(str) == labels))
    most, share = task_of(estimator).majority(labels)
    report.add(
        "accuracy",
        f"{right / rows.size:.4f} ({right} of {rows.size}), always {str(most)!r}: {share:.4f}",
        accuracy=right / rows.size,
        n_right=right,
        baseline_accuracy=share,
    )
    return rows


def _describe_numbers(y, rows, predicted, report):
    try:
        values = y[rows].astype(np.float64)
    except ValueError:
        report.add("note", "the target of the data is text: no error")
        return rows[:0]
    rmse, r2 = root_mean_square(predicted[rows] - values), _r2(values, predicted[rows])
    report.add(
        "error",
        f"{rmse:.4g} root mean square, always the mean: {root_mean_square(values - values.mean()):.4g}"
        f"; R² {r2:.4f}",
        rmse=rmse,
        r2=r2,
    )
    return rows


def _r2(y, predicted):
    spread = float(np.sum((y - np.mean(y)) ** 2))
    return 1 - float(np.sum((y - predicted) ** 2)) / spread if spread > 0 else 0.0
