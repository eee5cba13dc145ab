"""Every design is the linear map it claims to be, whatever holds its numbers."""

import numpy as np
import pytest
import scipy.sparse as sp

from optimargin.designs import (
    FeatureDesign,
    FeatureSpaceDesign,
    GramDesign,
    LinearGramDesign,
)
from optimargin.solvers import Newton
from tests.cases import (
    DESIGNS,
    FEATURE_DESIGNS,
    LOSSES,
    SAMPLE_DESIGNS,
    make_design,
    make_problem,
)

pytestmark = pytest.mark.numbers

every_design = pytest.mark.parametrize("name", DESIGNS)
every_feature_design = pytest.mark.parametrize("name", FEATURE_DESIGNS)
every_sample_design = pytest.mark.parametrize("name", SAMPLE_DESIGNS)
# The second shape is large enough for several threads.
every_shape = pytest.mark.parametrize("shape", [(17, 5), (700, 250)], ids=["small", "threaded"])
INCOMPLETE = ("panels-half-kept", "panels-none-kept")
both_precisions = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def rows(shape, dtype=np.float64, seed=0):
    return (np.random.default_rng(seed).normal(size=shape) + 1.0).astype(dtype)


def vector(size, seed):
    return np.random.default_rng(seed).normal(size=size)


def tolerance(name, dtype):
    """Only a Gram matrix computed in float32 is less than double precision."""
    return (
        1e-5 if dtype == np.float32 and "linear" not in name and name in SAMPLE_DESIGNS else 1e-11
    )


def weights_of(design, features, v):
    """Return the vector w in feature space that the coefficients `v` stand for."""
    return v if isinstance(design, FeatureSpaceDesign) else features.T @ v


@every_design
@every_shape
@both_precisions
def test_decision_is_the_product_with_the_features(name, shape, dtype):
    design, features = make_design(name, rows(shape, dtype))
    v = vector(design.n_coef, 1)
    expected = features @ weights_of(design, features, v)
    atol = tolerance(name, dtype) * np.abs(expected).max()
    np.testing.assert_allclose(design.decision(v), expected, rtol=0, atol=atol)


@every_design
@every_shape
@both_precisions
def test_represent_gives_the_coefficients_of_a_sum_of_samples(name, shape, dtype):
    design, features = make_design(name, rows(shape, dtype))
    r = vector(design.n_samples, 2)
    r[::3] = 0.0
    w = weights_of(design, features, design.represent(r))
    np.testing.assert_allclose(w, features.T @ r, rtol=0, atol=1e-11 * np.abs(w).max())


@every_design
@every_shape
@both_precisions
def test_decision_and_represent_are_adjoint(name, shape, dtype):
    design, _ = make_design(name, rows(shape, dtype))
    v, r = vector(design.n_coef, 1), vector(design.n_samples, 2)
    left = r @ design.decision(v)
    right = design.represent(r) @ design.metric(v)
    scale = np.linalg.norm(r) * np.linalg.norm(design.decision(v))
    # Values that are not kept are computed again, in products of other shapes.
    rounding = 1e-6 if name in INCOMPLETE and dtype == np.float32 else 1e-12
    assert left == pytest.approx(right, abs=rounding * scale)


@every_design
def test_metric_gives_the_squared_norm_of_w(name):
    design, features = make_design(name, rows((17, 5)))
    v = vector(design.n_coef, 1)
    w = weights_of(design, features, v)
    assert v @ design.metric(v) == pytest.approx(w @ w, rel=1e-12)
    assert v @ design.metric(v, design.decision(v)) == pytest.approx(w @ w, rel=1e-12)


@every_feature_design
@every_shape
@both_precisions
def test_weighted_gram_equals_numpy(name, shape, dtype):
    design, features = make_design(name, rows(shape, dtype))
    weight = np.random.default_rng(3).uniform(size=shape[0])
    weight[::4] = 0.0
    Z = np.column_stack([features, np.ones(shape[0])])
    expected = Z.T @ (weight[:, None] * Z)
    gram = np.tril(design.weighted_gram(weight))
    np.testing.assert_allclose(gram, np.tril(expected), atol=1e-11 * np.abs(expected).max())


