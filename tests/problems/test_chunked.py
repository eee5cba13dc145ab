"""A problem over chunks is the problem over all rows at once."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from optimargin.chunks import ArrayChunks
from optimargin.designs import FeatureDesign
from optimargin.designs.whitening import NoWhitening, Whitening
from optimargin.problems import ChunkedProblem
from optimargin.problems.chunk_tasks import (
    ChunkReader,
    Request,
    add,
    evaluate,
    hessian_product,
    serve,
)
from optimargin.problems.chunked import ChunkedPoint
from optimargin.solvers import ChunkedNewton, Newton
from optimargin.tasks import Classification
from tests.cases import LOSSES, labels_target, make_problem, two_classes
from tests.python_losses import PlainBand
from tests.sampling import pairwise

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

EVERY_LOSS = [*LOSSES, PlainBand(64.0, 16.0, 0.2)]
every_loss = pytest.mark.parametrize("loss", EVERY_LOSS, ids=str)


def both_problems(loss, X, y, *, factorise=True, fit_intercept=True, chunk_rows=13):
    """Return the problem over chunks and the one in memory, of unequal weights."""
    weight = np.random.default_rng(5).uniform(0.5, 2.0, len(y))
    dense = X.toarray() if sp.issparse(X) else X
    chunks = ArrayChunks(X, y, weight, chunk_rows=chunk_rows)
    reader = ChunkReader(Classification.from_labels(y, weight))
    chunked = ChunkedProblem(
        loss,
        0,
        lambda request: chunks.reduce(serve, reader, [request])[0],
        NoWhitening(X.shape[1]),
        largest_norm=np.linalg.norm(dense, axis=1).max(),
        largest_target=1.0,
        fit_intercept=fit_intercept,
        factorise=factorise,
    )
    return chunked, make_problem(loss, FeatureDesign(X), y, weight, fit_intercept=fit_intercept)


@every_loss
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_a_point_has_the_value_gradient_and_hessian_of_all_rows(loss, make):
    X, y = two_classes(60, 4)
    chunked, whole = both_problems(loss, make(X), y)
    best = whole.point(np.array([0.3, -0.2, 0.5, 0.1]))
    point = chunked.point(best.coef, best.intercept)
    assert point.value == pytest.approx(best.value, rel=1e-12)
    np.testing.assert_allclose(point.gradient[:-1], best.residual, atol=1e-11 * best.value)
    assert point.gradient[-1] == pytest.approx(0.0, abs=1e-10 * best.value)
    gram = whole.design.weighted_gram(best.curvature)
    np.testing.assert_allclose(np.tril(point.second), np.tril(gram), atol=1e-10)
    direction = np.array([1.0, 2.0, -1.0, 0.5])
    product, moment = chunked.hessian_product(point, direction)
    full = np.tril(gram) + np.tril(gram, -1).T
    np.testing.assert_allclose(np.append(product, moment), full[:, :-1] @ direction, atol=1e-9)
    diagonal, last = (
        both_problems(loss, make(X), y, factorise=False)[0].point(best.coef, best.intercept).second
    )
    np.testing.assert_allclose(diagonal, np.diagonal(gram), atol=1e-9)
    np.testing.assert_allclose(last, gram[-1], atol=1e-9)


@every_loss
@given(seed=st.integers(0, 10**6), scale=st.floats(0.01, 10), shift=st.floats(-5, 5))
def test_the_gap_bounds_the_distance_from_the_optimum_for_any_intercept(loss, seed, scale, shift):
    X, y = two_classes(40, 3, seed=seed % 50)
    chunked, whole = both_problems(loss, X, y)
    optimum = Newton(tol=1e-12, max_iter=100).solve(whole).objective
    coef = scale * np.random.default_rng(seed).normal(size=3)
    point = chunked.point(coef, shift)
    assert point.value - optimum <= point.gap * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize(
    ("loss", "factorise", "fit_intercept"),
    pairwise(EVERY_LOSS, [True, False], [True, False]),
    ids=str,
)
def test_the_solution_is_that_in_memory(loss, factorise, fit_intercept):
    X, y = two_classes(80, 5)
    chunked, whole = both_problems(
        loss, X, y, factorise=factorise, fit_intercept=fit_intercept, chunk_rows=9
    )
    expected = Newton(tol=1e-12, max_iter=100).solve(whole)
    found = ChunkedNewton(tol=1e-10, max_iter=200).solve(chunked)
    assert found.dual_gap <= 1e-10
    assert found.objective == pytest.approx(expected.objective, rel=1e-9)
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-3 * np.abs(expected.coef).max())


def test_a_step_that_is_too_long_ends_near_the_minimum_on_its_line():
    X, y = two_classes(60, 4)
    chunked, _ = both_problems(LOSSES[1], X, y)
    start = chunked.point(np.zeros(4))
    direction = -50.0 * start.gradient[:-1]
    moved, length = chunked.step(start, direction, 0.0)
    assert 0 < length < 1
    assert moved.value < start.value
    slope = moved.gradient[:-1] @ direction
    assert abs(slope) < 0.1 * abs(start.gradient[:-1] @ direction)
    assert chunked.step(start, -direction, 0.0)[1] == 0.0


def test_whitening_undoes_the_factor():
    rng = np.random.default_rng(0)
    factor = np.tril(rng.normal(size=(4, 4))) + 3 * np.eye(4)
    K = rng.normal(size=(30, 4))
    features = np.linalg.solve(factor, K.T).T
    whitening, v, r = Whitening(factor), rng.normal(size=4), rng.normal(size=30)
    np.testing.assert_allclose(K @ whitening.for_rows(v), features @ v)
    np.testing.assert_allclose(whitening.of_sum(K.T @ r), features.T @ r)
    np.testing.assert_allclose(whitening.from_rows(whitening.for_rows(v)), v)
    raw, white = np.column_stack([K, np.ones(30)]), np.column_stack([features, np.ones(30)])
    gram = whitening.of_gram(np.tril(raw.T @ raw))
    np.testing.assert_allclose(np.tril(gram), np.tril(white.T @ white), atol=1e-10)


def test_results_are_added_part_by_part_and_empty_chunks_are_left_out():
    total = add([(1.0, np.ones(2)), None, (2.0, np.arange(2.0))])
    assert total[0] == 3.0
    np.testing.assert_array_equal(total[1], [1.0, 2.0])
    assert add([None, None]) is None


def test_values_that_change_into_nan_between_rounds_are_reported():
    X, y = two_classes(30, 3)
    chunked, _ = both_problems(LOSSES[1], X, y)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        chunked.point(np.ones(3))


def test_an_infinite_gap_is_infinite_relative_to_any_objective():
    none = np.empty(0)
    for value in (0.0, 1.0, np.inf):
        point = ChunkedPoint(none, 0.0, value, none, none, np.inf)
        assert point.relative_gap == np.inf


def test_chunks_without_rows_and_the_order_of_requests_do_not_matter():
    X, y = two_classes(30, 3)
    reader = ChunkReader(Classification.from_labels(y))
    loss = LOSSES[1]
    requests = [
        Request(evaluate, 0, loss, (np.ones(3), 0.1, True)),
        Request(hessian_product, 0, loss, (np.ones(3), 0.1, np.arange(3.0))),
    ]
    chunk = (X, y, None)
    together = serve(chunk, reader, requests)
    value, gradient, hessian, product = *together[0], together[1]
    alone = serve(chunk, reader, [requests[1]]) + serve(chunk, reader, [requests[0]])
    for found, expected in zip((product, (value, gradient, hessian)), alone, strict=True):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    assert serve((X[:0], y[:0], None), reader, requests) is None


def test_every_output_has_its_own_target():
    X = two_classes(60, 3)[0]
    y = np.arange(60) % 3
    chunks = ArrayChunks(X, y, chunk_rows=7)
    reader = ChunkReader(Classification.from_labels(y))
    coef = np.array([0.3, -0.2, 0.5])
    for output in range(3):
        request = Request(evaluate, output, LOSSES[1], (coef, 0.1, True))
        value = chunks.reduce(serve, reader, [request])[0][0]
        signs = np.where(y == output, 1.0, -1.0)
        expected = LOSSES[1].evaluate(X @ coef, labels_target(signs), 0.1)[0]
        assert value == pytest.approx(expected, rel=1e-12)
