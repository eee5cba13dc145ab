"""The command ``optimargin study``: run, status, report, export, import."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from optimargin.cli._options import check_written
from optimargin.cli._report import fail

app = typer.Typer(
    help="The paper's experiments: run them, see their progress, write the report.",
    no_args_is_help=True,
)

DEFAULT_STORE = Path("study.sqlite")
QUICK_DATASETS = ("wdbc", "iris", "wine", "digits")
QUICK_METHODS = ("svm", "odml", "odm", "svm_wide", "odm_default")
QUICK_REPEATS = 4
ON_REQUEST = ("odml_mean", "odm_sum")  # other readings of columns already in the tables

StoreOption = Annotated[Path, typer.Option("--store", help="The SQLite file of the results.")]
TablesOption = Annotated[
    list[int] | None, typer.Option("--table", help="2, 3 or 4; repeat for several. Default: 2, 3.")
]
DatasetsOption = Annotated[
    list[str] | None, typer.Option("--datasets", help="Names of data sets, separated by commas.")
]
MethodsOption = Annotated[
    list[str] | None, typer.Option("--methods", help="Keys of methods, separated by commas.")
]
RepeatsOption = Annotated[
    int | None, typer.Option("--repeats", min=1, help="Default: as in the paper.")
]


def _listed(values):
    """Return a list from options that may hold several names each, or None."""
    names = [name.strip() for value in values or [] for name in value.split(",")]
    return [name for name in names if name] or None


def _planned(tables, datasets, methods, repeats, quick=False):
    """Return the units that the options describe."""
    from optimargin_study.methods import METHODS, find_methods
    from optimargin_study.protocol import TABLES, plan
    from optimargin_study.sample_sets import set_name

    numbers = tables or [2, 3]
    for number in numbers:
        if number not in TABLES:
            raise ValueError(f"There is no table {number} of accuracies: use 2, 3 or 4.")
    names = _listed(datasets)
    keys = _listed(methods)
    if quick:
        names, keys = names or list(QUICK_DATASETS), keys or list(QUICK_METHODS)
        repeats = repeats or QUICK_REPEATS
    chosen = find_methods(keys or [key for key in METHODS if key not in ON_REQUEST])
    resolved = None if names is None else [set_name(name) for name in names]
    units = plan(numbers, chosen, resolved, repeats)
    if not units:
        raise ValueError("Nothing to run: the sets or methods do not belong to these tables.")
    return units


def _explain(function, *arguments, **options):
    """Call a function; turn errors that a user can fix into one line and exit code 1."""
    from optimargin_study.datasets import CorruptDatasetError, DatasetUnavailableError
    from optimargin_study.store import StoreError

    known = (StoreError, DatasetUnavailableError, CorruptDatasetError, ValueError, OSError)
    try:
        return function(*arguments, **options)
    except known as error:
        fail(error)


def _keep_available(units):
    """Leave out sets that are not available, and say so; at least one must be available."""
    from optimargin_study.datasets import DatasetUnavailableError
    from optimargin_study.sample_sets import load_set

    missing = {}
    for name in dict.fromkeys(unit.dataset for unit in units):
        try:
            load_set(name)
        except DatasetUnavailableError as error:
            missing[name] = error
            typer.secho(f"Skipped: {error}", fg="yellow", err=True)
    kept = [unit for unit in units if unit.dataset not in missing]
    if not kept:
        raise next(iter(missing.values()))
    return kept


def _report_progress():
    """Return a callback that shows a progress bar on a terminal, otherwise a line per minute."""
    from optimargin_study.runner import describe

    last = [0.0, -1]  # when, and how far, the last line was

    def plain(progress):
        import time

        ended = progress.done == progress.total > last[1]
        if time.monotonic() - last[0] >= 60 or ended:
            last[:] = time.monotonic(), progress.done
            print(describe(progress), file=sys.stderr, flush=True)

    if not sys.stderr.isatty():
        return plain, lambda: None
    from rich.console import Console
    from rich.live import Live

    live = Live(console=Console(stderr=True), refresh_per_second=4)
    live.start()
    return (lambda progress: live.update(describe(progress, bar=True))), live.stop


@app.command()
def run(
    table: TablesOption = None,
    datasets: DatasetsOption = None,
    methods: MethodsOption = None,
    repeats: RepeatsOption = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small study on data that need no download.")
    ] = False,
    store: StoreOption = DEFAULT_STORE,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Processes.")] = 1,
    nice: Annotated[
        int,
        typer.Option("--nice", min=0, max=19, help="Niceness: lower priority for larger values."),
    ] = 10,
    scaling: Annotated[
        str,
        typer.Option("--scaling", help="Take ranges of features from 'all' samples or 'train'."),
    ] = "all",
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try failed runs again.")
    ] = False,
):
    """Compute what is not in the store yet. Stop it any time; run it again to continue."""

    def go():
        from optimargin_study.protocol import SCALINGS
        from optimargin_study.runner import run as run_units
        from optimargin_study.store import Store

        if scaling not in SCALINGS:
            raise ValueError(f"--scaling {scaling} is unknown: use 'all' or 'train'.")
        units = _keep_available(_planned(table, datasets, methods, repeats, quick))
        results = Store(store)
        if retry_failed:
            results.forget_failures()
        missing = len(set(units) - results.done())
        results.close()
        typer.echo(f"{len(units)} runs planned, {missing} to compute, store {store}", err=True)
        show, stop = _report_progress()
        try:
            computed = run_units(
                store, units, n_jobs=jobs, scaling=scaling, niceness=nice, report=show
            )
        finally:
            stop()
        typer.echo(f"{computed} runs computed", err=True)
        if quick:
            _print_tables(store)

    try:
        _explain(go)
    except KeyboardInterrupt:
        typer.secho("Stopped; run it again to continue.", err=True)
        raise typer.Exit(130) from None


def _print_tables(store):
    from optimargin_study.statistics import make_comparison
    from optimargin_study.store import Store
    from optimargin_study.tables import accuracy_table

    results = Store(store, create=False).results()
    for number in sorted({r.unit.table for r in results}):
        typer.echo("\n" + accuracy_table(make_comparison(results, number)).plain())


@app.command()
def status(
    table: TablesOption = None,
    datasets: DatasetsOption = None,
    methods: MethodsOption = None,
    repeats: RepeatsOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="The progress of `run --quick`.")] = False,
    store: StoreOption = DEFAULT_STORE,
):
    """Show the progress of a study, its failed runs, and the time left."""

    def go():
        from optimargin_study.runner import describe, progress
        from optimargin_study.store import Store

        units = _planned(table, datasets, methods, repeats, quick)
        opened = Store(store, create=False)
        typer.echo(describe(progress(opened, units)))
        for r in opened.results():
            if r.error:
                typer.echo(f"failed: {r.unit}: {r.error}")

    _explain(go)


@app.command()
def report(
    out: Annotated[Path, typer.Option("--out", help="Folder of the report.")] = Path("report"),
    store: StoreOption = DEFAULT_STORE,
):
    """Write the report: one HTML page that works offline, and the tables as text."""

    def go():
        from optimargin_study.report import write_report
        from optimargin_study.store import Store

        os.environ.setdefault("MPLBACKEND", "Agg")
        typer.echo(write_report(Store(store, create=False).results(), out))

    _explain(go)


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="A CSV file; .csv.gz is compressed.")],
    store: StoreOption = DEFAULT_STORE,
):
    """Write all results to a small text file."""

    def go():
        from optimargin_study.export import export_results
        from optimargin_study.store import Store

        check_written(file, store=store)
        results = Store(store, create=False).results()
        export_results(results, file)
        typer.echo(f"{len(results)} results in {file}")

    _explain(go)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file written by export.")],
    store: StoreOption = DEFAULT_STORE,
):
    """Add the results of an export to a store, to continue from there."""

    def go():
        from optimargin_study.export import read_export
        from optimargin_study.store import Store

        results = read_export(file)
        added = Store(store).import_results(results)
        typer.echo(f"{added} of {len(results)} results were new to {store}")

    _explain(go)
