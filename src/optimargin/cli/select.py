"""``optimargin select``."""

from typing import Annotated

import typer

from optimargin.cli import _options as opt
from optimargin.cli._groups import grouped
from optimargin.cli._report import Stopwatch
from optimargin.cli._searching import search_parameters
from optimargin.cli._startup import import_learning

Folds = Annotated[
    int | None,
    typer.Option(
        "-v",
        "--cv",
        min=2,
        help="Score by exact fits to this number of folds instead of in closed form.",
        rich_help_panel="How to choose",
    ),
]
PaperGrid = Annotated[
    bool,
    typer.Option(
        "--paper-grid",
        help="Try the paper's whole grid instead of searching continuously.",
        rich_help_panel="How to choose",
    ),
]
Scoring = Annotated[
    str | None,
    typer.Option(
        "--scoring",
        help="Choose by this score of scikit-learn, such as f1_macro, among the points searched.",
        rich_help_panel="How to choose",
    ),
]
MaxEvals = Annotated[
    int | None,
    typer.Option(
        "--max-evals", min=1, help="Limit on search points.", rich_help_panel="How to choose"
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", help="Threads for a grid.", rich_help_panel="How to choose"),
]


@grouped
def select(
    data: opt.Data,
    model: opt.Model,
    *,
    task: opt.TaskOption = None,
    machine: opt.Machine,
    preparing: opt.Preparing,
    cv: Folds = None,
    paper_grid: PaperGrid = False,
    scoring: Scoring = None,
    max_evals: MaxEvals = None,
    jobs: Jobs = None,
    reading: opt.Reading,
    save_plot: opt.SavePlot = None,
    showing: opt.Showing,
) -> None:
    """Choose the parameters for DATA, fit with them and save the model as MODEL.

    The search takes seconds: each fit gives held-out predictions in closed form. Missing values
    are filled and categories encoded; the model keeps how.
    """
    learning = import_learning()
    job = learning.Job(
        data, model, save_plot, task=task, preparing=preparing, reading=reading, showing=showing
    )
    job.read()
    clock = Stopwatch()
    found = search_parameters(
        job,
        machine,
        cv=cv,
        scoring=scoring,
        max_evals=max_evals,
        n_jobs=jobs,
        grid="paper" if paper_grid else None,
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