def test_weighted_gram_over_several_blocks_of_rows_equals_numpy():
    X = rows((60_000, 12))
    weight = np.random.default_rng(3).uniform(size=60_000)
    weight[::7] = 0.0
    Z = np.column_stack([X, np.ones(60_000)])
    gram = FeatureDesign(X).weighted_gram(weight)
    np.testing.assert_allclose(np.tril(gram), np.tril(Z.T @ (weight[:, None] * Z)), rtol=1e-11)


@both_precisions
@pytest.mark.parametrize("centered", [False, True])
def test_dense_products_in_several_threads_equal_numpy(dtype, centered):
    X = rows((50_003, 23), dtype)  # not a multiple of the rows taken at a time
    center = X.mean(axis=0, dtype=np.float64) if centered else None
    design, Z = FeatureDesign(X, center), X - (center if centered else 0.0)
    v, r = vector(23, 1), vector(50_003, 2)
    r[5000:30_000] = 0.0
    np.testing.assert_allclose(design.decision(v), Z @ v, rtol=0, atol=1e-11)
    np.testing.assert_allclose(design.represent(r), Z.T @ r, rtol=0, atol=1e-9)


@both_precisions
@pytest.mark.parametrize("shape", [(40, 90), (1100, 1500)], ids=["small", "threaded"])
def test_scaled_gram_of_sparse_rows_equals_numpy(shape, dtype):
    dense = rows(shape, dtype) * (np.random.default_rng(4).random(shape) < 0.05)
    dense[3] = 0.0
    design = FeatureDesign(sp.csr_array(dense))
    chosen = np.arange(1, shape[0], 2)
    scale = np.abs(vector(chosen.size, 5))
    P = scale[:, None] * dense[chosen].astype(np.float64)
    gram = np.tril(design.scaled_gram(chosen, scale))
    np.testing.assert_allclose(gram, np.tril(P @ P.T), rtol=0, atol=1e-11)


@every_feature_design
def test_weighted_gram_of_no_active_sample_is_zero(name):
    design, _ = make_design(name, rows((9, 3)))
    np.testing.assert_array_equal(design.weighted_gram(np.zeros(9)), np.zeros((4, 4)))


@every_sample_design
@both_precisions
def test_block_is_a_new_double_precision_submatrix(name, dtype):
    design, features = make_design(name, rows((17, 5), dtype))
    chosen = np.array([1, 4, 16])
    block = design.block(chosen)
    assert block.dtype == np.float64
    assert block.flags.writeable
    np.testing.assert_allclose(block, (features @ features.T)[np.ix_(chosen, chosen)], rtol=1e-5)


@every_sample_design
@both_precisions
def test_products_and_columns_are_those_of_the_gram_matrix(name, dtype):
    design, features = make_design(name, rows((300, 5), dtype))
    K = features @ features.T
    V = np.random.default_rng(3).normal(size=(3, 300))
    chosen = np.array([0, 7, 130, 299])
    atol = 10 * tolerance(name, dtype) * np.abs(K).max()
    np.testing.assert_allclose(design.product(V), V @ K, rtol=0, atol=300 * atol)
    np.testing.assert_allclose(design.columns(chosen), K[:, chosen], rtol=0, atol=atol)
    part = design.columns(chosen, np.arange(9))
    np.testing.assert_allclose(part, K[:9, chosen], rtol=0, atol=atol)
    on_chosen = design.product_on(chosen, V[:, :4])
    expected = V[:, :4] @ K[np.ix_(chosen, chosen)]
    np.testing.assert_allclose(on_chosen, expected, rtol=0, atol=300 * atol)
    np.testing.assert_allclose(design.squared_norms, np.diagonal(K), rtol=0, atol=atol)


@every_feature_design
@every_shape
@both_precisions
def test_products_with_the_hessian_equal_numpy(name, shape, dtype):
    design, features = make_design(name, rows(shape, dtype))
    weight = np.random.default_rng(3).uniform(size=shape[0])
    active, v = np.flatnonzero(weight > 0.3), vector(shape[1], 4)
    Z, c = features[active], weight[active]
    product, image = design.hessian_product(active, c, v)
    expected = Z.T @ (c * (Z @ v))
    np.testing.assert_allclose(product, expected, atol=1e-11 * np.abs(expected).max())
    scale = np.abs(Z @ v).max()
    np.testing.assert_allclose(image, c * (Z @ v), atol=1e-13 * scale)
    np.testing.assert_allclose(design.decision_on(active, v), Z @ v, atol=1e-13 * scale)
    assert design.decision_on(active[:0], v).size == 0
    rtol = 1e-4 if dtype == np.float32 else 1e-11
    np.testing.assert_allclose(design.diagonal(active, c), 1 + c @ Z**2, rtol=rtol)
    np.testing.assert_allclose(design.squared_norms, (features**2).sum(axis=1), rtol=rtol)


