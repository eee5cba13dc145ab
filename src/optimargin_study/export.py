"""Results as a small text file, from which a store can be filled again.

The first line is a comment in JSON with the format and the environments (versions and machines). A
CSV table with one row per unit follows.
"""

import csv
import gzip
import io
import json
from pathlib import Path

from optimargin.io import write_bytes
from optimargin_study.protocol import Unit
from optimargin_study.store import Result, StoreError

FORMAT = 1
_COLUMNS = [
    "table",
    "dataset",
    "repeat",
    "method",
    "accuracy",
    "params",
    "seconds",
    "fit_seconds",
    "gap",
    "seed",
    "details",
    "error",
    "environment",
]


def export_results(results, path):
    """Write results to a CSV file, compressed if its name ends in .gz.

    Parameters
    ----------
    results : iterable of Result
    path : path-like
        Written to a temporary file first and then moved, so that it is never incomplete.
    """
    environments: dict[str, int] = {}
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for r in results:
        number = environments.setdefault(r.environment, len(environments))
        writer.writerow(
            [
                *r.unit.key(),
                _short(r.accuracy, 6),
                _json(r.params),
                _short(r.seconds, 4),
                _short(r.fit_seconds, 4),
                _short(r.gap, 2),
                r.seed,
                _json(r.details),
                r.error or "",
                number,
            ]
        )
    head = json.dumps({"format": FORMAT, "environments": list(environments)})
    write_bytes(path, f"# {head}\n{rows.getvalue()}".encode())


def read_export(path):
    """Return the results of an exported file.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    results : list of Result

    Raises
    ------
    StoreError
        If the file is not an export, or was written by a newer version.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        head, _, table = text.partition("\n")
        header = json.loads(head.removeprefix("#"))
        if header["format"] > FORMAT:
            raise StoreError(f"{path} was exported by a newer version of optimargin: upgrade.")
        rows = csv.DictReader(io.StringIO(table))
        return [_parsed(row, header["environments"]) for row in rows]
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error}.") from error
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise StoreError(
            f"{path} is not an export of a study ({type(error).__name__}: {error})."
        ) from error


def _parsed(row, environments):
    return Result(
        Unit(int(row["table"]), row["dataset"], int(row["repeat"]), row["method"]),
        _number(row["accuracy"]),
        json.loads(row["params"]),
        float(row["seconds"]),
        _number(row["fit_seconds"]),
        _number(row["gap"]),
        int(row["seed"]),
        json.loads(row["details"] or "{}"),
        row["error"] or None,
        environments[int(row["environment"])],
    )


def _number(text):
    return float(text) if text else None


def _short(value, digits):
    return "" if value is None else f"{value:.{digits}g}"


def _json(value):
    return json.dumps(value, separators=(",", ":")) if value else "{}"
