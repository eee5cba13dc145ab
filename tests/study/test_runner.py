"""Units, the runner, and that it survives being killed."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from optimargin import ldm_path
from optimargin_study import METHODS, Store, Unit, find_methods, make_problem, plan, run, run_unit
from optimargin_study import runner as runner_module
from optimargin_study.methods import evaluate
from optimargin_study.protocol import Problem
from optimargin_study.runner import describe, progress
from optimargin_study.selection import choose, gram, ldm_solver

CHEAP = ["lda", "mamc"]


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch):
    monkeypatch.delenv("OPTIMARGIN_DATA", raising=False)


@pytest.mark.parametrize(
    ("method", "table"),
    [
        *((method, table) for method in ("svm", "lda", "odm_default", "mamc") for table in (2, 3)),
        ("kmomd", 2),
        pytest.param("kmomd", 3, marks=pytest.mark.slow),
    ],
)
def test_unit_is_reproducible_and_better_than_chance(table, method):
    unit = Unit(table, "wdbc", 1, method)
    one, other = run_unit(unit), run_unit(unit)
    assert one.error is None
    assert one.accuracy > 0.8
    assert (one.accuracy, one.params, one.seed) == (other.accuracy, other.params, other.seed)


@pytest.mark.parametrize("table", [2, 3])
def test_restricted_machines_keep_to_their_restriction(table):
    found = {
        method: run_unit(Unit(table, "wine", 1, method))
        for method in ("odm_default", "odm_no_C2", "odm_least_squares", "odm_no_band")
    }
    assert all(result.accuracy > 0.85 for result in found.values())
    params = {method: result.params for method, result in found.items()}
    assert params["odm_default"]["C2"] > 0
    assert params["odm_no_C2"]["C2"] == 0
    assert params["odm_least_squares"]["C1"] == params["odm_least_squares"]["C2"]
    assert params["odm_least_squares"]["D"] == params["odm_no_band"]["D"] == 0


def test_widths_per_feature_are_kept_where_there_are_several():
    rng = np.random.default_rng(0)
    X = rng.random((300, 8))
    y = np.where((X[:, 0] - 0.5) * (X[:, 1] - 0.5) > 0, 1, -1)  # the others say nothing
    problem = Problem(X[:200], y[:200], X[200:], y[200:], "rbf", 0)
    params, model, accuracy, _ = evaluate(METHODS["odm_widths"], problem)
    assert len(params["widths"]) == 8
    assert max(params["widths"][:2]) < min(params["widths"][2:])
    assert accuracy > evaluate(METHODS["odm_default"], problem)[2]
    again = METHODS["odm_widths"].build(problem, json.loads(json.dumps(params)))
    assert_allclose(again.fit(X[:200], y[:200]).gamma_, model.gamma_)
    assert "width" in run_unit(Unit(3, "iris", 1, "odm_widths")).params


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("per_sample", [False, True])
def test_grid_of_odml_is_solved_as_by_the_path(kernel, per_sample):
    problem = make_problem(Unit(2 if kernel == "linear" else 3, "wdbc", 1, "odml"))
    width = problem.widths[-1]
    rows = np.arange(60)
    K = gram(problem, width, problem.X[rows], problem.X[rows])
    K_test = gram(problem, width, problem.X_test[:20], problem.X[rows])
    Cs, lambdas = (10.0, 100.0), (2.0**-8, 2.0**-2)
    solve, points = ldm_solver(Cs, lambdas, lambdas, per_sample=per_sample)
    ours = solve(K, problem.y[rows], K_test)
    path = ldm_path(
        K,
        problem.y[rows],
        Cs=[C * (60 if per_sample else 1) for C in Cs],
        lambda1s=lambdas,
        lambda2s=lambdas,
        kernel="precomputed",
        fit_intercept=False,
    )
    scale = 60 if per_sample else 1
    theirs = {
        (p["C"] / scale, p["lambda1"], p["lambda2"]): coef @ K_test.T
        for p, (coef,) in zip(path.params, path.coef, strict=True)
    }
    assert len(points) == len(ours) == 8
    for p, decision in zip(points, ours, strict=True):
        expected = theirs[p["C"], p["lambda1"], p["lambda2"]]
        assert_allclose(decision, expected, atol=1e-3 * np.abs(expected).max())


def test_of_equal_points_the_smoothest_is_chosen():
    problem = make_problem(Unit(3, "wdbc", 1, "svm"))

    def constant(K, y, K_test):
        return np.ones((2, K_test.shape[0]))

    assert choose(problem, constant, [{"C": 1.0}, {"C": 2.0}]) == {"C": 1.0, "width": 4.0}


def test_run_computes_only_what_is_missing(tmp_path):
    path = tmp_path / "s.sqlite"
    units = plan([2], find_methods(CHEAP), ["wdbc"], 2)
    assert run(path, units[:3], n_jobs=0) == 3
    assert run(path, units, n_jobs=0) == 1
    assert run(path, units, n_jobs=0) == 0
    assert Store(path).done() == set(units)


def test_failed_unit_is_recorded_and_the_rest_goes_on(tmp_path, monkeypatch):
    def fail(problem):
        raise FloatingPointError("no luck")

    monkeypatch.setitem(METHODS, "lda", replace(METHODS["lda"], select=fail))
    path = tmp_path / "s.sqlite"
    units = plan([2], find_methods(CHEAP), ["wdbc"], 1)
    run(path, units, n_jobs=0)
    by_method = {r.unit.method: r for r in Store(path).results()}
    assert by_method["lda"].error == "FloatingPointError: no luck"
    assert by_method["mamc"].accuracy > 0.5
    assert progress(Store(path), units).failed == 1
    assert Store(path).forget_failures() == 1
    assert Store(path).done() == {by_method["mamc"].unit}


def test_processes_share_the_work(tmp_path):
    path = tmp_path / "s.sqlite"
    units = plan([2], find_methods(CHEAP), ["wdbc"], 3)
    seen = []
    assert run(path, units, n_jobs=2, report=seen.append) == 6
    assert (seen[-1].done, seen[-1].total) == (6, 6)
    assert "6 of 6 runs" in describe(seen[-1])
    assert "━" in describe(seen[-1], bar=True)


def test_crashed_process_is_filed_and_replaced(tmp_path, monkeypatch):
    path = tmp_path / "s.sqlite"
    units = plan([2], find_methods(CHEAP), ["wdbc"], 1)
    store = Store(path)
    store.claim(units[0])

    class Dead:
        pid, exitcode = os.getpid(), -9

    assert runner_module._file_crash(store, Dead)
    assert "ended with code -9" in store.results()[0].error
    assert not runner_module._file_crash(store, Dead)


def test_killed_run_goes_on_where_it_was(tmp_path):
    path = tmp_path / "s.sqlite"
    code = (
        "import sys; from optimargin_study import *;"
        "run(sys.argv[1], plan([2], find_methods(['lda', 'mamc']), ['wdbc'], 30), n_jobs=0)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)])
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        time.sleep(0.05)
        if path.is_file() and path.stat().st_size and len(Store(path).done()) >= 3:
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    store = Store(path)
    before = {r.unit: r for r in store.results()}
    assert len(before) >= 3
    units = plan([2], find_methods(CHEAP), ["wdbc"], 30)
    assert run(path, units, n_jobs=0) == len(units) - len(before)
    after = {r.unit: r for r in store.results()}
    assert len(after) == 60
    assert all(after[unit] == result for unit, result in before.items())


def test_processes_of_a_killed_run_end_with_the_unit_in_hand(tmp_path):
    path = tmp_path / "s.sqlite"
    code = (
        "import sys; from optimargin_study import *;"
        "run(sys.argv[1], plan([2], find_methods(['svm']), ['wdbc'], 1000), n_jobs=1)"
    )
    script = tmp_path / "script.py"  # a spawned process imports the main module again
    script.write_text(f"if __name__ == '__main__':\n    {code}\n")
    process = subprocess.Popen([sys.executable, str(script), str(path)])
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        time.sleep(0.05)
        if path.is_file() and path.stat().st_size and len(Store(path).done()) >= 2:
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    with sqlite3.connect(path) as database:
        in_hand = database.execute
        while in_hand("SELECT * FROM claims").fetchall() and time.monotonic() < deadline:
            time.sleep(0.05)
        finished = len(Store(path).done())
        time.sleep(1)
        assert not in_hand("SELECT * FROM claims").fetchall()
    assert 2 <= finished == len(Store(path).done()) < 1000
