"""The number of threads for compiled loops and for BLAS."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Lock, local

from threadpoolctl import ThreadpoolController

from optimargin._core._threads import max_threads

# Below this many elementary operations, starting a thread takes longer than it saves.
_WORTH_A_THREAD = 1_000_000

# Up to this many samples, a factorisation between our own loops is faster in one thread than in the
# threads of BLAS: two pools of threads that take turns wait for each other.
FACTORISE_ALONE_UP_TO = 3000

_forked = False


def _note_fork() -> None:
    global _forked
    _forked = True


# GNU's OpenMP runtime hangs when a forked child starts a parallel region, because its pool threads
# do not exist after the fork. One thread is always safe.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def n_threads_for(work: float) -> int:
    """Return the number of threads for a loop of `work` elementary operations."""
    if _forked or work < _WORTH_A_THREAD or getattr(_this_thread, "is_worker", False):
        return 1
    return max_threads()


_lock = Lock()
_holders = 0
_this_thread = local()
_limit = ExitStack()


@cache
def _blas_pools() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread while the loops of the compiled core use all of them.

    Two pools of threads that take turns wait for each other: the threads of one spin for
    milliseconds after their last work. The limit holds for the whole process. So, of several fits
    at a time, the first sets it and the last one removes it.
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


def for_each(function: Callable[..., None], items: Iterable, work: int) -> None:
    """Call ``function(item)`` for all items, in threads if `work` is large enough.

    Meant for calls that spend their time in BLAS and in single-threaded loops of the compiled
    core. Nested calls use one thread.
    """
    items = list(items)
    n_threads = n_threads_for(work)
    if n_threads == 1 or len(items) < 2:
        for item in items:
            function(item)
        return

    def call(item):
        _this_thread.is_worker = True
        function(item)

    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
        for _ in pool.map(call, items):
            pass
