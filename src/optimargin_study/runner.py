"""Run the units of a study that are not in the store yet.

Every worker loops over all units: it claims one, computes it and stores the result. Workers know of
each other only through the store, so two runs on one store share the work.
"""

import multiprocessing
import os
import platform
import time
import warnings
from collections import defaultdict
from dataclasses import dataclass

import joblib
import numpy as np
import scipy
import sklearn
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import optimargin
from optimargin_study.datasets import DatasetUnavailableError
from optimargin_study.methods import METHODS, evaluate
from optimargin_study.protocol import make_problem
from optimargin_study.store import Result, Store

_POLL = 0.5  # seconds
_REPORT_PAUSE = 50.0  # pause between reports, as a multiple of the time to read the store


@dataclass(frozen=True)
class Progress:
    """The progress of a run."""

    done: int
    total: int
    failed: int
    seconds_left: float | None


def run_unit(unit, scaling="all"):
    """Compute one unit.

    Parameters
    ----------
    unit : Unit
    scaling : {"all", "train"}, default="all"
        See `make_problem`.

    Returns
    -------
    result : Result
        With an ``error`` instead of an accuracy if the unit failed.

    Examples
    --------
    >>> from optimargin_study.protocol import Unit
    >>> from optimargin_study.runner import run_unit
    >>> run_unit(Unit(2, "wdbc", 1, "lda")).accuracy > 0.9
    True
    """
    start = time.process_time()
    common = {"unit": unit, "seed": unit.seed, "environment": environment(scaling)}
    try:
        with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            problem = make_problem(unit, scaling)
            start = time.process_time()  # do not count loading
            params, model, accuracy, fit_seconds = evaluate(METHODS[unit.method], problem)
    except DatasetUnavailableError:
        raise
    except Exception as error:
        seconds = time.process_time() - start
        text = f"{type(error).__name__}: {error}"
        return Result(
            accuracy=None,
            params={},
            seconds=seconds,
            fit_seconds=None,
            gap=None,
            error=text,
            **common,
        )
    seconds = time.process_time() - start
    details = {}
    if hasattr(model, "support_"):
        details["support"] = round(float(np.size(model.support_)) / problem.y.size, 4)
    stopped = sum(issubclass(w.category, ConvergenceWarning) for w in caught)
    if stopped:
        details["stopped_early"] = stopped
    gap = getattr(model, "dual_gap_", None)
    return Result(
        accuracy=accuracy,
        params=params,
        seconds=seconds,
        fit_seconds=fit_seconds,
        gap=None if gap is None else float(gap),
        details=details,
        **common,
    )


def environment(scaling="all"):
    """Return the versions and the machine in one line."""
    versions = [
        f"{module.__name__} {module.__version__}"
        for module in (optimargin, np, scipy, sklearn, joblib)
    ]
    machine = f"{platform.system()} {platform.machine()}, {_processor()}, {os.cpu_count()} cores"
    text = f"Python {platform.python_version()}, {', '.join(versions)}; {machine}"
    return text if scaling == "all" else f"{text}; features scaled by the training half"


def _processor():
    try:
        with open("/proc/cpuinfo") as file:
            names = (line.split(":", 1)[1].strip() for line in file if "model name" in line)
            return next(names, platform.processor())
    except OSError:
        return platform.processor()


def work(path, units, scaling="all", niceness=0):
    """Compute all units that are neither done nor claimed, one after another."""
    if niceness and hasattr(os, "nice"):
        os.nice(niceness)
    store = Store(path)
    parent = multiprocessing.parent_process()
    try:
        for unit in units:
            if parent is not None and not parent.is_alive():
                break  # the run was killed: leave the other units to the next run
            if store.claim(unit):
                store.add(run_unit(unit, scaling))
    finally:
        store.release(os.getpid())
        store.close()


