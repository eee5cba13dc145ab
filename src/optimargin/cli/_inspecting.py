"""The work of `optimargin inspect`: what there is to say about a model file."""

from contextlib import suppress
from dataclasses import replace
from itertools import combinations

import numpy as np
import typer

from optimargin.cli._learning import (
    check_targets,
    describe,
    describe_fit,
    describe_scaling,
    fit_display,
    tell_estimate,
    write_plot,
)
from optimargin.cli._model import layout_of, load
from optimargin.cli._predictions import as_classes
from optimargin.cli._preparation import transformed
from optimargin.cli._tasks import number_or_range, task_of
from optimargin.io import read_data, read_model_header
from optimargin.margins import unwrap


def describe_file(model, data, format, save_plot, report):
    """Add to the report what `optimargin inspect` shows.

    Parameters
    ----------
    model : Path
    data : Path or None
        The training data.
    format : str or None
        Of the data.
    save_plot : Path or None
    report : Report
    """
    check_targets(None, save_plot, model=model, data=data)
    if save_plot is not None and data is None:
        raise typer.BadParameter("--save-plot draws margins: give the samples with --data.")
    header = read_model_header(model)
    estimator = load(model)
    _describe_parameters(unwrap(estimator), header, report)
    describe_scaling(estimator, report)
    _describe_data(estimator, report)
    describe_fit(unwrap(estimator), report)
    if data is None:
        _recall(header["notes"], report)
    else:
        samples = _read_training_data(data, format, model, estimator, report)
        if save_plot is not None and samples.y is None:
            raise typer.BadParameter("--save-plot has no meaning for a novelty detector.")
        _describe_performance(estimator, samples, report)
        if save_plot is not None:
            write_plot(fit_display(estimator, samples.X, samples.y), save_plot)
            report.add("plot", str(save_plot), plot=str(save_plot))


def _describe_parameters(est, header, report):
    name = type(est).__name__
    report.add(
        "model",
        f"{name}, by optimargin {header['optimargin']}",
        estimator=name,
        optimargin=header["optimargin"],
    )
    shown = ", ".join(f"{name}={_short(value)}" for name, value in header["parameters"].items())
    report.add("parameters", shown, parameters=header["parameters"])
    resolved = {
        name: np.asarray(getattr(est, f"{name}_"), dtype=float).tolist()
        for name in ("C1", "C2", "gamma")
        if hasattr(est, f"{name}_")
    }
    if resolved:
        shown = ", ".join(f"{name}={number_or_range(value)}" for name, value in resolved.items())
        report.add("resolved to", shown, **resolved)


def _describe_data(estimator, report):
    est = unwrap(estimator)
    if hasattr(est, "classes_"):
        classes = est.classes_.tolist()
        report.add("classes", ", ".join(map(str, classes)), classes=classes)
    n_features = int(estimator.n_features_in_)
    shown = str(n_features)
    if est.n_features_in_ != n_features:
        shown += f", prepared as {est.n_features_in_}"
    report.add("features", shown, n_features=n_features)


def _read_training_data(data, format, model, estimator, report):
    """Return the samples with a target as the model knows it; None for novelty detectors."""
    with report.working(f"reading {data}"):
        samples = read_data(data, format=format, layout=layout_of(model))
    if task_of(estimator).name == "novelty":
        return replace(samples, y=None)
    if samples.y is None:
        raise ValueError(f"{data} has no labels: margins need them.")
    if samples.y.dtype.kind == "O":
        raise ValueError(f"{data} has rows without a label: give the training data.")
    if not hasattr(estimator, "classes_"):
        return replace(samples, y=samples.y.astype(float))
    y = as_classes(samples.y, estimator.classes_)
    known = {str(label): label for label in estimator.classes_.tolist()}
    odd = next((label for label in y.tolist() if label not in known), None)
    if odd is not None:
        raise ValueError(f"{data} has the label {odd!r}, which the model does not know.")
    return replace(samples, y=np.array([known[label] for label in y.tolist()]))


def _short(value):
    if isinstance(value, list) and value and all(isinstance(v, float) for v in value):
        return number_or_range(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


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


def _describe_performance(estimator, samples, report):
    """Add margins, the leave-one-out error and its bounds."""
    describe(estimator, samples.X, samples.y, report)
    est, task, y = unwrap(estimator), task_of(estimator), samples.y
    with report.working("leaving one out"):
        X = transformed(estimator, samples.X)
        tell_estimate(report, task, y, task.held_out(est, X, y))
        if task.name != "classification":
            return
        kinds = ["valid", "count"] if hasattr(est, "loo_decision_function") else ["printed"]
        for kind in kinds:
            bound = np.atleast_1d(est.loo_error_bound(X, y, kind=kind))
            shown = f"at most {bound[0]:.4f}"
            if bound.size > 1:  # one against the rest, or pairs
                names = est.classes_.tolist()
                if vars(est).get("_pairwise"):
                    names = [f"{first}-{second}" for first, second in combinations(names, 2)]
                shown = ", ".join(f"{x:.4f} ({name})" for name, x in zip(names, bound, strict=True))
            report.add(f"bound, {kind}", shown, **{f"loo_error_bound_{kind}": bound.tolist()})
