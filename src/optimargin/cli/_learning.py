"""What `train` and `select` share: reading, scaling, describing and saving a model."""

from dataclasses import asdict

import numpy as np
import typer
from scipy.sparse import issparse
from sklearn.utils.multiclass import type_of_target

import optimargin
from optimargin.cli import _options as opt
from optimargin.io import read_data, save_model, write_atomically
from optimargin.margins import distribution_from_scores, unwrap
from optimargin.tasks import winning_class

_CLASSIFIERS = {
    # (linear, ldm)
    (False, False): "ODMClassifier",
    (True, False): "LinearODMClassifier",
    (False, True): "LDMClassifier",
    (True, True): "LinearLDMClassifier",
}
_DESCRIBED = 5000  # compute margins of at most this many samples: with a kernel each needs a row
_SCALES_APART = 100


class Job:
    """One run of `train` or `select`: reads DATA, reports what it finds, saves MODEL.

    Parameters
    ----------
    data, model : Path
    plot : Path or None
    reading : Reading
    showing : Showing
    """

    def __init__(self, data, model, plot, reading, showing):
        check_targets(model, plot)
        opt.refuse_overwriting(model, data=data)
        opt.refuse_overwriting(plot, data=data, model=model)
        self.report = showing.report()
        self._data, self._model, self._plot = data, model, plot
        self._format, self._layout = reading.format, reading.layout()

    def read(self):
        """Return the samples and their labels, and report what they are."""
        with self.report.working(f"reading {self._data}"):
            samples = read_data(self._data, format=self._format, layout=self._layout)
        if type_of_target(samples.y) == "continuous":
            raise ValueError(
                f"{self._data}: the labels (column {samples.label_name or 1!r}) are measurements, "
                "not classes: name the column of the classes with --label."
            )
        X, classes = samples.X, np.unique(samples.y).tolist()
        label = f", labels in column {samples.label_name!r}" if samples.label_name else ""
        self.report.add(
            "data",
            f"{self._data} ({samples.format}): {X.shape[0]} samples, {X.shape[1]} features, "
            f"{len(classes)} classes{label}",
            data=str(self._data),
            format=samples.format,
            n_samples=X.shape[0],
            n_features=X.shape[1],
            classes=classes,
        )
        self._samples = samples
        return X, samples.y

    def make(self, estimator_class, machine, **parameters):
        """Return the estimator that the options describe, for the data read."""
        weights = opt.class_weights(machine.class_weight, np.unique(self._samples.y).tolist())
        return estimator_class(**parameters, class_weight=weights)

    def finish(self, estimator, display, **notes):
        """Describe and save a fitted model, and print the report.

        Parameters
        ----------
        estimator : estimator
        display : callable
            Returns the Display to draw, if a plot was requested.
        **notes
            Saved with the model.
        """
        samples = self._samples
        describe_scaling(estimator, self.report)
        facts = describe(estimator, samples.X, samples.y, self.report)
        describe_fit(unwrap(estimator), self.report)
        if self._plot is not None:
            write_plot(display(), self._plot)
        layout = {
            **asdict(self._layout),
            "label": samples.label_name or self._layout.label,
            "feature_names": samples.feature_names,
            "n_features": samples.X.shape[1],
            "zero_based": samples.zero_based,
        }
        # With the layout, other commands read further data in the same way.
        notes = {"layout": layout, "n_samples": samples.X.shape[0], **facts, **notes}
        save_model(estimator, self._model, notes=notes)
        self.report.add("saved", f"{self._model}", model=str(self._model))
        if self._plot is not None:
            self.report.add("plot", str(self._plot), plot=str(self._plot))
        self.report.print()


def classifier_class(machine, *, search=False):
    """Return the class that ``--linear`` and ``--ldm`` name, or its CV form for a search."""
    return getattr(optimargin, _CLASSIFIERS[machine.linear, machine.ldm] + ("CV" if search else ""))


