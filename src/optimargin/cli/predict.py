"""``optimargin predict``."""

import csv
import io
from pathlib import Path
from typing import Annotated

import typer

from optimargin.cli import _options as opt
from optimargin.cli._groups import grouped

Out = Annotated[
    Path,
    typer.Argument(metavar="OUT", help="One predicted label per line; - is standard output."),
]
Scores = Annotated[
    bool,
    typer.Option("--scores", help="Write a CSV table that includes the decision values."),
]


@grouped
def predict(
    data: opt.Data,
    model: opt.Model,
    out: Out,
    *,
    scores: Scores = False,
    reading: opt.Reading,
    showing: opt.Showing,
) -> None:
    """Predict the labels of DATA with MODEL and write them to OUT.

    Tables may have a label column or not; columns are matched by name.
    With labels, the accuracy is shown.
    """
    import numpy as np

    from optimargin.cli._model import layout_of
    from optimargin.io import load_model, read_data
    from optimargin.io._files import write_bytes

    opt.refuse_overwriting(out, data=data, model=model)
    report = showing.report(to_stderr=str(out) == "-")
    estimator = load_model(model)
    with report.working(f"reading {data}"):
        layout = layout_of(model, reading)
        samples = read_data(data, format=reading.format, layout=layout)
    with report.working("predicting"):
        predicted = estimator.predict(samples.X)
        values = estimator.decision_function(samples.X) if scores else None
    write_bytes(out, _text(predicted, values, estimator.classes_).encode())
    report.add("predicted", f"{predicted.size} samples", n_samples=int(predicted.size))
    names = layout.feature_names
    if names is not None and samples.feature_names is None:
        report.add("note", f"{data} has no column names: columns were taken in their order")
    if samples.y is None:
        pass
    elif not np.isin(samples.y.astype(str), estimator.classes_.astype(str)).any():
        report.add("note", f"no label in {data} is a class of the model: no accuracy")
    else:
        right = int(np.sum(predicted.astype(str) == samples.y.astype(str)))
        report.add(
            "accuracy",
            f"{right / predicted.size:.4f} ({right} of {predicted.size})",
            accuracy=right / predicted.size,
            n_right=right,
        )
    if str(out) != "-":
        report.add("saved", str(out), out=str(out))
    report.print()


def _text(predicted, values, classes):
    if values is None:
        return "".join(f"{label}\n" for label in predicted.tolist())
    names = ["score"] if values.ndim == 1 else [f"score {label}" for label in classes.tolist()]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["label", *names])
    rows = values.reshape(predicted.size, -1).tolist()
    writer.writerows([label, *row] for label, row in zip(predicted.tolist(), rows, strict=True))
    return out.getvalue()
