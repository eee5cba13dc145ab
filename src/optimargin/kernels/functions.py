"""The kernels, and the one place where a name becomes a kernel."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from optimargin._core._kernels import rbf_in_place
from optimargin.kernels.base import InnerProductKernel, Kernel, RadialKernel, RowKernel
from optimargin.kernels.prepared import FILLED_ELEMENTS, row_blocks
from optimargin.kernels.widths import check_gammas, one_or_each, resolve_gamma


@dataclass(frozen=True)
class LinearKernel(InnerProductKernel):
    """``k(x, z) = x'z``."""

    name = "linear"
    is_linear = True

    @property
    def is_positive_semidefinite(self) -> bool:
        """True."""
        return True

    def of_products(self, products):
        """Return the inner products."""
        return products


@dataclass(frozen=True)
class RBFKernel(RadialKernel):
    """``k(x, z) = exp(-gamma |x - z|^2)``."""

    name = "rbf"

    def profile(self, squares):
        """Return ``exp(-squares)``."""
        return np.exp(np.negative(squares, out=squares), out=squares)

    def profile_slope(self, squares):
        """Return ``-exp(-squares)``."""
        return -self.profile(squares)

    def values(self, products, row_norms, column_norms):
        """Return the kernel values, by a compiled loop."""
        rbf_in_place(products, row_norms, column_norms, 1.0)
        return products

    def of_distances(self, distances):
        """Return ``exp(-gamma distances)``."""
        K = distances * -self.gamma
        return np.exp(K, out=K)

    def width_slope(self, distances, K):
        """Return ``2 gamma distances K``, without another exponential."""
        slope = K * distances
        slope *= 2 * self.gamma
        return slope

    def onnx(self, graph, X, vectors):
        """Return the kernel values, around the mean of the vectors.

        There squared distances lose the fewest digits. Factors are part of the constants:
        onnxruntime fuses a multiplication by a number with a product of matrices, and rounds
        the number to float32.
        """
        center = vectors.mean(axis=0, keepdims=True)
        vectors = vectors - center
        gammas = np.empty_like(center)
        gammas[:] = self.gamma
        X = graph.op("Sub", X, graph.array(center))
        products = graph.op("MatMul", X, graph.array((2 * gammas * vectors).T))
        squares = graph.op("MatMul", graph.op("Mul", X, X), graph.array(gammas.T))
        norms = graph.array((gammas * np.square(vectors)).sum(axis=1)[None, :])
        exponent = graph.op("Sub", graph.op("Sub", products, squares), norms)
        return graph.op("Exp", graph.op("Min", exponent, graph.number(0)))


@dataclass(frozen=True)
class PolynomialKernel(InnerProductKernel):
    """``k(x, z) = (gamma x'z + coef0)^degree``."""

    gamma: float = 1.0
    degree: float = 3
    coef0: float = 0.0

    name = "poly"
    parameters = ("gamma", "degree", "coef0")

    @property
    def is_positive_semidefinite(self) -> bool:
        """Whether all coefficients of the polynomial are non-negative."""
        return self.coef0 >= 0 and float(self.degree).is_integer()

    def of_products(self, products):
        """Return the polynomial of the inner products."""
        products *= self.gamma
        products += self.coef0
        return np.power(products, self.degree, out=products)

    def why_undefined(self) -> str | None:
        """Return that a fractional power of a negative number is no number."""
        if float(self.degree).is_integer():
            return None
        return (
            f"A 'poly' kernel of degree {self.degree:g} has no value for negative inner "
            "products: use an integer degree, or non-negative features and coef0."
        )

    def onnx(self, graph, X, vectors):
        """Return the power of shifted products."""
        product = graph.op("MatMul", X, graph.array(self.gamma * vectors.T))
        shifted = graph.op("Add", product, graph.number(self.coef0))
        return graph.op("Pow", shifted, graph.number(self.degree))


@dataclass(frozen=True)
class SigmoidKernel(InnerProductKernel):
    """``k(x, z) = tanh(gamma x'z + coef0)``, which is not positive semi-definite."""

    gamma: float = 1.0
    coef0: float = 0.0

    name = "sigmoid"
    parameters = ("gamma", "coef0")

    def of_products(self, products):
        """Return the hyperbolic tangent of shifted products."""
        products *= self.gamma
        products += self.coef0
        return np.tanh(products, out=products)

    def onnx(self, graph, X, vectors):
        """Return the hyperbolic tangent of shifted products."""
        product = graph.op("MatMul", X, graph.array(self.gamma * vectors.T))
        return graph.op("Tanh", graph.op("Add", product, graph.number(self.coef0)))


class _GivenKernel(RowKernel):
    """A kernel whose values are given, by a matrix or a function, for all rows at a time."""

    is_prepared = False

    def between(self, X, Y):
        """Return the values that are given."""
        return self(X, Y)

    def with_themselves(self, X):
        """Return the diagonal of the values that are given."""
        return np.diagonal(self(X, X))


