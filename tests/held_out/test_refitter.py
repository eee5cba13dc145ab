"""Refitters: the same values and derivatives from every one that can take the data."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from optimargin.designs import FeatureDesign, GramDesign, LinearGramDesign
from optimargin.held_out.compiled import CompiledRefitter
from optimargin.held_out.engine import KernelData, LinearData, make_refitter
from optimargin.held_out.refitter import GramTest, NewtonRefitter, Solved
from optimargin.kernels import Kernel, gamma_of_width, squared_distances
from optimargin.losses import BandLoss
from optimargin.objectives import LDM, ODM
from optimargin.systems import Folds, OutlivedError
from optimargin.targets import Target
from tests.cases import labels_target, two_classes
from tests.python_losses import PlainODM

pytestmark = pytest.mark.numbers

N_TRAIN, N_TEST = 40, 15
OBJECTIVES = [ODM(64.0, 16.0, 0.2), ODM(4.0, 4.0, 0.0), ODM(256.0, 8.0, 0.4)]
every_objective = pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])


def plain(objective):
    return PlainODM(objective.C1, objective.C2, objective.D)


@pytest.fixture
def data():
    """Return rows and test rows, and targets of three outputs, the last of them numbers."""
    X, y = two_classes(N_TRAIN + N_TEST, 4)
    rng = np.random.default_rng(7)
    weight = rng.uniform(0.5, 2.0, size=N_TRAIN)
    other = np.where(X[:N_TRAIN, 0] > 0.5, 1.0, -1.0)
    targets = [labels_target(signs, weight) for signs in (y[:N_TRAIN], other)]
    numbers = rng.normal(size=N_TRAIN)
    targets.append(Target(numbers, rng.choice([-1.0, 1.0], N_TRAIN), targets[0].weight))
    return X[:N_TRAIN], X[N_TRAIN:], targets


@pytest.fixture
def folds():
    encoded = np.arange(N_TRAIN) % 2
    return Folds.stratified(encoded, 5, 2, np.random.RandomState(0))


def kernels_of(X, X_test, log_width=0.0):
    """Return kernel values, those of the test rows, and the slopes of both by the width."""
    kernel = Kernel("rbf", gamma_of_width(np.exp(log_width)))
    values, slopes = [], {}
    for name, rows in (("samples", X), ("test", X_test)):
        distances = squared_distances(rows, X)
        values.append(kernel.of_distances(distances))
        slopes[name] = kernel.width_slope(distances, values[-1])
    return *values, slopes


def kernel_refitters(data, fit_intercept, log_width=0.0):
    """Return the refitters of a kernel: by Newton's method, and compiled."""
    X, X_test, targets = data
    K, K_test, _ = kernels_of(X, X_test, log_width)
    design = GramDesign(np.eye(N_TRAIN))
    made = [kind(design, targets, fit_intercept) for kind in (NewtonRefitter, CompiledRefitter)]
    for refitter in made:
        refitter.change_kernel(K, K_test)
    return made


def linear_refitters(data, fit_intercept, folds=None):
    """Return the refitters of linear data: over features and over samples."""
    X, X_test, targets = data
    center = X.mean(axis=0)
    design, test = FeatureDesign(X, center), FeatureDesign(X_test, center)
    gram, K_test = LinearGramDesign(X, center), (X_test - center) @ (X - center).T
    return (
        NewtonRefitter(design, targets, fit_intercept, test),
        NewtonRefitter(design, targets, fit_intercept, test, folds=folds),
        NewtonRefitter(gram, targets, fit_intercept, GramTest(K_test)),
        CompiledRefitter(gram, targets, fit_intercept, GramTest(K_test)),
    )


def smooth(decision):
    """Return a smooth function of decision values, and its derivatives."""
    phase = np.arange(decision.size).reshape(decision.shape)
    return float(np.sin(decision + phase).sum()), np.cos(decision + phase)


def values_of(refitter, objective, folds, slopes=None):
    """Return all that can be asked of a solve, as arrays."""
    solved = refitter.solve(objective)
    found = {
        "coef": solved.coef,
        "intercept": solved.intercept,
        "objective": solved.objective,
        "singles": solved.leave_one_out(),
    }
    for name, held_out in (
        ("folds", solved.leave_folds_out(folds)),
        ("test", solved.predict_test()),
    ):
        derivatives = held_out.derivatives(smooth(held_out.decision)[1])
        found[name] = held_out.decision
        found[f"{name} by loss"] = derivatives.by_loss
        if slopes is not None:
            found[f"{name} by width"] = derivatives.by_width(slopes)
    return found


