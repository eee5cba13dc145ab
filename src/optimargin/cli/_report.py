"""What a command prints, for people or as JSON, and where."""

import json
import sys
import time
import warnings
from contextlib import contextmanager


class Report:
    """Collects what a command found and prints it at the end, for people or as JSON.

    Parameters
    ----------
    as_json : bool
    quiet : bool
    to_stderr : bool, default=False
        For commands that write their data to standard output.
    """

    def __init__(self, *, as_json, quiet, to_stderr=False):
        self.as_json, self.quiet = as_json, quiet
        self._stream = sys.stderr if to_stderr else sys.stdout
        self._facts = {}
        self._lines = []

    def add(self, name, text, **facts):
        """Add a line for people, and the same facts for JSON."""
        self._lines.append((name, text))
        self._facts.update(facts)

    def print(self):
        """Print everything that was added."""
        if self.as_json:
            print(json.dumps(self._facts, indent=1), file=self._stream)
        elif not self.quiet:
            width = max(len(name) for name, _ in self._lines)
            for name, text in self._lines:
                print(f"{name:<{width}}  {printable(text)}", file=self._stream)

    @contextmanager
    def working(self, what):
        """Show that work is in progress, and print warnings to standard error."""
        show = sys.stderr.isatty() and not (self.as_json or self.quiet)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            if show:
                from rich.console import Console

                with Console(stderr=True).status(f"{what} ..."):
                    yield
            else:
                yield
        if not self.quiet:
            for warning in {str(w.message): w for w in caught}.values():
                if issubclass(warning.category, UserWarning):
                    print(f"optimargin: warning: {warning.message}", file=sys.stderr)


class Stopwatch:
    """Seconds since it was made or last read."""

    def __init__(self):
        self._start = time.perf_counter()

    def lap(self):
        """Return the seconds since the last call."""
        now = time.perf_counter()
        seconds, self._start = now - self._start, now
        return seconds


def printable(text):
    """Return `text` without characters that could control a terminal."""
    return "".join(ch if ch.isprintable() else "?" for ch in text)


def print_error(message):
    """Print an error."""
    print(f"optimargin: error: {printable(str(message))}", file=sys.stderr)


def fail(message):
    """Print an error and end with exit code 1."""
    print_error(message)
    sys.exit(1)
