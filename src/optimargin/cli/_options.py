"""The options of the commands, with LIBSVM's letters where they exist.

Options that belong together are dataclasses; `grouped` turns each field into an option.
"""

import re
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from optimargin.cli._report import Report

Imputation = Literal["none", "median", "mean"]
Encoding = Literal["none", "onehot"]
Scaling = Literal["none", "standard", "unit"]
TaskName = Literal["classification", "regression", "novelty"]

_learning = partial(typer.Option, rich_help_panel="What is learnt")
_reading = partial(typer.Option, rich_help_panel="Reading the data")
_showing = partial(typer.Option, rich_help_panel="What is shown")


def a_file(path: Path | None):
    """Return the path of what must be a file, not standard input or output."""
    if str(path) == "-":
        raise typer.BadParameter("- is standard input or output: ./- is a file of that name.")
    return path


def _kernel(text):
    return {"0": "linear", "1": "poly", "2": "rbf", "3": "sigmoid"}.get(text, text)


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="svmlight (LIBSVM), CSV or Parquet, also as .gz, .bz2 or .xz; - is standard input.",
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", callback=a_file, help="The model file.")]
TaskOption = Annotated[
    TaskName | None,
    _learning(
        "--task",
        help="Whether the target holds classes or measurements; default: what it looks like. "
        "novelty (train only): all rows are normal, and there is no target.",
    ),
]
Format = Annotated[
    Literal["svmlight", "csv", "parquet"] | None,
    _reading("--format", help="Detected from the content by default."),
]
SavePlot = Annotated[
    Path | None,
    _showing("--save-plot", callback=a_file, help="Write a plot (.png, .pdf, .svg)."),
]
Impute = Annotated[
    Imputation,
    _learning(
        "--impute", help="Fill missing numbers; a missing category becomes the most frequent one."
    ),
]
Encode = Annotated[
    Encoding,
    _learning(
        "--encode",
        help="onehot: one column per category; dates, ids and free text are left out.",
    ),
]
Scale = Annotated[
    Scaling, _learning("--scale", help="Scale features; the scaling becomes part of the model.")
]


@dataclass(frozen=True)
class Preparing:
    """What is done to a table before it reaches the estimator, and kept in the model."""

    impute: Impute = "median"
    encode: Encode = "onehot"
    scale: Scale = "standard"


@dataclass(frozen=True)
class PreparingOnRequest(Preparing):
    """The same for `train`, which takes features as they are unless told otherwise."""

    impute: Impute = "none"
    encode: Encode = "none"
    scale: Scale = "none"


@dataclass(frozen=True)
class Machine:
    """The estimator, and parameters that `train`, `select` and `auto` take."""

    linear: bool = _learning(False, "--linear", help="Linear model, for large data.")
    ldm: bool = _learning(False, "--ldm", help="Large margin distribution machine (ODM^L).")
    kernel: str | None = _learning(
        None,
        "-t",
        "--kernel",
        help="linear (0), poly (1), rbf (2) or sigmoid (3).",
        callback=_kernel,
    )
    degree: float | None = _learning(None, "-d", "--degree", help="Degree of poly.")
    coef0: float | None = _learning(
        None, "-r", "--coef0", help="Constant term of poly and sigmoid."
    )
    fit_intercept: bool | None = _learning(
        None, "--intercept/--no-intercept", help="Whether to fit an intercept (default: yes)."
    )
    class_weight: list[str] | None = _learning(
        None,
        "--class-weight",
        metavar="LABEL=WEIGHT",
        help="balanced, or one weight per class; -w1 2 is --class-weight 1=2.",
    )
    solver: str | None = _learning(None, "--solver", help="newton, newton_cg, dcd, svrg, ...")
    tol: float | None = _learning(None, "-e", "--tol", help="Certified relative gap to reach.")
    max_iter: int | None = _learning(None, "--max-iter", min=1, help="Limit on iterations.")
    random_state: int | None = _learning(None, "--seed", min=0, help="Seed of random numbers.")

    def parameters(self):
        """Return the parameters by name; class weights are left out, as they need the data."""
        return _values(self, without=("linear", "ldm", "class_weight"))


@dataclass(frozen=True)
class Tuning:
    """Parameters that are options of `train`, and that `select` chooses."""

    penalty: float | None = _learning(
        None,
        "-c",
        "--C1",
        "--C",
        help="Penalty on small margins: C1 of ODM, C of LDM. LIBSVM's C times the number of "
        "samples. Default for ODM: 2 per sample (regression: 32), with --linear divided by "
        "the variance of the features.",
    )
    C2: float | None = _learning(
        None,
        "--C2",
        help="Penalty on margins above 1 + D. Default: C1 / 4 (regression: C1).",
    )
    D: float | None = _learning(None, "--D", help="Half-width of the band without penalty.")
    lambda1: float | None = _learning(None, "--lambda1", help="LDM: weight of the margin variance.")
    lambda2: float | None = _learning(None, "--lambda2", help="LDM: weight of the margin mean.")
    gamma: str | None = _learning(
        None, "-g", "--gamma", help="A number, scale, auto, mean_distance or local."
    )
    approximation: str | None = _learning(
        None, "--approximation", help="nystrom: a kernel model for large data."
    )
    n_components: int | None = _learning(
        None, "--n-components", min=1, help="Number of landmarks of nystrom."
    )
    false_alarm_rate: float | None = _learning(
        None,
        "--false-alarm-rate",
        help="Novelty: the share of new normal samples that may be taken for outliers.",
    )

    def parameters(self, *, ldm):
        """Return the parameters by the names that the classifier uses."""
        return {"C" if ldm else "C1": self.penalty, **_values(self, without=("penalty",))}


