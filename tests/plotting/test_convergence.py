"""Plots of convergence: gaps and times are those of fits."""

from itertools import count

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

from optimargin import (
    LinearODMClassifier,
    ODMClassifier,
)
from optimargin.plotting import ConvergenceDisplay

pytestmark = pytest.mark.quick


def test_convergence_ends_at_the_tolerance_and_compares_solvers(moons, legend):
    first = ConvergenceDisplay.from_estimator(ODMClassifier(solver="newton"), *moons)
    second = ConvergenceDisplay.from_estimator(
        ODMClassifier(solver="dcd"), *moons, tol=1e-4, ax=first.ax_
    )
    assert first.gaps[-1] <= 1e-10
    assert (first.seconds > 0).all()
    assert (np.diff(second.gaps) <= 1e-12).mean() > 0.5
    assert legend(second) == ["newton", "dcd"]
    assert first.line_.get_color() != second.line_.get_color()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_times_are_those_of_iterations_within_one_fit(n_classes, monkeypatch):
    X, y = make_blobs(90, centers=n_classes, cluster_std=4, random_state=0)
    clock = count()  # every look at the clock takes a second
    monkeypatch.setattr("optimargin.estimators._callbacks.perf_counter", lambda: next(clock))
    monkeypatch.setattr("optimargin.plotting._convergence.time.perf_counter", lambda: next(clock))
    model = LinearODMClassifier(solver="dcd", random_state=0)
    display = ConvergenceDisplay.from_estimator(model, X, y, max_iter=6, tol=1e-15)
    n_problems = 1 if n_classes == 2 else n_classes
    # One look before the fit, one when a problem begins, one per iteration of each problem.
    assert display.seconds.tolist() == [1 + n_problems * k for k in (1, 2, 3, 4, 6)]
    for limit, gap in zip((1, 2, 3, 4, 6), display.gaps, strict=True):
        with pytest.warns(ConvergenceWarning):
            model.set_params(max_iter=limit, tol=1e-15).fit(X, y)
        assert gap == np.max(model.dual_gap_)
