"""The command ``optimargin``: a thin layer over the public API, one file per command."""

import sys

import typer
from typer.core import TyperCommand, TyperGroup

from optimargin import __version__
from optimargin.cli import data, study
from optimargin.cli._options import spell_out
from optimargin.cli._report import fail, print_error
from optimargin.cli.auto import auto
from optimargin.cli.inspect import inspect
from optimargin.cli.predict import predict
from optimargin.cli.scale import scale
from optimargin.cli.select import select
from optimargin.cli.train import train

_HELP = """
Optimal margin distribution machines for data files.

From a table to a tuned model, its accuracy beside baselines, predictions and a page:

    optimargin auto train.csv --target price --test new.csv --out results

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

    zcat big.csv.gz | optimargin train - model.skops --target kind --json
"""

# Of click, or of typer's own copy of it.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # type: ignore[assignment]


class _WithoutFlagTypes:
    """Help that shows no type for flags."""

    def get_params(self, ctx):
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class _Command(_WithoutFlagTypes, TyperCommand):
    """A command."""


class _Group(_WithoutFlagTypes, TyperGroup):
    """A group of commands, or the program itself."""


app = typer.Typer(
    name="optimargin",
    cls=_Group,
    help=_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (auto, train, predict, select, scale, inspect):
    app.command(cls=_Command)(command)
for group, name in ((study.app, "study"), (data.app, "data")):
    for entry in group.registered_commands:
        entry.cls = _Command
    app.add_typer(group, name=name, cls=_Group)


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
    """Run the command; raises `SystemExit`.

    Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        code = app(spell_out(arguments), prog_name="optimargin", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except UsageError as error:
        _explain_usage(error)
        sys.exit(2)
    except MemoryError:
        fail("not enough memory: use fewer samples or features, or --linear.")
    except ModuleNotFoundError as error:
        needs_extra = arguments[:1] in (["study"], ["data"])
        fail(f"{error}: pip install 'optimargin[study]'." if needs_extra else error)
    except (ValueError, TypeError, OSError, ImportError) as error:
        fail(error)


def _explain_usage(error):
    """Print what is wrong with a command line, and where to read how it is used."""
    if type(error).__name__ == "NoArgsIsHelpError":  # the help has been printed
        return
    print_error(error.format_message().strip())
    context = getattr(error, "ctx", None)
    path = "optimargin" if context is None else context.command_path
    print(f"Try '{path} --help'.", file=sys.stderr)
