"""``optimargin select``."""

from typing import Annotated

import typer

from optimargin.cli import _options as opt
from optimargin.cli._learning import (
    check_targets,
    classifier_class,
    describe,
    describe_fit,
    make_scaler,
    read_labelled,
    save,
    save_picture,
    with_scaler,
)
from optimargin.cli._report import Report, Stopwatch

Folds = Annotated[
    int | None,
    typer.Option(
        "-v",
        "--cv",
        min=2,
        help="Score by exact fits to so many folds instead of in closed form.",
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
        "--max-evals", min=1, help="Points the search may look at.", rich_help_panel="How to choose"
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", help="Threads for a grid.", rich_help_panel="How to choose"),
]


def select(
    data: opt.Data,
    model: opt.Model,
    linear: opt.Linear = False,
    ldm: opt.LDM = False,
    kernel: opt.KernelName = None,
    degree: opt.Degree = None,
    coef0: opt.Coef0 = None,
    intercept: opt.Intercept = True,
    solver: opt.Solver = None,
    tol: opt.Tol = None,
    max_iter: opt.MaxIter = None,
    class_weight: opt.ClassWeight = None,
    scale: opt.Scale = opt.Scaling.standard,
    seed: opt.Seed = None,
    cv: Folds = None,
    paper_grid: PaperGrid = False,
    max_evals: MaxEvals = None,
    jobs: Jobs = None,
    format: opt.Format = None,
    label: opt.Label = None,
    header: opt.Header = None,
    drop: opt.Drop = None,
    save_plot: opt.SavePlot = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Choose the parameters for DATA, fit with them and save the classifier as MODEL.

    The search needs seconds: held-out predictions come in closed form from each fit.
    """
    check_targets(model, save_plot)
    report = Report(as_json=json, quiet=quiet)
    search_class = classifier_class(linear, ldm, search=True)
    parameters = opt.given(
        search_class,
        kernel=kernel,
        degree=degree,
        coef0=coef0,
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        random_state=seed,
        cv=cv,
        max_evals=max_evals,
        n_jobs=jobs,
    )
    if paper_grid:
        parameters["Cs" if ldm else "C1s"] = "paper"
    clock = Stopwatch()
    layout = opt.make_layout(label, header, drop)
    samples = read_labelled(data, format, layout, report)
    X, y = samples.X, samples.y
    weights = opt.class_weights(class_weight, y)
    scaler = make_scaler(scale, X)
    scaled = X if scaler is None else scaler.fit_transform(X)
    search = search_class(
        **parameters,
        fit_intercept=intercept,
        class_weight=weights,
        verbose=int(not (quiet or json)),
    )
    clock.lap()
    with report.working("selecting"):
        search.fit(scaled, y)
    seconds = clock.lap()
    chosen = {
        name.removeprefix("param_"): float(values[search.best_index_])
        for name, values in search.cv_results_.items()
        if name.startswith("param_")
    }
    n_points = len(search.cv_results_["mean_test_score"])
    best = search.best_estimator_
    report.add(
        "chosen",
        f"{type(best).__name__}({', '.join(f'{k}={v:.4g}' for k, v in chosen.items())})",
        estimator=type(best).__name__,
        parameters=chosen,
    )
    report.add(
        "held-out score",
        f"{search.best_score_:.4f} ({'accuracy' if paper_grid else 'smooth accuracy'}), "
        f"the best of {n_points} points",
        score=search.best_score_,
        n_points=n_points,
    )
    estimator = with_scaler(scaler, best)
    facts = describe(estimator, X, y, report)
    describe_fit(best, report)
    if save_plot is not None:
        from optimargin.plotting import SelectionDisplay

        save_picture(SelectionDisplay.from_estimator(search), save_plot)
    facts |= {"selected": chosen, "selection_score": search.best_score_, "n_points": n_points}
    save(estimator, model, samples, layout, facts)
    report.add("time", f"{seconds:.2f} s selecting", seconds_selecting=seconds)
    report.add("saved", f"{model}", model=str(model))
    report.print()