def check_same(found, expected, atol):
    assert found.keys() == expected.keys()
    for name in expected:
        scale = max(1.0, np.abs(expected[name]).max())
        np.testing.assert_allclose(found[name], expected[name], atol=atol * scale, err_msg=name)


@every_objective
@with_and_without_intercept
def test_kernels_have_the_same_values_and_derivatives_everywhere(
    data, folds, objective, fit_intercept
):
    slopes = kernels_of(*data[:2])[2]
    by_newton, compiled = kernel_refitters(data, fit_intercept)
    expected = values_of(by_newton, objective, folds, slopes)
    assert expected["folds"].shape == (2, N_TRAIN, 3)
    assert expected["test"].shape == (N_TEST, 3)
    assert expected["folds by width"] != 0 != expected["test by width"]
    check_same(values_of(compiled, objective, folds, slopes), expected, 1e-8)
    python = kernel_refitters(data, fit_intercept)[0]
    check_same(values_of(python, plain(objective), folds, slopes), expected, 1e-8)


@every_objective
@with_and_without_intercept
def test_linear_data_have_the_same_values_and_derivatives_everywhere(
    data, folds, objective, fit_intercept
):
    first, *others = (
        values_of(refitter, objective, folds)
        for refitter in linear_refitters(data, fit_intercept, folds)
    )
    assert first["coef"].shape == (3, 4)
    for other in others:
        check_same(other, first, 1e-7)
    python = linear_refitters(data, fit_intercept)[0]
    check_same(values_of(python, plain(objective), folds), first, 1e-7)


def difference(function, step=1e-6):
    return (function(step) - function(-step)) / (2 * step)


@pytest.mark.parametrize("objective", [OBJECTIVES[0], OBJECTIVES[2]], ids=str)
@with_and_without_intercept
@pytest.mark.parametrize("which", [0, 1], ids=["newton", "compiled"])
@pytest.mark.parametrize("of", ["folds", "test"])
def test_derivatives_are_those_of_finite_differences(
    data, folds, objective, fit_intercept, which, of
):
    def value(moved, log_width=0.0):
        refitter = kernel_refitters(data, fit_intercept, log_width)[which]
        return smooth(values_of(refitter, moved, folds)[of])[0]

    expected = [
        difference(lambda t: value(replace(objective, C1=objective.C1 * np.exp(t)))),
        difference(lambda t: value(replace(objective, C2=objective.C2 * np.exp(t)))),
        difference(lambda t: value(replace(objective, D=objective.D + t))),
        difference(lambda t: value(objective, t)),
    ]
    slopes = kernels_of(*data[:2])[2]
    found = values_of(kernel_refitters(data, fit_intercept)[which], objective, folds, slopes)
    derivatives = [*found[f"{of} by loss"], found[f"{of} by width"]]
    np.testing.assert_allclose(derivatives, expected, rtol=1e-4, atol=1e-5)


@with_and_without_intercept
@pytest.mark.parametrize("make", [kernel_refitters, linear_refitters])
def test_the_next_solve_goes_on_from_the_last_and_ends_as_a_first_one(
    data, folds, fit_intercept, make
):
    for warm, cold in zip(make(data, fit_intercept), make(data, fit_intercept), strict=True):
        for objective in OBJECTIVES[:2]:
            warm.solve(objective)
        expected = values_of(cold, OBJECTIVES[2], folds)
        check_same(values_of(warm, OBJECTIVES[2], folds), expected, 1e-7)


@with_and_without_intercept
def test_paths_are_the_predictions_of_one_solve_after_another(data, fit_intercept):
    for refitter in refitters(data, fit_intercept):
        expected = [refitter.solve(each).predict_test().decision for each in OBJECTIVES]
        path = refitter.predict_path(OBJECTIVES)
        assert path.shape == (3, N_TEST, 3)
        np.testing.assert_allclose(path, expected, atol=1e-8)


def refitters(data, fit_intercept):
    return (*kernel_refitters(data, fit_intercept), *linear_refitters(data, fit_intercept))


