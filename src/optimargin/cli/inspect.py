"""``optimargin inspect``."""

from pathlib import Path
from typing import Annotated

import typer

from optimargin.cli import _options as opt
from optimargin.cli._groups import grouped

TrainingData = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="The training data; adds margins, the leave-one-out error and its bounds.",
    ),
]


@grouped
def inspect(
    model: opt.Model,
    *,
    data: TrainingData = None,
    format: opt.Format = None,
    save_plot: opt.SavePlot = None,
    showing: opt.Showing,
) -> None:
    """Show the parameters, margins, support vectors, certified gap and bounds of MODEL."""
    from optimargin.cli._learning import (
        check_targets,
        describe,
        describe_fit,
        describe_scaling,
        write_plot,
    )
    from optimargin.cli._model import layout_of
    from optimargin.io import load_model, read_data, read_model_header
    from optimargin.margins import unwrap

    check_targets(None, save_plot)
    if save_plot is not None and data is None:
        raise typer.BadParameter("--save-plot draws margins: give the samples with --data.")
    report = showing.report()
    header = read_model_header(model)
    estimator = load_model(model)
    est = unwrap(estimator)
    report.add(
        "model",
        f"{type(est).__name__}, by optimargin {header['optimargin']}",
        estimator=type(est).__name__,
        optimargin=header["optimargin"],
    )
    report.add(
        "parameters",
        ", ".join(f"{name}={_short(value)}" for name, value in header["parameters"].items()),
        parameters=header["parameters"],
    )
    resolved = {
        name: float(getattr(est, f"{name}_"))
        for name in ("C1", "C2", "gamma")
        if hasattr(est, f"{name}_")
    }
    if resolved:
        shown = ", ".join(f"{name}={value:.6g}" for name, value in resolved.items())
        report.add("resolved to", shown, **resolved)
    describe_scaling(estimator, report)
    classes = est.classes_.tolist()
    report.add("classes", ", ".join(map(str, classes)), classes=classes)
    report.add("features", f"{est.n_features_in_}", n_features=int(est.n_features_in_))
    describe_fit(est, report)
    if data is None:
        _recall(header["notes"], report)
    else:
        with report.working(f"reading {data}"):
            samples = read_data(data, format=format, layout=layout_of(model))
        if samples.y is None:
            raise ValueError(f"{data} has no labels: margins need them.")
        describe(estimator, samples.X, samples.y, report)
        with report.working("leaving one out"):
            _leave_one_out(estimator, est, samples, report)
        if save_plot is not None:
            from optimargin.plotting import MarginDistributionDisplay

            display = MarginDistributionDisplay.from_estimator(estimator, samples.X, samples.y)
            write_plot(display, save_plot)
            report.add("plot", str(save_plot), plot=str(save_plot))
    report.print()


def _short(value):
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _recall(notes, report):
    """Add what was recorded when the model was trained."""
    if "margin_mean" not in notes:
        return
    report.add(
        "when trained",
        f"accuracy {notes['training_accuracy']:.4f}, margins of mean {notes['margin_mean']:.4g} "
        f"and variance {notes['margin_variance']:.4g}, {notes['n_samples']} samples",
        **{k: v for k, v in notes.items() if k != "layout"},
    )
    if "share_below_band" in notes and notes.get("margins_of") == notes.get("n_samples"):
        bound = notes["share_below_band"]
        report.add(
            "leave-one-out",
            f"error at most {bound:.4f}: the share of margins below 1 - D",
            loo_error_bound=bound,
        )


def _leave_one_out(estimator, est, samples, report):
    import numpy as np

    from optimargin.cli._learning import leave_one_out

    X = samples.X if estimator is est else estimator[:-1].transform(samples.X)
    leave_one_out(est, X, samples.y, report)
    kinds = ["valid", "count"] if hasattr(est, "loo_decision_function") else ["printed"]
    for kind in kinds:
        bound = np.atleast_1d(est.loo_error_bound(X, samples.y, kind=kind))
        shown = f"at most {bound[0]:.4f}"
        if bound.size > 1:  # one against the rest
            names = est.classes_.tolist()
            shown = ", ".join(f"{x:.4f} ({name})" for name, x in zip(names, bound, strict=True))
        report.add(f"bound, {kind}", shown, **{f"loo_error_bound_{kind}": bound.tolist()})
