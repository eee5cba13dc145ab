"""The README says what the results say."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHOSEN = "C1 = 2, C2 / C1 = 0.25, D = 0.5"


def readme_table(first_row):
    """Return the cells of the table in which a row begins with a name, by row."""
    rows = {}
    for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == first_row or (rows and line.startswith("|")):
            rows[cells[0]] = cells[1:]
        elif rows:
            break
    return rows


def mean_accuracies():
    """Return accuracies by kind and candidate, over both halves of the sets, standardised."""
    results = json.loads((ROOT / "benchmarks/results/defaults.json").read_text(encoding="utf-8"))
    found = {}
    for table in results["tables"]:
        if table["scaling"] == "standard":
            n_a, n_b = (len(half) for half in results["halves"][table["kind"]])
            for entry in table["candidates"]:
                total = n_a * entry["accuracy A"] + n_b * entry["accuracy B"]
                key = table["kind"], table["kernel"], entry["candidate"]
                found[key] = total / (n_a + n_b)
    return found


def test_accuracies_with_default_parameters_are_those_of_the_study():
    accuracies = mean_accuracies()
    rows = readme_table("`ODMClassifier()`")
    assert len(rows) == 6
    for name, cells in rows.items():
        kernel = "rbf" if re.match("`(ODM|SVC)", name) else "linear"
        candidate = CHOSEN if "ODM" in name else name.strip("`")
        for kind, cell in zip(("binary", "several", "text"), cells, strict=True):
            if cell:
                assert float(cell) == pytest.approx(accuracies[kind, kernel, candidate], abs=0.05)