@dataclass(frozen=True)
class PrecomputedKernel(_GivenKernel):
    """The data are kernel values."""

    name = "precomputed"
    is_precomputed = True

    def __call__(self, X, Y=None):
        """Return `X`."""
        return X


@dataclass(frozen=True)
class CallableKernel(_GivenKernel):
    """A function of two matrices, given by the user."""

    function: Callable

    name = "given"

    def __call__(self, X, Y=None):
        """Return what the function returns, checked; it gets both matrices in one container."""
        Y = X if Y is None else Y
        if issparse(X) and not issparse(Y):
            blocks = row_blocks(*X.shape, n_elements=FILLED_ELEMENTS)
            return np.concatenate([self(X[rows].toarray(), Y) for rows in blocks])
        K = self.function(type(Y)(X) if issparse(Y) else X, Y)
        K = K.toarray() if issparse(K) else np.asarray(K)
        if K.shape != (X.shape[0], Y.shape[0]):
            raise ValueError(
                f"The kernel callable returned an array of shape {K.shape} for inputs of "
                f"{X.shape[0]} and {Y.shape[0]} rows; it must return {(X.shape[0], Y.shape[0])}."
            )
        if np.iscomplexobj(K):
            raise ValueError(
                "The kernel callable returned complex values; it must return real ones."
            )
        if np.isnan(K).any():
            raise ValueError("The kernel callable returned NaN; all kernel values must be finite.")
        dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
        return np.ascontiguousarray(K, dtype=dtype)


KERNELS: dict[str, type[Kernel]] = {
    kernel.name: kernel
    for kernel in (LinearKernel, RBFKernel, PolynomialKernel, SigmoidKernel, PrecomputedKernel)
}


def kernel_class(kernel) -> type[Kernel]:
    """Return the class of a kernel given as a name or a function."""
    if callable(kernel):
        return CallableKernel
    if kernel not in KERNELS:
        raise ValueError(f"kernel={kernel!r} is unknown: use one of {sorted(KERNELS)}.")
    return KERNELS[kernel]


def make_kernel(kernel, gamma=1.0, degree=3, coef0=0.0) -> Kernel:
    """Return the kernel of a name, or of a function of two matrices.

    Parameters
    ----------
    kernel : str or callable
    gamma, degree, coef0 : float
        Used by the kernels that have them. A radial kernel takes one gamma per feature, too.

    Examples
    --------
    >>> from optimargin.kernels import make_kernel
    >>> make_kernel("rbf", gamma=0.5)
    RBFKernel(gamma=0.5)
    """
    if callable(kernel):
        return CallableKernel(kernel)
    given = {"gamma": one_or_each(gamma), "degree": degree, "coef0": coef0}
    made = kernel_class(kernel)
    return made(**{name: given[name] for name in made.parameters})


@dataclass(frozen=True)
class KernelChoice:
    """A kernel as an estimator's parameters describe it, its gamma perhaps only by name.

    Attributes
    ----------
    kernel : str or callable
    gamma : {"scale", "auto", "mean_distance", "rms_distance"}, float or tuple of float
    degree, coef0 : float
    """

    kernel: str | Callable
    gamma: Any = 1.0
    degree: float = 3
    coef0: float = 0.0

    @property
    def kind(self) -> type[Kernel]:
        """The class of the kernel."""
        return kernel_class(self.kernel)

    @property
    def is_prepared(self) -> bool:
        """Whether values follow from inner products."""
        return self.kind.is_prepared

    @property
    def is_precomputed(self) -> bool:
        """Whether the data are kernel values themselves."""
        return self.kind.is_precomputed

    @property
    def has_gamma(self) -> bool:
        """Whether the kernel has a parameter gamma."""
        return "gamma" in self.kind.parameters

    def at(self, gamma) -> Kernel:
        """Return the kernel with a number for gamma."""
        return make_kernel(self.kernel, gamma, self.degree, self.coef0)

    @property
    def gamma_rule(self) -> Any:
        """What gamma stands for: distances say nothing about kernels of inner products."""
        is_of_distances = self.gamma != "rms_distance" or self.kind.has_width
        return self.gamma if is_of_distances else "scale"

    def known(self, kernel) -> "KernelChoice":
        """Return the choice with the gamma of a kernel that it was resolved to."""
        return replace(self, gamma=kernel.gamma) if self.has_gamma else self

    def resolve(self, X, weight) -> Kernel:
        """Return the kernel for data of these weights."""
        if not self.has_gamma:
            return self.at(1.0)
        self.check(X.shape[1])
        return self.at(resolve_gamma(self.gamma_rule, X, weight))

    def check(self, n_features):
        """Raise ValueError where one gamma per feature does not suit the kernel or the data."""
        if isinstance(self.gamma, tuple) and self.has_gamma:
            check_gammas(self.gamma, n_features, has_width=self.kind.has_width)