@pytest.mark.parametrize("which", range(6))
@pytest.mark.parametrize("first", OBJECTIVES[:2], ids=str)
@pytest.mark.parametrize("asked", [False, True], ids=["solved again", "and asked"])
def test_what_was_found_is_refused_or_unchanged_after_another_solve(
    data, folds, which, first, asked
):
    """Where another system solves the second problem, that of the first may still be asked."""
    refitter = refitters(data, True)[which]
    slope = np.ones((2, N_TRAIN, 3))
    solved = refitter.solve(first)
    held_out = solved.leave_folds_out(folds)
    questions = [
        lambda: held_out.derivatives(slope).by_loss,
        lambda: solved.predict_test().derivatives(slope[0, :N_TEST]).by_loss,
        lambda: solved.leave_folds_out(folds).decision,
        solved.leave_one_out,
    ]
    expected = [ask() for ask in questions]
    for ask, before in zip(questions, expected, strict=True):
        np.testing.assert_allclose(ask(), before, atol=1e-9)
    again = refitter.solve(OBJECTIVES[2])
    if asked:
        again.leave_folds_out(folds)
    for ask, before in zip(questions, expected, strict=True):
        try:
            found = ask()
        except OutlivedError:
            continue
        np.testing.assert_allclose(found, before, atol=1e-9)


@pytest.mark.parametrize("which", [0, 1], ids=["newton", "compiled"])
def test_what_was_found_is_refused_or_unchanged_after_another_kernel(data, folds, which):
    refitter = kernel_refitters(data, True)[which]
    slope = np.ones((2, N_TRAIN, 3))
    held_out = refitter.solve(OBJECTIVES[0]).leave_folds_out(folds)
    expected = held_out.derivatives(slope)
    refitter.change_kernel(*kernels_of(*data[:2], 1.0)[:2])
    refitter.solve(OBJECTIVES[0])
    try:
        found = held_out.derivatives(slope)
    except OutlivedError:
        return
    np.testing.assert_allclose(found.by_loss, expected.by_loss, atol=1e-9)


def test_features_are_let_go_before_others_are_told(data, folds):
    X, _, targets = data
    refitter = NewtonRefitter(FeatureDesign(X), targets, True)
    solved = refitter.solve(OBJECTIVES[0])
    held_out = solved.leave_folds_out(folds)
    refitter.change_design(None)
    assert all(part.system is None for part in refitter._now)
    for ask in (solved.leave_one_out, lambda: held_out.derivatives(held_out.decision)):
        with pytest.raises(OutlivedError):
            ask()
    refitter.change_design(FeatureDesign(X))
    again = refitter.solve(OBJECTIVES[0]).leave_folds_out(folds).decision
    np.testing.assert_allclose(again, held_out.decision, atol=1e-9)


def test_parts_do_not_hold_features_that_were_let_go(data, folds):
    X, _, targets = data
    refitter = NewtonRefitter(FeatureDesign(X), targets, True)
    design = weakref.ref(refitter.design)
    held_out = refitter.solve(OBJECTIVES[0]).leave_folds_out(folds)
    held_out.derivatives(held_out.decision)
    del held_out
    refitter.change_design(None)
    gc.collect()
    assert design() is None


def test_what_has_no_closed_form_says_so():
    bare = Solved(*np.zeros((4, 1)), None)
    with pytest.raises(TypeError, match="no closed form"):
        bare.leave_one_out()
    with pytest.raises(TypeError, match="no closed form"):
        bare.leave_folds_out(None)


def test_the_refitter_follows_from_the_data_and_the_objective(data):
    X, X_test, targets = data
    K, K_test, _ = kernels_of(X, X_test)
    rng = np.random.default_rng(0)
    many, signs = rng.normal(size=(400, 4)), np.where(np.arange(400) % 3 == 0, 1.0, -1.0)
    wide = rng.normal(size=(N_TRAIN, 60))
    kernel, linear = KernelData(K, K_test), LinearData(X)
    uneven = LinearData(X * 10.0 ** np.arange(-4, 4, 2))  # of which inner products lose digits
    for rows, objective_type, asked, *expected in [
        (kernel, ODM, targets, CompiledRefitter, GramDesign),
        (kernel, OtherODM, targets, NewtonRefitter, GramDesign),
        (linear, ODM, targets, CompiledRefitter, LinearGramDesign),
        (linear, OtherODM, targets, NewtonRefitter, FeatureDesign),
        (uneven, ODM, targets, NewtonRefitter, FeatureDesign),
        (LinearData(sp.csr_array(X)), ODM, targets, NewtonRefitter, FeatureDesign),
        (LinearData(many), ODM, [labels_target(signs)], NewtonRefitter, FeatureDesign),
        (LinearData(wide), ODM, targets, CompiledRefitter, LinearGramDesign),
        (LinearData(wide), OtherODM, targets, NewtonRefitter, LinearGramDesign),
    ]:
        made = make_refitter(rows, objective_type, asked, True)
        assert [type(made), type(made.design)] == expected
    with pytest.raises(TypeError, match="No refitter takes a list"):
        make_refitter([], ODM, targets, True)


