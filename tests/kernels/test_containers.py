"""Kernel values do not depend on whether samples and new rows are dense or sparse."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from optimargin.kernels import Kernel, PreparedKernel, kernel_product, squared_distances

N_FEATURES = [20, 700]  # filled up where sparse, and not
FILLED = {"no": 0, "one": 1, "two": 2, "most": 0.9, "all": 1.0}
KERNELS = [
    Kernel("linear"),
    Kernel("rbf", gamma=0.02),
    Kernel("poly", gamma=0.1, degree=2, coef0=1.0),
    Kernel("sigmoid", gamma=0.05, coef0=0.2),
]
MAKE = {"dense": np.asarray, "csr": sp.csr_array, "csr-matrix": sp.csr_matrix}

every_pair = pytest.mark.parametrize(
    ("samples", "rows"), [(a, b) for a in MAKE for b in MAKE if a != b]
)
any_width = pytest.mark.parametrize("n_features", N_FEATURES)
any_filling = pytest.mark.parametrize("filled", FILLED.values(), ids=FILLED)


def mostly_zero(n_rows, n_features, filled, *, seed, far=5.0):
    """Return rows of which few columns are filled, these far from zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    n_filled = int(filled * n_features) if isinstance(filled, float) else filled
    X[:, :n_filled] += far
    X[:, n_filled:] *= rng.random((n_rows, n_features - n_filled)) < 0.05
    return X


def by_differences(gamma, X, Y):
    return np.exp(-gamma * cdist(X, Y, "sqeuclidean"))


@every_pair
@any_width
@any_filling
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_new_rows_in_any_container_have_the_same_values(kernel, n_features, filled, samples, rows):
    X = mostly_zero(30, n_features, filled, seed=0)
    new = mostly_zero(12, n_features, filled, seed=1)
    found = kernel(MAKE[rows](new), MAKE[samples](X))
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, kernel(new, X), rtol=1e-10, atol=1e-12)
    if kernel.name == "rbf":
        np.testing.assert_allclose(found, by_differences(kernel.gamma, new, X), atol=1e-12)


@every_pair
@any_width
@any_filling
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_kernel_values_are_the_same_in_any_container(
    n_features, filled, samples, rows, dtype, monkeypatch
):
    monkeypatch.setattr("optimargin.kernels.prepared._BLOCK_ELEMENTS", 100)
    X = mostly_zero(30, n_features, filled, seed=0)
    new = mostly_zero(12, n_features, filled, seed=1)
    V = np.random.default_rng(2).normal(size=(30, 2))
    kernel = Kernel("rbf", gamma=0.02)
    found = kernel_product(kernel, MAKE[rows](new), MAKE[samples](X), V, dtype)
    digits = 1e-10 if dtype is np.float64 else 1e-4
    np.testing.assert_allclose(found, by_differences(0.02, new, X) @ V, atol=digits)


@any_width
@pytest.mark.parametrize("share", [0.05, 0.6])
@pytest.mark.parametrize("samples", MAKE)
@pytest.mark.parametrize("rows", MAKE)
def test_rows_far_from_the_centre_but_close_to_each_other_keep_their_digits(
    n_features, share, samples, rows
):
    X = mostly_zero(60, n_features, 1, seed=0)
    X[: int(share * 60), 3] = 1e7  # a column that too few rows fill for its mean to be subtracted
    new = X[::3] + 0.1 * (X[::3] != 0)
    expected = by_differences(0.02, new, X)
    for dtype in (np.float32, np.float64):
        prepared = PreparedKernel(Kernel("rbf", gamma=0.02), MAKE[samples](X), dtype)
        np.testing.assert_allclose(prepared.against(MAKE[rows](new)), expected, atol=1e-5)
    assert expected.min() < 1e-9
    assert expected[0, 0] > 0.5


@any_width
@any_filling
def test_distances_of_sparse_rows_are_those_of_dense_ones(n_features, filled):
    X = mostly_zero(30, n_features, filled, seed=0, far=1e5)
    expected = cdist(X, X, "sqeuclidean")
    for make in MAKE.values():
        np.testing.assert_allclose(squared_distances(make(X)), expected, rtol=1e-9, atol=1e-9)


def test_a_function_is_given_both_matrices_in_the_container_of_the_samples():
    seen = []

    def function(A, B):
        seen.append((type(A), type(B)))
        return np.asarray((A @ B.T).todense() if sp.issparse(A) else A @ B.T)

    X, new = mostly_zero(30, 700, 2, seed=0), mostly_zero(12, 700, 2, seed=1)
    for samples, make in MAKE.items():
        for rows in MAKE.values():
            K = kernel_product(Kernel(function), rows(new), make(X), np.eye(30))
            np.testing.assert_allclose(K, new @ X.T, rtol=1e-12, atol=1e-12, err_msg=samples)
            assert set(seen) == {(type(make(X)),) * 2}
            seen.clear()


@pytest.mark.parametrize("dtypes", [(np.float32, np.float64), (np.float64, np.float32)])
def test_values_have_the_precision_of_the_first_matrix(dtypes):
    X, new = (
        mostly_zero(n, 20, 2, seed=n).astype(dtype)
        for n, dtype in zip((30, 12), dtypes, strict=True)
    )
    assert Kernel("rbf", gamma=0.02)(new, X).dtype == new.dtype
    np.testing.assert_allclose(
        Kernel("rbf", gamma=0.02)(new, X), by_differences(0.02, new, X), atol=1e-5
    )


def peak_bytes(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kernel", [Kernel("rbf", gamma=0.02), Kernel(lambda A, B: A @ B.T)])
def test_sparse_rows_that_dense_samples_ask_to_be_filled_up_are_so_a_few_at_a_time(kernel):
    X = mostly_zero(10, 3000, 1.0, seed=0)
    new = sp.random_array((10_000, 3000), density=0.001, format="csr", rng=0)
    assert peak_bytes(lambda: kernel(new, X)) < 130e6  # all of them take 240 MB, and copies do


def test_wide_sparse_rows_are_not_filled_up():
    n_features = 1_000_000
    X = sp.random_array((200, n_features), density=1e-5, format="csr", rng=0)
    X = sp.csr_array(X + sp.csr_array(([1e6] * 60, (range(60), [7] * 60)), shape=X.shape))
    kernel = Kernel("rbf", gamma=0.02)
    assert peak_bytes(lambda: kernel(X[:50], X)) < 60e6  # one row that is filled up takes 8 MB
    np.testing.assert_allclose(kernel(X[:50], X).diagonal(), 1.0)


def test_dense_rows_of_few_filled_columns_are_centred_as_sparse_ones():
    X = mostly_zero(30, 700, 2, seed=0, far=1e8)
    for make in MAKE.values():
        np.testing.assert_allclose(
            Kernel("rbf", gamma=0.02)(make(X)), by_differences(0.02, X, X), atol=1e-9
        )
