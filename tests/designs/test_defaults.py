"""What a design need not write itself: defaults that agree with the designs that do."""

import numpy as np
import pytest

from optimargin.designs import (
    FeatureDesign,
    FeatureSpaceDesign,
    GramDesign,
    SampleSpaceDesign,
)
from optimargin.designs.base import by_space
from optimargin.held_out.closed_form import leave_one_out
from optimargin.solvers import SOLVERS, Newton
from tests.cases import LOSSES, make_problem, two_classes

pytestmark = pytest.mark.quick


class PlainFeatures(FeatureSpaceDesign):
    """Features with the abstract methods alone."""

    def __init__(self, X):
        self._X = X
        self.n_samples, self.n_coef = X.shape

    def feature_rows(self, rows):
        """Return the features."""
        return self._X[rows]


class PlainKernel(SampleSpaceDesign):
    """A Gram matrix with the abstract methods alone."""

    def __init__(self, K):
        self._K = K
        self.n_samples = self.n_coef = len(K)

    def product(self, V):
        """Return ``V @ K``."""
        return V @ self._K

    def columns(self, columns, rows=slice(None)):
        """Return columns."""
        return self._K[:, columns][rows]

    @property
    def squared_norms(self):
        """The diagonal."""
        return np.diagonal(self._K).copy()


PAIRS = {
    "features": lambda X: (PlainFeatures(X), FeatureDesign(X)),
    "samples": lambda X: (PlainKernel(X @ X.T), GramDesign(X @ X.T)),
}
both_kinds = pytest.mark.parametrize("kind", PAIRS)


@pytest.fixture(params=[1 << 18, 50], ids=["one-block", "blocks"])
def X(request, monkeypatch):
    monkeypatch.setattr("optimargin.kernels.prepared._BLOCK_ELEMENTS", request.param)
    return two_classes(60, 4)[0]


@both_kinds
def test_products_are_those_of_the_real_design(kind, X):
    plain, real = PAIRS[kind](X)
    rng = np.random.default_rng(0)
    v, r, other = (rng.normal(size=size) for size in (plain.n_coef, 60, plain.n_coef))
    r[::3] = 0.0
    np.testing.assert_allclose(plain.decision(v), real.decision(v), atol=1e-12)
    np.testing.assert_allclose(plain.represent(r), real.represent(r), atol=1e-12)
    np.testing.assert_allclose(plain.represent(0 * r), 0.0)
    np.testing.assert_allclose(plain.metric(v), real.metric(v), atol=1e-11)
    np.testing.assert_allclose(plain.squared_norms, real.squared_norms, rtol=1e-12)
    decision = real.decision(v)
    residual = v - real.represent(r)
    for found, expected in zip(
        plain.residual_image(residual, v, decision, r),
        real.residual_image(residual, v, decision, r),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        plain.decision_step(other, v, decision), real.decision_step(other, v, decision), atol=1e-11
    )
    np.testing.assert_array_equal(plain.sample_coefficients(v, r), real.sample_coefficients(v, r))


@both_kinds
def test_row_access_starts_at_the_same_point_and_moves_the_same_way(kind, X):
    plain, real = PAIRS[kind](X)
    y = two_classes(60, 4)[1]
    found, expected = (
        SOLVERS["dcd"](tol=1e-10, max_iter=7).solve(
            make_problem(LOSSES[1], design, y, fit_intercept=True), start, 0.1
        )
        for design, start in ((plain, None), (real, None))
    )
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-9)
    assert found.objective == pytest.approx(expected.objective, rel=1e-12)
    r = np.random.default_rng(1).normal(size=60)
    np.testing.assert_allclose(plain.rows(r)[1], real.rows(r)[1], atol=1e-11)
    np.testing.assert_array_equal(plain.rows(0 * r)[1], np.zeros(plain.rows(r)[1].size))


def test_products_of_features_are_those_of_the_real_design(X):
    plain, real = PAIRS["features"](X)
    rng = np.random.default_rng(0)
    weight, v = rng.normal(size=60), rng.normal(size=4)
    weight[::4] = 0.0
    gram = np.tril(plain.weighted_gram(weight))
    np.testing.assert_allclose(gram, np.tril(real.weighted_gram(weight)), atol=1e-11)
    np.testing.assert_array_equal(plain.weighted_gram(np.zeros(60)), np.zeros((5, 5)))
    rows, c = np.arange(1, 60, 3), rng.uniform(size=20)
    np.testing.assert_allclose(plain.decision_on(rows, v), real.decision_on(rows, v), atol=1e-12)
    np.testing.assert_allclose(plain.diagonal(rows, c), real.diagonal(rows, c), rtol=1e-12)
    for found, expected in zip(
        plain.hessian_product(rows, c, v), real.hessian_product(rows, c, v), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-11)
    np.testing.assert_array_equal(plain.take(rows).feature_rows(slice(None)), X[rows])


def test_products_of_samples_are_those_of_the_real_design(X):
    plain, real = PAIRS["samples"](X)
    V = np.random.default_rng(0).normal(size=(3, 20))
    rows = np.arange(1, 60, 3)
    np.testing.assert_allclose(
        plain.product_on(rows, V), V @ (X @ X.T)[np.ix_(rows, rows)], atol=1e-11
    )
    np.testing.assert_allclose(plain.block(rows), real.block(rows), rtol=1e-13)
    np.testing.assert_allclose(plain.take(rows).K, real.block(rows), rtol=1e-13)
    assert plain.max_landmarks(7) == 7
    assert plain.low_rank_factor is None
    assert plain.complete


@pytest.mark.parametrize(
    ("kind", "solver"),
    [
        (kind, solver)
        for kind, design in (("features", PlainFeatures), ("samples", PlainKernel))
        for solver in SOLVERS
        if SOLVERS[solver].works_with(design)
    ],
)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_solver_works_with_the_defaults(kind, fit_intercept, solver):
    X, y = two_classes(60, 4)
    plain, real = (
        make_problem(LOSSES[1], design, y, fit_intercept=fit_intercept) for design in PAIRS[kind](X)
    )
    best = Newton(tol=1e-12, max_iter=100).solve(real)
    found = SOLVERS[solver](tol=1e-8, max_iter=5000).solve(plain)
    assert found.dual_gap <= 1e-8
    assert found.objective == pytest.approx(best.objective, rel=2e-8)


@both_kinds
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_closed_forms_work_with_the_defaults(kind, fit_intercept):
    X, y = two_classes(60, 4)
    plain, real = (
        make_problem(LOSSES[1], design, y, fit_intercept=fit_intercept) for design in PAIRS[kind](X)
    )
    best = Newton(tol=1e-12, max_iter=100).solve(real)
    for exact in (False, True):
        np.testing.assert_allclose(
            leave_one_out(plain, best.coef, best.intercept, exact=exact),
            leave_one_out(real, best.coef, best.intercept, exact=exact),
            atol=1e-8,
        )


@both_kinds
def test_what_suits_the_space_of_a_design_is_chosen(kind):
    for design in PAIRS[kind](two_classes(60, 4)[0]):
        assert by_space(design, "features", "samples") == kind
