"""The command ``optimargin``: a thin layer over the public API, one file per command."""

import sys

import typer

from optimargin import __version__
from optimargin.cli import data, study
from optimargin.cli._options import spell_out_weights
from optimargin.cli._report import fail
from optimargin.cli.inspect import inspect
from optimargin.cli.predict import predict
from optimargin.cli.scale import scale
from optimargin.cli.select import select
from optimargin.cli.train import train

_HELP = """
Optimal margin distribution machines for data files.

Choose parameters, inspect the model, predict:

    optimargin select flowers.csv flowers.skops

    optimargin inspect flowers.skops

    optimargin predict new.csv flowers.skops labels.txt

Train with your own parameters: a linear model on sparse data, weight 2 for class 1:

    optimargin train news20.svm.xz news.skops --linear -c 64 -w1 2 -v 5

LIBSVM-style workflow: scale first, then train:

    optimargin scale train.svm train.scaled -s ranges.skops

    optimargin scale test.svm test.scaled -r ranges.skops

    optimargin train train.scaled model.skops -t 2 -c 256 -g 0.5

Read from a pipe, write JSON:

    zcat big.csv.gz | optimargin train - model.skops --label kind --json
"""

app = typer.Typer(
    name="optimargin",
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (train, predict, select, scale, inspect):
    app.command()(command)
app.add_typer(study.app, name="study")
app.add_typer(data.app, name="data")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"optimargin {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version."
    ),
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run the command; raises `SystemExit`: 0 success, 1 failure, 2 wrong usage."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        app(spell_out_weights(arguments), prog_name="optimargin")
    except MemoryError:
        fail("not enough memory: use fewer samples or features, or --linear.")
    except ModuleNotFoundError as error:
        needs_extra = arguments[:1] in (["study"], ["data"])
        fail(f"{error}: pip install 'optimargin[study]'." if needs_extra else error)
    except (ValueError, TypeError, OSError, ImportError) as error:
        fail(error)
