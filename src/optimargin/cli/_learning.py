"""What `train`, `select` and `auto` share: reading, describing and saving a model."""

from dataclasses import asdict, replace

import numpy as np
import typer
from scipy.sparse import issparse

from optimargin._checks import looks_like_measurements
from optimargin.cli import _options as opt
from optimargin.cli._preparation import (
    describe_preparation,
    make_steps,
    named,
    scaler_of,
    transformed,
    with_steps,
)
from optimargin.cli._tasks import LEAVE_ONE_OUT, SEARCHED, TASKS, counted, task_of
from optimargin.io import Layout, read_data, save_model, write_atomically
from optimargin.io._dataset import some_of
from optimargin.margins import calibration_shift, distribution_from_scores, unwrap

_DESCRIBED_SAMPLES = 5000  # at most: margins of a kernel model take a row of the kernel each


class Job:
    """One run of `train`, `select` or `auto`: reads DATA, reports what it finds, saves MODEL.

    Parameters
    ----------
    data, model : Path
    plot : Path or None
    task : str or None
        None: what the data look like.
    preparing : Preparing
    reading : Reading
    showing : Showing
    """

    def __init__(self, data, model, plot, task, preparing, reading, showing):
        check_targets(model, plot, data=data)
        self.report = showing.report()
        self.data, self._model, self._plot = data, model, plot
        self._format = reading.format
        self._layout = reading.layout(
            allow_missing=preparing.impute != "none",
            allow_text=preparing.encode != "none",
            has_labels=task != "novelty",
            labels={"classification": "classes", "regression": "numbers"}.get(task),
        )
        self._task_name, self._preparing = task, preparing

    def read(self, *, may_regress=False):
        """Return the samples, and report what they are.

        Parameters
        ----------
        may_regress : bool, default=False
            Whether a target that looks like measurements is one without ``--task``.
        """
        with self.report.working(f"reading {self.data}"):
            samples = read_data(self.data, format=self._format, layout=self._layout)
        self.task = self._find_task(samples, may_regress)
        if self.task.name == "novelty":
            samples = replace(samples, y=None)  # that of svmlight files is not looked at
        elif self.task.name == "regression":
            samples = replace(samples, y=_as_measurements(samples, self.data))
        elif samples.y.dtype.kind == "f":
            samples = replace(samples, y=samples.y.astype(str))  # scikit-learn takes no others
        self.samples = samples
        n_samples, n_features = samples.X.shape
        target, facts = self.task.describe_target(samples.y)
        where = f", target in column {samples.label_name!r}" if samples.label_name else ""
        self.report.add(
            "data",
            f"{self.data} ({samples.format}): {counted(n_samples, 'sample', 'samples')}, "
            f"{counted(n_features, 'feature', 'features')}, {target}{where}",
            data=str(self.data),
            format=samples.format,
            n_samples=n_samples,
            n_features=n_features,
            task=self.task.name,
            target=samples.label_name,
            **facts,
        )
        for name, text, facts in describe_columns(samples):
            self.report.add(name, text, **facts)
        return samples

    @property
    def target_name(self):
        """What is predicted."""
        return self.samples.label_name or "the target"

    def _find_task(self, samples, may_regress):
        if samples.y is None and self._task_name != "novelty":
            raise ValueError(f"{self.data} has no labels: name their column with --target.")
        if self._task_name is not None:
            return TASKS[self._task_name]
        if not looks_like_measurements(samples.y):
            return TASKS["classification"]
        if may_regress:
            return TASKS["regression"]
        n_different = np.unique(samples.y).size
        raise ValueError(
            f"{self.data}: the target (column {samples.label_name or 1!r}) has {n_different} "
            f"different numbers in {samples.y.size} rows, as measurements have: say --task "
            "regression to predict numbers, --task classification if these are classes, or name "
            "another column with --target."
        )

    def make(self, estimator_class, machine, **parameters):
        """Return the estimator that the options describe, for the data read."""
        if machine.class_weight:
            labels = np.unique(self.samples.y).tolist()
            parameters["class_weight"] = opt.class_weights(machine.class_weight, labels)
        return estimator_class(**parameters)

    def steps(self):
        """Return the transformers that prepare the data read."""
        return make_steps(self.samples, self._preparing)

    def with_steps(self, steps, estimator):
        """Return the model to save."""
        return with_steps(steps, estimator, self.task.step)

    def describe_estimate(self, model, search=None, predicted=None):
        """Add first what users want to know: how good predictions of new samples will be.

        Parameters
        ----------
        model : estimator
        search : estimator, default=None
            That found it.
        predicted : ndarray of shape (n_samples,), default=None
            What is predicted for each sample when it is left out, where that was computed before.

        Returns
        -------
        predicted : ndarray of shape (n_samples,) or None
            What is predicted for each sample when it is left out, if that is known.
        """
        if predicted is None:
            with self.report.working("leaving one out"):
                X = transformed(model, self.samples.X)
                predicted = self.task.held_out(unwrap(model), X, self.samples.y)
        tell_estimate(self.report, self.task, self.samples.y, predicted, search)
        return predicted

    def describe_model(self, model):
        """Add what there is to say about a fitted model, and return facts to be saved."""
        describe_scaling(model, self.report)
        facts = describe(model, self.samples.X, self.samples.y, self.report)
        describe_fit(unwrap(model), self.report)
        return facts

    def finish(self, model, display, *, last=(), **notes):
        """Describe and save a fitted model, and print the report.

        Parameters
        ----------
        model : estimator
        display : callable
            Returns the Display to draw, if a plot was requested.
        last : sequence of (str, str, dict), default=()
            Lines of the report that come after what the fit says.
        **notes
            Saved with the model.
        """
        facts = self.describe_model(model)
        for name, text, more in last:
            self.report.add(name, text, **more)
        if self._plot is not None:
            write_plot(display(), self._plot)
        self.save(model, facts | notes)
        if self._plot is not None:
            self.report.add("plot", str(self._plot), plot=str(self._plot))
        self.report.add("next", f"optimargin predict NEW.csv {self._model} predictions.txt")
        self.report.print()

    def save(self, model, notes):
        """Save a fitted model, with what other commands need to read further data."""
        samples = self.samples
        estimated = self.report.facts_starting_with("estimated", "baseline")
        layout = asdict(self.layout_of_new_data())
        notes = {"layout": layout, "n_samples": samples.X.shape[0], **estimated, **notes}
        if samples.feature_names is not None:
            model = named(model, samples.feature_names)
        save_model(model, self._model, notes=notes)
        self.report.add("saved", f"{self._model}", model=str(self._model))

    def layout_of_new_data(self) -> Layout:
        """Return the layout that further data for the model must have."""
        samples, layout = self.samples, self._layout
        unnamed = () if samples.feature_names is not None else tuple(samples.left_out)
        return replace(
            layout,
            label=samples.label_name or layout.label,
            drop=(*layout.drop, *unnamed),
            feature_names=samples.feature_names,
            n_features=samples.X.shape[1],
            kinds=samples.kinds,
            zero_based=samples.zero_based,
            labels="numbers" if self.task.name == "regression" else "text",
        )