def run(path, units, *, n_jobs=1, scaling="all", niceness=0, report=None):
    """Run the units that a store does not have yet.

    Parameters
    ----------
    path : path-like
        The store.
    units : list of Unit
    n_jobs : int, default=1
        Number of processes; 0 computes in this process.
    scaling : {"all", "train"}, default="all"
        See `make_problem`.
    niceness : int, default=0
        Niceness of the processes: larger values mean lower priority.
    report : callable, default=None
        Called with a `Progress` now and then.

    Returns
    -------
    computed : int
        How many results were added to the store.
    """
    store = Store(path)
    planned = set(units)
    before, begin = store.done() & planned, time.monotonic()
    if n_jobs == 0:
        store.close()
        work(path, units, scaling)
        store = Store(path)
        computed = len(store.done() & planned) - len(before)
        store.close()
        return computed
    context = multiprocessing.get_context("spawn")

    def start_process():
        process = context.Process(target=work, args=(str(path), units, scaling, niceness))
        process.start()
        return process

    processes = [start_process() for _ in range(n_jobs)]
    next_report = 0.0
    try:
        while processes:
            for process in list(processes):
                process.join(_POLL / len(processes))
                if process.exitcode is None:
                    continue
                processes.remove(process)
                if process.exitcode != 0 and _file_crash(store, process):
                    processes.append(start_process())
            if report is not None and (time.monotonic() >= next_report or not processes):
                start = time.monotonic()
                report(progress(store, units, max(len(processes), 1), since=(before, begin)))
                # Reading a large store takes time, so it is read less often.
                next_report = time.monotonic() + _REPORT_PAUSE * (time.monotonic() - start)
    except BaseException:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
            store.release(process.pid)
        raise
    computed = len(store.done() & planned) - len(before)
    store.close()
    return computed


def _file_crash(store, process):
    """Store the current units of a process that died as failed; return whether it had any."""
    units = store.release(process.pid)
    for unit in units:
        text = f"The process ended with code {process.exitcode} (out of memory?)."
        store.add(Result(unit, None, {}, 0.0, None, None, unit.seed, {}, text, environment()))
    return bool(units)


def progress(store, units, n_jobs=1, since=None):
    """Return the progress of the units; the time left is estimated from similar units.

    Parameters
    ----------
    store : Store
    units : list of Unit
    n_jobs : int, default=1
        CPU seconds per second, as long as there is no better estimate.
    since : tuple of (set of Unit, float), default=None
        The units that were done when the run began, and the time when it began. From these, the
        real speed of this machine is measured.
    """
    results = store.results()
    planned = set(units)
    times: defaultdict[tuple, list[float]] = defaultdict(list)
    failed = done = 0
    computed = 0.0
    for r in results:
        if r.unit in planned:
            done += 1
            failed += r.error is not None
            computed += r.seconds if since is not None and r.unit not in since[0] else 0.0
        if r.error is None:
            u = r.unit
            times[u.table, u.dataset, u.method].append(r.seconds)
            times[u.table, u.method].append(r.seconds)
    finished = {r.unit for r in results}
    left, unknown = 0.0, 0
    for u in units:
        if u in finished:
            continue
        known = times.get((u.table, u.dataset, u.method)) or times.get((u.table, u.method))
        if known:
            left += float(np.mean(known))
        else:
            unknown += 1
    speed = float(n_jobs)
    if since is not None and computed > 0:
        speed = min(computed / max(time.monotonic() - since[1], 1e-3), speed)
    seconds_left = None if unknown else left / speed
    return Progress(done, len(units), failed, seconds_left)


def describe(progress, *, bar=False):
    """Return one line about the progress of a run, with a progress bar if `bar`."""
    left = (
        "" if progress.seconds_left is None else f", about {_duration(progress.seconds_left)} left"
    )
    failed = f", {progress.failed} failed" if progress.failed else ""
    line = f"{progress.done} of {progress.total} runs{failed}{left}"
    if not bar:
        return line
    full = round(30 * progress.done / max(progress.total, 1))
    return "━" * full + "·" * (30 - full) + " " + line


def _duration(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
