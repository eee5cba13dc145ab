"""The same data give the same model: to the last bit for as many threads, to `tol` otherwise."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.numbers

TOL = 1e-6
# Sizes past those at which threads and rounded kernel values begin.
CODE = """
import json, warnings
import numpy as np
import scipy.sparse as sp
from optimargin import *

MODELS = {
    "direct": (ODMClassifier(), 200, 6),
    "panels": (ODMClassifier(), 1500, 6),
    "kernel descent": (ODMClassifier(solver="dcd"), 500, 6),
    "landmarks": (ODMClassifier(approximation="nystrom", n_components=64), 1500, 6),
    "linear": (LinearODMClassifier(), 20_000, 60),
    "linear, wide": (LinearODMClassifier(), 100, 300),
    "linear, by products": (LinearODMClassifier(solver="newton_cg"), 20_000, 60),
    "linear descent": (LinearODMClassifier(solver="dcd"), 2000, 10),
    "stochastic": (LinearODMClassifier(solver="svrg"), 2000, 10),
    "LDM": (LDMClassifier(), 300, 6),
    "linear LDM": (LinearLDMClassifier(), 2000, 10),
    "regression": (ODMRegressor(), 1500, 6),
    "one class": (OneClassODM(), 500, 6),
    "search": (ODMClassifierCV(max_evals=10), 200, 6),
    "folds": (LinearODMClassifierCV(cv=3, max_evals=10), 300, 6),
}
found = {}
for name, (model, n_samples, n_features) in MODELS.items():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, n_features))
    X[rng.random(X.shape) < 0.3] = 0.0
    y = (X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=n_samples) > 0).astype(int)
    for kind, rows in (("dense", X), ("sparse", sp.csr_array(X))):
        model.set_params(tol=1e-6).fit(rows, y)
        predict = getattr(model, "decision_function", model.predict)
        bits = predict(rows).astype(np.float64).tobytes().hex()
        found[name, kind] = bits, float(model.objective_), float(model.dual_gap_)
print(json.dumps([[*key, *value] for key, value in found.items()]))
"""


def fits(n_threads):
    """Return (bits of the decision values, objective, gap) of fits in a process of their own."""
    number = str(n_threads)
    environment = {**os.environ, "OMP_NUM_THREADS": number, "OPENBLAS_NUM_THREADS": number}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, check=True, capture_output=True, text=True
    )
    return {(name, kind): rest for name, kind, *rest in json.loads(done.stdout)}


@pytest.fixture(scope="module")
def in_two_threads():
    return fits(2)


def assert_close(one, other):
    (_, value, gap), (_, other_value, other_gap) = one, other
    assert max(gap, other_gap) <= TOL
    # Gaps of regressors are relative to the best constant model, a few times their objective.
    assert value == pytest.approx(other_value, rel=5 * TOL)


def test_fits_are_the_same_bits_from_run_to_run(in_two_threads):
    again = fits(2)
    different = [key for key, fit in in_two_threads.items() if fit != again[key]]
    assert not different


def test_another_number_of_threads_changes_less_than_the_tolerance(in_two_threads):
    for key, fit in fits(1).items():
        assert_close(fit, in_two_threads[key])


def test_sparse_data_change_less_than_the_tolerance(in_two_threads):
    for (name, kind), fit in in_two_threads.items():
        if kind == "dense":
            assert_close(fit, in_two_threads[name, "sparse"])
            ours, theirs = (
                np.frombuffer(bytes.fromhex(bits))
                for bits in (fit[0], in_two_threads[name, "sparse"][0])
            )
            assert np.abs(ours - theirs).max() <= 0.02 * np.abs(ours).max()
