"""Labels that look alike: as many classes as there are texts, and no text taken for another."""

import csv
import json
import re
import time
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

from optimargin.io import load_model
from tests.fuzz.commands import run_command

_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_FAMILIES = [
    ["7", "07", "007", "7.0", "7.", "+7", "7e0", "0.7e1", "70e-1", "7,0", " 7"],
    ["0", "-0", "+0", "00", "0.0", "0e9", ".0"],
    ["1000", "1e3", "1E3", "1.000", "1,000", "1000.00", "0.1e4"],
    ["9007199254740992", "9007199254740993", "9007199254740993.0", "9007199254740994"],
    ["123456789012345678901", "123456789012345678902", "1.23456789012345678901e20"],
    ["1.5", "1.50", "01.5", "15e-1", "1,5", "1.5e0"],
    ["1e400", "1e500", "inf", "-inf", "Infinity", "1e-400", "0"],
    ["-1", "- 1", "'-1", "−1", "-1.0", "-01"],
    ["yes", "Yes", "YES", "y\nes", "y es", "yes.", '"yes"', "y,es", "y;es"],
    ["=1", "@1", "1", "#1", "$1", "1%", "0x1", "1_0", "10", "１０", "1²"],
    ["True", "true", "1", "T", "t"],
]


def labels(rng):
    """Train with labels that look alike, and predict some of them again, among others."""
    start = time.process_time()
    chosen = _choice(rng)
    rows = [
        (10.0 * k + rng.uniform(-1, 1), text) for k, text in enumerate(chosen) for _ in range(8)
    ]
    found = {"labels": chosen}
    with TemporaryDirectory() as folder:
        data, model, out = (Path(folder, name) for name in ("rows.csv", "model", "out.csv"))
        _write(data, rows, rng)
        code, printed = run_command("train", data, model, "--task", "classification", "--json")
        if code != 0:
            return found | {"failure": f"train: {printed}"}
        facts = json.loads(printed)
        if len(facts["classes"]) != len(chosen):
            return found | {"failure": f"classes {facts['classes']}"}
        known = {text: _class_of(text, load_model(model).classes_) for text in chosen}
        if None in known.values() or len(set(known.values())) < len(chosen):
            return found | {"failure": f"classes are not those written: {known}"}
        other = _as_read(str(rng.choice([text for family in _FAMILIES for text in family])))
        new = [rows[k] for k in rng.permutation(len(rows))[: rng.integers(1, len(rows))]]
        if rng.random() < 0.5:
            new.append((0.0, other))
        _write(data, new, rng)
        found |= {"other": other, "n_new": len(new)}
        code, printed = run_command("predict", data, model, out, "--ids", "a", "--json")
        if code != 0:
            return found | {"failure": f"predict: {printed}"}
        facts = json.loads(printed)
        with out.open(newline="") as file:
            predicted = [_unquoted(row[1]) for row in csv.reader(file)][1:]
        classes = load_model(model).classes_
        expected = [_class_of(text, classes) for _, text in new]
        n_unknown = expected.count(None)
        n_right = sum(p == str(e) for p, e in zip(predicted, expected, strict=True))
        counted = facts.get("n_right", 0), facts.get("n_unknown_labels", 0)
        if n_unknown < len(new) and counted != (n_right, n_unknown):
            return found | {"failure": f"counted {counted}, not {(n_right, n_unknown)}"}
        if n_right < len(new) - n_unknown - 1:  # the other one is where no class is
            return found | {"failure": f"only {n_right} are right"}
        lines = run_command("predict", data, model, out)
        if (lines[0] != 0) != any("\n" in text for text in chosen):
            return found | {"failure": f"one per line: {lines}"}
        if lines[0] == 0 and out.read_bytes().count(b"\n") != len(new):
            return found | {"failure": "more lines than rows"}
    return found | {"seconds": round(time.process_time() - start, 3)}


def _choice(rng):
    """Return two to four different texts, most of them of one family."""
    family = _FAMILIES[rng.integers(len(_FAMILIES))]
    texts = [str(text) for text in rng.permutation(family)[: rng.integers(2, 5)]]
    if rng.random() < 0.3:
        other = _FAMILIES[rng.integers(len(_FAMILIES))]
        texts.append(other[rng.integers(len(other))])
    read = dict.fromkeys(map(_as_read, texts))
    return list(read) if len(read) > 1 else ["a", "b"]


def _as_read(text):
    """Return a label without blanks around it, its quotes and the apostrophe of write_data."""
    label = text.strip().strip('"')
    return label[1:] if label.startswith("'-") else label


def _write(path, rows, rng):
    with path.open("w", newline="") as file:
        writer = csv.writer(
            file, quoting=csv.QUOTE_ALL if rng.random() < 0.5 else csv.QUOTE_MINIMAL
        )
        writer.writerow(["a", "b", "y"])
        writer.writerows([f"{x:.6f}", k % 3, y] for k, (x, y) in enumerate(rows))


def _class_of(text, classes):
    """Return which class a text is, by its exact value where classes are numbers."""
    if classes.dtype.kind == "U":
        return text if text in classes else None
    if not _PLAIN.fullmatch(text) or len(text) > 300 or re.search(r"e[+-]?\d{3}", text):
        return None
    value = Fraction(text)
    return next((label for label in classes.tolist() if label == value), None)


def _unquoted(cell):
    """Return a cell without the apostrophe that keeps spreadsheets from computing it."""
    return cell[1:] if cell[:2] in ("'=", "'+", "'-", "'@") else cell
