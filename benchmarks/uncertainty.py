"""Probabilities, prediction intervals and prediction sets: how good, how often right, how long.

    python benchmarks/uncertainty.py probabilities
    python benchmarks/uncertainty.py intervals
    python benchmarks/uncertainty.py sets
    python benchmarks/uncertainty.py time

Each part continues where it stopped, in build/uncertainty_<part>.jsonl, and writes
results/uncertainty_<part>.md and .json. ``--report`` writes the tables of the rows that there are.
Data sets are those of `sets.py`: half splits of at most 500 training samples, features of
variance one.
"""

import argparse
import importlib
import warnings
from pathlib import Path

from rows import Rows
from timing import machine

STORE = Path(__file__).parents[1] / "build"
PARTS = {
    "probabilities": ("uncertainty_probabilities", ("set", "seed", "method")),
    "intervals": ("uncertainty_coverage", ("set", "seed", "method", "level")),
    "sets": ("uncertainty_coverage", ("set", "seed", "method", "level")),
    "time": ("uncertainty_time", ("what", "samples")),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--splits", type=int)
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    module_name, keys = PARTS[arguments.part]
    module = importlib.import_module(module_name)
    rows = Rows(STORE / f"uncertainty_{arguments.part}.jsonl", keys)
    if not arguments.report:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module.run(arguments.part, rows, arguments.splits)
    command = f"python benchmarks/uncertainty.py {arguments.part}"
    module.report(arguments.part, rows.all, machine(), command)


if __name__ == "__main__":
    main()
