"""The clock of a job: how far it is, when it has to end, and who may end it before."""

import sys
import threading
import time


class StopSearch(Exception):
    """Ends a job whose time is over, or that a callback has ended."""


class Clock:
    """Count the steps of a job, and write a line to standard error about once a second.

    All stages of a job share one, so that its line is about the whole job.

    Parameters
    ----------
    name : str
        What the line starts with.
    total : int
        The number of steps, as far as it is known.
    unit : str
        What a step is, in the plural.
    verbose : bool
        Whether to write.
    max_time : float, default=None
        In seconds, after which no step is to begin.
    tick : callable, default=None
        Called after each step that is heard of; it returns whether to end the job.

    Attributes
    ----------
    later : int
        Steps that come after those that are expected.
    """

    def __init__(
        self, name="", total=0, unit="evaluations", *, verbose=False, max_time=None, tick=None
    ):
        self.name, self.total, self.unit, self.verbose = name, total, unit, verbose
        self.done = self.later = 0
        self._max_time, self._tick, self._is_stopped = max_time, tick, False
        self._start = self._last = time.monotonic()
        self._since = self._start, 0
        self._lock = threading.Lock()  # points of a grid are solved in threads

    def is_over(self, share=1.0):
        """Return whether no step may begin any more: some share of the time, or all, is spent."""
        spent = time.monotonic() - self._start
        return self._is_stopped or (self._max_time is not None and spent > share * self._max_time)

    def check(self):
        """Raise `StopSearch` where no step may begin any more."""
        if self.is_over():
            raise StopSearch

    def step(self, note="", n_steps=1, *, is_heard=True):
        """Count steps that were made; `note` is added to the line."""
        with self._lock:
            self.done += n_steps
            self.total = max(self.total, self.done)
            now = time.monotonic()
            if self.verbose and (now - self._last >= 1 or self.done == self.total):
                self._last = now
                self._print(now, note)
        if is_heard and self._tick is not None and self._tick():
            self._is_stopped = True

    def expect(self, n_steps):
        """Say how many steps are to come before `later` ones, at most.

        How long one takes is measured from now on: those before were of another kind.
        """
        with self._lock:
            self.total = self.done + n_steps + self.later
            self._since = time.monotonic(), self.done

    def end(self, note=""):
        """Tell that there are no more steps, unless the last one has."""
        with self._lock:
            if self.verbose and 0 < self.done != self.total:
                self.total = self.done
                self._print(time.monotonic(), note)

    def _print(self, now, note):
        since, before = self._since
        each = (now - since) / max(self.done - before, 1)
        print(
            f"{self.name}: {self.done} of {self.total} {self.unit}, {now - self._start:.0f} s so "
            f"far, about {each * max(self.total - self.done, 0):.0f} s to go{note}",
            file=sys.stderr,
            flush=True,
        )
