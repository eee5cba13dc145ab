"""Processes killed at random times: what was stored stays, and no file is half written."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from optimargin import LinearODMClassifier
from optimargin_study import find_methods, plan, run
from optimargin_study.store import Result, Store
from tests.fuzz.writers import WRITERS

_PATIENCE = 600.0  # seconds until a process that does nothing is given up
_METHODS = ["lda", "mamc"]


def kill_writer(rng):
    """Kill a process that writes a file again and again: the file is always complete."""
    name = str(rng.choice(sorted(WRITERS)))
    writer = WRITERS[name]
    with TemporaryDirectory() as folder:
        path = Path(folder, f"file{writer.suffix}")
        contents = []
        for version in range(2):
            writer.write(version, path)
            contents.append(writer.read(path))
        child = _forked(lambda: _rewrite(writer, path))
        _kill(child, delay=rng.uniform(0, 0.1))
        found = {"writer": name}
        if writer.read(path) not in contents:
            return found | {"failure": "the file is neither the old nor the new one"}
    return found


def kill_store(rng):
    """Kill a process that stores results: each one that it was told is stored is there."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "study.sqlite")
        Store(path).close()
        receive, send = os.pipe()
        child = _forked(lambda: _store_results(path, send))
        os.close(send)
        _kill(child, delay=rng.uniform(0, 0.3))
        with os.fdopen(receive, "rb") as file:
            n_told = len(file.read())
        store = Store(path)
        n_stored = len(store.results())
        store.close()
    if n_stored not in (n_told, n_told + 1):
        return {"failure": f"{n_told} results were stored and {n_stored} are left"}
    return {"stored": n_stored}


def kill_study(rng):
    """Kill a study and all its processes: the next run goes on, and ends with the same results."""
    units, expected = _study()
    with TemporaryDirectory() as folder:
        path, script = Path(folder, "study.sqlite"), Path(folder, "script.py")
        script.write_text(_SCRIPT)  # a spawned process imports the main module again
        n_jobs = int(rng.integers(0, 3))
        process = subprocess.Popen(
            [sys.executable, str(script), str(path), str(n_jobs)],
            start_new_session=True,
            stderr=subprocess.PIPE,
        )
        _wait_for(path, rng.integers(0, len(units) // 2), process)
        time.sleep(rng.uniform(0, 0.2))
        os.killpg(process.pid, signal.SIGKILL)
        errors = process.communicate()[1].decode()
        _wait_until_gone(process.pid)
        store = Store(path)
        before = {r.unit: r for r in store.results()}
        found = {"n_jobs": n_jobs, "before": len(before)}
        computed = run(path, units, n_jobs=0)
        after = {r.unit: r for r in store.results()}
        store.close()
    if "Traceback" in errors:
        return found | {"failure": errors[-1500:]}
    if any(after.get(unit) != result for unit, result in before.items()):
        return found | {"failure": "results were lost"}
    if computed != len(units) - len(before):
        return found | {"failure": f"{computed} of {len(units)} were computed again"}
    if {unit: r.accuracy for unit, r in after.items()} != expected:
        return found | {"failure": "the results are not those of a run that was left alone"}
    return found


def kill_worker(rng):
    """Kill a worker of a Dask cluster during a fit: the fit ends, at the same objective."""
    import dask.array as da
    import distributed

    from optimargin.dask import DaskLinearODMClassifier, DaskODMClassifier

    X = rng.normal(size=(600, 4))
    y = (X[:, 0] + 0.5 * rng.normal(size=len(X)) > 0).astype(int)
    linear = rng.random() < 0.7
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        model = DaskLinearODMClassifier(tol=1e-10, client=client)
        if not linear:
            model = DaskODMClassifier(n_components=10, gamma=0.1, tol=1e-10, client=client)
        blocks = da.from_array(X, chunks=(100, 4)).map_blocks(_slowly, dtype=float)
        victim = int(rng.choice(sorted(client.run(os.getpid).values())))
        timer = threading.Timer(rng.uniform(0, 2.0), os.kill, (victim, signal.SIGKILL))
        timer.start()
        start = time.monotonic()
        model.fit(blocks, da.from_array(y, chunks=100))
        seconds = time.monotonic() - start
        timer.join()
    found = {"model": type(model).__name__, "seconds": seconds, "claim": float(model.dual_gap_)}
    expected = LinearODMClassifier(tol=1e-10).fit(X, y).objective_ if linear else model.objective_
    if not np.isclose(model.objective_, expected, rtol=1e-8):
        return found | {"failure": "another objective than without a kill"}
    return found if model.dual_gap_ <= 1e-10 else found | {"failure": "above the tolerance"}


_SCRIPT = f"""
import sys
from optimargin_study import find_methods, plan, run
if __name__ == "__main__":
    run(sys.argv[1], plan([2], find_methods({_METHODS}), ["wdbc"], 10), n_jobs=int(sys.argv[2]))
"""


@cache
def _study():
    """Return units, and the accuracy of each in a run that nobody disturbs."""
    units = plan([2], find_methods(_METHODS), ["wdbc"], 10)
    with TemporaryDirectory() as folder:
        path = Path(folder, "study.sqlite")
        run(path, units, n_jobs=0)
        store = Store(path)
        expected = {r.unit: r.accuracy for r in store.results()}
        store.close()
    return units, expected


def _slowly(block):
    time.sleep(0.05)
    return block


def _forked(function):
    """Return the process that calls a function in a copy of this one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        pid = os.fork()
    if pid == 0:
        try:
            function()
        finally:
            os._exit(1)
    return pid


def _kill(pid, delay):
    time.sleep(delay)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _rewrite(writer, path):
    version = 0
    while True:
        writer.write(version, path)
        version = 1 - version


def _store_results(path, told):
    store = Store(path)
    for unit in plan([2, 3], find_methods(["lda", "odm", "svm"]), None, None):
        store.claim(unit)
        store.add(Result(unit, 0.5, {"C1": 1.0}, 0.1, 0.1, 1e-7, unit.seed, {}, None, "machine"))
        os.write(told, b".")
    signal.pause()


def _wait_until_gone(group):
    """Wait until no process of a group is left that has not at least ended."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        stats = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                stats.append(path.read_text().rpartition(")")[2].split())
        if not any(int(fields[2]) == group and fields[0] not in "ZX" for fields in stats):
            return
        time.sleep(0.05)


def _wait_for(path, n_results, process):
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
        if path.is_file() and path.stat().st_size:
            store = Store(path)
            n_done = len(store.done())
            store.close()
            if n_done >= n_results:
                return
