"""Designs by name: how each is made from the data of a fit.

A new design is one function and one row of `DESIGNS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from optimargin.designs import (
    FeatureDesign,
    GramDesign,
    KernelMatrix,
    LinearGramDesign,
)
from optimargin.designs.base import Design
from optimargin.kernels import PreparedKernel, gram_matrix


@dataclass(frozen=True)
class NegativeSpectrum:
    """A kernel matrix was replaced by its positive part.

    Attributes
    ----------
    kernel : Kernel
    share : float
        Of negative eigenvalues in the sum of all absolute eigenvalues.
    """

    kernel: Any
    share: float


@dataclass(frozen=True)
class CrowdedMemory:
    """There is no room for the kernel values of all active samples.

    Attributes
    ----------
    n_active, capacity, n_samples : int
    """

    n_active: int
    capacity: int
    n_samples: int


@dataclass(frozen=True)
class MadeDesign:
    """A design, and what solutions have to be multiplied with.

    Attributes
    ----------
    design : Design
    projector : ndarray of shape (n_samples, n_samples) or None
        See `optimargin.kernels.GramMatrix`.
    """

    design: Design
    projector: np.ndarray | None = None


def make_design(plan, kernel, X, weight, *, fit_intercept, notify) -> MadeDesign:
    """Return the design that a plan asks for.

    Parameters
    ----------
    plan : Plan
    kernel : Kernel or None
    X : {ndarray, CSR} of shape (n_samples, n_features)
    weight : ndarray of shape (n_samples,)
        Positive, summing to one.
    fit_intercept : bool
    notify : callable
        Given facts that the user should know: `NegativeSpectrum`, `CrowdedMemory`.
    """
    return DESIGNS[plan.design](plan, kernel, X, weight, fit_intercept, notify)


def _center(X, weight, fit_intercept):
    """Return the mean of dense rows: without it, large means spoil the curvature."""
    return FeatureDesign(X).represent(weight) if fit_intercept and not issparse(X) else None


def _features(plan, kernel, X, weight, fit_intercept, notify):
    return MadeDesign(FeatureDesign(X, _center(X, weight, fit_intercept)))


def _linear_gram(plan, kernel, X, weight, fit_intercept, notify):
    return MadeDesign(LinearGramDesign(X, _center(X, weight, fit_intercept)))


def check_square(X):
    """Raise ValueError unless X can be a matrix of kernel values between training samples."""
    if X.shape[0] != X.shape[1]:
        raise ValueError(
            "With kernel='precomputed' X must be the square matrix of kernel values "
            f"between the training samples; got shape {X.shape}."
        )


def _gram(plan, kernel, X, weight, fit_intercept, notify):
    if kernel.is_precomputed:
        check_square(X)
    gram = gram_matrix(kernel, X, weight, plan.max_bytes)
    if gram.projector is not None:
        notify(NegativeSpectrum(kernel, gram.negative_share))
    return MadeDesign(GramDesign(gram.K), gram.projector)


def _rounded_gram(plan, kernel, X, weight, fit_intercept, notify):
    prepared = PreparedKernel(kernel, X, np.float32)
    design = GramDesign(
        prepared.block(),
        precise_kernel=lambda: PreparedKernel(kernel, X, np.float64),
        scale=prepared.rounding_scale(),
    )
    return MadeDesign(design)


def _kernel_matrix(plan, kernel, X, weight, fit_intercept, notify):
    def precise_kernel():
        return PreparedKernel(kernel, X, np.float64)

    def on_crowded(n_active, capacity):
        notify(CrowdedMemory(n_active, capacity, X.shape[0]))

    is_rounded = plan.dtype != np.float64
    prepared = PreparedKernel(kernel, X, np.float32) if is_rounded else precise_kernel()
    if is_rounded and not prepared.is_finite():
        is_rounded, prepared = False, precise_kernel()
    prepared.check_finite()
    design = KernelMatrix(
        prepared,
        max_bytes=plan.max_bytes,
        dtype=plan.dtype if is_rounded else None,
        precise_kernel=precise_kernel if is_rounded else None,
        on_crowded=on_crowded,
    )
    return MadeDesign(design)


DESIGNS: dict[str, Callable[..., MadeDesign]] = {
    "features": _features,
    "linear_gram": _linear_gram,
    "gram": _gram,
    "rounded_gram": _rounded_gram,
    "panels": _kernel_matrix,
    "tiles": _kernel_matrix,
}
