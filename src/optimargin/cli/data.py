"""The command ``optimargin data``: the paper's data sets."""

from typing import Annotated

import typer

from optimargin.cli._report import fail, print_error

app = typer.Typer(help="The data sets of the paper.", no_args_is_help=True)


@app.command("list")
def list_sets(
    scale: Annotated[
        str | None, typer.Option("--scale", help="regular or large. Default: both.")
    ] = None,
):
    """List the data sets with the paper's numbers of instances and features."""
    from optimargin_study.datasets import find_set, list_paper_datasets

    for name in list_paper_datasets(scale):
        entry = find_set(name)
        note = f"  {entry.differs}" if entry.differs else ""
        typer.echo(f"{name:<16}{entry.scale:<9}{entry.instances:>10,}{entry.features:>12,}{note}")


@app.command()
def fetch(names: Annotated[list[str], typer.Argument(help="Names of data sets, or 'all'.")]):
    """Fetch data sets from the mirror, the cache, or their publishers."""
    from optimargin_study.datasets import (
        CorruptDatasetError,
        DatasetUnavailableError,
        find_set,
        list_paper_datasets,
        load_paper_dataset,
    )

    failed = False
    if names != ["all"]:
        for name in names:
            try:
                find_set(name)
            except ValueError as error:
                fail(str(error).replace("list_paper_datasets()", "optimargin data list"))
    for name in list_paper_datasets() if names == ["all"] else names:
        try:
            dataset = load_paper_dataset(name)
        except (DatasetUnavailableError, CorruptDatasetError, ValueError) as error:
            print_error(error)
            failed = True
        else:
            rows, columns = dataset.data.shape
            typer.echo(f"{dataset.name}: {rows} x {columns} from {dataset.source}")
    if failed:
        raise typer.Exit(1)
