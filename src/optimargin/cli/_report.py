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

    def add(self, name, text, /, **facts):
        """Add a line for people, and the same facts for JSON."""
        self._lines.append((name, text))
        self.tell(**facts)

    def tell(self, /, **facts):
        """Add facts for JSON only; None means unknown."""
        self._facts.update({name: fact for name, fact in facts.items() if fact is not None})

    def facts_starting_with(self, *beginnings):
        """Return the facts whose names begin so."""
        return {name: fact for name, fact in self._facts.items() if name.startswith(beginnings)}

    def print(self):
        """Print everything that was added."""
        if self.as_json:
            print(json.dumps(self._facts, indent=1), file=self._stream)
        elif not self.quiet:
            width = max(len(name) for name, _ in self._lines)
            for name, text in self._lines:
                print(f"{name:<{width}}  {printable(text)}", file=self._stream)

    @contextmanager
    def working(self, what, estimator=None):
        """Show that work is in progress, and print warnings to standard error.

        Parameters
        ----------
        what : str
        estimator : estimator, default=None
            One that is fitted meanwhile: its iterations are shown.
        """
        show = sys.stderr.isatty() and not (self.as_json or self.quiet)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            if show:
                from rich.console import Console

                status = Console(stderr=True).status(f"{what} ...")
                with status, iterations_shown(estimator, what, status.update):
                    yield
            else:
                yield
        if not self.quiet:
            for warning in {str(w.message): w for w in caught}.values():
                if issubclass(warning.category, UserWarning):
                    print(f"optimargin: warning: {warning.message}", file=sys.stderr)


@contextmanager
def iterations_shown(estimator, what, update):
    """Show the iterations of a fit and the time since it began.

    Parameters
    ----------
    estimator : estimator or None
        None shows nothing, and so does scikit-learn before 1.9, which has no callbacks.
    what : str
    update : callable
        Shows a text.
    """
    learner = estimator
    while hasattr(learner, "steps"):
        learner = learner.steps[-1][1]
    if not hasattr(learner, "set_callbacks"):
        yield
        return
    learner.set_callbacks(_ShownIterations(what, update))
    try:
        yield
    finally:
        learner.set_callbacks()


class _ShownIterations:
    """A callback of scikit-learn that shows each iteration."""

    def __init__(self, what, update):
        self._what, self._update = what, update
        self._n_iterations, self._start = 0, time.monotonic()

    def setup(self, estimator, context):
        """Begin a fit."""

    def on_fit_task_begin(self, estimator, context, **facts):
        """Begin a part of a fit."""

    def on_fit_task_end(self, estimator, context, **facts):
        """End a part of a fit."""
        if context.task_name == "iteration":
            self._n_iterations += 1
            spent = time.monotonic() - self._start
            self._update(f"{self._what}: iteration {self._n_iterations}, {spent:.0f} s ...")

    def teardown(self, estimator, context):
        """End a fit."""


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
