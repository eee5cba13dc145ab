"""The machines that a plan chooses from: what each can do, and what it costs.

A machine is a solver on a design. It counts its operations by kind; `RATES` turn them into seconds.
Rates follow from benchmarks/results/kernel_map.json and crossovers.json, of two cores;
benchmarks/rates.py measures them one by one. They are fixed, so that every computer chooses alike:
another one multiplies all of them by about the same factor.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import issparse

from optimargin._checks import sum_of_squares
from optimargin.designs.kernel import Triangle
from optimargin.losses import BandLoss
from optimargin.objectives import AdditiveObjective
from optimargin.solvers.block_cd import MOST_CYCLES
from optimargin.solvers.ldm_dcd import INTERIOR_UP_TO, LINEAR_EPOCHS


@dataclass(frozen=True)
class Rates:
    """Seconds per operation, and seconds that other things are worth.

    Attributes
    ----------
    factored : float
        Of a multiplication in a factorisation or a product of matrices.
    byte : float
        Of a byte that a product of a matrix and a vector reads.
    scattered : float
        Of a multiplication by a stored value of sparse rows.
    kernel_value : float
        Of a kernel value, but for the product of the rows.
    step : float
        Of a step of a solver in the interpreter: some hundred calls of NumPy.
    exactness : float
        What a user waits for an exact solution in place of a rough one.
    """

    factored: float = 3e-11
    byte: float = 5e-11
    scattered: float = 6e-10
    kernel_value: float = 3.3e-9
    step: float = 5e-4
    exactness: float = 3.5e-3


RATES = Rates()

# How often: benchmarks/kernel_map.py, benchmarks/crossovers.py, benchmarks/ldm.py
NEWTON_STEPS = 5  # steps of a fit, whatever the tolerance
CYCLES_PER_DIGIT = 1.5  # cycles of block descent per root of the curvature of a sample
PRODUCTS_PER_DIGIT = 0.1  # products of conjugate gradients per root of the condition
CACHED_BYTES = 25e6  # bytes of kernel values that stay in a cache between two epochs
INTERIOR_STEPS = 20  # factorisations of the interior point method
ROUGH_TOL = 1e-5  # relative gap, below which epochs are followed by factorisations

DOUBLE, SINGLE, FIXED = (np.dtype(t) for t in (np.float64, np.float32, np.uint16))


def rounding_of(dtype):
    """Return the rounding of kernel values about one, by the precision that they are kept in."""
    return 1.0 / np.iinfo(dtype).max if dtype == FIXED else float(np.finfo(dtype).eps)


@dataclass(frozen=True)
class Case:
    """A problem, as far as costs depend on it.

    Attributes
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
    objective : Objective
        With all its numbers.
    kernel : Kernel or None
    tol, max_bytes : float
        See `optimargin.training.plan.Options`.
    n_outputs : int
    is_additive, is_linear, is_radial_band, is_sparse, is_wide : bool
        What follows from these: a sum over samples, a model linear in the features, a band loss of
        a radial kernel, zeros that are not stored, more features than samples.
    n_values, curvature, condition, digits, read : float
    """

    X: Any
    objective: Any
    kernel: Any
    tol: float
    max_bytes: float
    n_outputs: int
    is_additive: bool = field(init=False)
    is_linear: bool = field(init=False)
    is_radial_band: bool = field(init=False)
    is_sparse: bool = field(init=False)
    is_wide: bool = field(init=False)
    n_values: float = field(init=False)
    curvature: float = field(init=False)
    condition: float = field(init=False)
    digits: float = field(init=False)
    read: float = field(init=False)

    def __post_init__(self):
        X, kernel, objective = self.X, self.kernel, self.objective
        n_samples = X.shape[0]
        is_additive = isinstance(objective, AdditiveObjective)
        is_linear = kernel is None or kernel.is_linear
        has_band = is_additive and issubclass(objective.loss_type, BandLoss)
        is_sparse = issparse(X)
        n_values = X.nnz if is_sparse else n_samples * X.shape[1]
        # Of the loss of one sample of mean weight; the large margin machine has none.
        curvature = objective.loss().smoothness / n_samples if is_additive else 0.0
        vars(self).update(
            is_additive=is_additive,
            is_linear=is_linear,
            is_radial_band=has_band and kernel is not None and kernel.has_width,
            is_sparse=is_sparse,
            is_wide=n_samples < X.shape[1],
            n_values=n_values,
            curvature=curvature,
            # Ratio of the curvatures of loss and penalty: at most this, by the trace.
            condition=curvature * (sum_of_squares(X) if is_linear else n_samples),
            digits=max(-np.log10(self.tol), 1.0),
            # Seconds of one pass over X: a product with it and one with its transpose.
            read=2 * n_values * (RATES.scattered if is_sparse else RATES.byte * X.dtype.itemsize),
        )

    def values(self, share=1.0):
        """Return the seconds that a share of all kernel values take."""
        n_samples, n_features = self.X.shape
        if self.kernel is not None and self.kernel.is_precomputed:
            return 0.0
        return share * n_samples**2 * (RATES.kernel_value + n_features * RATES.factored)


@dataclass(frozen=True)
class Machine:
    """A solver on a design.

    Attributes
    ----------
    solver, design : str
        Names in `Objective.solvers` and `optimargin.training.designs.DESIGNS`.
    can : callable
        Given a `Case`, it says whether the machine solves it.
    cost : callable
        Given a `Case`, it returns seconds and bytes.
    dtype : numpy dtype
        The precision of kernel values.
    factorises : bool
        Whether its steps end at the final active set, if one more of them is cheap.
    is_asked_for : bool
        Whether it is taken only where its solver is asked for: its costs cannot be foreseen.
    """

    solver: str
    design: str
    can: Callable[[Case], bool]
    cost: Callable[[Case], tuple[float, float]]
    dtype: Any = DOUBLE
    factorises: bool = False
    is_asked_for: bool = False

    @property
    def takes_newton_steps(self):
        """Whether it converges fast from wherever another machine ended."""
        return self.solver in ("newton", "newton_cg")

    @property
    def rounding(self):
        """What the design does to the values it keeps; inner products lose small columns."""
        return rounding_of(SINGLE if self.design == "linear_gram" else self.dtype)


def factorise(order):
    """Return the seconds of a factorisation."""
    return RATES.factored * order**3 / 3


def _products(case):
    """Return how many products all steps of conjugate gradients take."""
    n_samples, n_features = case.X.shape
    # The more features per sample, the smaller the eigenvalues that count.
    condition = case.condition * (n_features / n_samples if case.is_linear else 1.0)
    rank = min(n_samples, n_features) if case.is_linear else n_samples
    return NEWTON_STEPS + min(rank, PRODUCTS_PER_DIGIT * case.digits * np.sqrt(condition))


def _newton_on_features(case):
    n_samples, n_features = case.X.shape
    if case.is_sparse and case.is_wide:  # whose coefficients are samples
        gram, order = RATES.scattered * case.n_values**2 / n_features, n_samples
    elif case.is_sparse:
        gram, order = RATES.scattered * case.n_values**2 / n_samples, n_features
    else:
        gram, order = RATES.factored * case.n_values * n_features / 2, n_features
    # All rows once, and half as many that join or leave the active set.
    steps = NEWTON_STEPS * (RATES.step + factorise(order) + 3 * case.read / 2)
    return case.n_outputs * (3 * gram / 2 + steps), 16.0 * order**2


def _newton_on_products(case):
    n_samples, n_features = case.X.shape
    gram = RATES.factored * n_samples**2 * n_features / 2
    steps = NEWTON_STEPS * (RATES.step + factorise(n_samples) + case.read)
    return gram + case.n_outputs * steps, 16.0 * n_samples**2


def _newton_on_gram(case):
    n_samples = case.X.shape[0]
    steps = NEWTON_STEPS * (RATES.step + factorise(n_samples))
    return case.values() + case.n_outputs * steps, 16.0 * n_samples**2


def _cg_on_features(case):
    # A product reads active rows once; a step and its line search read all rows as well.
    steps = NEWTON_STEPS * (RATES.step + 3 * case.read / 2) + _products(case) * case.read / 2
    return case.n_outputs * steps, 8.0 * sum(case.X.shape)


def _cg_on_kernel(n_bytes):
    def cost(case):
        n_values = case.X.shape[0] ** 2
        # Two right-hand sides, one of them for the intercept.
        product = 2 * n_values * n_bytes * RATES.byte + RATES.step
        steps = NEWTON_STEPS * RATES.step + _products(case) * product
        kept = min(n_bytes * n_values, case.max_bytes)
        return case.values() + case.n_outputs * steps, kept

    return cost


def _descent_on_features(case):
    n_samples, n_features = case.X.shape
    half_spread = case.condition / (2 * n_samples)
    if case.is_wide:  # random rows are nearly orthogonal (Marchenko and Pastur)
        share = np.sqrt(n_samples / n_features)
        half_spread = min(half_spread, ((1 + share) / (1 - share)) ** 2 / 2)
    # Sparse rows in random order take twice as long. Between certificates are some epochs.
    epochs = half_spread * case.digits * (2 if case.is_sparse else 1)
    steps = NEWTON_STEPS * (RATES.step + 8 * case.read) + epochs * case.read
    return case.n_outputs * steps, 8.0 * sum(case.X.shape)


def _descent_on_kernel(n_bytes):
    def cost(case):
        n_values = case.X.shape[0] ** 2
        epochs = 1 + case.curvature**1.5 * case.digits / 4
        # By one of two threads; past a cache, rows in random order come from memory.
        n_waits = 2 if n_values * n_bytes <= CACHED_BYTES else 8
        read = n_waits * epochs * n_values * n_bytes * RATES.byte
        return case.values() + case.n_outputs * read, n_bytes * n_values

    return cost


def _block_descent(dtype):
    def cost(case):
        n_samples = case.X.shape[0]
        cycles = NEWTON_STEPS + CYCLES_PER_DIGIT * np.sqrt(case.curvature) * case.digits
        # A pass within blocks and one over all, of half of the values.
        read = case.n_outputs * n_samples**2 * dtype.itemsize * RATES.byte
        seconds = min(cycles, MOST_CYCLES) * (NEWTON_STEPS * RATES.step + read)
        seconds += case.values(0.5)
        if cycles > MOST_CYCLES:
            seconds += _cg_on_kernel(DOUBLE.itemsize)(case)[0]
        return seconds, tile_bytes(n_samples, dtype)

    return cost


def tile_bytes(n_samples, dtype):
    """Return the memory of kernel values in tiles."""
    return Triangle.n_bytes(n_samples, dtype)


def _interior_point(case):
    n_samples, n_features = case.X.shape
    order = min(n_samples, n_features) if case.is_linear else n_samples
    gram = RATES.factored * n_samples * n_features * order / 2 if case.is_linear else 0.0
    each = RATES.step + factorise(order) + (0.0 if case.is_wide else gram)
    steps = INTERIOR_STEPS * each
    values = gram if case.is_linear else case.values()
    return values + case.n_outputs * steps, 24.0 * order**2


def _box_descent_on_gram(case):
    order = case.X.shape[0]
    # The matrix and two faces; looking for faces takes as many steps as an interior point.
    seconds = 3 * factorise(order) + INTERIOR_STEPS * RATES.step
    epochs = LINEAR_EPOCHS * order**2 * DOUBLE.itemsize * RATES.byte
    return case.values() + case.n_outputs * (seconds + epochs), 24.0 * order**2


def _box_descent_on_features(case):
    seconds = case.n_outputs * (LINEAR_EPOCHS * case.read + RATES.step)
    is_followed = np.isinf(case.objective.C) or case.tol < ROUGH_TOL
    if is_followed and min(case.X.shape) <= INTERIOR_UP_TO:
        seconds += _interior_point(case)[0]
    return seconds, 8.0 * sum(case.X.shape)


def _of_features(case):
    return case.is_additive and case.kernel is None


def _of_kernel(case):
    return case.is_additive and case.kernel is not None


def _of_semidefinite(case):
    return _of_kernel(case) and case.kernel.is_positive_semidefinite


def _sums_over_features(case):
    # The model of a kernel has coefficients of samples, which wide sparse rows do not lead to.
    in_samples = case.kernel is not None and case.is_sparse and case.is_wide
    return case.is_additive and case.is_linear and not in_samples


def _products_of_rows(case):
    return _sums_over_features(case) and case.is_wide and not case.is_sparse


def _ldm_of_features(case):
    return not case.is_additive and case.kernel is None


def _ldm_of_linear_kernel(case):
    return not case.is_additive and case.kernel is not None and case.is_linear


def _ldm_of_kernel(case):
    return not (case.is_additive or case.is_linear)


def _keeps(dtype):
    """Return a check that all kernel values fit into memory."""
    return lambda case: dtype.itemsize * case.X.shape[0] ** 2 <= case.max_bytes


def _blocks(dtype):
    """Return the machine of block descent on kernel values of a precision."""

    def can(case):
        return case.is_radial_band and tile_bytes(case.X.shape[0], dtype) <= case.max_bytes

    return Machine("bcd", "tiles", can, _block_descent(dtype), dtype)


MACHINES = (
    Machine("newton", "linear_gram", _products_of_rows, _newton_on_products, factorises=True),
    Machine(
        "newton",
        "features",
        _sums_over_features,
        _newton_on_features,
        factorises=True,
    ),
    Machine("newton_cg", "features", _of_features, _cg_on_features),
    Machine("dcd", "features", _of_features, _descent_on_features),
    Machine("newton", "gram", _of_kernel, _newton_on_gram, factorises=True),
    Machine(
        "newton_cg",
        "gram",
        lambda case: _of_kernel(case) and not case.kernel.is_positive_semidefinite,
        _cg_on_kernel(DOUBLE.itemsize),
    ),
    Machine("newton_cg", "panels", _of_semidefinite, _cg_on_kernel(SINGLE.itemsize), SINGLE),
    Machine("newton_cg", "panels", _of_semidefinite, _cg_on_kernel(DOUBLE.itemsize)),
    _blocks(FIXED),
    _blocks(SINGLE),
    Machine(
        "dcd",
        "rounded_gram",
        lambda case: case.is_radial_band and _keeps(SINGLE)(case),
        _descent_on_kernel(SINGLE.itemsize),
        SINGLE,
    ),
    Machine(
        "dcd",
        "gram",
        lambda case: (
            _of_kernel(case) and (_keeps(DOUBLE)(case) or not case.kernel.is_positive_semidefinite)
        ),
        _descent_on_kernel(DOUBLE.itemsize),
        is_asked_for=True,
    ),
    Machine(
        "dcd",
        "panels",
        lambda case: _of_semidefinite(case) and not _keeps(DOUBLE)(case),
        _descent_on_kernel(DOUBLE.itemsize),
        is_asked_for=True,
    ),
    Machine(
        "interior_point",
        "linear_gram",
        lambda case: not case.is_additive and case.is_linear and case.is_wide,
        _interior_point,
    ),
    Machine(
        "interior_point",
        "features",
        lambda case: not case.is_additive and case.is_linear and not case.is_wide,
        _interior_point,
    ),
    Machine("interior_point", "gram", _ldm_of_kernel, _interior_point),
    Machine("dcd", "gram", _ldm_of_kernel, _box_descent_on_gram),
    Machine("dcd", "linear_gram", _ldm_of_linear_kernel, _box_descent_on_gram, is_asked_for=True),
    Machine(
        "dcd",
        "linear_gram",
        lambda case: _ldm_of_features(case) and case.is_wide,
        _box_descent_on_gram,
    ),
    Machine("dcd", "features", _ldm_of_features, _box_descent_on_features),
)
