"""The options that commands share, with the letters that LIBSVM's users know."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from optimargin.io import Layout


class DataFormat(StrEnum):
    """How a data file is written."""

    svmlight = "svmlight"
    csv = "csv"
    parquet = "parquet"


class Scaling(StrEnum):
    """What is done to features before they reach a classifier."""

    none = "none"
    standard = "standard"
    unit = "unit"


_KERNEL_NUMBERS = {"0": "linear", "1": "poly", "2": "rbf", "3": "sigmoid"}
_LEARNING = "What is learnt"
_READING = "Reading the data"
_SHOWING = "What is shown"


def _kernel(text):
    return _KERNEL_NUMBERS.get(text, text)


def _gamma(text):
    try:
        return float(text)
    except ValueError:
        return text


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="svmlight (LIBSVM), CSV or Parquet, also as .gz, .bz2 or .xz; - is standard input.",
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The model file.")]

Linear = Annotated[
    bool, typer.Option("--linear", help="Linear model, for large data.", rich_help_panel=_LEARNING)
]
LDM = Annotated[
    bool,
    typer.Option(
        "--ldm", help="Large margin distribution machine (ODM^L).", rich_help_panel=_LEARNING
    ),
]
Cost = Annotated[
    float | None,
    typer.Option(
        "-c",
        "--C1",
        "--C",
        help="Price of small margins: C1 of ODM, C of LDM. LIBSVM's C times the number of samples. "
        "Default for ODM: the number of samples, with --linear a quarter of it.",
        rich_help_panel=_LEARNING,
    ),
]
C2 = Annotated[
    float | None,
    typer.Option(
        "--C2", help="Price of margins above 1 + D. Default: C1 / 4.", rich_help_panel=_LEARNING
    ),
]
D = Annotated[
    float | None,
    typer.Option(
        "--D", help="Half-width of the band that costs nothing.", rich_help_panel=_LEARNING
    ),
]
Lambda1 = Annotated[
    float | None,
    typer.Option(
        "--lambda1", help="LDM: weight of the margin variance.", rich_help_panel=_LEARNING
    ),
]
Lambda2 = Annotated[
    float | None,
    typer.Option("--lambda2", help="LDM: weight of the margin mean.", rich_help_panel=_LEARNING),
]
KernelName = Annotated[
    str | None,
    typer.Option(
        "-t",
        "--kernel",
        help="linear (0), poly (1), rbf (2) or sigmoid (3).",
        callback=_kernel,
        rich_help_panel=_LEARNING,
    ),
]
Gamma = Annotated[
    str | None,
    typer.Option(
        "-g",
        "--gamma",
        help="A number, scale, auto or mean_distance.",
        rich_help_panel=_LEARNING,
    ),
]
Degree = Annotated[
    float | None, typer.Option("-d", "--degree", help="Of poly.", rich_help_panel=_LEARNING)
]
Coef0 = Annotated[
    float | None,
    typer.Option("-r", "--coef0", help="Of poly and sigmoid.", rich_help_panel=_LEARNING),
]
Intercept = Annotated[
    bool,
    typer.Option("--intercept/--no-intercept", help="Fit one.", rich_help_panel=_LEARNING),
]
Solver = Annotated[
    str | None,
    typer.Option("--solver", help="newton, newton_cg, dcd, svrg, ...", rich_help_panel=_LEARNING),
]
Tol = Annotated[
    float | None,
    typer.Option("-e", "--tol", help="Certified relative gap to reach.", rich_help_panel=_LEARNING),
]
MaxIter = Annotated[
    int | None, typer.Option("--max-iter", min=1, rich_help_panel=_LEARNING, help="Limit on steps.")
]
ClassWeight = Annotated[
    list[str] | None,
    typer.Option(
        "--class-weight",
        metavar="LABEL=WEIGHT",
        help="balanced, or one weight a class; -w1 2 is --class-weight 1=2.",
        rich_help_panel=_LEARNING,
    ),
]
Scale = Annotated[
    Scaling,
    typer.Option(
        "--scale",
        help="Scale features; the scaling becomes part of the model.",
        rich_help_panel=_LEARNING,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Of random numbers.", rich_help_panel=_LEARNING),
]
Format = Annotated[
    DataFormat | None,
    typer.Option("--format", help="By default told from the content.", rich_help_panel=_READING),
]
Label = Annotated[
    str | None,
    typer.Option(
        "--label",
        help="Table: the column of labels, by name or number from 1. By default the last.",
        rich_help_panel=_READING,
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Table: whether the first line holds names. By default: if it holds no number.",
        rich_help_panel=_READING,
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", help="Table: a column to leave out.", rich_help_panel=_READING),
]
SavePlot = Annotated[
    Path | None,
    typer.Option(
        "--save-plot", help="Write a picture (.png, .pdf, .svg).", rich_help_panel=_SHOWING
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout.", rich_help_panel=_SHOWING)
]
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="Show nothing but errors.", rich_help_panel=_SHOWING)
]


def make_layout(label, header, drop):
    """Return how a table is laid out, as options say it."""
    return Layout(label=label, header=header, drop=tuple(drop or ()))


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
            raise typer.BadParameter(f"--{name.replace('_', '-')} has no meaning for this model.")
    if "gamma" in chosen:
        chosen["gamma"] = _gamma(chosen["gamma"])
    return chosen


def class_weights(entries, y):
    """Return `class_weight` as classifiers take it, for labels as they are in the data."""
    if not entries:
        return None
    if entries == ["balanced"]:
        return "balanced"
    by_text = {str(label): label for label in np.unique(y).tolist()}
    weights = {}
    for entry in entries:
        label, _, weight = entry.rpartition("=")
        label = label.removeprefix("+")
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


def spell_out_weights(arguments):
    """Return command line arguments with LIBSVM's ``-w1 2`` as ``--class-weight 1=2``."""
    spelled = list(arguments)
    for k, argument in enumerate(spelled[:-1]):
        match = re.fullmatch(r"-w(.+)", argument)
        if match:
            spelled[k : k + 2] = ["--class-weight", f"{match[1]}={spelled[k + 1]}"]
    return spelled
