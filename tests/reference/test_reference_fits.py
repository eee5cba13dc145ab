"""Fits agree with stored ones; `reference_fits` says what is fitted and how closely."""

import numpy as np
import pytest

from tests.reference.reference_fits import CASES, compare, load_store, run_case

pytestmark = pytest.mark.numbers

STORED = load_store()


def test_every_case_is_stored():
    assert list(CASES) == list(STORED)


@pytest.mark.parametrize("name", STORED)
def test_fit_agrees_with_the_stored_one(name):
    results, stored = run_case(name), STORED[name]
    excess = [difference for difference in compare(name, results, stored) if not difference.ok]
    assert not excess, "\n".join(_report(name, excess, results, stored))


def _report(name, excess, results, stored):
    yield f"{name} ({CASES[name].kind}) is not what it was:"
    for difference in excess:
        entry = difference.entry
        yield f"{entry}: difference {difference.found:.2e}, allowed {difference.allowed:.0e}"
        if entry != "params":
            place = np.unravel_index(
                np.abs(results[entry] - stored[entry]).argmax(), stored[entry].shape
            )
            where = tuple(int(k) for k in place)
            yield f"  at {where}: {results[entry][place]!r}, stored {stored[entry][place]!r}"
    if "params" in stored:
        yield f"chosen: {results['params']}"
        yield f"stored: {stored['params']}"
