"""The machines that `tests.machines` makes are what they say."""

import os
import re

import pytest
from threadpoolctl import threadpool_info

from tests import machines

pytestmark = pytest.mark.quick


@pytest.mark.numbers
@pytest.mark.skipif("OPENBLAS_NUM_THREADS" not in os.environ, reason="no number was asked for")
def test_blas_has_the_threads_that_were_asked_for():
    asked = int(os.environ["OPENBLAS_NUM_THREADS"])
    pools = [pool for pool in threadpool_info() if pool["internal_api"] == "openblas"]
    assert {pool["num_threads"] for pool in pools} <= {asked}


def test_a_machine_chooses_for_itself_what_the_environment_chose(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", "AVX2")
    environment = machines.MACHINES["threads-2"].environment()
    assert "OPENBLAS_CORETYPE" not in environment
    assert "NPY_DISABLE_CPU_FEATURES" not in environment
    assert environment["OMP_NUM_THREADS"] == environment["OPENBLAS_NUM_THREADS"] == "2"


def test_every_package_has_an_oldest_version_and_the_highest_bound_counts():
    versions = dict(line.split("==") for line in machines.oldest())
    assert {"numpy", "scipy", "scikit-learn", "cython", "pytest", "pandas"} <= set(versions)
    project = machines.SETTINGS["project"]
    for line in project["dependencies"]:
        name, bound = re.match(r"([\w-]+)>=([\d.]+)$", line).groups()
        assert versions[name] == bound


def test_what_passed_is_kept_until_a_file_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(machines, "FOLDER", tmp_path)
    monkeypatch.setattr(machines, "state", lambda: "now")
    store = machines.Store(whole=False)
    store.add("Haswell", "passed in 3 s", {"BLAS": ["Haswell"]})
    again = machines.Store(whole=False)
    assert again.passed("Haswell") == "passed in 3 s (before)"
    assert again.same({"BLAS": ["Haswell"]}, "Zen") == "Haswell"
    assert again.same({"BLAS": ["Nehalem"]}, "Zen") is None
    assert machines.Store(whole=True).passed("Haswell") is None
    monkeypatch.setattr(machines, "state", lambda: "later")
    assert machines.Store(whole=False).passed("Haswell") is None
