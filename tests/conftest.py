"""Settings of every test run."""

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

# The same examples on every machine: a failure can be repeated anywhere.
settings.register_profile("reproducible", derandomize=True, deadline=None, database=None)
settings.load_profile("reproducible")


@pytest.fixture(autouse=True, scope="session")
def _one_blas_thread(worker_id):
    """Keep parallel test processes from fighting over the cores."""
    if worker_id == "master":
        yield
    else:
        with threadpool_limits(1, user_api="blas"):
            yield
