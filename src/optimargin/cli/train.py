"""``optimargin train``."""

import typer

from optimargin.cli import _options as opt
from optimargin.cli._groups import grouped
from optimargin.cli._report import Stopwatch
from optimargin.cli._startup import import_learning


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
    cv: int | None = typer.Option(
        None,
        "-v",
        "--cv",
        min=2,
        help="Also report the accuracy of cross-validation with this number of folds.",
        rich_help_panel="What is shown",
    ),
    save_plot: opt.SavePlot = None,
    showing: opt.Showing,
) -> None:
    """Fit a model to DATA and save it as MODEL.

    The default is an ODM with the RBF kernel and the library's default parameters.
    `optimargin select` chooses parameters and takes tables with missing values and categories as
    they are.
    """
    learning = import_learning()
    if task == "novelty" and (cv is not None or save_plot is not None):
        option = "--save-plot" if cv is None else "--cv"
        raise typer.BadParameter(f"{option} has no meaning for --task novelty.")
    job = learning.Job(data, model, save_plot, task, preparing, reading, showing)
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
    if preparing.scale == "none":
        learning.advise_scaling(samples.X, job.report)

    times = {"seconds_reading": reading_time, "seconds_training": fitting_time}
    text = f"{reading_time:.2f} s reading, {fitting_time:.2f} s training"

    def display():
        return learning.fit_display(estimator, samples.X, samples.y)

    job.finish(estimator, display, last=[("time", text, times)], **notes)


def _cross_validate(job, estimator, n_folds):
    import numpy as np
    from sklearn.model_selection import cross_val_score

    X, y = job.samples.X, job.samples.y
    if job.task.name == "classification":
        smallest, what = int(np.unique(y, return_counts=True)[1].min()), "the smallest class has"
    else:
        smallest, what = len(y), "there are"
    if smallest < n_folds:
        raise typer.BadParameter(
            f"--cv {n_folds}: {what} {smallest} samples, too few for so many folds."
        )
    scores = cross_val_score(estimator, X, y, cv=job.task.folds(y, n_folds))
    notes = {f"cv_{job.task.fact}": float(scores.mean())}
    job.report.add(
        "cross-validation",
        f"{job.task.measure} {scores.mean():.4f} ± {scores.std(ddof=1):.4f} over {n_folds} folds",
        **notes,
    )
    return notes | {"cv_folds": n_folds}
