"""``optimargin train``."""

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
        help="Also report the accuracy of cross-validation with this number of folds.",
        rich_help_panel="What is shown",
    ),
]


@grouped
def train(
    data: opt.Data,
    model: opt.Model,
    *,
    task: opt.TaskOption = None,
    machine: opt.Machine,
    tuning: opt.Tuning,
    preparing: opt.PreparingOnRequest,
    reading: opt.Reading,
    cv: Folds = None,
    save_plot: opt.SavePlot = None,
    showing: opt.Showing,
) -> None:
    """Fit a model to DATA and save it as MODEL.

    The default is an ODM with the RBF kernel and the library's default parameters.
    `optimargin select` chooses parameters and takes tables with missing values and categories as
    they are.
    """
    learning = import_learning()
    if task == opt.TaskName.novelty and (cv is not None or save_plot is not None):
        option = "--save-plot" if cv is None else "--cv"
        raise typer.BadParameter(f"{option} has no meaning for --task novelty.")
    job = learning.Job(
        data, model, save_plot, task=task, preparing=preparing, reading=reading, showing=showing
    )
    clock = Stopwatch()
    samples = job.read()
    reading_time = clock.lap()
    kind = job.task.estimator_class(machine)
    parameters = opt.given(kind, **tuning.parameters(ldm=machine.ldm), **machine.parameters())
    estimator = job.with_steps(job.steps(), job.make(kind, machine, **parameters))
    with job.report.working("training", estimator):
        estimator.fit(samples.X, samples.y)
    fitting_time = clock.lap()
    job.describe_estimate(estimator)
    notes = {}
    if cv is not None:
        with job.report.working(f"cross-validating with {cv} folds"):
            notes = _cross_validate(job, estimator, cv)
    shown = ", ".join(f"{k}={v}" for k, v in parameters.items())
    job.report.add("model", f"{kind.__name__}({shown})", estimator=kind.__name__)
    if preparing.scale == opt.Scaling.none:
        learning.advise_scaling(samples.X, job.report)

    times = {"seconds_reading": reading_time, "seconds_training": fitting_time}
    text = f"{reading_time:.2f} s reading, {fitting_time:.2f} s training"

    def display():
        return learning.fit_display(estimator, samples.X, samples.y)

    job.finish(estimator, display, last=[("time", text, times)], **notes)


def _cross_validate(job, estimator, n_folds):
    import numpy as np
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

    X, y = job.samples.X, job.samples.y
    folds = KFold(n_folds, shuffle=True, random_state=0)
    measure = "R²"
    if job.task.name == "classification":
        smallest = int(np.unique(y, return_counts=True)[1].min())
        if smallest < n_folds:
            raise typer.BadParameter(
                f"--cv {n_folds}: the smallest class has {smallest} samples, too few for so many "
                "folds."
            )
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
        measure = "accuracy"
    elif len(y) < n_folds:
        raise typer.BadParameter(f"--cv {n_folds}: there are only {len(y)} samples.")
    scores = cross_val_score(estimator, X, y, cv=folds)
    name = f"cv_{'accuracy' if measure == 'accuracy' else 'r2'}"
    job.report.add(
        "cross-validation",
        f"{measure} {scores.mean():.4f} ± {scores.std(ddof=1):.4f} over {n_folds} folds",
        **{name: float(scores.mean())},
    )
    return {name: float(scores.mean()), "cv_folds": n_folds}
