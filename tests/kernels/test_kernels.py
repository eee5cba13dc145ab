"""Kernel functions, widths and Gram matrices against plain numpy and scikit-learn."""

import tracemalloc
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from optimargin import ODMClassifier, OneClassODM
from optimargin.kernels import (
    KERNELS,
    CallableKernel,
    InnerProductKernel,
    Kernel,
    KernelChoice,
    PreparedKernel,
    RadialKernel,
    gamma_of_width,
    gram_matrix,
    kernel_class,
    kernel_product,
    make_kernel,
    mean_distance,
    pivoted_cholesky,
    resolve_gamma,
    squared_distances,
)
from tests.cases import CauchyKernel

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

PREPARED = [
    Kernel("linear"),
    Kernel("rbf", gamma=0.4),
    Kernel("poly", gamma=0.4, degree=3, coef0=1.0),
    Kernel("poly", gamma=0.4, degree=2, coef0=0.0),
    Kernel("sigmoid", gamma=0.4, coef0=-0.3),
]
every_kernel = pytest.mark.parametrize("kernel", PREPARED, ids=str)
GAMMAS = ["scale", "auto", "mean_distance", 0.7]


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(14, 3)) + 0.5


@pytest.fixture
def Y():
    return np.random.default_rng(1).normal(size=(9, 3))


def by_sklearn(kernel, X, Y=None):
    parameters = {name: getattr(kernel, name) for name in kernel.parameters}
    return pairwise_kernels(X, Y, metric=kernel.name, **parameters)


@every_kernel
def test_kernels_equal_those_of_scikit_learn(kernel, X, Y):
    np.testing.assert_allclose(kernel(X), by_sklearn(kernel, X), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel(X, Y), by_sklearn(kernel, X, Y), rtol=1e-12, atol=1e-14)


@every_kernel
def test_sparse_rows_give_the_dense_kernel(kernel, X, Y):
    K = kernel(sp.csr_array(X), sp.csr_array(Y))
    assert isinstance(K, np.ndarray)
    np.testing.assert_allclose(K, kernel(X, Y), rtol=1e-12, atol=1e-13)


@every_kernel
def test_single_precision_rows_give_a_single_precision_kernel(kernel, X):
    K = kernel(X.astype(np.float32))
    assert K.dtype == np.float32
    np.testing.assert_allclose(K, kernel(X), rtol=1e-4, atol=1e-5)


@every_kernel
def test_inputs_are_not_modified(kernel, X, Y):
    X.flags.writeable = Y.flags.writeable = False
    kernel(X, Y)
    kernel(X)


def test_rbf_of_data_far_from_the_origin_keeps_its_digits(X, Y):
    kernel = Kernel("rbf", gamma=0.4)
    np.testing.assert_allclose(kernel(X + 1e6, Y + 1e6), kernel(X, Y), rtol=1e-8)


def test_rbf_of_a_row_with_itself_is_one(X):
    np.testing.assert_allclose(np.diagonal(Kernel("rbf", gamma=3.0)(X)), 1.0, rtol=1e-13)


@pytest.mark.parametrize("name", ["rbf", "poly", lambda A, B: np.tanh(A @ B.T)])
@pytest.mark.parametrize("worth_a_thread", [0, 10**9])
def test_kernel_product_is_that_of_the_whole_matrix(X, Y, name, worth_a_thread, monkeypatch):
    monkeypatch.setattr("optimargin.kernels.prepared._BLOCK_ELEMENTS", 4 * len(Y))
    monkeypatch.setattr("optimargin._threads._OPERATIONS_WORTH_A_THREAD", worth_a_thread)
    kernel = Kernel(name, gamma=0.4)
    V = np.random.default_rng(0).standard_normal((len(Y), 3))
    product = kernel_product(kernel, X, Y, V)
    np.testing.assert_allclose(product, kernel(X, Y) @ V, rtol=1e-12)


