"""``optimargin train``."""

from typing import Annotated

import numpy as np
import typer

from optimargin.cli import _options as opt
from optimargin.cli._learning import (
    advise_scaling,
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
        help="Also report the accuracy of cross-validation with so many folds.",
        rich_help_panel="What is shown",
    ),
]


def train(
    data: opt.Data,
    model: opt.Model,
    linear: opt.Linear = False,
    ldm: opt.LDM = False,
    cost: opt.Cost = None,
    C2: opt.C2 = None,
    D: opt.D = None,
    lambda1: opt.Lambda1 = None,
    lambda2: opt.Lambda2 = None,
    kernel: opt.KernelName = None,
    gamma: opt.Gamma = None,
    degree: opt.Degree = None,
    coef0: opt.Coef0 = None,
    intercept: opt.Intercept = True,
    solver: opt.Solver = None,
    tol: opt.Tol = None,
    max_iter: opt.MaxIter = None,
    class_weight: opt.ClassWeight = None,
    scale: opt.Scale = opt.Scaling.none,
    seed: opt.Seed = None,
    cv: Folds = None,
    format: opt.Format = None,
    label: opt.Label = None,
    header: opt.Header = None,
    drop: opt.Drop = None,
    save_plot: opt.SavePlot = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Fit a classifier to DATA and save it as MODEL.

    An RBF-kernel ODM by default, with the library's default parameters; `optimargin select`
    chooses parameters.
    """
    check_targets(model, save_plot)
    report = Report(as_json=json, quiet=quiet)
    classifier = classifier_class(linear, ldm)
    parameters = opt.given(
        classifier,
        **{"C" if ldm else "C1": cost},
        C2=C2,
        D=D,
        lambda1=lambda1,
        lambda2=lambda2,
        kernel=kernel,
        gamma=gamma,
        degree=degree,
        coef0=coef0,
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        random_state=seed,
    )
    clock = Stopwatch()
    layout = opt.make_layout(label, header, drop)
    samples = read_labelled(data, format, layout, report)
    reading = clock.lap()
    X, y = samples.X, samples.y
    weights = opt.class_weights(class_weight, y)
    estimator = with_scaler(
        make_scaler(scale, X),
        classifier(**parameters, fit_intercept=intercept, class_weight=weights),
    )
    with report.working("training"):
        estimator.fit(X, y)
    fitting = clock.lap()
    fitted = estimator[-1] if scale != "none" else estimator
    shown = ", ".join(f"{k}={v}" for k, v in parameters.items())
    report.add("model", f"{classifier.__name__}({shown})", estimator=classifier.__name__)
    facts = describe(estimator, X, y, report)
    describe_fit(fitted, report)
    if cv is not None:
        with report.working(f"cross-validating with {cv} folds"):
            facts |= _cross_validate(estimator, X, y, cv, report)
    if scale == "none":
        advise_scaling(X, report)
    if save_plot is not None:
        from optimargin.plotting import MarginDistributionDisplay

        save_picture(MarginDistributionDisplay.from_estimator(estimator, X, y), save_plot)
    save(estimator, model, samples, layout, facts)
    report.add(
        "time",
        f"{reading:.2f} s reading, {fitting:.2f} s training",
        seconds_reading=reading,
        seconds_training=fitting,
    )
    report.add("saved", f"{model}", model=str(model))
    report.print()


def _cross_validate(estimator, X, y, n_folds, report):
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
