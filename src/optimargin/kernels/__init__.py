"""Kernel functions: one class per kernel, one registry, and their Gram matrices and widths."""

from optimargin.kernels.base import InnerProductKernel, Kernel, RadialKernel, RowKernel
from optimargin.kernels.functions import (
    KERNELS,
    CallableKernel,
    KernelChoice,
    kernel_class,
    make_kernel,
)
from optimargin.kernels.gram import GramMatrix, gram_matrix, pivoted_cholesky
from optimargin.kernels.prepared import PreparedKernel, RowCache, kernel_product
from optimargin.kernels.widths import (
    check_gammas,
    gamma_of_width,
    mean_distance,
    one_or_each,
    resolve_gamma,
    squared_distances,
)

__all__ = [
    "KERNELS",
    "CallableKernel",
    "GramMatrix",
    "InnerProductKernel",
    "Kernel",
    "KernelChoice",
    "PreparedKernel",
    "RadialKernel",
    "RowCache",
    "RowKernel",
    "check_gammas",
    "gamma_of_width",
    "gram_matrix",
    "kernel_class",
    "kernel_product",
    "make_kernel",
    "mean_distance",
    "one_or_each",
    "pivoted_cholesky",
    "resolve_gamma",
    "squared_distances",
]
