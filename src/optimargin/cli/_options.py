"""The options of the commands, with LIBSVM's letters where they exist.

Options that belong together are dataclasses; `grouped` turns each field into an option.
"""

import re
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from optimargin.cli._report import Report

_LEARNING = "What is learnt"
_READING = "Reading the data"
_SHOWING = "What is shown"


class DataFormat(StrEnum):
    """Formats of data files."""

    svmlight = "svmlight"
    csv = "csv"
    parquet = "parquet"


class Scaling(StrEnum):
    """How features are scaled before they reach a classifier."""

    none = "none"
    standard = "standard"
    unit = "unit"


class Imputation(StrEnum):
    """What takes the place of a missing number; a missing category becomes the most frequent."""

    none = "none"
    median = "median"
    mean = "mean"


class Encoding(StrEnum):
    """How columns of text become numbers."""

    none = "none"
    onehot = "onehot"


class TaskName(StrEnum):
    """What is learnt."""

    classification = "classification"
    regression = "regression"
    novelty = "novelty"


class DecimalMark(StrEnum):
    """What stands before the decimals of a number."""

    point = "."
    comma = ","


def _option(panel, *names, **settings):
    return typer.Option(*names, rich_help_panel=panel, **settings)


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
    _option(
        _LEARNING,
        "--task",
        help="Whether the target holds classes or measurements; default: what it looks like. "
        "novelty (train only): all rows are normal, and there is no target.",
    ),
]
Format = Annotated[
    DataFormat | None, _option(_READING, "--format", help="Detected from the content by default.")
]
SavePlot = Annotated[
    Path | None,
    _option(_SHOWING, "--save-plot", callback=a_file, help="Write a plot (.png, .pdf, .svg)."),
]


Impute = Annotated[
    Imputation,
    _option(
        _LEARNING,
        "--impute",
        help="Fill missing numbers; a missing category becomes the most frequent one.",
    ),
]
Encode = Annotated[
    Encoding,
    _option(
        _LEARNING,
        "--encode",
        help="onehot: one column per category; dates, ids and free text are left out.",
    ),
]
Scale = Annotated[
    Scaling,
    _option(_LEARNING, "--scale", help="Scale features; the scaling becomes part of the model."),
]


@dataclass(frozen=True)
class Preparing:
    """What is done to a table before it reaches the estimator, and kept in the model."""

    impute: Impute = Imputation.median
    encode: Encode = Encoding.onehot
    scale: Scale = Scaling.standard


@dataclass(frozen=True)
class PreparingOnRequest(Preparing):
    """The same for `train`, which takes features as they are unless told otherwise."""

    impute: Impute = Imputation.none
    encode: Encode = Encoding.none
    scale: Scale = Scaling.none


@dataclass(frozen=True)
class Machine:
    """The classifier, and parameters that `train` and `select` both take."""

    linear: Annotated[
        bool, _option(_LEARNING, "--linear", help="Linear model, for large data.")
    ] = False
    ldm: Annotated[
        bool, _option(_LEARNING, "--ldm", help="Large margin distribution machine (ODM^L).")
    ] = False
    kernel: Annotated[
        str | None,
        _option(
            _LEARNING,
            "-t",
            "--kernel",
            help="linear (0), poly (1), rbf (2) or sigmoid (3).",
            callback=_kernel,
        ),
    ] = None
    degree: Annotated[
        float | None, _option(_LEARNING, "-d", "--degree", help="Degree of poly.")
    ] = None
    coef0: Annotated[
        float | None, _option(_LEARNING, "-r", "--coef0", help="Constant term of poly and sigmoid.")
    ] = None
    fit_intercept: Annotated[
        bool | None,
        _option(
            _LEARNING,
            "--intercept/--no-intercept",
            help="Whether to fit an intercept (default: yes).",
        ),
    ] = None
    class_weight: Annotated[
        list[str] | None,
        _option(
            _LEARNING,
            "--class-weight",
            metavar="LABEL=WEIGHT",
            help="balanced, or one weight per class; -w1 2 is --class-weight 1=2.",
        ),
    ] = None
    solver: Annotated[
        str | None, _option(_LEARNING, "--solver", help="newton, newton_cg, dcd, svrg, ...")
    ] = None
    tol: Annotated[
        float | None, _option(_LEARNING, "-e", "--tol", help="Certified relative gap to reach.")
    ] = None
    max_iter: Annotated[
        int | None, _option(_LEARNING, "--max-iter", min=1, help="Limit on iterations.")
    ] = None
    random_state: Annotated[
        int | None, _option(_LEARNING, "--seed", min=0, help="Seed of random numbers.")
    ] = None

    def parameters(self):
        """Return the parameters by name; class weights are left out, as they need the data."""
        return _values(self, without=("linear", "ldm", "class_weight"))


