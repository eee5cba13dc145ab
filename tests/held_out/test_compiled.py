"""Compiled refitters of kernel values: paths, pairs of classes, and what they share."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimargin import ODMClassifier
from optimargin.designs import GramDesign
from optimargin.held_out.compiled import CompiledRefitter
from optimargin.held_out.engine import KernelData, make_refitter
from optimargin.held_out.refitter import GramTest, NewtonRefitter
from optimargin.kernels import Kernel, squared_distances
from optimargin.objectives import ODM
from optimargin.systems import Folds, IndefiniteError
from optimargin.tasks import Classification
from tests.cases import labels_target, two_classes

QUADRATIC, BAND = ODM(8.0, 8.0, 0.0), ODM(64.0, 16.0, 0.2)
both_losses = pytest.mark.parametrize("objective", [QUADRATIC, BAND], ids=["quadratic", "band"])


def kernel_of(X, Y=None):
    """Return kernel values and their slopes by the logarithm of the width."""
    kernel, distances = Kernel("rbf", 0.2), squared_distances(X, Y)
    K = kernel.of_distances(distances)
    return K, kernel.width_slope(distances, K)


def pairs_of(seed, n_samples=36, n_classes=4, *, weighted=False):
    """Return rows, labels and one target per pair of classes."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_samples - n_classes)])
    X = rng.normal(size=(n_samples, 3)) + y[:, None]
    weight = rng.uniform(0.5, 2.0, n_samples) if weighted else None
    task = Classification.from_labels(y, weight, multi_class="ovo")
    return X, y, task.encode(y, weight)


def compiled(K, targets, fit_intercept, K_test=None):
    """Return the refitter of kernel values whose problems are compiled."""
    test = None if K_test is None else GramTest(K_test)
    return CompiledRefitter(GramDesign(K), targets, fit_intercept, test)


def everything(refitter, objective, folds, slopes):
    """Return values and derivatives of a function of held-out values."""
    solved = refitter.solve(objective)
    left_out, test = solved.leave_folds_out(folds), solved.predict_test()
    by_folds = left_out.derivatives(np.cos(left_out.decision))
    by_test = test.derivatives(np.cos(test.decision))
    return {
        "coef": solved.coef,
        "intercept": solved.intercept,
        "objective": solved.objective,
        "leave-one-out": solved.leave_one_out(),
        "folds": left_out.decision,
        "test": test.decision,
        "folds by loss": by_folds.by_loss,
        "test by loss": by_test.by_loss,
        "folds by width": by_folds.by_width(slopes),
        "test by width": by_test.by_width(slopes),
        "folds by kernel": by_folds.by_kernel(folds.fold.shape[1]),
    }


def check_same(found, expected, without=()):
    for name in expected.keys() - set(without):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-8, err_msg=name)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 1000),
    n_classes=st.integers(3, 6),
    n_samples=st.integers(12, 60),
    fit_intercept=st.booleans(),
    weighted=st.booleans(),
    objective=st.sampled_from([QUADRATIC, BAND]),
)
def test_pairs_of_classes_are_what_each_is_on_its_own_rows(
    seed, n_classes, n_samples, fit_intercept, weighted, objective
):
    X, y, targets = pairs_of(seed, n_samples, n_classes, weighted=weighted)
    folds = Folds.stratified(y, 3, 2, np.random.RandomState(seed))
    (K, slope), (K_test, slope_test) = kernel_of(X), kernel_of(X[:5] + 0.3, X)
    slopes = {"samples": slope, "test": slope_test}
    together = compiled(K, targets, fit_intercept, K_test)
    by_newton = NewtonRefitter(GramDesign(K), targets, fit_intercept, GramTest(K_test))
    found, expected = (
        everything(refitter, objective, folds, slopes) for refitter in (together, by_newton)
    )
    by_loss = [name for name in expected if name.endswith("by loss")]
    # A sample that is left out at its aim may count as below or above.
    check_same(found, expected, without=by_loss if objective is QUADRATIC else ())
    for name in by_loss:
        np.testing.assert_allclose(
            found[name][:2].sum(), expected[name][:2].sum(), rtol=1e-6, atol=1e-8
        )
    for k, target in enumerate(targets):
        own = np.flatnonzero(target.weight)
        alone = compiled(K[np.ix_(own, own)], [target.take(own, 1.0)], fit_intercept)
        solved = alone.solve(objective)
        np.testing.assert_allclose(found["coef"][k, own], solved.coef[0], atol=1e-8)
        np.testing.assert_allclose(
            found["folds"][:, own, k],
            solved.leave_folds_out(folds.of_rows(own)).decision[..., 0],
            atol=1e-8,
        )


@both_losses
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_derivatives_of_pairs_by_kernel_values_are_those_of_finite_differences(
    fit_intercept, objective
):
    X, y, targets = pairs_of(0)
    folds = Folds.stratified(y, 5, 2, np.random.RandomState(0))
    own = np.stack([target.weight > 0 for target in targets], axis=1)
    K = kernel_of(X)[0]
    refitter = compiled(K, targets, fit_intercept)

    def value(K):
        refitter.change_kernel(K)
        decision = refitter.solve(objective).leave_folds_out(folds).decision
        return np.sin(decision)[:, own].sum()

    held_out = refitter.solve(objective).leave_folds_out(folds)
    found = held_out.derivatives(np.cos(held_out.decision)).by_kernel(len(K))
    change = np.random.default_rng(1).normal(size=K.shape)
    change += change.T
    step = 1e-6
    slope = (value(K + step * change) - value(K - step * change)) / (2 * step)
    assert np.vdot(found, change) == pytest.approx(slope, rel=1e-5)


