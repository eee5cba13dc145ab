"""Outputs on rows of their own: all of them together are what each is alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimargin.held_out.engine import KernelData, make_refitter
from optimargin.held_out.own_rows import KernelRowsRefitter, OwnRowsSolved, QuadraticRowsSolved
from optimargin.held_out.refitter import Folds
from optimargin.kernels import Kernel, squared_distances
from optimargin.objectives import ODM
from optimargin.tasks import Classification

QUADRATIC = ODM(8.0, 8.0, 0.0)


def pairs_of(seed, n_samples=36, n_classes=4, *, weighted=False):
    """Return rows, labels and one target per pair of classes."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_samples - n_classes)])
    X = rng.normal(size=(n_samples, 3)) + y[:, None]
    weight = rng.uniform(0.5, 2.0, n_samples) if weighted else None
    task = Classification.from_labels(y, weight, multi_class="ovo")
    return X, y, task.encode(y, weight)


def refitter_of(X, targets, fit_intercept, *, together=True):
    kernel = Kernel("rbf", 0.2)
    distances = squared_distances(X)
    K = kernel.of_distances(distances)
    made = make_refitter(KernelData(K), ODM, targets, fit_intercept)
    assert isinstance(made, KernelRowsRefitter)
    made._together = together
    made.change_kernel(K, slope=kernel.width_slope(distances, K))
    return made


def everything(refitter, objective, folds):
    """Return values and derivatives of a function of held-out values."""
    solved = refitter.solve(objective)
    held_out = solved.leave_folds_out(folds)
    found = held_out.derivatives(np.cos(held_out.decision))
    return {
        "coef": solved.coef,
        "intercept": solved.intercept,
        "objective": solved.objective,
        "leave-one-out": solved.leave_one_out(),
        "decision": held_out.decision,
        "by width": found.by_width,
        "by loss": found.by_loss,
        "by kernel": found.by_kernel(refitter.K.shape[0]),
    }


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    n_classes=st.integers(3, 6),
    n_samples=st.integers(12, 60),
    fit_intercept=st.booleans(),
    weighted=st.booleans(),
)
def test_all_outputs_together_are_what_each_is_alone(
    seed, n_classes, n_samples, fit_intercept, weighted
):
    X, y, targets = pairs_of(seed, n_samples, n_classes, weighted=weighted)
    folds = Folds.stratified(y, 3, 2, np.random.RandomState(seed))
    together, alone = (
        everything(refitter_of(X, targets, fit_intercept, together=way), QUADRATIC, folds)
        for way in (True, False)
    )
    for name, expected in alone.items():
        if name == "by loss":  # those who solve alone may count a sample on the edge elsewhere
            continue
        np.testing.assert_allclose(together[name], expected, rtol=1e-6, atol=1e-8, err_msg=name)
    total = [found["by loss"][:2].sum() for found in (together, alone)]
    np.testing.assert_allclose(*total, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_derivatives_are_those_of_finite_differences(fit_intercept):
    X, y, targets = pairs_of(0)
    folds = Folds.stratified(y, 5, 2, np.random.RandomState(0))
    refitter = refitter_of(X, targets, fit_intercept)

    def value(K, penalty):
        refitter.change_kernel(K)
        decision = refitter.solve(ODM(penalty, penalty, 0.0)).leave_folds_out(folds).decision
        own = np.stack([target.weight > 0 for target in targets], axis=1)
        return np.sin(decision)[:, own].sum()

    K = refitter.K.copy()
    held_out = refitter.solve(QUADRATIC).leave_folds_out(folds)
    found = held_out.derivatives(np.cos(held_out.decision))
    rng = np.random.default_rng(1)
    change = rng.normal(size=K.shape)
    change += change.T
    step = 1e-6
    slope = (value(K + step * change, 8.0) - value(K - step * change, 8.0)) / (2 * step)
    assert np.vdot(found.by_kernel(len(K)), change) == pytest.approx(slope, rel=1e-5)
    by_penalty = (value(K, 8.0 * np.exp(step)) - value(K, 8.0 * np.exp(-step))) / (2 * step)
    assert found.by_loss[:2].sum() == pytest.approx(by_penalty, rel=1e-5)


def test_threads_change_nothing(monkeypatch):
    X, y, targets = pairs_of(3, 90, 6)
    folds = Folds.stratified(y, 5, 1, np.random.RandomState(0))
    found = []
    for n_threads in (1, 2, 5):
        monkeypatch.setattr(KernelRowsRefitter, "n_threads", n_threads)
        found.append(everything(refitter_of(X, targets, True), QUADRATIC, folds))
    for other in found[1:]:
        for name, expected in found[0].items():
            np.testing.assert_array_equal(other[name], expected, err_msg=name)


def test_a_fold_that_holds_a_whole_pair_is_predicted_by_the_intercept():
    X, y, targets = pairs_of(4, 30, 3)
    fold = np.where(y < 2, 0, 1 + np.arange(y.size) % 2)[None].astype(np.intc)
    solved = refitter_of(X, targets, True).solve(QUADRATIC)
    held_out = solved.leave_folds_out(Folds(fold, 3))
    np.testing.assert_allclose(held_out.decision[0, y < 2, 0], solved.intercept[0])
    found = held_out.derivatives(np.ones_like(held_out.decision))
    assert np.isfinite(found.by_kernel(y.size)).all()


def test_other_losses_and_indefinite_matrices_are_left_to_the_outputs():
    X, _, targets = pairs_of(5)
    refitter = refitter_of(X, targets, True)
    assert isinstance(refitter.solve(QUADRATIC), QuadraticRowsSolved)
    assert isinstance(refitter.solve(ODM(8.0, 4.0, 0.1)), OwnRowsSolved)
    K = refitter.K.copy()
    K[np.diag_indices_from(K)] -= 1e9
    refitter.change_kernel(K)
    assert not refitter.problems.solve(K, 8.0, 1)
