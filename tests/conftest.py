"""Settings of every test run."""

import os

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

from tests.regular_sets import MISSING

# The same examples on every machine: a failure can be repeated anywhere.
settings.register_profile("reproducible", derandomize=True, deadline=None, database=None)
settings.load_profile("reproducible")

os.environ.setdefault("MPLBACKEND", "agg")  # no windows


@pytest.fixture(autouse=True, scope="session")
def _blas_threads(worker_id):
    """Give BLAS the threads it was asked for; one where parallel processes share the cores.

    OpenBLAS itself takes no more threads than there are cores.
    """
    asked = os.environ.get("OPENBLAS_NUM_THREADS")
    n_threads = int(asked) if asked else None if worker_id == "master" else 1
    with threadpool_limits(n_threads, user_api="blas"):
        yield


def pytest_terminal_summary(terminalreporter):
    """Say in one line how much could not run for want of data."""
    skipped = terminalreporter.stats.get("skipped", [])
    n_skipped = sum(MISSING in str(report.longrepr) for report in skipped)
    if n_skipped:
        terminalreporter.write_line(f"{n_skipped} tests need ../shared and were skipped")
