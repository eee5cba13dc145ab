"""Kernel values as tiles: products, their precision, and what is measured of it."""

import numpy as np
import pytest

from optimargin.designs import PanelDesign, TileDesign
from optimargin.kernels import PreparedKernel, make_kernel

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

KERNEL = make_kernel("rbf", gamma=0.2)


def design(n_samples, *, fixed_point):
    X = np.random.default_rng(0).normal(size=(n_samples, 4))
    precise = PreparedKernel(KERNEL, X, np.float64)
    made = TileDesign(
        PreparedKernel(KERNEL, X, np.float32),
        fixed_point=fixed_point,
        precise_kernel=lambda: precise,
        make_precise=lambda: PanelDesign(precise, max_bytes=1e9),
    )
    return made, precise.block()


@pytest.mark.parametrize("n_samples", [1, 2, 127, 128, 129, 300])
@pytest.mark.parametrize("n_vectors", [1, 3])
@pytest.mark.parametrize(("fixed_point", "rounding"), [(True, 2.0**-16), (False, 2.0**-22)])
def test_products_are_those_of_the_kernel_matrix(n_samples, n_vectors, fixed_point, rounding):
    made, K = design(n_samples, fixed_point=fixed_point)
    V = np.random.default_rng(1).normal(size=(n_vectors, n_samples))
    allowed = rounding * np.abs(V).sum(axis=1, keepdims=True) + 1e-12
    assert (np.abs(made.product(V) - V @ K) <= allowed).all()


def test_sixteen_bits_take_half_the_memory_of_single_precision():
    fixed, single = (design(300, fixed_point=fixed)[0] for fixed in (True, False))
    assert 2 * fixed.tiles.nbytes == single.tiles.nbytes
    assert fixed.tiles.nbytes == TileDesign.n_bytes(300, fixed_point=True)


@pytest.mark.parametrize("fixed_point", [True, False])
def test_errors_of_decision_values_are_within_their_estimate(fixed_point):
    made, K = design(700, fixed_point=fixed_point)
    coef = np.random.default_rng(2).normal(size=700)
    decision = made.decision(coef)
    weight = np.full(700, 1 / 700)
    mean_square, largest, value_error = made.rounding(coef, decision, weight)
    error = decision - K @ coef
    assert weight @ error**2 <= mean_square
    assert np.abs(error).max() <= largest
    change = np.abs(made.stored_block(np.arange(700)) - K)
    assert (change <= np.outer(value_error, value_error)).all()


@pytest.mark.parametrize("n_first", [128, 256])
def test_samples_are_kept_as_they_are_asked_for(n_first):
    made, K = design(300, fixed_point=False)
    assert made.order.size == made.n_values == 0
    chosen = np.random.default_rng(3).permutation(300)
    made.keep(chosen[:n_first])
    first = made.order.copy()
    assert sorted(first) == sorted(chosen[:n_first])
    coef = np.random.default_rng(4).normal(size=n_first)
    inside = made.product_in_order(coef[None])[0]
    np.testing.assert_allclose(inside, K[np.ix_(first, first)] @ coef, atol=1e-4)
    outside = made.outside
    assert sorted([*first, *outside]) == list(range(300))
    decision = made.decision_outside(outside, coef)
    np.testing.assert_allclose(decision, K[np.ix_(outside, first)] @ coef, atol=1e-4)
    made.keep(outside)
    np.testing.assert_array_equal(made.order[:n_first], first)
    padded = np.zeros((1, made.n_padded))
    padded[0, :n_first] = coef
    everywhere = made.product_in_order(padded)[0, :300]
    np.testing.assert_allclose(everywhere, K[np.ix_(made.order, first)] @ coef, atol=1e-4)