@dataclass(frozen=True)
class Reading:
    """How to read a data file."""

    format: Format = None
    label: str | None = _reading(
        None,
        "--target",
        "--label",
        help="Table: the column to predict, by name or by number from 1. Default: the one "
        "called target, class, label or y, or else the last one.",
    )
    header: bool | None = _reading(
        None,
        "--header/--no-header",
        help="Table: whether the first line holds names. Default: what it looks like.",
    )
    drop: list[str] | None = _reading(
        None, "--drop", metavar="COLUMNS", help="Table: leave out, as in --drop a,b."
    )
    keep: list[str] | None = _reading(
        None, "--keep", metavar="COLUMNS", help="Table: use, even if they look like ids."
    )
    missing: list[str] | None = _reading(
        None,
        "--missing",
        metavar="TEXT",
        help="Table: what a missing value looks like, besides empty cells, NA, NaN, null, ?.",
    )
    decimal: Literal[".", ","] | None = _reading(
        None, "--decimal", help="Table: decimal mark. Default: what it looks like."
    )

    def layout(self, **required):
        """Return the layout of a table; `required` are further attributes of it."""
        from optimargin.io import Layout

        return Layout(
            label=self.label,
            header=self.header,
            drop=listed(self.drop),
            keep=listed(self.keep),
            missing=tuple(self.missing or ()),
            decimal=self.decimal,
            **required,
        )


@dataclass(frozen=True)
class Showing:
    """What is printed, and how."""

    json: bool = _showing(False, "--json", help="One JSON object on stdout.")
    quiet: bool = _showing(False, "-q", "--quiet", help="Show only errors.")

    def report(self, *, to_stderr=False):
        """Return a new report."""
        return Report(as_json=self.json, quiet=self.quiet, to_stderr=to_stderr)


def listed(values):
    """Return names from options that may hold several of them, separated by commas."""
    names = [name.strip() for value in values or () for name in value.split(",")]
    return tuple(name for name in names if name)


def check_written(path, *, is_model=False, **others):
    """Raise an error unless a file may be written; it may be someone's data, or a model.

    Parameters
    ----------
    path : Path or None
    is_model : bool, default=False
        Whether it becomes a model. Models replace models only, and nothing else replaces them.
    **others : Path or None
        Files that are read, or written for something else, by what they are called.
    """
    if path is None or str(path) == "-":
        return
    for what, other in others.items():
        if other is None or str(other) == "-":
            continue
        both_exist = path.exists() and other.exists()
        if path.samefile(other) if both_exist else path.resolve() == other.resolve():
            raise typer.BadParameter(
                f"{path} is also the {what}, which this would overwrite: choose another name."
            )
    if not path.is_file() or not path.stat().st_size or _holds_model(path) == is_model:
        return
    if is_model:
        raise typer.BadParameter(
            f"{path} exists and is no model of optimargin: choose another name, or remove it."
        )
    raise typer.BadParameter(f"{path} is a model: choose another name for the output.")


def _holds_model(path):
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(path) as archive:
            return "optimargin.json" in archive.namelist()
    except (BadZipFile, OSError):
        return False


def given(classifier, **options):
    """Return the parameters of `classifier` that were given on the command line.

    Raises
    ------
    typer.BadParameter
        If an option has no meaning for that classifier.
    """
    known = classifier().get_params()
    chosen = {name: value for name, value in options.items() if value is not None}
    for name in chosen:
        if name not in known:
            raise typer.BadParameter(
                f"--{name.replace('_', '-')} has no meaning for {classifier.__name__}, the model "
                "that the other options select."
            )
    if "gamma" in chosen:
        chosen["gamma"] = _number_or_text(chosen["gamma"])
    return chosen


def _values(group, *, without):
    """Return the options of a group by name."""
    return {f.name: getattr(group, f.name) for f in fields(group) if f.name not in without}


def _number_or_text(text):
    try:
        return float(text)
    except ValueError:
        return text


def class_weights(entries, labels):
    """Return `class_weight` as classifiers take it, with the labels of the data.

    Parameters
    ----------
    entries : list of str or None
        Values of the option.
    labels : list
        The classes.
    """
    if not entries:
        return None
    if entries == ["balanced"]:
        return "balanced"
    by_text = {str(label): label for label in labels}
    weights = {}
    for entry in entries:
        label, _, weight = entry.rpartition("=")
        label = label if label in by_text else label.removeprefix("+")
        try:
            weights[by_text[label]] = float(weight)
        except KeyError:
            raise typer.BadParameter(
                f"--class-weight {entry}: no class {label!r}; classes are {', '.join(by_text)}."
            ) from None
        except ValueError:
            raise typer.BadParameter(
                f"--class-weight {entry}: write LABEL=WEIGHT, or balanced."
            ) from None
    return weights


def spell_out(arguments):
    """Return command line arguments with LIBSVM's ``-w1 2`` as ``--class-weight 1=2``.

    And with ``./-`` as a path that is not taken for standard input or output.
    """
    spelled = list(arguments)
    for k, argument in enumerate(spelled):
        if str(Path(argument)) == "-" != argument:
            spelled[k] = str(Path(argument).absolute())
    for k, argument in enumerate(spelled[:-1]):
        match = re.fullmatch(r"-w(.+)", argument)
        if match:
            spelled[k : k + 2] = ["--class-weight", f"{match[1]}={spelled[k + 1]}"]
    return spelled
