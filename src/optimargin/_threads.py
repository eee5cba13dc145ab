"""How many threads a compiled loop gets."""

import os

from optimargin._core._threads import max_threads

# Below this many elementary operations starting a thread costs more than it saves.
_WORTH_A_THREAD = 100_000

_forked = False


def _note_fork() -> None:
    global _forked
    _forked = True


# GNU's OpenMP runtime hangs when a forked child starts a parallel region: its pool threads
# did not survive the fork. One thread is always safe.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def n_threads_for(work: int) -> int:
    """Return the number of threads for a loop of `work` elementary operations."""
    if _forked or work < _WORTH_A_THREAD:
        return 1
    return max_threads()
