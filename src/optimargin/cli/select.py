"""``optimargin select``."""

from typing import Annotated

import typer

from optimargin.cli import _options as opt
from optimargin.cli._groups import grouped
from optimargin.cli._report import Stopwatch
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
    machine: opt.Machine,
    scale: opt.Scale = opt.Scaling.standard,
    cv: Folds = None,
    paper_grid: PaperGrid = False,
    max_evals: MaxEvals = None,
    jobs: Jobs = None,
    reading: opt.Reading,
    save_plot: opt.SavePlot = None,
    showing: opt.Showing,
) -> None:
    """Choose the parameters for DATA, fit with them and save the classifier as MODEL.

    The search takes seconds: each fit gives held-out predictions in closed form.
    """
    learning = import_learning()
    job = learning.Job(data, model, save_plot, reading, showing)
    search_class = learning.classifier_class(machine, search=True)
    parameters = opt.given(
        search_class,
        **machine.parameters(),
        cv=cv,
        max_evals=max_evals,
        n_jobs=jobs,
    )
    if paper_grid:
        parameters["Cs" if machine.ldm else "C1s"] = "paper"
    X, y = job.read()
    scaler = learning.make_scaler(scale, X)
    scaled = X if scaler is None else scaler.fit_transform(X)
    tell = not (showing.quiet or showing.json)
    search = job.make(search_class, machine, **parameters, verbose=int(tell))
    clock = Stopwatch()
    with job.report.working("selecting"):
        search.fit(scaled, y)
    seconds = clock.lap()
    chosen = {
        name.removeprefix("param_"): float(values[search.best_index_])
        for name, values in search.cv_results_.items()
        if name.startswith("param_")
    }
    n_points = len(search.cv_results_["mean_test_score"])
    best = search.best_estimator_
    job.report.add(
        "chosen",
        f"{type(best).__name__}({', '.join(f'{k}={v:.4g}' for k, v in chosen.items())})",
        estimator=type(best).__name__,
        parameters=chosen,
    )
    kind = "accuracy" if paper_grid else "search objective, not an accuracy"
    job.report.add(
        "held-out score",
        f"{search.best_score_:.4f} ({kind}), the best of {n_points} points",
        score=search.best_score_,
        n_points=n_points,
    )
    learning.leave_one_out(best, scaled, y, job.report)
    job.report.add("time", f"{seconds:.2f} s selecting", seconds_selecting=seconds)

    def display():
        from optimargin.plotting import SelectionDisplay

        return SelectionDisplay.from_estimator(search)

    job.finish(
        learning.with_scaler(scaler, best),
        display,
        selected=chosen,
        selection_score=search.best_score_,
        n_points=n_points,
    )
