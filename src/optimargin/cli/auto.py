"""``optimargin auto``."""

from pathlib import Path
from typing import Annotated

import typer

from optimargin.cli import _options as opt
from optimargin.cli._groups import grouped
from optimargin.cli._report import Stopwatch
from optimargin.cli._startup import import_learning

Table = Annotated[
    Path, typer.Argument(metavar="DATA", help="The training table, or any other data file.")
]
MODEL, PAGE, PREDICTIONS, HELD_OUT = "model.skops", "report.html", "predictions.csv", "held_out.csv"


@grouped
def auto(
    data: Table,
    *,
    test: Path | None = typer.Option(
        None, "--test", metavar="DATA", help="A table to predict, with a target or without."
    ),
    out: Path | None = typer.Option(
        None,
        "--out",
        metavar="FOLDER",
        help="For the results. Default: the name of DATA, with -results.",
    ),
    task: opt.TaskOption = None,
    machine: opt.Machine,
    preparing: opt.Preparing,
    reading: opt.Reading,
    showing: opt.Showing,
) -> None:
    """Make a tuned model of a table, and say how good it is.

    Writes to a folder: the model, its accuracy beside simple baselines, which samples it gets
    wrong, predictions for new data, and one page that shows all of it.
    """
    if task == "novelty":
        raise typer.BadParameter(
            "--task novelty has no target to choose by: use optimargin train --task novelty."
        )
    learning = import_learning()
    from optimargin.cli._auto import compare, predict_test, tune, write_held_out
    from optimargin.cli._page import write_page

    out = Path(f"{_stem(data)}-results") if out is None else out
    for name in (MODEL, PAGE, PREDICTIONS, HELD_OUT):
        opt.check_written(out / name, is_model=name == MODEL, data=data, test=test)
    is_new = _make_folder(out)
    clock = Stopwatch()
    try:
        job = learning.Job(data, out / MODEL, None, task, preparing, reading, showing)
        job.read(may_regress=True)
        report = job.report
        rows = tune(job, machine, tell=not (showing.quiet or showing.json))
        found = rows[0].found
        held_out = job.describe_estimate(found.model, found.search, rows[0].left_out)
        rows += compare(job)
        _describe_comparison(job, rows)
        report.add("chosen", found.shown, estimator=found.name, parameters=found.chosen)
        facts = job.describe_model(found.model)
        job.save(found.model, facts | found.notes())
        write_held_out(job, rows[0], held_out, out / HELD_OUT)
        tested = None
        if test is not None:
            rows, tested = predict_test(job, rows, test, reading, out / PREDICTIONS)
        report.add("time", f"{clock.lap():.1f} s")
        report.add("page", str(out / PAGE), page=str(out / PAGE))
        write_page(job, rows, held_out, tested, out / PAGE)
        report.add("next", _next_step(out, test))
        report.print()
    finally:
        if is_new and not any(out.iterdir()):
            out.rmdir()


def _describe_comparison(job, rows):
    """Add how good the models are on the same folds."""
    for k, row in enumerate(rows):
        shown = "not known" if row.score is None else f"{job.task.measure} {row.score:.4f}"
        job.report.add("compared" if k == 0 else "beside it", f"{shown}: {row.name} ({row.how})")
    job.report.tell(
        comparison=[{"model": row.name, job.task.fact: row.score, "how": row.how} for row in rows]
    )


def _next_step(out, test):
    if test is None:
        return f"open {out / PAGE}, then optimargin predict NEW.csv {out / MODEL} predictions.csv"
    return f"open {out / PAGE}; the predictions are in {out / PREDICTIONS}"


def _stem(data):
    return "data" if str(data) == "-" else data.name.split(".")[0]


def _make_folder(out):
    """Make a folder and return whether it is new; results are only replaced by results."""
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"--out {out} is a file: choose the name of a folder.")
    if out.is_dir() and any(out.iterdir()) and not (out / MODEL).exists():
        raise typer.BadParameter(
            f"--out {out} holds other files: choose a new folder, or an empty one."
        )
    is_new = not out.exists()
    out.mkdir(exist_ok=True)
    return is_new
