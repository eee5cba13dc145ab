"""Ctrl-C at random times: a fit ends within a second, and the estimator can be fitted again.

Times are of the processor: other processes may keep it busy meanwhile.
"""

import os
import pickle
import signal
import threading
import time
import warnings
from functools import cache

from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import laplacian_kernel

from optimargin import (
    LDMClassifier,
    LDMClassifierCV,
    LinearLDMClassifier,
    LinearODMClassifier,
    LinearODMClassifierCV,
    LinearODMRegressor,
    ODMClassifier,
    ODMClassifierCV,
    ODMRegressor,
    ODMRegressorCV,
    OneClassODM,
)
from optimargin.chunks import ArrayChunks

_WITHIN = 1.0  # seconds
_DELAYS = (-2.5, 0.0)  # decimal logarithms of seconds after the beginning of the fit


def interrupt(rng):
    """Interrupt a fit."""
    # Shells start what runs in the background with signals from the keyboard ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    make, shape, fit = _FITS[rng.integers(len(_FITS))]
    model = make()
    X = rng.normal(size=shape)
    y = (X[:, 0] * X[:, 1] + rng.normal(size=shape[0]) > 0).astype(int)
    found = {"model": repr(model), "fit": fit.__name__, "shape": list(shape)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(make(), X[:60], y[:60])  # imports and clusters take their time once
        alarm = _Alarm(float(10.0 ** rng.uniform(*_DELAYS)))
        interrupted = False
        try:
            with alarm:
                fit(model, X, y)
        except KeyboardInterrupt:
            interrupted = True
            found["seconds"] = round(time.process_time() - alarm.sent, 3)
        found["interrupted"] = interrupted
        if alarm.sent is not None and not interrupted:
            return found | {"failure": "the interrupt went unheard"}
        if interrupted:
            left = [name for name in vars(model) if name.endswith("_")]
            if left and "cv_results_" not in left:  # searches keep what they have seen
                return found | {"failure": f"an interrupted fit left {sorted(left)}"}
            try:
                model.predict(X[:1])
                return found | {"failure": "an interrupted fit predicts"}
            except NotFittedError:
                pass
            if any(value is X or value is y for value in vars(model).values()):
                return found | {"failure": "an interrupted fit holds data"}
        if len(pickle.dumps(pickle.loads(pickle.dumps(model)))) > 1e6 and interrupted:
            return found | {"failure": "an interrupted fit has a large pickle"}
        fit(model, X[:60], y[:60])
    if interrupted and found["seconds"] > _WITHIN:
        found["failure"] = f"it took {found['seconds']} s to end"
    return found


class _Alarm:
    """Sends one Ctrl-C after so many seconds of the processor, if the block has not ended."""

    def __init__(self, delay):
        self.sent = None
        self._end = time.process_time() + delay
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self):
        while not self._over.wait(0.002):
            if time.process_time() >= self._end:
                self.sent = time.process_time()
                os.kill(os.getpid(), signal.SIGINT)
                return

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


def _in_memory(model, X, y):
    model.fit(X, y)


def _in_chunks(model, X, y):
    model.fit_chunks(ArrayChunks(X, y, chunk_rows=max(len(y) // 5, 1)))


def _on_dask(model, X, y):
    import dask.array as da

    n_rows = max(len(y) // 5, 1)
    blocks = da.from_array(X, chunks=(n_rows, X.shape[1])), da.from_array(y, chunks=n_rows)
    model.set_params(client=_threads())
    model.fit(*blocks)
    model.set_params(client=None)


@cache
def _threads():
    import distributed

    return distributed.Client(processes=False, n_workers=1, dashboard_address=":0")


def _dask_classifier():
    from optimargin.dask import DaskLinearODMClassifier

    return DaskLinearODMClassifier(tol=1e-14)


_FITS = [
    (lambda: ODMClassifier(), (6000, 20), _in_memory),
    (lambda: ODMClassifier(kernel=laplacian_kernel), (3000, 20), _in_memory),
    (lambda: ODMClassifier(kernel="poly", C1=1e6, tol=1e-14), (3000, 20), _in_memory),
    (lambda: ODMClassifier(solver="newton"), (3000, 20), _in_memory),
    (lambda: ODMClassifier(solver="dcd", tol=1e-12), (3000, 20), _in_memory),
    (lambda: ODMClassifier(approximation="nystrom"), (30_000, 20), _in_memory),
    (lambda: ODMClassifier(calibration="sigmoid"), (3000, 20), _in_memory),
    (lambda: ODMRegressor(), (5000, 20), _in_memory),
    (lambda: OneClassODM(), (3000, 20), _in_memory),
    (lambda: ODMClassifierCV(), (1500, 20), _in_memory),
    (lambda: ODMClassifierCV(C1s=[1.0, 10.0, 100.0], gammas=[0.01, 0.1]), (1000, 20), _in_memory),
    (lambda: ODMRegressorCV(), (1000, 20), _in_memory),
    (lambda: LinearODMClassifierCV(cv=5), (20_000, 50), _in_memory),
    (lambda: LDMClassifierCV(cv=3, max_evals=20), (400, 10), _in_memory),
    (lambda: LDMClassifier(tol=1e-12), (2000, 20), _in_memory),
    (lambda: LDMClassifier(solver="interior_point"), (1500, 20), _in_memory),
    (lambda: LinearLDMClassifier(solver="dcd", tol=1e-12), (100_000, 30), _in_memory),
    (lambda: LinearODMClassifier(solver="newton"), (100_000, 100), _in_memory),
    (lambda: LinearODMClassifier(solver="newton_cg", tol=1e-14), (100_000, 100), _in_memory),
    (lambda: LinearODMClassifier(solver="dcd", tol=1e-14), (100_000, 50), _in_memory),
    (lambda: LinearODMClassifier(solver="svrg", tol=1e-14), (100_000, 50), _in_memory),
    (lambda: LinearODMRegressor(tol=1e-14), (100_000, 50), _in_memory),
    (lambda: LinearODMClassifier(tol=1e-14), (100_000, 100), _in_chunks),
    (lambda: ODMClassifier(approximation="nystrom", n_components=200), (20_000, 20), _in_chunks),
    (_dask_classifier, (100_000, 50), _on_dask),
]
