"""How far a long computation is, and when it will end."""

import sys
import threading
import time


class Progress:
    """Count steps, and write a line to standard error about once a second.

    Parameters
    ----------
    name : str
        What the line starts with.
    total : int
        The number of steps.
    unit : str
        What a step is, in the plural.
    enabled : bool
    """

    def __init__(self, name, total, unit, enabled):
        self.name, self.total, self.unit, self.enabled = name, total, unit, enabled
        self.done = 0
        self._start = self._since = self._last = time.monotonic()
        self._lock = threading.Lock()

    def step(self, note="", n_steps=1):
        """Count steps; `note` is added to the line."""
        if not self.enabled:
            return
        with self._lock:
            self.done += n_steps
            now = time.monotonic()
            if now - self._last < 1 and self.done < self.total:
                return
            self._last = now
            self._print(now, note)

    def expect(self, n_steps):
        """Say how many steps there are to come, now that it is known, and how long one takes.

        Time is counted from now on: what was done before was of another kind.
        """
        with self._lock:
            self.total, self.done = n_steps, 0
            self._since = time.monotonic()

    def end(self, note=""):
        """Tell that there are no more steps, unless the last one has."""
        with self._lock:
            if self.enabled and 0 < self.done < self.total:
                self.total = self.done
                self._print(time.monotonic(), note)

    def _print(self, now, note):
        spent = now - self._start
        left = (now - self._since) / self.done * (self.total - self.done)
        print(
            f"{self.name}: {self.done} of {self.total} {self.unit}, "
            f"{spent:.0f} s so far, about {left:.0f} s to go{note}",
            file=sys.stderr,
            flush=True,
        )