def tell_estimate(report, task, y, predicted, search=None):
    """Add how good predictions of new samples will be, as held-out ones or a search tell."""
    if predicted is not None:
        judged = task.judge(y, predicted, f" ({LEAVE_ONE_OUT})")
        facts = {"estimated_by": LEAVE_ONE_OUT}
        if task.name == "classification":
            facts["loo_error"] = 1 - judged.facts["accuracy"]
        judged.tell(report, "estimated", **facts)
    elif hasattr(search, "held_out_score_"):
        judged = task.judge_score(y, search.held_out_score_, f" ({SEARCHED})")
        judged.tell(report, "estimated", estimated_by=SEARCHED)


def _as_measurements(samples, path):
    if samples.y.dtype.kind not in "if":
        raise ValueError(
            f"{path}: the target (column {samples.label_name or 1!r}) is text such as "
            f"{str(samples.y[0])!r}: --task regression needs numbers."
        )
    return samples.y.astype(np.float64)


def describe_columns(samples):
    """Return what became of the columns of a table, as lines of a report: name, text, facts."""
    lines: list[tuple[str, str, dict]] = []
    if samples.kinds and "category" in samples.kinds:
        of = columns_of(samples, "category")
        lines.append(("categories", f"{len(of)}: {some_of(of)}", {"categories": of}))
    if not issparse(samples.X):
        n_missing = np.sum(samples.X != samples.X, axis=0)  # NaN alone differs from itself
        names = columns_of(samples)
        order = [j for j in np.argsort(-n_missing, kind="stable") if n_missing[j]]
        shown = some_of([f"{names[j]} ({n_missing[j]})" for j in order])
        n_all = int(n_missing.sum())
        if n_all:
            text = f"{counted(n_all, 'value', 'values')}: {shown}"
            lines.append(("missing", text, {"n_missing": n_all}))
    lines += [
        ("left out", f"{name!r} {reason}", {"left_out": samples.left_out})
        for name, reason in samples.left_out.items()
    ]
    return lines + [("note", remark, {}) for remark in samples.remarks]


def columns_of(samples, kind=None):
    """Return the names of all features, or of those of one kind."""
    names = samples.feature_names or [f"column {j + 1}" for j in range(samples.X.shape[1])]
    if kind is None:
        return names
    return [name for name, own in zip(names, samples.kinds, strict=True) if own == kind]


