"""Random attacks of any length: seeded, bounded and resumable.

    python -m tests.fuzz kernel linear --count 5000        # until so many cases of each are done
    python -m tests.fuzz --minutes 30                      # all kinds in turn, for half an hour

Case k of a kind is the same on every run. What happened is one line of
``build/fuzz/<kind>.jsonl`` per case; a run that was stopped goes on behind the last line. Cases
run in a process of their own: a crash or a hang of it is a failure of its case, and nothing else.
The exit code says whether there was a failure.
"""

import argparse
import json
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path

import numpy as np

from tests.fuzz.worker import KINDS, Worker


def main():
    """Run cases, print a summary and return whether all went well."""
    parser = argparse.ArgumentParser(description="Random attacks on the library.")
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)}; all when not given")
    parser.add_argument("--count", type=int, default=200, help="cases of each kind, in all runs")
    parser.add_argument("--minutes", type=float, default=np.inf, help="when to stop")
    parser.add_argument("--store", type=Path, default=Path("build/fuzz"), help="a folder")
    arguments = parser.parse_args()
    unknown = set(arguments.kinds) - set(KINDS)
    if unknown:
        parser.error(f"unknown kinds: {', '.join(sorted(unknown))}")
    arguments.store.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + 60 * arguments.minutes
    stores = {k: Store(arguments.store / f"{k}.jsonl") for k in arguments.kinds or KINDS}
    worker = Worker()
    try:
        for _ in count():
            open_stores = {k: s for k, s in stores.items() if s.n_done < arguments.count}
            if not open_stores or time.monotonic() > deadline:
                break
            for kind, store in open_stores.items():
                store.add(worker.run(kind, store.n_done))
    finally:
        worker.stop()
    reports = [store.report(kind) for kind, store in stores.items()]
    return all(reports)


class Store:
    """What happened, one line per case."""

    def __init__(self, path):
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._cases = [json.loads(line) for line in lines if line.endswith("}")]

    @property
    def n_done(self):
        """The number of cases that were run."""
        return len(self._cases)

    def add(self, case):
        """Keep a case."""
        self._cases.append(case)
        with self._path.open("a") as file:
            file.write(json.dumps(case) + "\n")
        if "failure" in case:
            print(self._path.stem, json.dumps(case), flush=True)

    def report(self, kind):
        """Print a summary; return whether nothing failed."""
        failed = [case["case"] for case in self._cases if "failure" in case]
        outcomes = Counter(
            "failed"
            if "failure" in c
            else "refused"
            if "refused" in c
            else "warned"
            if c.get("warned")
            else "fine"
            for c in self._cases
        )
        slowest = max(self._cases, key=lambda case: case.get("seconds", 0.0), default={})
        print(
            f"{kind}: {self.n_done} cases, {dict(outcomes)}, slowest {slowest.get('seconds')} s "
            f"(case {slowest.get('case')}){f', failed {failed[:20]}' if failed else ''}"
        )
        return not failed


if __name__ == "__main__":
    sys.exit(not main())