def test_scale_and_auto_are_those_of_svc(X):
    y = np.arange(14) % 2
    for gamma in ("scale", "auto"):
        expected = SVC(gamma=gamma).fit(X, y)._gamma
        assert resolve_gamma(gamma, X, np.ones(14)) == pytest.approx(expected, rel=1e-12)


def test_mean_distance_is_the_mean_over_all_ordered_pairs(X, monkeypatch):
    expected = cdist(X, X).mean()
    assert mean_distance(X, np.ones(14)) == pytest.approx(expected, rel=1e-6)
    monkeypatch.setattr("optimargin.kernels.prepared._BLOCK_ELEMENTS", 14 * 3)
    assert mean_distance(X, np.ones(14)) == pytest.approx(expected, rel=1e-6)


def test_mean_distance_gives_the_width_of_the_paper(X):
    gamma = resolve_gamma("mean_distance", X, np.ones(14))
    assert gamma == pytest.approx(1 / (2 * cdist(X, X).mean() ** 2), rel=1e-6)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_gamma_of_weights_equals_gamma_of_repetitions(gamma, X):
    times = np.random.default_rng(2).integers(1, 5, size=14)
    weighted = resolve_gamma(gamma, X, times.astype(float))
    repeated = resolve_gamma(gamma, np.repeat(X, times, axis=0), np.ones(times.sum()))
    assert weighted == pytest.approx(repeated, rel=1e-10)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_gamma_does_not_depend_on_the_scale_of_the_weights(gamma, X):
    weight = np.random.default_rng(2).uniform(1, 5, size=14)
    expected = resolve_gamma(gamma, X, weight)
    assert resolve_gamma(gamma, X, 1e-3 * weight) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_gamma_of_sparse_rows_equals_gamma_of_dense_rows(gamma, X):
    weight = np.random.default_rng(2).uniform(1, 5, size=14)
    expected = resolve_gamma(gamma, X, weight)
    assert resolve_gamma(gamma, sp.csr_array(X), weight) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("gamma", ["scale", "mean_distance"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_gamma_of_rows_that_are_all_equal_is_one(gamma, make):
    assert resolve_gamma(gamma, make(np.full((5, 2), 3.0)), np.ones(5)) == 1.0


@pytest.mark.parametrize("kernel", PREPARED[:4], ids=str)
def test_positive_semidefinite_kernels_are_left_alone(kernel, X):
    gram = gram_matrix(kernel, X, np.ones(14))
    assert gram.projector is None
    np.testing.assert_array_equal(gram.K, kernel(X))


def test_a_callable_that_is_positive_semidefinite_is_left_alone(X):
    gram = gram_matrix(Kernel(CauchyKernel()), X, np.ones(14))
    assert gram.projector is None
    np.testing.assert_allclose(gram.K, CauchyKernel()(X, X))


def test_a_gram_matrix_of_low_rank_passes_as_positive_semidefinite(X):
    assert gram_matrix(Kernel("precomputed"), X @ X.T, np.ones(14)).projector is None


@pytest.fixture
def indefinite():
    A = np.random.default_rng(3).normal(size=(12, 12))
    return A + A.T


def test_an_indefinite_matrix_keeps_the_positive_part_of_its_spectrum(indefinite):
    gram = gram_matrix(Kernel("precomputed"), indefinite, np.ones(12))
    values, vectors = np.linalg.eigh(indefinite)
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    np.testing.assert_allclose(gram.K, positive, atol=1e-12 * values[-1])
    share = np.abs(values[values < 0]).sum() / np.abs(values).sum()
    assert gram.negative_share == pytest.approx(share)


def test_projected_coefficients_give_the_same_values_with_the_kernel_itself(indefinite):
    weight = np.random.default_rng(4).uniform(0.5, 3.0, size=12)
    gram = gram_matrix(Kernel("precomputed"), indefinite, weight)
    theta = np.random.default_rng(5).normal(size=12)
    np.testing.assert_allclose(indefinite @ (gram.projector @ theta), gram.K @ theta, atol=1e-10)
    assert np.linalg.eigvalsh(gram.K)[0] >= -1e-10


def test_the_positive_part_of_weighted_samples_is_that_of_repeated_ones(indefinite):
    times = np.array([1, 2, 3] * 4)
    index = np.repeat(np.arange(12), times)
    weighted = gram_matrix(Kernel("precomputed"), indefinite, times.astype(float)).K
    repeated = indefinite[np.ix_(index, index)]
    expected = gram_matrix(Kernel("precomputed"), repeated, np.ones(len(index))).K
    np.testing.assert_allclose(weighted[np.ix_(index, index)], expected, atol=1e-10)


def test_a_kernel_that_may_be_indefinite_stays_within_the_memory_limit():
    X = np.random.default_rng(0).normal(size=(700, 4))
    sigmoid, matrix = Kernel("sigmoid", gamma=0.4, coef0=-0.3), 8 * 700**2

    def peak_bytes(max_bytes, message):
        tracemalloc.start()
        with pytest.raises(ValueError, match=message) if message else nullcontext():
            gram_matrix(sigmoid, X, np.ones(700), max_bytes)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    gram_matrix(sigmoid, X[:5], np.ones(5))  # modules are loaded
    named = r"sigmoid kernel .* 700 samples so, takes up to 16 MB, more than cache_size"
    assert peak_bytes(1.9 * matrix, named) < 0.1 * matrix  # not even the matrix
    assert peak_bytes(3.9 * matrix, named) < 3 * matrix  # it is not known before whether it is
    assert peak_bytes(4.1 * matrix, None) < 4.6 * matrix
    given = sigmoid(X)
    gram_matrix(Kernel("precomputed"), given @ given, np.ones(700), 1.1 * matrix)
    with pytest.raises(ValueError, match=r"precomputed kernel .* 12 MB, more than cache_size"):
        gram_matrix(Kernel("precomputed"), given, np.ones(700), 2.9 * matrix)


def test_estimators_tell_their_limit_to_kernels_that_may_be_indefinite():
    X = np.random.default_rng(0).normal(size=(60, 4))
    for model in (ODMClassifier(kernel="sigmoid"), OneClassODM(kernel="sigmoid")):
        with pytest.raises(ValueError, match="set cache_size to that, or use kernel='rbf'"):
            model.set_params(cache_size=0.01).fit(X, X[:, 0] > 0)


def test_rounding_errors_in_symmetry_are_accepted(X):
    K = X @ X.T
    K[0, 1] *= 1 + 1e-13
    assert gram_matrix(Kernel("precomputed"), K, np.ones(14)).projector is None


def test_pivoted_cholesky_reproduces_a_matrix_to_its_tolerance(X):
    K = Kernel("rbf", gamma=0.05)(X)
    factor = pivoted_cholesky(K, rtol=1e-4, max_rank=14)
    rest = K - factor @ factor.T
    assert factor.shape[1] < 14
    assert np.diagonal(rest).max() <= 1e-4
    assert np.linalg.eigvalsh(rest)[0] >= -1e-12


def test_pivoted_cholesky_gives_up_past_its_largest_rank():
    assert pivoted_cholesky(np.eye(6), rtol=1e-12, max_rank=5) is None
    assert pivoted_cholesky(np.eye(6), rtol=1e-12, max_rank=6).shape == (6, 6)


def test_pivoted_cholesky_of_zero_has_rank_zero():
    assert pivoted_cholesky(np.zeros((4, 4)), rtol=1e-12, max_rank=2).shape == (4, 0)


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_gamma_scale_of_sparse_data_is_that_of_dense(shift):
    X = np.random.default_rng(0).normal(size=(40, 5)) + shift
    X[::7] = 0.0 if shift == 0 else shift
    weight = np.linspace(1, 2, 40)
    dense, sparse = (resolve_gamma("scale", A, weight) for A in (X, sp.csr_array(X)))
    assert sparse == pytest.approx(dense, rel=1e-12)


@dataclass(frozen=True)
class RationalQuadratic(RadialKernel):
    """``1 / (1 + gamma |x - z|^2)``: what a new radial kernel has to write."""

    name = "rational"

    def profile(self, squares):
        """Return the values."""
        return 1 / (1 + squares)

    def profile_slope(self, squares):
        """Return their derivative."""
        return -1 / (1 + squares) ** 2


RADIAL = [Kernel("rbf"), RationalQuadratic()]
every_radial = pytest.mark.parametrize("kernel", RADIAL, ids=str)


@every_radial
@pytest.mark.parametrize("width", [0.4, 1.0, 7.0])
def test_the_slope_by_the_width_is_that_of_finite_differences(kernel, width, X, Y):
    distances, step = squared_distances(X, Y), 1e-6

    def values(log_width):
        gamma = gamma_of_width(np.exp(log_width))
        made = replace(kernel, gamma=gamma)
        return made, made.of_distances(distances.copy())

    given = distances.copy()
    made, K = values(np.log(width))
    slope = made.width_slope(given, K)
    rise = values(np.log(width) + step)[1] - values(np.log(width) - step)[1]
    np.testing.assert_allclose(slope, rise / (2 * step), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(given, distances)
    np.testing.assert_allclose(K, made.of_distances(distances), rtol=1e-15)


@every_radial
def test_values_of_distances_are_those_of_rows(kernel, X, Y):
    K = kernel.of_distances(squared_distances(X, Y))
    np.testing.assert_allclose(K, kernel(X, Y), rtol=1e-12)
    np.testing.assert_allclose(np.diagonal(kernel(X)), 1.0, rtol=1e-13)


def test_a_new_radial_kernel_is_what_its_formula_says(X, Y):
    kernel = RationalQuadratic(0.3)
    expected = 1 / (1 + 0.3 * cdist(X, Y, "sqeuclidean"))
    np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel(sp.csr_array(X), sp.csr_array(Y)), expected, rtol=1e-12)
    assert kernel(X.astype(np.float32)).dtype == np.float32
    assert kernel.is_positive_semidefinite
    assert gram_matrix(kernel, X, np.ones(14)).projector is None
    np.testing.assert_allclose(PreparedKernel(kernel, X).diagonal(), 1.0)


@every_kernel
def test_the_diagonal_is_that_of_the_whole_matrix(kernel, X):
    diagonal = PreparedKernel(kernel, X).diagonal()
    np.testing.assert_allclose(diagonal, np.diagonal(kernel(X)), rtol=1e-12)


def test_a_name_makes_the_kernel_registered_under_it():
    for name, made in KERNELS.items():
        assert kernel_class(name) is made
        kernel = Kernel(name, gamma=0.3, degree=4, coef0=0.7)
        assert type(kernel) is made
        assert kernel == make_kernel(name, gamma=0.3, degree=4, coef0=0.7)
        given = {"gamma": 0.3, "degree": 4, "coef0": 0.7}
        for parameter in kernel.parameters:
            assert getattr(kernel, parameter) == given[parameter]
    with pytest.raises(ValueError, match="kernel='laplace' is unknown: use one of"):
        Kernel("laplace")


def test_a_class_of_kernels_is_made_as_any_class():
    assert RationalQuadratic(gamma=2.0).gamma == 2.0
    assert isinstance(Kernel("poly"), InnerProductKernel)
    assert isinstance(Kernel("rbf"), RadialKernel)
    assert isinstance(Kernel(CauchyKernel()), CallableKernel)


def test_what_is_known_of_a_kernel_by_its_class():
    known = {
        name: (k.is_linear, k.is_precomputed, k.is_prepared, k.has_width)
        for name, k in KERNELS.items()
    }
    assert known == {
        "linear": (True, False, True, False),
        "rbf": (False, False, True, True),
        "poly": (False, False, True, False),
        "sigmoid": (False, False, True, False),
        "precomputed": (False, True, False, False),
    }
    assert not CallableKernel.is_prepared


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (Kernel("linear"), True),
        (Kernel("rbf"), True),
        (Kernel("poly", degree=3, coef0=0.0), True),
        (Kernel("poly", degree=3, coef0=-0.1), False),
        (Kernel("poly", degree=2.5, coef0=1.0), False),
        (Kernel("sigmoid"), False),
        (Kernel("precomputed"), False),
        (Kernel(CauchyKernel()), False),
    ],
    ids=str,
)
def test_definiteness_is_claimed_only_where_it_is_known(kernel, expected):
    assert kernel.is_positive_semidefinite is expected