@pytest.mark.parametrize(
    "name", ["dense", "dense-centred", "csr", "linear-gram", "linear-gram-centred"]
)
def test_coefficients_of_features_undo_the_centring(name):
    X = rows((9, 14))
    design, features = make_design(name, X)
    v = vector(design.n_coef, 1)
    w, shift = design.to_features(v)
    uncentred = features if name == "csr" else X
    np.testing.assert_allclose(uncentred @ w + shift, design.decision(v), atol=1e-12)


@pytest.mark.parametrize("name", ["dense", "dense-centred", "csr"])
def test_from_features_is_the_inverse_of_to_features(name):
    design, _ = make_design(name, rows((9, 4)))
    v = vector(4, 1)
    w, shift = design.to_features(v)
    coef, intercept = design.from_features(w, 0.7 + shift, None)
    np.testing.assert_array_equal(coef, v)
    assert intercept == pytest.approx(0.7, abs=1e-14)


def test_sample_coefficients_of_an_optimal_w_are_that_optimum():
    X = rows((12, 30))
    design = LinearGramDesign(X, X.mean(axis=0))
    y = np.where(np.arange(12) % 3 == 0, 1.0, -1.0)
    problem = make_problem(LOSSES[1], design, y, fit_intercept=True)
    best = Newton(tol=1e-12, max_iter=50).solve(problem)
    w, shift = design.to_features(best.coef)
    coef, intercept = design.from_features(w, best.intercept + shift, problem)
    assert problem.point(coef, intercept).value == pytest.approx(best.objective, rel=1e-10)


@pytest.mark.parametrize("X", [rows((6, 3)), sp.csr_array(rows((6, 3)))], ids=["dense", "csr"])
def test_feature_design_never_copies_its_data(X):
    assert FeatureDesign(X).X is X


@every_design
def test_read_only_data_serve(name):
    design, _ = make_design(name, rows((8, 3)))
    for holder in (getattr(design, "X", None), getattr(design, "K", None)):
        for part in ("data", "indices", "indptr") if sp.issparse(holder) else ():
            getattr(holder, part).flags.writeable = False
        if isinstance(holder, np.ndarray):
            holder.flags.writeable = False
    design.decision(vector(design.n_coef, 1))
    design.represent(vector(8, 2))
    if isinstance(design, FeatureSpaceDesign):
        design.weighted_gram(np.ones(8))


def test_a_factor_of_low_rank_is_found_and_reproduces_the_gram_matrix():
    X = rows((300, 6))
    design = GramDesign(X @ X.T)
    factor = design.low_rank_factor
    assert factor.shape == (300, 6)
    np.testing.assert_allclose(factor @ factor.T, design.K, atol=1e-10 * np.abs(design.K).max())


def test_no_factor_is_looked_for_where_it_does_not_pay():
    X = rows((40, 2))
    assert GramDesign(X @ X.T).low_rank_factor is None
    assert GramDesign(np.eye(300)).low_rank_factor is None


@every_sample_design
def test_a_part_of_the_samples_has_their_kernel_values(name):
    design, features = make_design(name, rows((60, 5)))
    chosen = np.arange(0, 60, 4)
    part = design.take(chosen)
    K = (features @ features.T)[np.ix_(chosen, chosen)]
    v = vector(chosen.size, 1)
    np.testing.assert_allclose(part.decision(v), K @ v, atol=1e-11 * np.abs(K).max())
    assert design.max_landmarks(10) >= 0


@pytest.mark.parametrize("center", [None, np.linspace(-1.0, 1.0, 5000)], ids=["as is", "centred"])
def test_inner_products_of_wide_rows_are_summed_over_all_features(center):
    X = rows((300, 5000))
    Z = X if center is None else X - center
    np.testing.assert_allclose(LinearGramDesign(X, center).K, Z @ Z.T, rtol=1e-12, atol=1e-9)
