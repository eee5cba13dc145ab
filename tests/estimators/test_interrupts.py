"""What an interrupted search leaves behind: no threads at work."""

import threading
import time

import pytest

from optimargin import LDMClassifierCV, ODMClassifierCV
from tests.cases import two_classes

GRIDS = {
    "leave-one-out": ODMClassifierCV(C1s=[1.0, 16.0, 256.0], C2s=[4.0], Ds=[0.0, 0.3]),
    "folds": ODMClassifierCV(C1s=[1.0, 16.0, 256.0], C2s=[4.0], Ds=[0.0, 0.3], cv=3),
    "LDM": LDMClassifierCV(Cs=[1.0, 10.0], lambda1s=[0.1, 0.2], lambda2s=[0.1], cv=3),
}


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("grid", GRIDS)
def test_threads_of_a_grid_have_ended_when_the_search_has(grid, error):
    X, y = two_classes(60, 3)
    before = set(threading.enumerate())
    calls = []

    def failing(estimator, X, y):
        calls.append(1)
        if len(calls) == 5:
            raise error
        time.sleep(0.01)  # so that others are at work meanwhile
        return 0.5

    with pytest.raises(error):
        GRIDS[grid].set_params(scoring=failing, n_jobs=3).fit(X, y)
    assert not set(threading.enumerate()) - before
    n_calls = len(calls)
    time.sleep(0.05)
    assert len(calls) == n_calls


def test_an_interrupt_waits_for_points_not_for_lines_of_a_grid(monkeypatch):
    """Where a point takes long, a grid looks at every one whether it has been stopped."""
    monkeypatch.setattr("optimargin.selection.grid._AT_ONCE", 0.0)
    X, y = two_classes(60, 3)
    calls = []

    def interrupting(estimator, X, y):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return 0.5

    grid = {"C1s": [1.0], "C2s": [4.0], "Ds": [0.0, 0.1, 0.2, 0.3], "widths": [1.0]}
    search = ODMClassifierCV(**grid, scoring=interrupting)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, y)
    scored = [score == 0.5 for score in search.cv_results_["mean_test_score"]]
    assert sum(scored) == 2