@dataclass(frozen=True)
class Tuning:
    """Parameters that are options of `train`, and that `select` chooses."""

    penalty: Annotated[
        float | None,
        _option(
            _LEARNING,
            "-c",
            "--C1",
            "--C",
            help="Penalty on small margins: C1 of ODM, C of LDM. LIBSVM's C times the number of "
            "samples. Default for ODM: 2 per sample (regression: 32), with --linear divided by "
            "the variance of the features.",
        ),
    ] = None
    C2: Annotated[
        float | None,
        _option(
            _LEARNING,
            "--C2",
            help="Penalty on margins above 1 + D. Default: C1 / 4 (regression: C1).",
        ),
    ] = None
    D: Annotated[
        float | None,
        _option(_LEARNING, "--D", help="Half-width of the band without penalty."),
    ] = None
    lambda1: Annotated[
        float | None, _option(_LEARNING, "--lambda1", help="LDM: weight of the margin variance.")
    ] = None
    lambda2: Annotated[
        float | None, _option(_LEARNING, "--lambda2", help="LDM: weight of the margin mean.")
    ] = None
    gamma: Annotated[
        str | None,
        _option(_LEARNING, "-g", "--gamma", help="A number, scale, auto, mean_distance or local."),
    ] = None
    approximation: Annotated[
        str | None,
        _option(_LEARNING, "--approximation", help="nystrom: a kernel model for large data."),
    ] = None
    n_components: Annotated[
        int | None,
        _option(_LEARNING, "--n-components", min=1, help="Number of landmarks of nystrom."),
    ] = None

    false_alarm_rate: Annotated[
        float | None,
        _option(
            _LEARNING,
            "--false-alarm-rate",
            help="Novelty: the share of new normal samples that may be taken for outliers.",
        ),
    ] = None

    def parameters(self, *, ldm):
        """Return the parameters by the names that the classifier uses."""
        return {"C" if ldm else "C1": self.penalty, **_values(self, without=("penalty",))}


@dataclass(frozen=True)
class Reading:
    """How to read a data file."""

    format: Format = None
    label: Annotated[
        str | None,
        _option(
            _READING,
            "--target",
            "--label",
            help="Table: the column to predict, by name or by number from 1. Default: the one "
            "called target, class, label or y, or else the last one.",
        ),
    ] = None
    header: Annotated[
        bool | None,
        _option(
            _READING,
            "--header/--no-header",
            help="Table: whether the first line holds names. Default: what it looks like.",
        ),
    ] = None
    drop: Annotated[
        list[str] | None,
        _option(_READING, "--drop", metavar="COLUMNS", help="Table: leave out, as in --drop a,b."),
    ] = None
    keep: Annotated[
        list[str] | None,
        _option(
            _READING, "--keep", metavar="COLUMNS", help="Table: use, even if they look like ids."
        ),
    ] = None
    missing: Annotated[
        list[str] | None,
        _option(
            _READING,
            "--missing",
            metavar="TEXT",
            help="Table: what a missing value looks like, besides empty cells, NA, NaN, null, ?.",
        ),
    ] = None
    decimal: Annotated[
        DecimalMark | None,
        _option(_READING, "--decimal", help="Table: decimal mark. Default: what it looks like."),
    ] = None

    def layout(self, preparing=None, ids=(), *, has_target=True):
        """Return the layout of a table.

        Parameters
        ----------
        preparing : Preparing, default=None
            Says whether values may be missing, or text.
        ids : sequence of str, default=()
            Columns that are needed as they are written.
        has_target : bool, default=True
            Whether a target is learnt.
        """
        from optimargin.io import Layout

        return Layout(
            label=self.label,
            header=self.header,
            drop=listed(self.drop),
            keep=listed(self.keep),
            missing=tuple(self.missing or ()),
            decimal=None if self.decimal is None else str(self.decimal),
            allow_missing=preparing is not None and preparing.impute != Imputation.none,
            allow_text=preparing is not None and preparing.encode != Encoding.none,
            ids=tuple(ids),
            has_labels=has_target,
        )


@dataclass(frozen=True)
class Showing:
    """What is printed, and how."""

    json: Annotated[bool, _option(_SHOWING, "--json", help="One JSON object on stdout.")] = False
    quiet: Annotated[bool, _option(_SHOWING, "-q", "--quiet", help="Show only errors.")] = False

    def report(self, *, to_stderr=False):
        """Return a new report."""
        return Report(as_json=self.json, quiet=self.quiet, to_stderr=to_stderr)


def listed(values):
    """Return names from options that may hold several of them, separated by commas."""
    names = [name.strip() for value in values or () for name in value.split(",")]
    return tuple(name for name in names if name)


def refuse_replacing(model):
    """Raise an error if a file exists that is no model: it may be someone's data."""
    from zipfile import BadZipFile, ZipFile

    if model is None or not model.exists() or not model.is_file() or not model.stat().st_size:
        return
    try:
        with ZipFile(model) as archive:
            is_model = "optimargin.json" in archive.namelist()
    except (BadZipFile, OSError):
        is_model = False
    if not is_model:
        raise typer.BadParameter(
            f"{model} exists and is no model of optimargin: choose another name, or remove it."
        )


def refuse_replacing_model(out):
    """Raise an error if a model would be replaced by something else."""
    if out is None or str(out) == "-":
        return
    try:
        refuse_replacing(out)
    except typer.BadParameter:
        return  # no model
    if out.exists() and out.is_file() and out.stat().st_size:
        raise typer.BadParameter(f"{out} is a model: choose another name for the output.")


def refuse_overwriting(written, **others):
    """Raise an error if a file to be written is also read, or written for something else."""
    for what, path in others.items():
        if written is None or path is None or "-" in (str(written), str(path)):
            continue
        both_exist = written.exists() and path.exists()
        if written.samefile(path) if both_exist else written.resolve() == path.resolve():
            raise typer.BadParameter(
                f"{written} is also the {what}, which this would overwrite: choose another name."
            )


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
