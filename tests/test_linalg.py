"""The one Cholesky factor: exact where it can be, and never without an answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import LinAlgError

from optimargin._linalg import Factor, solve_spd

pytestmark = [pytest.mark.quick, pytest.mark.numbers]


def definite(n, seed=0):
    Z = np.random.default_rng(seed).normal(size=(n, n + 3))
    return Z @ Z.T


@pytest.mark.parametrize("n", [1, 2, 30])
@pytest.mark.parametrize("shape", [(), (4,)], ids=["vector", "matrix"])
def test_a_definite_system_is_solved_exactly(n, shape):
    A = definite(n)
    x = np.random.default_rng(1).normal(size=(n, *shape))
    factor = Factor(A)
    assert factor.ridge == 0
    np.testing.assert_allclose(factor.solve(A @ x), x, atol=1e-10)
    np.testing.assert_allclose(solve_spd(A, A @ x), x, atol=1e-10)


def test_the_lower_triangle_is_enough_and_nothing_is_overwritten():
    A = definite(12)
    lower = np.tril(A)
    given, b = lower.copy(), np.arange(12.0)
    for array in (given, b):
        array.flags.writeable = False
    np.testing.assert_allclose(solve_spd(given, b), np.linalg.solve(A, b), atol=1e-11)
    np.testing.assert_array_equal(given, lower)
    np.testing.assert_allclose(
        Factor(given, shift=2.0).solve(b), np.linalg.solve(A + 2 * np.eye(12), b), atol=1e-11
    )
    np.testing.assert_array_equal(given, lower)


def test_the_parts_of_a_factor_are_what_they_say():
    A = definite(9)
    factor = Factor(A)
    np.testing.assert_array_equal(factor.lower, np.tril(factor.lower))
    np.testing.assert_allclose(factor.lower @ factor.lower.T, A, atol=1e-11)
    root = factor.inverse_root()
    np.testing.assert_array_equal(root, np.triu(root))
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(A), atol=1e-11)


@pytest.mark.parametrize("shape", [(5,), (5, 2)])
def test_a_singular_system_is_solved_downhill(shape):
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(5, 3))
    A = factor @ factor.T
    b = A @ rng.normal(size=shape)
    solution = solve_spd(A.copy(), b.copy())
    np.testing.assert_allclose(A @ solution, b, atol=1e-6)
    assert (np.sum(b * solution, axis=0) > 0).all()


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 12),
    shift=st.sampled_from([0.0, 1e-3]),
    lowest=st.sampled_from([-1.0, -1e-3, -1e-12, 0.0]),
)
def test_an_indefinite_matrix_has_its_diagonal_raised_until_it_descends(seed, n, shift, lowest):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    values = np.append(rng.uniform(0.1, 10.0, size=n - 1), lowest)
    A = np.ascontiguousarray((Q * values) @ Q.T)
    A = (A + A.T) / 2
    b = rng.normal(size=n)
    factor = Factor(A, shift=shift)
    solution = factor.solve(b)
    raised = factor.lower @ factor.lower.T
    assert np.isfinite(solution).all()
    rounding = 1e-13 * np.abs(raised).max() * np.abs(solution).max()
    np.testing.assert_allclose(raised @ solution, b, rtol=1e-9, atol=rounding)
    assert b @ solution > 0
    # Only the diagonal was changed, and only upwards.
    scale = np.abs(raised).max()
    np.testing.assert_allclose(
        raised - np.diag(np.diagonal(raised)), A - np.diag(np.diagonal(A)), atol=1e-10 * scale
    )
    assert (np.diagonal(raised) >= np.diagonal(A) + shift - 1e-12 * scale).all()
    assert (factor.ridge > 0) or np.linalg.eigvalsh(A)[0] + shift > -1e-10


def test_columns_of_very_different_scale_are_raised_relative_to_themselves():
    scale = np.array([1e-6, 1.0, 1e6])
    A = np.ones((3, 3)) * np.outer(scale, scale)
    b = A @ np.array([1.0, 0.0, 0.0])
    solution = solve_spd(A, b)
    assert np.isfinite(solution).all()
    np.testing.assert_allclose(A @ solution, b, rtol=1e-3)


@pytest.mark.parametrize("A", [np.zeros((3, 3)), -np.eye(3)], ids=["zeros", "negative"])
def test_a_matrix_without_anything_positive_has_an_answer(A):
    solution = solve_spd(A, np.ones(3))
    assert np.isfinite(solution).all()
    assert (solution > 0).all()


@pytest.mark.parametrize("where", [(0, 0), (2, 1), (2, 2)])
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_values_that_are_not_finite_are_an_error(where, shift):
    A = definite(3)
    A[where] = np.nan
    with pytest.raises(LinAlgError, match="not finite"):
        Factor(A, shift=shift)
    with pytest.raises(LinAlgError, match="not finite"):
        solve_spd(A, np.ones(3))


def test_an_infinite_right_side_does_not_loop_for_ever():
    with pytest.raises(LinAlgError):
        solve_spd(np.eye(3), np.array([1.0, np.inf, 0.0]))


def test_an_empty_system_has_an_empty_solution():
    assert solve_spd(np.empty((0, 0)), np.empty(0)).shape == (0,)