def advise_scaling(X, report):
    """Add a hint if the features of a dense matrix have very different scales."""
    if issparse(X) or X.dtype.kind != "f" or X.shape[0] < 2:
        return
    spread = np.nanstd(X, axis=0)
    spread = spread[spread > 0]
    if spread.size and max(spread.max() / spread.min(), spread.max()) > 100:
        report.add(
            "hint",
            f"standard deviations of features range from {spread.min():.2g} to "
            f"{spread.max():.2g}: --scale standard may help a lot",
        )


def describe_scaling(model, report):
    """Add to the report how a model prepares its features, if it does."""
    words = describe_preparation(model)
    if words is not None:
        report.add(
            "prepared",
            f"{words} (part of the model)",
            preparation=words,
            scaling=scaler_of(model),
        )


def describe(model, X, y, report):
    """Add to the report how `model` performs on its training data, and return these facts."""
    rows = np.arange(X.shape[0])
    if rows.size > _DESCRIBED_SAMPLES:
        rows = np.unique(np.linspace(0, rows.size - 1, _DESCRIBED_SAMPLES).astype(int))
    of = "the training data" if rows.size == X.shape[0] else f"{rows.size} training samples"
    task = task_of(model)
    if task.name == "novelty":
        return _describe_threshold(model, X[rows], of, report)
    if task.name == "regression":
        return task.judge(y[rows], model.predict(X[rows]), f" on {of}").tell(report, "training")
    scores = model.decision_function(X[rows])
    facts = task.judge(y[rows], task.labels_of(model, scores), f" on {of}").tell(report, "training")
    return facts | _describe_margins(unwrap(model), y[rows], scores, report)


def _describe_threshold(model, X, of, report):
    est = unwrap(model)
    facts = {"offset": est.offset_, "false_alarm_rate": est.false_alarm_rate}
    text = f"{est.offset_:.4g}, for a false-alarm rate of {est.false_alarm_rate:g}"
    report.add("threshold", text, **facts)
    alarms = int(np.sum(model.predict(X) == -1))
    more = {"training_alarms": alarms / X.shape[0]}
    report.add("below it", f"{alarms} of {X.shape[0]} ({of}), which the model has seen", **more)
    return facts | more


def _describe_margins(est, y, scores, report):
    distribution = distribution_from_scores(y, scores - calibration_shift(est), est.classes_)
    facts = {
        "margin_mean": distribution.mean,
        "margin_variance": distribution.variance,
        "margins_of": len(y),
    }
    text = f"mean {distribution.mean:.4g}, variance {distribution.variance:.4g}"
    if est.classes_.size > 2:
        text += " (true class minus best other)"
    elif hasattr(est, "D"):
        below = float(np.mean(distribution.margins < 1 - est.D))
        above = float(np.mean(distribution.margins > 1 + est.D))
        facts |= {"share_below_band": below, "share_above_band": above}
        text += f"; {below:.1%} below {1 - est.D:g}, {above:.1%} above {1 + est.D:g}"
    report.add("margins", text, **facts)
    return facts


def describe_fit(est, report):
    """Add support vectors, gap, solver and iterations of a fit."""
    gap = float(np.max(est.dual_gap_))
    n_iter = int(np.max(est.n_iter_))
    if hasattr(est, "support_"):
        report.add("support vectors", f"{est.support_.size}", n_support=int(est.support_.size))
    shown = "≤ 1e-15" if gap <= 1e-15 else f"{gap:.2g}"  # doubles do not know more
    report.add(
        "certified gap",
        f"{shown}, by {est.solver_} in {counted(n_iter, 'iteration', 'iterations')}",
        dual_gap=gap,
        n_iter=n_iter,
        solver=est.solver_,
    )


def check_targets(model, plot, /, **read):
    """Raise an error at once if the model or a plot could not be written in the end.

    Parameters
    ----------
    model, plot : Path or None
    **read : Path or None
        Files that must not be overwritten, by what they are called.
    """
    for path in (model, plot):
        if path is not None and not path.parent.is_dir():
            raise ValueError(f"The folder {path.parent} does not exist: create it first.")
    opt.check_written(model, is_model=True, **read)
    opt.check_written(plot, **({"model": model} | read))
    if plot is None:
        return
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise typer.BadParameter(
            "--save-plot needs matplotlib: pip install 'optimargin[plot]'."
        ) from None
    known = sorted(Figure().canvas.get_supported_filetypes())
    if plot.suffix.removeprefix(".").lower() not in known:
        raise typer.BadParameter(f"--save-plot {plot}: use one of .{', .'.join(known)}.")


def fit_display(model, X, y):
    """Return the Display of a fitted model: margins, or residuals."""
    if task_of(model).name == "regression":
        from sklearn.metrics import PredictionErrorDisplay

        return PredictionErrorDisplay.from_estimator(model, X, y)
    from optimargin.plotting import MarginDistributionDisplay

    return MarginDistributionDisplay.from_estimator(model, X, y)


def write_plot(display, path):
    """Write the figure of a Display."""
    with write_atomically(path) as temporary:
        display.figure_.savefig(temporary, dpi=150)
