"""Many compiled problems of the band loss: factors that follow the active set, and edge cases."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from optimargin._core._small_systems import SmallSystems

BAND, QUADRATIC = (32.0, 8.0, 0.2), (4.0, 4.0, 0.0)


def make(seed, n_samples, rows=None, *, fit_intercept=True, n_outputs=1):
    """Return problems of labels over some rows each, told a Gram matrix, and that matrix."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 3))
    K = np.exp(-0.2 * ((X[:, None] - X) ** 2).sum(axis=-1))
    rows = [np.arange(n_samples)] if rows is None else rows
    y = np.concatenate([rng.choice([-1.0, 1.0], own.size * n_outputs) for own in rows])
    weight = [rng.uniform(0.5, 2.0, own.size) / max(own.size, 1) for own in rows]
    made = SmallSystems(rows, [n_outputs] * len(rows), y, y, weight, fit_intercept)
    made.change_kernel(K)
    return made, K


def solve(systems, *points):
    systems.solve(np.array(points, dtype=float), 1)


def bordered_inverse(K, systems):
    """Return the active set, the inverse of [K + 1 / c, 1; 1', 0] and the right-hand side."""
    curvature = systems.curvature()
    active = np.flatnonzero(curvature)
    k = active.size
    matrix = np.zeros((k + 1, k + 1))
    matrix[:k, :k] = K[np.ix_(active, active)] + np.diag(1.0 / curvature[active])
    matrix[k, :k] = matrix[:k, k] = 1.0
    return active, np.linalg.inv(matrix), np.append(systems.aim[active], 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_every_point_of_a_path_solves_its_system_and_leaves_samples_out_of_it(seed):
    systems, K = make(seed, 60)
    rng = np.random.default_rng(seed)
    n_changed, last = 0, np.empty(0)
    for D in np.repeat(rng.uniform(0.3, 0.8, 12), 2):
        solve(systems, (2048.0, 512.0, D))
        active, inverse, right = bordered_inverse(K, systems)
        n_changed += not np.array_equal(active, last)
        last = active
        solution = inverse @ right
        assert_allclose(systems.theta[active], solution[:-1], atol=1e-8)
        assert_allclose(systems.intercept[0], solution[-1], atol=1e-8)
        assert np.count_nonzero(systems.theta) <= active.size
        assert_allclose(K @ systems.theta, systems.decision, atol=1e-10)
        if D > 0.5:  # the factor is kept across the others
            expected = systems.aim[active] - solution[:-1] / np.diag(inverse)[:-1]
            assert_allclose(systems.left_out()[active], expected, atol=1e-7)
    assert n_changed > 5  # samples entered and left


@pytest.mark.parametrize("point", [BAND, QUADRATIC])
def test_what_is_asked_in_between_does_not_change_what_comes_after(point):
    slope, fold = np.ones(30), np.arange(30, dtype=np.intc)[None] % 3
    asked, _ = make(0, 30)
    solve(asked, point)
    values = asked.leave_folds_out(fold, 3, 1)
    by_aim = asked.adjoint(slope, np.ones(1))
    singles = asked.left_out()
    for _ in range(2):
        assert_allclose(asked.left_out(), singles, atol=1e-12)
        assert_allclose(asked.leave_folds_out(fold, 3, 1), values, atol=1e-12)
        assert_allclose(asked.adjoint(slope, np.ones(1)), by_aim, atol=1e-12)
    found = asked.differentiate(fold, 3, slope[None], 1)
    fresh, _ = make(0, 30)
    solve(fresh, point)
    for one, other in zip(found, fresh.differentiate(fold, 3, slope[None], 1), strict=True):
        assert_allclose(one, other, atol=1e-12)


def test_the_adjoint_is_the_derivative_by_aims():
    systems, K = make(1, 25)
    solve(systems, BAND)
    active, inverse, _ = bordered_inverse(K, systems)
    rng = np.random.default_rng(0)
    slope, total = rng.normal(size=25), rng.normal(size=1)
    expected = inverse @ np.append(slope[active], total)
    found = systems.adjoint(slope, total)
    assert_allclose(found[active], expected[:-1], atol=1e-10)
    assert not np.delete(found, active).any()


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("point", [BAND, QUADRATIC, (16.0, 0.0, 0.3)])
def test_problems_without_rows_or_of_one_row_have_finite_answers(point, fit_intercept):
    rows = [np.arange(0), np.array([3]), np.array([1, 4]), np.arange(0), np.arange(6)]
    rows = [own.astype(np.intp) for own in rows]
    systems, _ = make(2, 6, rows, fit_intercept=fit_intercept)
    solve(systems, *[point] * len(rows))
    fold = np.array([[0, 1, 0, 1, 0, 1], [0, 0, 0, 0, 0, 1]], dtype=np.intc)
    values = systems.leave_folds_out(fold, 2, 2)
    assert np.isfinite(values).all()
    by_aim, by_log, left, coef = systems.differentiate(fold, 2, np.ones_like(values), 2)
    answers = by_aim, by_log, left, coef, systems.by_kernel(left, coef, 6), systems.left_out()
    assert all(np.isfinite(answer).all() for answer in answers)
    assert np.isfinite(systems.adjoint(np.ones(9), np.ones(5))).all()
    assert systems.theta.shape == (9,)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_no_active_sample_leaves_every_value_as_it_is(fit_intercept):
    systems, _ = make(5, 5, fit_intercept=fit_intercept)
    solve(systems, (8.0, 8.0, 1.5))  # a band so wide that the model of zeros is in it
    assert not systems.curvature().any()
    assert_allclose(systems.left_out(), systems.decision + systems.intercept[0])
    fold = np.arange(5, dtype=np.intc)[None] % 2
    values = systems.leave_folds_out(fold, 2, 1)
    assert_allclose(values[0], systems.left_out())
    *by_system, left, coef = systems.differentiate(fold, 2, np.ones((1, 5)), 1)
    assert not np.any(by_system)
    assert_allclose(left, [fold[0] == 0, fold[0] == 1])
    assert_allclose(coef, [systems.theta, systems.theta])
    assert not systems.adjoint(np.ones(5), np.ones(1)).any()


def test_outputs_that_share_a_factor_are_what_each_is_alone():
    systems, K = make(3, 20, n_outputs=3)
    solve(systems, QUADRATIC)
    curvature = systems.curvature().reshape(3, 20)
    assert_allclose(curvature, np.tile(curvature[0], (3, 1)))
    fold = np.arange(20, dtype=np.intc)[None] % 4
    values = systems.leave_folds_out(fold, 4, 1)[0].reshape(3, 20)
    aim = systems.aim.reshape(3, 20)
    weight = curvature[0] / (2.0 * QUADRATIC[0])
    for k in range(3):
        alone = SmallSystems([np.arange(20)], [1], aim[k].copy(), aim[k].copy(), [weight], True)
        alone.change_kernel(K)
        solve(alone, QUADRATIC)
        assert_allclose(systems.theta.reshape(3, 20)[k], alone.theta, atol=1e-12)
        assert_allclose(values[k], alone.leave_folds_out(fold, 4, 1)[0], atol=1e-10)


@pytest.mark.parametrize("point", [BAND, QUADRATIC])
def test_an_indefinite_matrix_is_an_error_whatever_was_solved_before(point):
    systems, K = make(4, 12)
    solve(systems, point)
    systems.change_kernel(K - 1e9 * np.eye(12))
    with pytest.raises(FloatingPointError, match="positive semi-definite"):
        solve(systems, point)
    systems.change_kernel(K)
    solve(systems, point)
    fresh, _ = make(4, 12)
    solve(fresh, point)
    assert_allclose(systems.theta, fresh.theta, atol=1e-8)
