"""``optimargin predict``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from optimargin.cli import _options as opt
from optimargin.cli._groups import grouped

Out = Annotated[
    Path,
    typer.Argument(
        metavar="OUT",
        help="One prediction per line, or a CSV table (options below); - is standard output.",
    ),
]


@dataclass(frozen=True)
class Columns:
    """What a table of predictions includes."""

    ids: list[str] | None = typer.Option(
        None,
        "--ids",
        metavar="COLUMNS",
        help="Write a CSV table that begins with these columns of DATA, as in --ids name,date.",
    )
    scores: bool = typer.Option(
        False, "--scores", help="Write a CSV table that includes the decision values."
    )
    probabilities: bool = typer.Option(
        False,
        "--probabilities",
        help="Write a CSV table that includes the probability of each class.",
    )
    p_values: bool = typer.Option(
        False,
        "--p-values",
        help="Novelty: write a CSV table with p-values, the share of normal samples as unusual.",
    )


@grouped
def predict(
    data: opt.Data,
    model: opt.Model,
    out: Out,
    *,
    wanted: Columns,
    reading: opt.Reading,
    showing: opt.Showing,
) -> None:
    """Predict the labels or numbers of DATA with MODEL and write them to OUT.

    Tables may have a target column or not; columns are matched by name. With a target, the
    accuracy or error is shown. Novelty: -1 marks outliers, 1 normal samples.
    """
    from optimargin.cli._model import layout_of, load, read_new_data
    from optimargin.cli._predictions import (
        describe_predictions,
        p_value_column,
        predictions_table,
        probability_columns,
        refuse_line_ends,
        score_columns,
    )
    from optimargin.cli._tasks import task_of
    from optimargin.io._files import write_bytes

    opt.check_written(out, data=data, model=model)
    report = showing.report(to_stderr=str(out) == "-")
    estimator = load(model)
    task_of(estimator)  # raises for models that have nothing to say about new samples
    if wanted.scores and not hasattr(estimator, "decision_function"):
        raise typer.BadParameter("--scores: this model predicts numbers; it has no other scores.")
    ids = opt.listed(wanted.ids)
    is_table = bool(ids) or wanted.scores or wanted.probabilities or wanted.p_values
    if not is_table:
        refuse_line_ends(estimator)
    with report.working(f"reading {data}"):
        layout = layout_of(model)
        samples = read_new_data(data, layout, reading, ids)
    with report.working("predicting"):
        predicted = estimator.predict(samples.X)
        columns = score_columns(estimator, samples.X) if wanted.scores else {}
        if wanted.probabilities:
            columns |= probability_columns(estimator, samples.X, model)
        if wanted.p_values:
            columns |= p_value_column(estimator, samples.X, model)
    if is_table:
        text = predictions_table(estimator, predicted, samples.ids, columns)
    else:
        text = "".join(f"{label}\n" for label in predicted.tolist())
    write_bytes(out, text.encode())
    report.add("predicted", f"{predicted.size} samples", n_samples=int(predicted.size))
    if layout.feature_names is not None and samples.feature_names is None:
        report.add("note", f"{data} has no column names: columns were taken in their order")
    describe_predictions(estimator, samples, predicted, report)
    if str(out) != "-":
        report.add("saved", str(out), out=str(out))
    report.print()