@both_losses
def test_threads_change_nothing(monkeypatch, objective):
    X, y, targets = pairs_of(3, 90, 6)
    folds = Folds.stratified(y, 5, 1, np.random.RandomState(0))
    K, slope = kernel_of(X)
    found = []
    for n_threads in (1, 2, 5):
        monkeypatch.setattr("optimargin.held_out.compiled.n_threads_for", lambda _, n=n_threads: n)
        refitter = compiled(K, targets, True, K[:4])
        slopes = {"samples": slope, "test": slope[:4]}
        found.append(everything(refitter, objective, folds, slopes))
    for other in found[1:]:
        for name, expected in found[0].items():
            np.testing.assert_array_equal(other[name], expected, err_msg=name)


@both_losses
def test_a_fold_that_holds_a_whole_pair_is_predicted_by_the_intercept(objective):
    X, y, targets = pairs_of(4, 30, 3)
    fold = np.where(y < 2, 0, 1 + np.arange(y.size) % 2)[None].astype(np.intc)
    solved = compiled(kernel_of(X)[0], targets, True).solve(objective)
    held_out = solved.leave_folds_out(Folds(fold, 3))
    np.testing.assert_allclose(held_out.decision[0, y < 2, 0], solved.intercept[0])
    found = held_out.derivatives(np.ones_like(held_out.decision))
    assert np.isfinite(found.by_kernel(y.size)).all()


def test_rows_that_an_output_is_not_asked_for_have_the_value_of_the_model_itself():
    X, y, targets = pairs_of(6, 40, 3)
    folds = Folds.stratified(y, 4, 2, np.random.RandomState(0))
    K = kernel_of(X)[0]
    for refitter in (
        compiled(K, targets, True, K),
        NewtonRefitter(GramDesign(K), targets, True, GramTest(K)),
    ):
        for objective in (QUADRATIC, BAND):
            solved = refitter.solve(objective)
            decision = solved.predict_test().decision
            for k, target in enumerate(targets):
                others = target.weight == 0
                np.testing.assert_allclose(
                    solved.leave_one_out()[others, k], decision[others, k], atol=1e-9
                )
                left_out = solved.leave_folds_out(folds).decision[:, others, k]
                np.testing.assert_allclose(
                    left_out, np.tile(decision[others, k], (2, 1)), atol=1e-9
                )


def test_an_indefinite_matrix_is_an_error_that_says_so():
    X, _, targets = pairs_of(5)
    K = kernel_of(X)[0]
    refitter = compiled(K, targets, True)
    K = K - 1e9 * np.eye(len(K))
    refitter.change_kernel(K)
    for objective in (QUADRATIC, BAND):
        with pytest.raises(IndefiniteError, match="positive semi-definite"):
            refitter.solve(objective)


@given(
    seed=st.integers(0, 2**32 - 1),
    n_samples=st.integers(2, 50),
    fit_intercept=st.booleans(),
    steps=st.lists(
        st.tuples(st.sampled_from([0, 0, 0, 3]), st.sampled_from([-0.1, 0.1, 0.4])), max_size=12
    ),
)
@settings(max_examples=60)
def test_following_the_active_set_changes_no_solution(seed, n_samples, fit_intercept, steps):
    # Mostly D changes, so that a factor is kept while samples enter, leave and change sides.
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 3))
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=-1) / rng.uniform(1, 20))
    y = np.where(np.arange(n_samples) % 2 == 0, 1.0, -1.0)
    target = labels_target(y, rng.uniform(0.5, 2, n_samples))
    points = [ODM(2.0 ** rng.integers(0, 11), 2.0 ** rng.integers(-3, 11), 0.2)]
    for doublings, change in steps:
        last = points[-1]
        D = float(np.clip(last.D + change, 0, 0.8))
        points.append(ODM(last.C1, last.C2 * 2.0**doublings, D))
    path = compiled(K, [target], fit_intercept, K)
    decisions = path.predict_path(points)
    for p, point in enumerate(points):
        cold = compiled(K, [target], fit_intercept, K).solve(point)
        # Without a sample below the band or above it, every intercept in the band will do.
        offset = decisions[p] - cold.predict_test().decision
        assert np.ptp(offset) <= 2e-8
        if not fit_intercept:
            assert np.abs(offset).max() <= 1e-8
    warm = path.solve(points[-1])
    assert warm.objective[0] <= cold.objective[0] * (1 + 1e-10)
    np.testing.assert_allclose(warm.leave_one_out(), cold.leave_one_out(), atol=1e-6)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("point", [(4.0, 4.0, 0.0), (64.0, 16.0, 0.2), (16.0, 0.0, 0.3)])
def test_left_out_values_are_those_of_an_estimator(fit_intercept, point):
    X, y = two_classes(48, 5)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=48)
    model = ODMClassifier(*point, gamma=0.3, fit_intercept=fit_intercept, tol=1e-12)
    model.fit(X, y, sample_weight=weight)
    K = model._kernel(X)
    refitter = make_refitter(KernelData(K), ODM, [labels_target(y, weight)], fit_intercept)
    assert isinstance(refitter, CompiledRefitter)
    solved = refitter.solve(ODM(*point))
    assert solved.objective[0] == pytest.approx(model.objective_, rel=1e-12)
    fold = np.arange(48, dtype=np.intc)[None] % 4
    cv = [(np.flatnonzero(fold[0] != k), np.flatnonzero(fold[0] == k)) for k in range(4)]
    left_out = solved.leave_folds_out(Folds(fold, 4)).decision[0, :, 0]
    np.testing.assert_allclose(left_out, model.kfold_decision_function(cv), atol=1e-8)
    singles = solved.leave_one_out()[:, 0]
    np.testing.assert_allclose(singles, model.loo_decision_function(), atol=1e-8)
