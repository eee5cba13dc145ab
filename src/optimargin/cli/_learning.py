"""What `train` and `select` share: reading, scaling, describing and saving a model."""

from dataclasses import asdict

import numpy as np
import typer
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

import optimargin
from optimargin.io import read_data, save_model, write_atomically
from optimargin.margins import margin_distribution, unwrap

_CLASSIFIERS = {
    # (linear, ldm)
    (False, False): "ODMClassifier",
    (True, False): "LinearODMClassifier",
    (False, True): "LDMClassifier",
    (True, True): "LinearLDMClassifier",
}
_DESCRIBED = 5000  # samples that margins are computed for: with a kernel each costs a row of it
_SCALES_APART = 100


def classifier_class(linear, ldm, *, search=False):
    """Return the estimator that ``--linear`` and ``--ldm`` name, or its form that selects."""
    name = _CLASSIFIERS[linear, ldm] + ("CV" if search else "")
    if not hasattr(optimargin, name):
        raise typer.BadParameter(f"This version of optimargin has no {name}.")
    return getattr(optimargin, name)


def read_labelled(path, format, layout, report):
    """Return the data of a file, and say what they are."""
    with report.working(f"reading {path}"):
        data = read_data(path, format=format, layout=layout)
    classes = np.unique(data.y)
    label = f", labels in column {data.label_name!r}" if data.label_name else ""
    report.add(
        "data",
        f"{path} ({data.format}): {data.X.shape[0]} samples, {data.X.shape[1]} features, "
        f"{classes.size} classes{label}",
        data=str(path),
        format=data.format,
        n_samples=data.X.shape[0],
        n_features=data.X.shape[1],
        classes=classes.tolist(),
    )
    return data


def make_scaler(scaling, X):
    """Return the scaler of that name, one that keeps zeros for sparse data."""
    if scaling == "standard":
        return StandardScaler(with_mean=not issparse(X))
    if scaling == "unit":
        return MaxAbsScaler() if issparse(X) else MinMaxScaler()
    return None


def advise_scaling(X, report):
    """Say so where the features of a dense matrix have very different scales."""
    if issparse(X) or X.shape[0] < 2:
        return
    spread = X.std(axis=0)
    spread = spread[spread > 0]
    if spread.size and max(spread.max() / spread.min(), spread.max()) > _SCALES_APART:
        report.add(
            "hint",
            f"standard deviations of features reach from {spread.min():.2g} to "
            f"{spread.max():.2g}: --scale standard may help much",
        )


def with_scaler(scaler, classifier):
    """Return the model that is saved: the classifier, after its scaler if there is one."""
    if scaler is None:
        return classifier
    return Pipeline([("scale", scaler), ("classify", classifier)])


def describe(model, X, y, report):
    """Add to the report how `model` does on its training data, and return these facts."""
    est = unwrap(model)
    rows = np.arange(X.shape[0])
    if rows.size > _DESCRIBED:
        rows = np.unique(np.linspace(0, rows.size - 1, _DESCRIBED).astype(int))
    distribution = margin_distribution(model, X[rows], y[rows])
    facts = {
        "training_accuracy": float(np.mean(model.predict(X[rows]) == y[rows])),
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


def describe_fit(est, report):
    """Add how the fit of a classifier ended."""
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


def save(model, path, data, layout, facts):
    """Save a model with what is needed to read further data in the same way."""
    notes = {
        "layout": {
            **asdict(layout),
            "label": data.label_name or layout.label,
            "feature_names": data.feature_names,
            "n_features": data.X.shape[1],
            "zero_based": data.zero_based,
        },
        "n_samples": data.X.shape[0],
        **facts,
    }
    save_model(model, path, notes=notes)


def check_targets(model, picture):
    """Raise an error at once if the model or a picture could not be written in the end."""
    for path in (model, picture):
        if path is not None and not path.parent.is_dir():
            raise ValueError(f"The folder {path.parent} does not exist: create it first.")
    if picture is None:
        return
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise typer.BadParameter(
            "--save-plot needs matplotlib: pip install 'optimargin[plot]'."
        ) from None
    known = sorted(Figure().canvas.get_supported_filetypes())
    if picture.suffix.removeprefix(".").lower() not in known:
        raise typer.BadParameter(f"--save-plot {picture}: use one of .{', .'.join(known)}.")


def save_picture(display, path):
    """Write the figure of a Display."""
    with write_atomically(path) as temporary:
        display.figure_.savefig(temporary, dpi=150)
