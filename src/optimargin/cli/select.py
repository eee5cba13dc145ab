"""``optimargin select``."""

from dataclasses import dataclass
from functools import partial

import typer

from optimargin.cli import _options as opt
from optimargin.cli._groups import grouped
from optimargin.cli._report import Stopwatch
from optimargin.cli._startup import import_learning

_choice = partial(typer.Option, rich_help_panel="How to choose")


@dataclass(frozen=True)
class Choosing:
    """How parameters are chosen."""

    cv: int | None = _choice(
        None,
        "-v",
        "--cv",
        min=2,
        help="Score by exact fits to this number of folds instead of in closed form.",
    )
    paper_grid: bool = _choice(
        False,
        "--paper-grid",
        help="Try the paper's whole grid instead of searching continuously.",
    )
    scoring: str | None = _choice(
        None,
        "--scoring",
        help="Choose by this score of scikit-learn, such as f1_macro, among the points searched.",
    )
    max_evals: int | None = _choice(None, "--max-evals", min=1, help="Limit on search points.")
    jobs: int | None = _choice(None, "--jobs", help="Threads for a grid.")


@grouped
def select(
    data: opt.Data,
    model: opt.Model,
    *,
    task: opt.TaskOption = None,
    machine: opt.Machine,
    preparing: opt.Preparing,
    choosing: Choosing,
    reading: opt.Reading,
    save_plot: opt.SavePlot = None,
    showing: opt.Showing,
) -> None:
    """Choose the parameters for DATA, fit with them and save the model as MODEL.

    The search takes seconds: each fit gives held-out predictions in closed form. Missing values
    are filled and categories encoded; the model keeps how.
    """
    learning = import_learning()
    from optimargin.cli._searching import search_parameters

    job = learning.Job(data, model, save_plot, task, preparing, reading, showing)
    job.read()
    clock = Stopwatch()
    found = search_parameters(
        job,
        machine,
        cv=choosing.cv,
        scoring=choosing.scoring,
        max_evals=choosing.max_evals,
        n_jobs=choosing.jobs,
        grid="paper" if choosing.paper_grid else None,
        tell=not (showing.quiet or showing.json),
    )
    seconds = clock.lap()
    job.describe_estimate(found.model, found.search)
    job.report.add("chosen", found.shown, estimator=found.name, parameters=found.chosen)

    def display():
        from optimargin.plotting import SelectionDisplay

        return SelectionDisplay.from_estimator(found.search)

    job.finish(
        found.model,
        display,
        last=[
            found.objective_line(),
            ("time", f"{seconds:.2f} s selecting", {"seconds_selecting": seconds}),
        ],
        **found.notes(),
    )