class OtherODM(PlainODM):
    """A machine whose loss is not the compiled one."""


@with_and_without_intercept
def test_refitters_of_wide_data_agree_on_test_samples(fit_intercept):
    rng = np.random.default_rng(0)
    X, X_test = rng.normal(size=(12, 30)) + 1.0, rng.normal(size=(5, 30)) + 1.0
    target = labels_target(np.where(np.arange(12) % 3 == 0, 1.0, -1.0))
    center = X.mean(axis=0) if fit_intercept else None
    data = LinearData(X, center, X_test)
    objective = ODM(8.0, 2.0, 0.2)
    compiled = make_refitter(data, ODM, [target], fit_intercept).solve(objective)
    by_numpy = make_refitter(data, OtherODM, [target], fit_intercept).solve(plain(objective))
    expected = X_test @ compiled.coef[0] + compiled.intercept[0]
    for solved in (compiled, by_numpy):
        np.testing.assert_allclose(solved.predict_test().decision[:, 0], expected, atol=1e-9)
    np.testing.assert_allclose(by_numpy.coef, compiled.coef, atol=1e-9)
    sparse = LinearData(sp.csr_array(X), None, sp.csr_array(X_test))
    solved = make_refitter(sparse, ODM, [target], fit_intercept).solve(objective)
    uncentred = LinearData(X, None, X_test)
    dense = make_refitter(uncentred, ODM, [target], fit_intercept).solve(objective)
    np.testing.assert_allclose(
        solved.predict_test().decision, dense.predict_test().decision, atol=1e-9
    )


@with_and_without_intercept
@pytest.mark.parametrize("make", ["kernel", "linear", "wide"])
def test_refitters_of_the_ldm_predict_as_their_coefficients_say(data, fit_intercept, make):
    X, X_test, targets = data
    targets = targets[:2]
    objective = LDM(0.25, 0.1, 10.0)
    if make == "kernel":
        K, K_test, _ = kernels_of(X, X_test)
        refitter = make_refitter(KernelData(K, K_test), LDM, targets, fit_intercept)
        rows = K_test
    else:
        rng = np.random.default_rng(0)
        if make == "wide":
            X, X_test = rng.normal(size=(N_TRAIN, 60)), rng.normal(size=(N_TEST, 60))
        refitter = make_refitter(LinearData(X, None, X_test), LDM, targets, fit_intercept)
        rows = X_test
    solved = refitter.solve(objective)
    coef = solved.coef
    if make != "kernel":
        assert isinstance(refitter.design, LinearGramDesign)
        coef = np.array([refitter.design.to_features(theta)[0] for theta in coef])
    expected = rows @ coef.T + solved.intercept
    np.testing.assert_allclose(solved.predict_test().decision, expected, atol=1e-7)
    with pytest.raises(TypeError, match="no closed form"):
        solved.leave_one_out()


def test_the_loss_of_the_machine_is_the_band_loss():
    assert ODM(4.0, 1.0, 0.1).loss() == BandLoss(4.0, 1.0, 0.1)


@pytest.mark.parametrize("which", range(6))
def test_outputs_share_a_system_where_they_have_one_quadratic_loss(data, which):
    refitter = refitters(data, True)[which]
    n_together, n_alone = (
        len(refitter._now) if isinstance(refitter, NewtonRefitter) else refitter._now.n_problems
        for objective in (ODM(8.0, 8.0, 0.0), ODM(8.0, 4.0, 0.0))
        if refitter.solve(objective)
    )
    assert (n_together, n_alone) == (1, 3)
