"""Fits in several threads and processes at once."""

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from optimargin import LinearODMClassifier, ODMClassifier
from optimargin._threads import (
    _blas_pools,
    _cores,
    _usable_cores,
    blas_threads_for,
    n_threads_for,
    one_blas_thread,
)
from tests.cases import ESTIMATOR_SOLVERS, two_classes

pytestmark = pytest.mark.numbers


@pytest.mark.parametrize(("estimator", "solver"), ESTIMATOR_SOLVERS)
def test_forty_concurrent_fits_equal_the_serial_fit(estimator, solver):
    n_samples = 12_000 if estimator is LinearODMClassifier else 300
    X, y = two_classes(n_samples, 10)
    model = estimator(4.0, 1.0, solver=solver, random_state=0)

    # Not decision values: in single precision, these depend on the threads that BLAS has.
    def numbers(_):
        fitted = estimator(**model.get_params()).fit(X, y)
        coef = fitted.dual_coef_ if hasattr(fitted, "dual_coef_") else fitted.coef_
        return np.append(coef, fitted.intercept_)

    serial = numbers(None)
    with ThreadPoolExecutor(8) as pool:
        concurrent = list(pool.map(numbers, range(40)))
    for other in concurrent:
        np.testing.assert_allclose(other, serial, rtol=0, atol=1e-12 * np.abs(serial).max())


def test_the_number_of_threads_does_not_change_the_solution():
    X, y = two_classes(20_000, 10)
    objectives = []
    for n_threads in (1, 2, 4):
        with threadpool_limits(n_threads):
            objectives.append(LinearODMClassifier().fit(X, y).objective_)
    np.testing.assert_allclose(objectives, objectives[0], rtol=1e-12)


def test_small_loops_get_one_thread_and_large_ones_what_is_allowed():
    assert n_threads_for(1000) == 1
    with threadpool_limits(1, user_api="openmp"):
        assert n_threads_for(10**8) == 1


FORK = """
    import multiprocessing
    import numpy as np
    from optimargin import LinearODMClassifier, ODMClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 20))
    y = X[:, 0] + rng.normal(size=12_000) > 0
    MODELS = [(LinearODMClassifier(), 12_000), (ODMClassifier(), 400)]

    def objectives():
        return [model.fit(X[:n], y[:n]).objective_ for model, n in MODELS]

    def child(pipe):
        pipe.send(objectives())

    before = objectives()
    fork = multiprocessing.get_context("fork")
    parent_end, child_end = fork.Pipe()
    process = fork.Process(target=child, args=(child_end,), daemon=True)
    process.start()
    assert parent_end.poll(60), "the fit in the forked process hangs"
    np.testing.assert_allclose(parent_end.recv(), before, rtol=1e-12)
    process.join()
    np.testing.assert_allclose(objectives(), before, rtol=1e-12)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks by default")
def test_a_fit_in_a_forked_process_ends_as_in_its_parent():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(FORK)],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_an_estimator_is_not_changed_by_fits_of_another():
    X, y = two_classes()
    first = ODMClassifier().fit(X, y)
    scores = first.decision_function(X)
    ODMClassifier(kernel="poly", C1=1.0).fit(X + 1, -y)
    np.testing.assert_array_equal(first.decision_function(X), scores)


def blas_limits():
    return [pool["num_threads"] for pool in _blas_pools().info()]


def test_fits_in_eight_threads_leave_blas_as_it_was():
    X, y = two_classes(900, 10)
    with _blas_pools().limit(limits=2):
        before = blas_limits()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: ODMClassifier().fit(X, y), range(16)))
        assert blas_limits() == before


def test_a_limit_set_in_another_thread_is_removed_by_whoever_ends_last():
    with _blas_pools().limit(limits=2):
        before = blas_limits()
        first, second = one_blas_thread(), one_blas_thread()
        with ThreadPoolExecutor(1) as other:
            other.submit(first.__enter__).result()
            second.__enter__()
            other.submit(first.__exit__, None, None, None).result()
            second.__exit__(None, None, None)
            assert blas_limits() == before


def test_threads_stay_within_the_cores_of_the_process(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("optimargin._threads.cpu_count", lambda: 1)
    for known in (_usable_cores, _cores):
        known.cache_clear()
    try:
        assert n_threads_for(10**9) == 1
        with _blas_pools().limit(limits=2), blas_threads_for(100_000):
            assert set(blas_limits()) == {1}
    finally:
        monkeypatch.undo()
        for known in (_usable_cores, _cores):
            known.cache_clear()


def test_the_limit_of_blas_is_given_back_by_the_last_of_overlapping_fits():
    with _blas_pools().limit(limits=2):
        before = blas_limits()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert max(blas_limits()) == 1 < max(before)
        second.__exit__(None, None, None)
        assert blas_limits() == before
