"""``optimargin inspect``."""

from contextlib import suppress
from dataclasses import replace
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
    import numpy as np

    from optimargin.cli._learning import (
        check_targets,
        describe,
        describe_fit,
        describe_scaling,
        fit_display,
        write_plot,
    )
    from optimargin.cli._model import layout_of, load
    from optimargin.cli._predictions import as_classes
    from optimargin.cli._tasks import task_of
    from optimargin.io import read_data, read_model_header
    from optimargin.margins import unwrap

    check_targets(None, save_plot, model=model, data=data)
    if save_plot is not None and data is None:
        raise typer.BadParameter("--save-plot draws margins: give the samples with --data.")
    report = showing.report()
    header = read_model_header(model)
    estimator = load(model)
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
        name: np.asarray(getattr(est, f"{name}_"), dtype=float).tolist()
        for name in ("C1", "C2", "gamma")
        if hasattr(est, f"{name}_")
    }
    if resolved:
        shown = ", ".join(f"{name}={_one_or_range(value)}" for name, value in resolved.items())
        report.add("resolved to", shown, **resolved)
    describe_scaling(estimator, report)
    if hasattr(est, "classes_"):
        classes = est.classes_.tolist()
        report.add("classes", ", ".join(map(str, classes)), classes=classes)
    n_features = int(estimator.n_features_in_)
    shown = str(n_features)
    if est.n_features_in_ != n_features:
        shown += f", prepared as {est.n_features_in_}"
    report.add("features", shown, n_features=n_features)
    describe_fit(est, report)
    if data is None:
        _recall(header["notes"], report)
    else:
        with report.working(f"reading {data}"):
            samples = read_data(data, format=format, layout=layout_of(model))
        if task_of(estimator).name == "novelty":
            if save_plot is not None:
                raise typer.BadParameter("--save-plot has no meaning for a novelty detector.")
            samples = replace(samples, y=None)
        elif samples.y is None:
            raise ValueError(f"{data} has no labels: margins need them.")
        elif samples.y.dtype.kind == "O":
            raise ValueError(f"{data} has rows without a label: give the training data.")
        elif not hasattr(est, "classes_"):
            samples = replace(samples, y=samples.y.astype(float))
        else:
            y = as_classes(samples.y, est.classes_)
            known = {str(label): label for label in est.classes_.tolist()}
            odd = next((label for label in y.tolist() if label not in known), None)
            if odd is not None:
                raise ValueError(f"{data} has the label {odd!r}, which the model does not know.")
            samples = replace(samples, y=np.array([known[label] for label in y.tolist()]))
        describe(estimator, samples.X, samples.y, report)
        with report.working("leaving one out"):
            _leave_one_out(estimator, est, samples, report)
        if save_plot is not None:
            write_plot(fit_display(estimator, samples.X, samples.y), save_plot)
            report.add("plot", str(save_plot), plot=str(save_plot))
    report.print()


def _short(value):
    if isinstance(value, list) and value and all(isinstance(v, float) for v in value):
        return _one_or_range(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _one_or_range(value):
    """Return a number in words, or from where to where those of all features go."""
    if isinstance(value, list):
        return f"{min(value):.6g} to {max(value):.6g} (per feature)"
    return f"{value:.6g}"


_RECALLED = (
    "estimated accuracy {estimated_accuracy:.4f} ({estimated_by})",
    "training accuracy {training_accuracy:.4f}",
    "estimated error {estimated_rmse:.4g} ({estimated_by})",
    "training error {training_rmse:.4g}",
    "threshold {offset:.4g} for a false-alarm rate of {false_alarm_rate:g}",
    "margins of mean {margin_mean:.4g} and variance {margin_variance:.4g}",
    "{n_samples} samples",
)


def _recall(notes, report):
    """Add what was recorded when the model was trained, of notes that may hold anything."""
    told = []
    for words in _RECALLED:
        with suppress(KeyError, TypeError, ValueError):
            told.append(words.format_map(notes))
    if not told:
        return
    facts = {k: v for k, v in notes.items() if k != "layout"}
    report.add("when trained", ", ".join(told), **facts)
    bound = notes.get("share_below_band")
    if isinstance(bound, float) and notes.get("margins_of") == notes.get("n_samples"):
        report.add(
            "leave-one-out",
            f"error at most {bound:.4f}: the share of margins below 1 - D",
            loo_error_bound=bound,
        )


def _leave_one_out(estimator, est, samples, report):
    from itertools import combinations

    import numpy as np

    from optimargin.cli._preparation import transformed
    from optimargin.cli._tasks import LEAVE_ONE_OUT, task_of

    task = task_of(estimator)
    X = transformed(estimator, samples.X)
    predicted = task.leave_one_out(est, X, samples.y)
    if predicted is not None:
        name, text, facts = task.describe_estimate(samples.y, predicted, LEAVE_ONE_OUT)
        report.add(name, text, **facts)
    if task.name != "classification":
        return
    kinds = ["valid", "count"] if hasattr(est, "loo_decision_function") else ["printed"]
    for kind in kinds:
        bound = np.atleast_1d(est.loo_error_bound(X, samples.y, kind=kind))
        shown = f"at most {bound[0]:.4f}"
        if bound.size > 1:  # one against the rest, or pairs
            names = est.classes_.tolist()
            if vars(est).get("_pairwise"):
                names = [f"{first}-{second}" for first, second in combinations(names, 2)]
            shown = ", ".join(f"{x:.4f} ({name})" for name, x in zip(names, bound, strict=True))
        report.add(f"bound, {kind}", shown, **{f"loo_error_bound_{kind}": bound.tolist()})
