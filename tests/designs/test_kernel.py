"""One contract for matrices of kernel values, whatever the kernel and however they are kept."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimargin import ODMClassifier
from optimargin.designs import GramDesign, KernelMatrix
from optimargin.designs.kernel import MemoryLimitError, Triangle
from optimargin.kernels import KERNELS as NAMED
from optimargin.kernels import Kernel, PreparedKernel, RowKernel
from tests.cases import two_classes

pytestmark = [pytest.mark.quick, pytest.mark.numbers]


@dataclass(frozen=True)
class L1Kernel(RowKernel):
    """``k(x, z) = exp(-gamma sum_j |x_j - z_j|)``, which is no function of inner products."""

    gamma: float = 1.0

    name = "l1"
    parameters = ("gamma",)
    is_positive_semidefinite = True

    def between(self, X, Y):
        return np.exp(-self.gamma * np.abs(X[:, None] - Y).sum(axis=2))

    def with_themselves(self, X):
        return np.ones(len(X))


KERNEL = Kernel("rbf", gamma=0.2)
KERNELS = {
    "rbf": KERNEL,
    "rbf, widths": Kernel("rbf", gamma=(0.1, 0.2, 0.3, 0.1)),
    "poly": Kernel("poly", gamma=0.2, degree=2, coef0=1.0),
    "l1": L1Kernel(0.2),
}
STORAGES = ["array", "complete", "some kept", "on demand"]
# What values are rounded by, and the kernels whose values can be kept so.
DTYPES = {"uint16": 2.0**-16, "float32": 2.0**-20, "float64": 1e-13}


def rows(shape):
    return np.random.default_rng(0).normal(size=shape)


def made(X, kernel=KERNEL, storage="complete", dtype="float64"):
    """Return a matrix of kernel values on X."""

    def precise_kernel():
        return PreparedKernel(kernel, X, np.float64)

    is_rounded, dtype = dtype != "float64", np.dtype(dtype)
    prepared = PreparedKernel(kernel, X, np.float32 if is_rounded else np.float64)
    if storage == "array":
        K, scale = prepared.block(), prepared.rounding_scale()
        return GramDesign(K, precise_kernel=precise_kernel if is_rounded else None, scale=scale)
    share = {"complete": 8.0, "some kept": 0.9, "on demand": 0.0}[storage]
    return KernelMatrix(
        prepared,
        max_bytes=share * Triangle.n_bytes(len(X), dtype),
        dtype=dtype,
        precise_kernel=precise_kernel if is_rounded else None,
    )


CELLS = [
    (storage, dtype, kernel)
    for storage in STORAGES
    for dtype in DTYPES
    for kernel in KERNELS
    if dtype != "uint16" or (storage != "array" and kernel != "poly")
]


@pytest.mark.parametrize(("storage", "dtype", "kernel"), CELLS)
@pytest.mark.parametrize("n_samples", [1, 129, 300])
def test_every_storage_offers_the_values_of_the_kernel(storage, dtype, kernel, n_samples):
    X, rng = rows((n_samples, 4)), np.random.default_rng(1)
    K = PreparedKernel(KERNELS[kernel], X, np.float64).block()
    design = made(X, KERNELS[kernel], storage, dtype)
    assert design.complete == (storage in ("array", "complete"))
    unit = DTYPES[dtype] * np.abs(K).max()
    V = rng.normal(size=(2, n_samples))
    allowed = unit * np.abs(V).sum(axis=1, keepdims=True)
    chosen = np.sort(rng.permutation(n_samples)[: (n_samples + 2) // 3])
    inside = K[np.ix_(chosen, chosen)]
    for _ in range(2):  # once values are computed, and once they are kept
        assert (np.abs(design.product(V) - V @ K) <= allowed).all()
        assert (np.abs(design.decision(V[0]) - K @ V[0]) <= allowed[0]).all()
        on_chosen = design.product_on(chosen, V[:, chosen])
        assert (np.abs(on_chosen - V[:, chosen] @ inside) <= allowed).all()
    np.testing.assert_allclose(design.columns(chosen), K[:, chosen], rtol=0, atol=unit)
    block = design.block(chosen)
    assert block.dtype == np.float64
    np.testing.assert_allclose(block, inside, rtol=0, atol=unit)
    np.testing.assert_allclose(design.squared_norms, np.diagonal(K), rtol=0, atol=unit)
    v = V[0, chosen]
    assert (np.abs(design.take(chosen).decision(v) - inside @ v) <= allowed[0]).all()


@pytest.mark.parametrize(("storage", "dtype", "kernel"), CELLS)
def test_every_storage_has_one_account_of_rounding(storage, dtype, kernel):
    X = rows((300, 4))
    K = PreparedKernel(KERNELS[kernel], X, np.float64).block()
    design = made(X, KERNELS[kernel], storage, dtype)
    assert design.is_rounded == (dtype != "float64")
    assert design.rounds_independently == (dtype == "uint16")
    if not design.is_rounded:
        return
    coef, weight = np.random.default_rng(2).normal(size=300), np.full(300, 1 / 300)
    decision = design.decision(coef)
    mean_square, largest, value_error = design.rounding(coef, decision, weight)
    error = decision - K @ coef
    assert weight @ error**2 <= mean_square
    assert np.abs(error).max() <= largest
    change = np.abs(design.product(np.eye(300)) - K)
    assert (change <= np.outer(value_error, value_error)).all()
    np.testing.assert_allclose(design.precise.decision(coef), K @ coef, atol=1e-10)
    assert not design.precise.is_rounded
    np.testing.assert_array_equal(design.decision(coef), decision)  # computed again


def test_a_storage_declares_its_memory_and_what_fits_into_some():
    assert 4 * Triangle.n_bytes(300, "uint16") == Triangle.n_bytes(300, "float64")
    for n_samples in (1, 128, 300, 5000):
        n_bytes = Triangle.n_bytes(n_samples, "float32")
        assert n_samples <= Triangle.capacity(n_bytes, "float32") < n_samples + 128
        assert Triangle.capacity(n_bytes - 1, "float32") < n_samples
    triangle = made(rows((300, 4)), dtype="uint16").triangle
    assert triangle.tiles.nbytes == 0  # until values are asked for
    triangle.keep(np.arange(300))
    assert triangle.tiles.nbytes == Triangle.n_bytes(300, "uint16")


def test_a_triangle_grows_where_it_is():
    triangle = Triangle(PreparedKernel(KERNEL, rows((300, 4)), np.float64), np.dtype(np.float64))
    triangle.keep(np.arange(100))
    kept = triangle.product(np.eye(100))[:, :100]
    triangle.keep(np.arange(100, 300))
    np.testing.assert_allclose(triangle.product(np.eye(300))[:100, :100], kept, rtol=1e-12)


@pytest.mark.parametrize("n_first", [1, 128, 200])
def test_samples_are_kept_as_they_are_asked_for(n_first):
    X = rows((300, 4))
    K, triangle = KERNEL(X), made(X).triangle
    assert triangle.order.size == triangle.n_values == 0
    chosen = np.random.default_rng(3).permutation(300)
    triangle.keep(chosen[:n_first])
    np.testing.assert_array_equal(triangle.order, chosen[:n_first])
    np.testing.assert_array_equal(triangle.outside, np.sort(chosen[n_first:]))
    coef = np.random.default_rng(4).normal(size=n_first)
    inside = triangle.product(coef[None])[0, :n_first]
    first = chosen[:n_first]
    np.testing.assert_allclose(inside, K[np.ix_(first, first)] @ coef, atol=1e-10)
    triangle.keep(chosen[n_first:])
    np.testing.assert_array_equal(triangle.order, chosen)
    np.testing.assert_array_equal(chosen[triangle.place], np.arange(300))
    padded = np.zeros((1, 300))
    padded[0, :n_first] = coef
    everywhere = triangle.product(padded)[0, :300]
    np.testing.assert_allclose(everywhere, K[np.ix_(chosen, first)] @ coef, atol=1e-10)


@given(
    room=st.integers(0, 500),
    subsets=st.lists(st.tuples(st.integers(0, 99), st.integers(1, 400)), min_size=1, max_size=6),
)
def test_working_set_gives_the_same_products_within_its_limit(room, subsets):
    """Whatever was active before, and however little is kept."""
    X, n_bytes = rows((400, 3)), Triangle.n_bytes(room, np.float64)
    design = KernelMatrix(PreparedKernel(Kernel("rbf", 0.3), X), max_bytes=n_bytes, complete=False)
    K = Kernel("rbf", 0.3)(X)
    for seed, size in subsets:
        rng = np.random.default_rng(seed)
        active = np.sort(rng.choice(400, size, replace=False))
        pull, coef = np.zeros(400), rng.normal(size=400)
        pull[active] = rng.normal(size=size)
        V = rng.normal(size=(2, size))
        expected = V @ K[np.ix_(active, active)]
        np.testing.assert_allclose(design.product_on(active, V), expected, atol=1e-10)
        np.testing.assert_allclose(design.decision(pull), K @ pull, atol=1e-10)
        image, square = design.residual_image(coef - pull, coef, K @ coef, pull)
        np.testing.assert_allclose(image[active], (K @ (coef - pull))[active], atol=1e-10)
        assert square == pytest.approx((coef - pull) @ K @ (coef - pull), abs=1e-9)
        step = design.decision_step(pull - coef, coef, K @ coef)
        np.testing.assert_allclose(step, K @ (pull - coef), atol=1e-10)
        assert 8 * design._working.n_values <= n_bytes


def test_a_working_set_without_room_is_told_of_once():
    told = []
    kernel = PreparedKernel(Kernel("rbf", 0.3), rows((300, 3)))
    design = KernelMatrix(
        kernel, max_bytes=600_000, on_crowded=lambda *numbers: told.append(numbers)
    )
    for _ in range(2):
        design.product_on(np.arange(20), np.ones((1, 20)))
    assert told == []
    for _ in range(2):
        design.product_on(np.arange(300), np.ones((1, 300)))
    ((n_active, capacity),) = told
    assert (n_active, capacity) == (300, design._capacity)
    assert 20 < capacity < 300


def test_a_matrix_that_fits_is_never_crowded():
    kernel = PreparedKernel(Kernel("rbf", 0.3), rows((100, 3)))
    design = KernelMatrix(kernel, max_bytes=1e9, on_crowded=pytest.fail)
    assert design.complete
    design.product_on(np.arange(100), np.ones((1, 100)))


def test_a_working_set_without_room_says_what_to_do():
    X, y = two_classes(300, 3)
    model = ODMClassifier(gamma=0.3, D=0.0, solver="newton_cg", cache_size=0.001)
    with pytest.warns(UserWarning, match="approximation='nystrom'"):
        model.fit(X, y)


def test_a_block_beyond_the_memory_limit_is_refused_with_its_size():
    kernel = PreparedKernel(Kernel("rbf", 0.3), rows((2000, 3)))
    design = KernelMatrix(kernel, max_bytes=5e7, complete=False)
    with pytest.raises(MemoryLimitError, match="2000 samples need 64000000 bytes") as refused:
        design.block(np.arange(2000))
    assert (refused.value.n_rows, refused.value.n_bytes) == (2000, 16 * 2000**2)
    # Whatever the limit, small blocks are always made; larger ones take the place of tiles.
    chosen = np.arange(0, 2000, 20)
    small = KernelMatrix(kernel, max_bytes=0).block(chosen)
    np.testing.assert_array_equal(small, design.block(chosen))
    design.product_on(np.arange(100), np.ones((1, 100)))
    assert design._working.order.size == 100
    assert design.block(np.arange(1700)).shape == (1700, 1700)
    assert design._working.order.size == 0


def test_samples_that_left_the_working_set_make_room():
    kernel = PreparedKernel(Kernel("rbf", 0.3), rows((1000, 3)))
    design = KernelMatrix(kernel, max_bytes=1e7, complete=False)
    design.product_on(np.arange(900), np.ones((1, 900)))
    design.product_on(np.arange(850, 1000), np.ones((1, 150)))
    assert design._working.order.size == 150


@pytest.mark.parametrize("solver", ["newton", "newton_cg", "dcd", "landmarks"])
def test_a_kernel_of_rows_works_with_solvers_landmarks_and_prediction(solver, monkeypatch):
    monkeypatch.setitem(NAMED, "l1", L1Kernel)
    X, y = two_classes(120, 3)
    settings = {"solver": solver}
    if solver == "landmarks":
        settings = {"approximation": "nystrom", "n_components": 120}
    named = ODMClassifier(kernel="l1", gamma=0.4, tol=1e-9, **settings).fit(X, y)
    given = ODMClassifier(kernel=L1Kernel(0.4).between, solver="newton", tol=1e-9).fit(X, y)
    scores = given.decision_function(X)
    np.testing.assert_allclose(named.decision_function(X), scores, atol=1e-4)
    expected = given.loo_decision_function(exact=True)
    if solver != "landmarks":
        np.testing.assert_allclose(named.loo_decision_function(exact=True), expected, atol=1e-4)
