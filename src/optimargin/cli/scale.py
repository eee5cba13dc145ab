"""``optimargin scale``."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from optimargin.cli import _options as opt
from optimargin.cli._groups import grouped

Out = Annotated[Path, typer.Argument(metavar="OUT", help="Scaled data, in the format of DATA.")]


@dataclass(frozen=True)
class Scaling:
    """How features are scaled, and which file keeps that."""

    lower: float = typer.Option(-1.0, "-l", "--lower", help="Smallest value of a feature.")
    upper: float = typer.Option(1.0, "-u", "--upper", help="Largest value of a feature.")
    standard: bool = typer.Option(
        False, "--standard", help="Mean 0 and variance 1 instead of a range."
    )
    save: Path | None = typer.Option(
        None, "-s", "--save", metavar="FILE", callback=opt.a_file, help="Save the scaling."
    )
    restore: Path | None = typer.Option(
        None,
        "-r",
        "--restore",
        metavar="FILE",
        callback=opt.a_file,
        help="Apply a saved scaling, for test data.",
    )


@grouped
def scale(
    data: opt.Data,
    out: Out,
    *,
    scaling: Scaling,
    reading: opt.Reading,
    showing: opt.Showing,
) -> None:
    """Scale the features of DATA and write them to OUT.

    Sparse svmlight data keep their zeros: features are divided by their largest
    absolute value or, with --standard, by their standard deviation.
    `train --scale` does both in one step and keeps the scaling in the model.
    """
    if not scaling.lower < scaling.upper:
        raise typer.BadParameter(
            f"--lower {scaling.lower:g} must be below --upper {scaling.upper:g}."
        )
    save, restore = scaling.save, scaling.restore
    opt.check_written(out, data=data, scaling=restore)
    opt.check_written(save, is_model=True, data=data, output=out, scaling=restore)
    from scipy.sparse import issparse
    from sklearn.preprocessing import MinMaxScaler

    from optimargin.io import load_model, read_data, save_model, write_data

    report = showing.report(to_stderr=str(out) == "-")
    scaler = None if restore is None else load_model(restore)
    layout = reading.layout()
    if scaler is not None:
        layout = replace(layout, n_features=scaler.n_features_in_)
    with report.working(f"reading {data}"):
        samples = read_data(data, format=reading.format, layout=layout)
    X = samples.X
    if scaler is None:
        scaler = _make_scaler(issparse(X), scaling).fit(X)
    elif not hasattr(scaler, "transform"):
        raise ValueError(f"{restore} is a classifier, not a scaling saved by scale --save.")
    elif issparse(X) and (isinstance(scaler, MinMaxScaler) or getattr(scaler, "with_mean", False)):
        X = X.toarray()  # the saved scaling does not keep zeros
    write_data(replace(samples, X=scaler.transform(X)), out)
    if save is not None:
        save_model(scaler, save)
    report.add(
        "scaled",
        f"{X.shape[0]} samples, {X.shape[1]} features by {type(scaler).__name__}",
        n_samples=X.shape[0],
        n_features=X.shape[1],
        scaler=type(scaler).__name__,
    )
    report.add("saved", str(out), out=str(out))
    report.print()


def _make_scaler(sparse, scaling):
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

    if scaling.standard:
        return StandardScaler(with_mean=not sparse)
    if sparse:
        return MaxAbsScaler()
    return MinMaxScaler((scaling.lower, scaling.upper))
