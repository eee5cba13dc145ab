"""How many threads a compiled loop gets, and BLAS beside it."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController

from optimargin._core._threads import max_threads

# Below this many elementary operations starting a thread costs more than it saves.
_WORTH_A_THREAD = 1_000_000

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


_lock = Lock()
_holders = 0
_limit = ExitStack()


@cache
def _blas_pools() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread while the loops of the compiled core use all of them.

    Two pools of threads that take turns wait for each other: the threads of one stay awake for
    milliseconds after their last work. The limit holds for the whole process, so it is taken
    once and given back by the last of several fits at a time.
    """
    global _holders
    with _lock:
        if _holders == 0:
            _limit.enter_context(_blas_pools().limit(limits=1))
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _limit.close()
