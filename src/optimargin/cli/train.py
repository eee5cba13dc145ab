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
    machine: opt.Machine,
    tuning: opt.Tuning,
    scale: opt.Scale = opt.Scaling.none,
    reading: opt.Reading,
    cv: Folds = None,
    save_plot: opt.SavePlot = None,
    showing: opt.Showing,
) -> None:
    """Fit a classifier to DATA and save it as MODEL.

    The default is an ODM with the RBF kernel and the library's default parameters.
    `optimargin select` chooses parameters.
    """
    learning = import_learning()
    job = learning.Job(data, model, save_plot, reading, showing)
    classifier = learning.classifier_class(machine)
    parameters = opt.given(classifier, **tuning.parameters(ldm=machine.ldm), **machine.parameters())
    clock = Stopwatch()
    X, y = job.read()
    reading_time = clock.lap()
    estimator = learning.with_scaler(
        learning.make_scaler(scale, X), job.make(classifier, machine, **parameters)
    )
    with job.report.working("training"):
        estimator.fit(X, y)
    fitting_time = clock.lap()
    shown = ", ".join(f"{k}={v}" for k, v in parameters.items())
    job.report.add("model", f"{classifier.__name__}({shown})", estimator=classifier.__name__)
    job.report.add(
        "time",
        f"{reading_time:.2f} s reading, {fitting_time:.2f} s training",
        seconds_reading=reading_time,
        seconds_training=fitting_time,
    )
    notes = {}
    if cv is not None:
        with job.report.working(f"cross-validating with {cv} folds"):
            notes = _cross_validate(estimator, X, y, cv, job.report)
    if scale == opt.Scaling.none:
        learning.advise_scaling(X, job.report)

    def display():
        from optimargin.plotting import MarginDistributionDisplay

        return MarginDistributionDisplay.from_estimator(estimator, X, y)

    job.finish(estimator, display, **notes)


def _cross_validate(estimator, X, y, n_folds, report):
    import numpy as np
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    smallest = int(np.unique(y, return_counts=True)[1].min())
    if smallest < n_folds:
        raise typer.BadParameter(
            f"--cv {n_folds}: the smallest class has {smallest} samples, too few for so many folds."
        )
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    scores = cross_val_score(estimator, X, y, cv=folds)
    report.add(
        "cross-validation",
        f"accuracy {scores.mean():.4f} ± {scores.std(ddof=1):.4f} over {n_folds} folds",
        cv_accuracy=float(scores.mean()),
    )
    return {"cv_accuracy": float(scores.mean()), "cv_folds": n_folds}
