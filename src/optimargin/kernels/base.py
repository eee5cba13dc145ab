"""What a kernel is: a function of two samples with its parameters fixed.

A new kernel is a subclass of `InnerProductKernel`, of `RadialKernel` or, where it is a function
neither of inner products nor of distances, of `RowKernel`, and a row in `KERNELS`
(`optimargin.kernels.functions`). It then works in every estimator, with landmarks, chunks,
model files and, where it is radial, with the search for a width.
"""

from abc import ABC, ABCMeta, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np


class _MakesRegistered(ABCMeta):
    """Lets ``Kernel("rbf", gamma=0.5)`` make the registered kernel of that name."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Kernel:
            from optimargin.kernels.functions import make_kernel

            return make_kernel(*args, **kwargs)
        return super().__call__(*args, **kwargs)


class Kernel(ABC, metaclass=_MakesRegistered):
    """A kernel function with all its parameters fixed.

    ``Kernel(name, gamma=1.0, degree=3, coef0=0.0)`` makes the kernel registered under a name;
    parameters that it does not have are ignored.

    Examples
    --------
    >>> import numpy as np
    >>> from optimargin.kernels import Kernel
    >>> Kernel("poly", gamma=1.0, degree=2, coef0=1.0)(np.array([[1.0], [2.0]]))
    array([[ 4.,  9.],
           [ 9., 25.]])
    """

    name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = ()
    """Which of ``gamma``, ``degree`` and ``coef0`` it has."""
    is_linear: ClassVar[bool] = False
    """Whether a value is the plain inner product: then w has coefficients per feature."""
    is_precomputed: ClassVar[bool] = False
    """Whether the data are kernel values themselves."""
    is_prepared: ClassVar[bool] = True
    """Whether rows are prepared once, for values that are computed in our threads."""
    has_width: ClassVar[bool] = False
    """Whether it depends on distances in units of a width, ``gamma = 1 / (2 width**2)``."""

    def __call__(self, X, Y=None):
        """Return the matrix of kernel values between the rows of `X` and of `Y`.

        Parameters
        ----------
        X : {ndarray, CSR} of shape (n_samples_X, n_features)
        Y : {ndarray, CSR} of shape (n_samples_Y, n_features), default=None
            `X` itself when not given.

        Returns
        -------
        K : ndarray of shape (n_samples_X, n_samples_Y)
            In the precision of `X`.
        """
        from optimargin.kernels.prepared import PreparedKernel

        prepared = PreparedKernel(self, X if Y is None else Y, X.dtype)
        return prepared.block() if Y is None else prepared.against(X)

    @property
    def is_positive_semidefinite(self) -> bool:
        """Whether every Gram matrix of this kernel is known to be positive semi-definite."""
        return False

    @property
    def row_scale(self) -> float | np.ndarray:
        """What rows are multiplied with before inner products: a number, or one per feature."""
        return 1.0

    @abstractmethod
    def values(self, products, row_norms, column_norms):
        """Turn inner products of scaled rows into kernel values, in place where possible.

        Parameters
        ----------
        products : ndarray of shape (n_rows, n_columns)
        row_norms, column_norms : ndarray of shape (n_rows,), (n_columns,)
            Squared norms of the scaled rows.
        """

    @abstractmethod
    def diagonal(self, norms):
        """Return the kernel values of rows with themselves, given their squared norms."""

    def why_undefined(self) -> str | None:
        """Return in words why values may be no numbers even for small features, or None."""
        return None

    def onnx(self, graph, X, vectors):
        """Return the node of the kernel values between X and `vectors`.

        Parameters
        ----------
        graph : Graph
            Of `optimargin.onnx`: writes formulas as nodes.
        X : node
        vectors : ndarray of shape (n_vectors, n_features)
        """
        raise ValueError(f"The kernel {self.name!r} has no ONNX form.")


class InnerProductKernel(Kernel):
    """A kernel whose values are a function of inner products."""

    @abstractmethod
    def of_products(self, products):
        """Turn inner products into kernel values, in place where possible."""

    def values(self, products, row_norms, column_norms):
        """Return the kernel values of inner products."""
        return self.of_products(products)

    def diagonal(self, norms):
        """Return the kernel values of rows with themselves."""
        return self.of_products(np.array(norms))


class RowKernel(Kernel):
    """A kernel whose values are computed from the rows themselves."""

    @abstractmethod
    def between(self, X, Y):
        """Return the kernel values between dense rows, of shape (n_samples_X, n_samples_Y)."""

    @abstractmethod
    def with_themselves(self, X):
        """Return the kernel values of dense rows with themselves, of shape (n_samples,)."""

    def values(self, products, row_norms, column_norms):
        """Not defined."""
        raise TypeError(f"The kernel {self.name!r} is not a function of inner products.")

    def diagonal(self, norms):
        """Not defined."""
        raise TypeError(f"The kernel {self.name!r} is not a function of inner products.")


@dataclass(frozen=True)
class RadialKernel(Kernel):
    """A kernel whose values are a function of ``gamma |x - z|^2``.

    A subclass says what that function is (`profile`) and how it changes (`profile_slope`). It
    must be one at zero. With one gamma per feature, a tuple, it is a function of
    ``sum_j gamma_j (x_j - z_j)^2``: the same kernel with gamma one, of rows that are scaled.
    """

    gamma: Any = 1.0  # a number, or a tuple of them

    parameters = ("gamma",)
    has_width = True

    @property
    def is_positive_semidefinite(self) -> bool:
        """True: a radial kernel that is not should say so."""
        return True

    @property
    def row_scale(self) -> float | np.ndarray:
        """The root of gamma: neither distances nor gamma leave the range of the data's type."""
        scale = np.sqrt(self.gamma)
        return scale if isinstance(self.gamma, tuple) else float(scale)

    @abstractmethod
    def profile(self, squares):
        """Return the kernel values of squared distances times gamma; may overwrite them."""

    @abstractmethod
    def profile_slope(self, squares):
        """Return the derivative of `profile`."""

    def values(self, products, row_norms, column_norms):
        """Return the kernel values, from inner products and squared norms."""
        products *= -2
        products += row_norms[:, None]
        products += column_norms
        return self.profile(np.maximum(products, 0, out=products))

    def diagonal(self, norms):
        """Return ones."""
        return np.ones_like(norms)

    def of_distances(self, distances):
        """Return the kernel values of squared distances, in a new array; of one gamma only."""
        return self.profile(self.gamma * distances)

    def width_slope(self, distances, K):
        """Return the derivative of ``K = of_distances(distances)`` by the logarithm of the width.

        With gamma proportional to ``width**-2`` the derivative of ``gamma d^2`` is
        ``-2 gamma d^2``.
        """
        squares = self.gamma * distances
        return -2 * squares * self.profile_slope(squares.copy())