def make_scaler(scaling, X):
    """Return the scaler of that name; for sparse data one that keeps zeros."""
    if scaling == opt.Scaling.none:
        return None
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

    if scaling == opt.Scaling.standard:
        return StandardScaler(with_mean=not issparse(X))
    return MaxAbsScaler() if issparse(X) else MinMaxScaler()


def advise_scaling(X, report):
    """Add a hint if the features of a dense matrix have very different scales."""
    if issparse(X) or X.shape[0] < 2:
        return
    spread = X.std(axis=0)
    spread = spread[spread > 0]
    if spread.size and max(spread.max() / spread.min(), spread.max()) > _SCALES_APART:
        report.add(
            "hint",
            f"standard deviations of features range from {spread.min():.2g} to "
            f"{spread.max():.2g}: --scale standard may help a lot",
        )


def with_scaler(scaler, classifier):
    """Return the model to save: the classifier, after its scaler if there is one."""
    if scaler is None:
        return classifier
    from sklearn.pipeline import Pipeline

    return Pipeline([("scale", scaler), ("classify", classifier)])


def describe_scaling(model, report):
    """Add to the report how a model scales its features, if it does."""
    if unwrap(model) is not model:
        name = type(model[0]).__name__
        report.add("scaling", f"{name}, part of the model", scaling=name)


def describe(model, X, y, report):
    """Add to the report how `model` performs on its training data, and return these facts."""
    est = unwrap(model)
    rows = np.arange(X.shape[0])
    if rows.size > _DESCRIBED:
        rows = np.unique(np.linspace(0, rows.size - 1, _DESCRIBED).astype(int))
    scores = model.decision_function(X[rows])
    distribution = distribution_from_scores(y[rows], scores, model.classes_)
    facts = {
        "training_accuracy": float(np.mean(winners(model, scores) == y[rows])),
        "margin_mean": distribution.mean,
        "margin_variance": distribution.variance,
        "margins_of": int(rows.size),
    }
    of = "the training data" if rows.size == X.shape[0] else f"{rows.size} training samples"
    report.add("accuracy", f"{facts['training_accuracy']:.4f} on {of}", **facts)
    text = f"mean {distribution.mean:.4g}, variance {distribution.variance:.4g}"
    if hasattr(est, "D") and est.classes_.size == 2:
        facts["share_below_band"] = float(np.mean(distribution.margins < 1 - est.D))
        facts["share_above_band"] = float(np.mean(distribution.margins > 1 + est.D))
        text += (
            f"; {facts['share_below_band']:.1%} below {1 - est.D:g}, "
            f"{facts['share_above_band']:.1%} above {1 + est.D:g}"
        )
    report.add("margins", text, **facts)
    return facts


def leave_one_out(est, X, y, report):
    """Add the closed-form leave-one-out error, if the fitted classifier has one."""
    if hasattr(est, "loo_decision_function") and X.shape[0] <= _DESCRIBED:
        error = float(np.mean(winners(est, est.loo_decision_function(X, y)) != y))
        report.add("leave-one-out", f"error {error:.4f} in closed form", loo_error=error)


def describe_fit(est, report):
    """Add support vectors, gap, solver and iterations of a fit."""
    gap = float(np.max(est.dual_gap_))
    n_iter = int(np.max(est.n_iter_))
    if hasattr(est, "support_"):
        report.add("support vectors", f"{est.support_.size}", n_support=int(est.support_.size))
    report.add(
        "certified gap",
        f"{gap:.2g}, by {est.solver_} in {n_iter} iterations",
        dual_gap=gap,
        n_iter=n_iter,
        solver=est.solver_,
    )


def winners(model, scores):
    """Return the labels that belong to decision values."""
    return model.classes_[winning_class(scores.reshape(len(scores), -1))]


def check_targets(model, plot):
    """Raise an error at once if the model or a plot could not be written in the end."""
    for path in (model, plot):
        if path is not None and not path.parent.is_dir():
            raise ValueError(f"The folder {path.parent} does not exist: create it first.")
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


def write_plot(display, path):
    """Write the figure of a Display."""
    with write_atomically(path) as temporary:
        display.figure_.savefig(temporary, dpi=150)
