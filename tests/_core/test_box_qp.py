"""Quadratics over a box: the compiled active set method."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from optimargin._core._box_qp import BoxQP

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

TOL = 1e-9


def quadratic(seed, n, rank, *, duplicates=False):
    """Return a random matrix of a given rank, a linear term and a box."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, rank))
    if duplicates:
        Z = Z[rng.integers(n, size=n)]
    return Z @ Z.T, rng.normal(size=n), rng.uniform(0.1, 2.0, size=n)


def violation(Q, b, width, a):
    """Return by how much a point misses the conditions of a minimum."""
    assert ((a >= 0) & (a <= width)).all()
    gradient = Q @ a - b
    inside = np.where(a <= 0, np.minimum(gradient, 0), gradient)
    return np.abs(np.where(a >= width, np.maximum(inside, 0), inside)).max()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 40),
    rank=st.integers(1, 50),
    duplicates=st.booleans(),
    n_sweeps=st.sampled_from([0, 3]),
)
def test_minimum_is_found_whatever_the_rank(seed, n, rank, duplicates, n_sweeps):
    Q, b, width = quadratic(seed, n, rank, duplicates=duplicates)
    a = width * np.random.default_rng(seed).choice([0.0, 0.5, 1.0], size=n)
    assert BoxQP(Q).solve(b, width, a, TOL, n_sweeps)
    # A gradient below the tolerance was computed step by step: allow for rounding.
    assert violation(Q, b, width, a) <= 10 * TOL * max(1.0, np.trace(Q))


@pytest.mark.parametrize("rank", [5, 80])
def test_next_problem_goes_on_from_the_last(rank):
    Q, b, width = quadratic(0, 60, rank)
    box, a = BoxQP(Q), np.zeros(60)
    box.solve(b, width, a, TOL)
    cold = box.n_steps
    for shift in (0.01, 0.02, 0.03):
        start = a.copy()
        assert box.solve(b + shift, width, a, TOL)
        assert box.n_steps < cold / 2
        fresh = BoxQP(Q)
        assert fresh.solve(b + shift, width, start, TOL)
        assert_allclose(Q @ a, Q @ start, atol=1e-6)


def test_solution_is_known_in_closed_form_for_a_diagonal():
    Q, b = np.diag([1.0, 2.0, 4.0, 1.0]), np.array([5.0, 1.0, -3.0, 0.25])
    a = np.zeros(4)
    assert BoxQP(Q).solve(b, np.ones(4), a, TOL)
    assert_allclose(a, [1.0, 0.5, 0.0, 0.25])


def test_too_few_steps_are_said():
    Q, b, width = quadratic(1, 50, 60)
    assert not BoxQP(Q).solve(b, width, np.zeros(50), TOL, 0, 2)


def test_zero_matrix_ends_in_a_corner():
    a = np.full(3, 0.5)
    assert BoxQP(np.zeros((3, 3))).solve(np.array([1.0, -1.0, 2.0]), np.ones(3), a, TOL)
    assert_allclose(a, [1.0, 0.0, 1.0])
