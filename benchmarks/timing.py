"""How times are measured: competitors in turn, medians; threads and machine are stated."""

import ctypes
import os
import platform
import statistics
import time

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

import optimargin

# Idle threads of BLAS and OpenMP spin for tens of milliseconds: they would slow the next function.
_REST = 0.05


def machine():
    """Return one line that describes the machine and the versions."""
    threads = max((pool["num_threads"] for pool in threadpool_info()), default=1)
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {threads} threads; "
        f"Python {platform.python_version()}, optimargin {optimargin.__version__}, numpy "
        f"{np.__version__}, scipy {scipy.__version__}, scikit-learn {sklearn.__version__}"
    )


def keep_memory():
    """Let the process keep freed memory, for all competitors (glibc only).

    On a virtual machine the first use of a page can take longer than the work done on it.
    """
    m_trim_threshold, m_mmap_max = -1, -4
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(m_mmap_max, 0)
        libc.mallopt(m_trim_threshold, 2**31 - 1)


def rest():
    """Wait until idle threads stop spinning; a busy wait keeps the processor's clock up."""
    end = time.perf_counter() + _REST
    while time.perf_counter() < end:
        pass


def interleaved_medians(functions, repeats=5, budget=60.0):
    """Return the median seconds of each function, called in turn.

    Parameters
    ----------
    functions : dict of str to callable
    repeats : int
    budget : float
        Seconds after which no further round is begun (each function runs at least once).
    """
    seconds = {name: [] for name in functions}
    begin = time.perf_counter()
    for _ in range(repeats):
        for name, function in functions.items():
            rest()
            start = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - start)
        if time.perf_counter() - begin > budget:
            break
    return {name: statistics.median(values) for name, values in seconds.items()}