@pytest.mark.parametrize("kernel", [Kernel("precomputed"), Kernel(CauchyKernel())], ids=str)
def test_given_values_are_not_made_from_inner_products(kernel):
    with pytest.raises(TypeError, match="not a function of inner products"):
        kernel.values(np.eye(2), np.ones(2), np.ones(2))
    with pytest.raises(TypeError, match="not a function of inner products"):
        kernel.diagonal(np.ones(2))


def test_a_fractional_power_of_a_negative_number_is_explained(X):
    kernel = Kernel("poly", degree=2.5)
    assert Kernel("poly").why_undefined() is None
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="use an integer degree"):
        gram_matrix(kernel, X - 0.5, np.ones(14))


def test_a_choice_becomes_a_kernel_once_gamma_is_known(X):
    weight = np.random.default_rng(2).uniform(1, 5, size=14)
    choice = KernelChoice("poly", gamma="scale", degree=2, coef0=0.5)
    assert (choice.is_prepared, choice.is_precomputed, choice.has_gamma) == (True, False, True)
    kernel = choice.resolve(X, weight)
    assert kernel == Kernel("poly", resolve_gamma("scale", X, weight), 2, 0.5)
    assert choice.at(3.0) == Kernel("poly", 3.0, 2, 0.5)
    assert choice.kind is type(kernel)


