"""``optimargin inspect``."""

from pathlib import Path

import typer

from optimargin.cli import _options as opt
from optimargin.cli._groups import grouped


@grouped
def inspect(
    model: opt.Model,
    *,
    data: Path | None = typer.Option(
        None,
        "--data",
        help="The training data; adds margins, the leave-one-out error and its bounds.",
    ),
    format: opt.Format = None,
    save_plot: opt.SavePlot = None,
    showing: opt.Showing,
) -> None:
    """Show the parameters, margins, support vectors, certified gap and bounds of MODEL."""
    from optimargin.cli._inspecting import describe_file

    report = showing.report()
    describe_file(model, data, format, save_plot, report)
    report.print()
