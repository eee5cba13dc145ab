"""Results as a Markdown table for people and JSON for programs, in benchmarks/results."""

import json
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def _cell(value):
    if value is None:
        return "not reached"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def write(name, title, rows, machine, notes, *, command):
    """Write results/<name>.md and .json.

    Parameters
    ----------
    rows : list of dict
        With the same keys.
    notes : list of str
        Sentences below the table.
    command : str
        The command that writes these files.
    """
    RESULTS.mkdir(exist_ok=True)
    header = list(rows[0])
    lines = [
        f"# {title}",
        "",
        f"`{command}` on {machine}.",
        "",
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(_cell(row[key]) for key in header) + " |" for row in rows),
        "",
        *notes,
    ]
    (RESULTS / f"{name}.md").write_text("\n".join(lines).rstrip() + "\n")
    record = {"command": command, "machine": machine, "rows": rows, "notes": notes}
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    print("\n".join(lines))


def other_rows(name, sets):
    """Return the rows of results/<name>.json that belong to none of `sets`."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return []
    return [row for row in json.loads(path.read_text())["rows"] if row["set"] not in sets]
