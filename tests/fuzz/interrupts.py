"""Ctrl-C at random times: a fit ends within a second, and the estimator can be fitted again.

That second is one of the processor: other processes may keep it busy meanwhile.
"""

import os
import pickle
import signal
import threading
import time
import warnings

import numpy as np

from optimargin import (
    LDMClassifier,
    LinearLDMClassifier,
    LinearODMClassifier,
    ODMClassifier,
    ODMClassifierCV,
)
from optimargin.chunks import ArrayChunks

_WITHIN = 1.0  # seconds


def interrupt(rng):
    """Interrupt a fit."""
    make, shape, in_chunks = _FITS[rng.integers(len(_FITS))]
    model = make()
    X = rng.normal(size=shape)
    y = (X[:, 0] * X[:, 1] + rng.normal(size=shape[0]) > 0).astype(int)
    delay = float(rng.uniform(0, 1.0))
    sent = []

    def send():
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    def fit(X, y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if in_chunks:
                model.fit_chunks(ArrayChunks(X, y, chunk_rows=max(len(y) // 5, 1)))
            else:
                model.fit(X, y)

    timer = threading.Timer(delay, send)
    found = {"model": repr(model), "shape": list(shape)}
    interrupted = False
    try:
        timer.start()
        fit(X, y)
        timer.cancel()
        timer.join()
    except KeyboardInterrupt:
        interrupted = True
        found["seconds"] = round(time.process_time() - sent[0], 3)
    if sent and not interrupted:
        found["seconds"] = 0.0  # it ended before the signal came
    if interrupted and any(name.endswith("_") for name in vars(model)):
        return found | {"failure": "an interrupted fit left attributes"}
    if interrupted and any(isinstance(v, np.ndarray) for v in vars(model).values()):
        return found | {"failure": "an interrupted fit holds data"}
    pickle.loads(pickle.dumps(model))
    fit(X[:60], y[:60])
    if interrupted and found["seconds"] > _WITHIN:
        found["failure"] = f"it took {found['seconds']} s to end"
    return found


_FITS = [
    (lambda: ODMClassifier(), (6000, 20), False),
    (lambda: ODMClassifier(solver="newton"), (3000, 20), False),
    (lambda: ODMClassifier(solver="dcd", tol=1e-12), (3000, 20), False),
    (lambda: ODMClassifier(approximation="nystrom"), (30_000, 20), False),
    (lambda: ODMClassifierCV(), (1500, 20), False),
    (lambda: LDMClassifier(tol=1e-12), (2000, 20), False),
    (lambda: LDMClassifier(solver="interior_point"), (1500, 20), False),
    (lambda: LinearLDMClassifier(solver="dcd", tol=1e-12), (100_000, 30), False),
    (lambda: LinearODMClassifier(solver="newton"), (200_000, 200), False),
    (lambda: LinearODMClassifier(solver="newton_cg", tol=1e-14), (200_000, 200), False),
    (lambda: LinearODMClassifier(solver="dcd", tol=1e-14), (100_000, 50), False),
    (lambda: LinearODMClassifier(solver="svrg", tol=1e-14), (100_000, 50), False),
    (lambda: LinearODMClassifier(tol=1e-14), (200_000, 100), True),
]