@pytest.mark.parametrize("given", ["linear", "precomputed", CauchyKernel()], ids=str)
def test_a_choice_without_gamma_does_not_look_at_the_data(given):
    choice = KernelChoice(given, gamma="mean_distance")
    assert not choice.has_gamma
    assert choice.resolve(None, None) == Kernel(given)
    assert choice.is_precomputed == (given == "precomputed")


def test_a_callable_may_return_a_sparse_matrix():
    X = np.eye(3)
    np.testing.assert_array_equal(Kernel(lambda A, B: sp.csr_array(A @ B.T))(X), X)


@pytest.mark.parametrize("share", [0.05, 0.6])
def test_values_between_long_rows_are_precise_in_float32(share):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    n_long = int(share * 400)
    X[:n_long] *= 3e3
    X[10:20] = X[:10] + 0.3 * rng.normal(size=(10, 4))
    kernel = make_kernel("rbf", gamma=0.3)
    single, double = (PreparedKernel(kernel, X, dtype) for dtype in (np.float32, np.float64))
    np.testing.assert_allclose(single.block(), double.block(), atol=1e-5)
    assert double.block()[:10, 10:20].diagonal().min() > 0.1
    new = np.vstack([X + 0.1, 1e20 * X[:5]])
    np.testing.assert_allclose(single.against(new), double.against(new), atol=1e-5)
    v = rng.normal(size=20)
    rows, columns = np.arange(30), np.arange(20)
    expected = double.block(rows, columns) @ v
    np.testing.assert_allclose(single.product(rows, columns, v), expected, atol=1e-4)


def test_sums_of_many_outputs_are_those_of_each():
    rng = np.random.default_rng(0)
    X, Y, V = rng.normal(size=(50, 3)), rng.normal(size=(1500, 3)), rng.normal(size=(1500, 9))
    kernel = make_kernel("rbf", gamma=0.3)
    together = kernel_product(kernel, X, Y, V, np.float32)
    expected = kernel(X, Y) @ V
    np.testing.assert_allclose(together, expected, atol=1e-3)
