"""Modules in which no function was executed: whether the quick tests touch all of them.

    make test-quick PYTEST_ARGS="--cov --cov-report=json:build/quick.json"
    .venv/bin/python -m tests.untouched build/quick.json

Compiled modules are not in the reports of coverage.
"""

import json
import sys
from pathlib import Path


def untouched(report):
    """Return the files that have functions of which none was executed."""
    names = []
    for name, file in report["files"].items():
        functions = [found for function, found in file["functions"].items() if function]
        if functions and not any(found["executed_lines"] for found in functions):
            names.append(name)
    return names


if __name__ == "__main__":
    names = untouched(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    sys.exit("No test used these modules:\n" + "\n".join(names) if names else 0)
