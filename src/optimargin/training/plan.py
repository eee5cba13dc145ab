"""How a problem is solved: every crossover, decided once per fit.

Crossovers were read off the benchmarks that each group names, run with every solver.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from optimargin._checks import sum_of_squares
from optimargin.designs import LandmarkDesign, TileDesign
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.kernels import Kernel
from optimargin.losses import BandLoss
from optimargin.objectives import AdditiveObjective, Objective

# Linear data: benchmarks/linear.py, benchmarks/dense.py, benchmarks/crossovers.py
_FACTORISE_UP_TO = 1000  # features, or dense samples, up to which a factorisation is fastest
_SHORT_ROWS = 16  # values per sparse row up to which a Gram matrix of the features is cheap,
_FEW_VALUES = 200_000  # or in all of them: what is fast anyway may as well be exact
_EASY_CONDITION = 100.0  # up to which conjugate gradients take next to no steps
_SAMPLES_UP_TO = 5000  # up to which a factorisation in sample space is the alternative
_WIDE = 4  # n_features / n_samples above which a Gram matrix pays off beyond 1000 dense samples
_EASY_DESCENT = 250.0  # epochs that coordinate descent may take beyond
# An epoch over v values takes as long as factorisations of 70 v operations; all those of a fit take
# about n_samples**3.
_OPERATIONS_OF_AN_EPOCH = 70.0

# Kernels: benchmarks/kernel.py, benchmarks/large_kernel.py
_DIRECT_UP_TO = 700  # samples up to which factorisations are fastest,
_HARD_UP_TO = 6000  # and up to which they are where losses are curved more than
_HARD_CURVATURE = 256.0  # this: conjugate gradients may then take minutes
_EXACT_UP_TO = 100_000  # samples of an exact kernel fit, unless one insists on it
_FLOAT32_TOL = 1e-8  # above it, rounding kernel values to float32 rarely matters for the gap
_FIXED_POINT_TOL = 3e-5  # the same of 16 bits, with
_FIXED_POINT_CURVATURE = 4.0  # of the loss of one sample at the most
_BLOCKS_TOL = 1e-7  # below it, block descent takes more passes than Newton steps do,
_BLOCKS_CURVATURE = 64.0  # and above it

_EXACT_AT_ONCE = 200  # samples up to which an exact solution takes little longer than a rough one
_SMALL_UP_TO = 2500  # samples whose Gram matrix in float32 is small,
_SMALL_CURVATURE = 8.0  # the curvature up to which coordinate descent on it is fastest,
_SMALL_TOL = 1e-6  # and the tolerance down to which

# Landmarks: benchmarks/large_kernel.py
_DOUBLE_UP_TO = 1 << 24  # kernel values up to which double precision costs nothing that matters

# Thresholds and p-values of one-class models: benchmarks/novelty.py
_LEAVE_ONE_OUT_UP_TO = 2000  # active samples, past which their factor costs more than fits to folds
CALIBRATION_FOLDS = 5
"""That are left out where samples are too many to leave out each."""

# Large margin distribution machines: benchmarks/ldm.py
_LDM_KERNEL_INTERIOR_UP_TO = 200  # samples up to which factorisations cost less than descent
_LDM_INTERIOR_UP_TO = 1000  # features up to which a matrix of their size is no burden
_LDM_GRAM_UP_TO = 4000  # samples up to which a Gram matrix pays off
_LDM_ROUGH_TOL = 1e-5  # from which few epochs meet the tolerance before factorisations pay off
_LDM_MANY_SAMPLES = 5000

# Problems solved again and again: benchmarks/selection_speed.py
_DOUBLE_PRODUCTS_UP_TO = 2**21  # elements of X, up to which float64 costs nothing that matters
_PAIRS_IN_SAMPLES_UP_TO = 2000  # samples up to which pairs of classes are solved by inner products
_INNER_PRODUCTS_UP_TO = 300  # samples up to which compiled solves over a Gram matrix are fastest
_EVEN = 1e6  # ratio of squared norms of columns up to which inner products keep ten digits of all
_LDM_WARM_UP_TO = 1000  # samples up to which warm starts outweigh the size of their Gram matrix
_ALL_LANDMARKS_UP_TO = 300  # samples up to which inverses of their matrix cost as little
_SHARED_UP_TO = 700  # the same where one inverse serves several outputs
_LANDMARKS_PER_ROOT = 10.0  # of the number of samples
_MOST_LANDMARKS = 1000
_DOUBLE_LANDMARKS_UP_TO = 1500  # samples up to which double precision costs little
_LANDMARK_VALUES = 4e7  # kernel values up to which some copies of them fit into a gigabyte
_PAIRS_OPERATIONS = 3e10  # of folds of all pairs of classes at one point of a search
_LDM_SEARCH_OPERATIONS = 4e8  # of a factorisation per class at one point of a search
_SEARCH_OVER_SAMPLES = 2000  # whose matrix is inverted at every point of a search
_SEARCH_OVER_FEATURES = 20_000  # samples of sparse rows
_SEARCH_FIRST = 1000  # samples of many features, before all of them choose the penalty
_FEW_DIMENSIONS_UP_TO = 1000  # features whose normal equations are factorised fold by fold

# Held-out values of a fit: benchmarks/uncertainty.py
_CLOSED_FORM_ACTIVE_UP_TO = 5000  # active samples whose kernel matrix is factorised
_CLOSED_FORM_FEATURES_UP_TO = 2000  # features whose normal equations are
_FOLDS = 5  # fits where there is no closed form

# Chunks: benchmarks/out_of_core.py, benchmarks/dask_cluster.py
_CHUNKED_FACTORISE_UP_TO = (
    2000  # features, past which a Hessian costs more than the rounds it saves
)


@dataclass(frozen=True)
class Options:
    """What the user asked for.

    Attributes
    ----------
    solver : str
        "auto" or a name.
    tol : float
    max_iter : int
    fit_intercept : bool
    seed : int
    max_bytes : float
        For kernel values that are kept.
    approximation : {"nystrom"} or None
    n_components : int or "auto"
    """

    solver: str = "auto"
    tol: float = 1e-6
    max_iter: int = 1000
    fit_intercept: bool = True
    seed: int = 0
    max_bytes: float = 2e9
    approximation: str | None = None
    n_components: int | str = "auto"


@dataclass(frozen=True)
class Plan:
    """How it is done.

    Attributes
    ----------
    solver : str
        Its name among the solvers of the objective.
    design : str
        Its name in `optimargin.training.designs.DESIGNS`.
    dtype : numpy dtype or None
        The precision of kernel values; that of the data when None.
    max_bytes : float
        For kernel values that are kept.
    landmarks : bool
        Whether the design grows with the landmarks that are found on the way.
    solver_options : dict
        What the solver's constructor is given besides tolerance, limit and seed.
    """

    solver: str
    design: str
    dtype: Any = None
    max_bytes: float = np.inf
    landmarks: bool = False
    solver_options: dict[str, Any] = field(default_factory=dict)


def plan_fit(X, objective: Objective, kernel: Kernel | None, options: Options) -> Plan:
    """Return the plan of a fit to data in memory.

    Parameters
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
    objective : Objective
        With all its numbers.
    kernel : Kernel or None
        None for a model with coefficients per feature.
    options : Options
    """
    if not isinstance(objective, AdditiveObjective):
        return _plan_ldm(X, objective, kernel, options)
    if kernel is not None:
        return _plan_kernel(X, objective, kernel, options)
    solver = options.solver
    if solver == "auto":
        solver = choose_linear_solver(X, objective.loss().smoothness, options.tol)
    return Plan(solver, _linear_design(X, solver))


def plan_closed_form(X, objective, kernel, options: Options, solved_by: str) -> Plan:
    """Return the plan of the design that a factor is made of, whatever a model was fitted with.

    A kernel matrix that did not have to fit into memory for the fit need not do so now: its
    values are computed on demand.
    """
    if not isinstance(objective, AdditiveObjective):
        return plan_fit(X, objective, kernel, options)
    options = replace(options, solver="newton")
    n_bytes = 8.0 * X.shape[0] ** 2
    if (
        kernel is not None
        and not kernel.is_linear
        and options.approximation is None
        and solved_by != "newton"
        and n_bytes > options.max_bytes
    ):
        return Plan("newton", "panels", np.dtype(np.float64), options.max_bytes)
    return plan_fit(X, objective, kernel, options)


def plan_held_out(X, kernel: Kernel | None, options: Options, n_active: int) -> int | None:
    """Return the number of folds to be fitted for held-out values, or None for the closed form.

    Parameters
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
    kernel : Kernel or None
    options : Options
    n_active : int
        The samples that support the model.
    """
    if options.approximation is not None:
        return None
    is_wide = X.shape[0] < X.shape[1]
    if kernel is None:
        in_samples = is_wide and not issparse(X)
    else:
        in_samples = not kernel.is_linear or is_wide
    if in_samples:
        return None if n_active <= _CLOSED_FORM_ACTIVE_UP_TO else _FOLDS
    return None if X.shape[1] <= _CLOSED_FORM_FEATURES_UP_TO else _FOLDS


@dataclass(frozen=True)
class RefitterPlan:
    """How problems are solved again and again.

    Attributes
    ----------
    compiled : bool
        Whether solves over a Gram matrix run without the interpreter.
    in_samples : bool
        Whether linear data are handled through their Gram matrix.
    by_interior_point : bool
        Of LDM problems over features.
    """

    compiled: bool
    in_samples: bool = False
    by_interior_point: bool = False


def plan_refitter(objective_type, X=None, *, on_own_rows=False) -> RefitterPlan:
    """Return the plan of a refitter for a Gram matrix, or for linear data X.

    `on_own_rows` says that outputs are pairs of classes.
    """
    is_band = _has_band(objective_type)
    if X is None:
        return RefitterPlan(compiled=is_band)
    n_samples, n_features = X.shape
    is_wide = n_features > n_samples
    if not issubclass(objective_type, AdditiveObjective):
        in_samples = is_wide or n_samples <= _LDM_WARM_UP_TO
        return RefitterPlan(False, in_samples, n_features <= _LDM_INTERIOR_UP_TO)
    few = is_band and n_samples <= _INNER_PRODUCTS_UP_TO and _is_even(X)
    few_pairs = on_own_rows and n_samples <= _PAIRS_IN_SAMPLES_UP_TO
    return RefitterPlan(is_band, in_samples=is_wide or few or few_pairs)


def _has_band(objective_type):
    """Return whether the loss is a band loss."""
    is_additive = issubclass(objective_type, AdditiveObjective)
    return is_additive and issubclass(objective_type.loss_type, BandLoss)


def _is_even(X):
    """Return whether inner products of rows keep what every column says, and every row."""
    if issparse(X):
        return False
    squares = np.square(X, dtype=np.float64)
    columns, rows = squares.sum(axis=0), squares.sum(axis=1)
    columns = columns[columns > 0]
    even = columns.size > 0 and columns.max() <= _EVEN * columns.min()
    return even and rows.max() <= _EVEN * np.median(rows)


@dataclass(frozen=True)
class FoldsPlan:
    """How folds are left out in closed form, again and again.

    Attributes
    ----------
    in_few_dimensions : bool
        By normal equations of features: their own, or those of landmarks.
    n_landmarks : int
        For kernels.
    dtype : numpy dtype
        Of products over samples.
    """

    in_few_dimensions: bool
    n_landmarks: int = 0
    dtype: Any = np.float64


def plan_folds(objective_type, X, n_asked: Sequence[int], kernel) -> FoldsPlan:
    """Return the plan of closed-form folds for a search without a grid.

    Parameters
    ----------
    objective_type : type
        An `Objective`.
    X : {ndarray, CSR} of shape (n_samples, n_features)
    n_asked : sequence of int
        How many samples each output is asked for.
    kernel : type
        A `Kernel`.
    """
    n_samples, n_features = X.shape
    is_band = _has_band(objective_type)
    on_own_rows = min(n_asked) < n_samples
    if kernel.is_linear:
        few = _has_few_features(X) and is_band
        few = few and not (on_own_rows and n_samples <= _PAIRS_IN_SAMPLES_UP_TO)
        is_cheap = n_samples * n_features <= _DOUBLE_PRODUCTS_UP_TO
        return FoldsPlan(few, dtype=np.dtype(np.float64 if is_cheap else np.float32))
    by_root = _LANDMARKS_PER_ROOT * np.sqrt(n_samples)
    n_landmarks = int(min(by_root, _MOST_LANDMARKS, max(_LANDMARK_VALUES / n_samples, 1)))
    up_to = _ALL_LANDMARKS_UP_TO if len(n_asked) == 1 else _SHARED_UP_TO
    few = n_samples > up_to
    if on_own_rows:
        few = few and 2 * _folds_cost(n_asked, n_landmarks) < _folds_cost(n_asked, None)
    if not (is_band and kernel.has_width and few):
        return FoldsPlan(False)
    # In single precision rounding is enough to lead a search elsewhere on another processor.
    is_cheap = n_samples <= _DOUBLE_LANDMARKS_UP_TO
    return FoldsPlan(True, n_landmarks, np.dtype(np.float64 if is_cheap else np.float32))


def _folds_cost(n_asked, n_landmarks):
    """Return the operations of folds of outputs with own rows, by inverses or by landmarks."""
    n_asked = np.asarray(n_asked, dtype=np.float64)
    if n_landmarks is None:
        return float(np.sum(n_asked**3))
    # a sum over the samples, and factors of all of them and of those without each fold
    return float(np.sum(n_asked * n_landmarks**2 + 7 * n_landmarks**3 / 3))


def plan_search_samples(objective_type, X, n_asked: Sequence[int], kernel) -> float:
    """Return how many samples a search without a grid can look at in closed form.

    Parameters are those of `plan_folds`. In few dimensions there is no limit, but for pairs of
    classes, which share nothing.
    """
    if not issubclass(objective_type, AdditiveObjective):
        return np.inf if kernel.is_linear else (_LDM_SEARCH_OPERATIONS / len(n_asked)) ** (1 / 3)
    n_samples = X.shape[0]
    plan = plan_folds(objective_type, X, n_asked, kernel)
    if min(n_asked) < n_samples and kernel.has_width:
        cost = _folds_cost(n_asked, plan.n_landmarks if plan.in_few_dimensions else None)
        # costs grow by the square of the samples at least
        return n_samples * min(np.sqrt(_PAIRS_OPERATIONS / cost), 1.0)
    if plan.in_few_dimensions or (kernel.is_linear and _has_few_features(X)):
        return np.inf
    if not kernel.is_linear or n_samples <= _SEARCH_OVER_SAMPLES:
        return _SEARCH_OVER_SAMPLES
    return _SEARCH_OVER_FEATURES if X.shape[1] <= _FEW_DIMENSIONS_UP_TO else _SEARCH_FIRST


def _has_few_features(X):
    """Return whether normal equations of the features are cheap, whatever the number of samples."""
    return not issparse(X) and X.shape[1] < min(X.shape[0], _FEW_DIMENSIONS_UP_TO)


@dataclass(frozen=True)
class CalibrationPlan:
    """Which models tell what the scores of a one-class model mean.

    Attributes
    ----------
    closed_form : bool
        Whether the threshold comes from models without one sample each, by a factor of all
        active samples or of all features, or from models without one fold each.
    stores_leave_one_out : bool
        The same of p-values. These are asked for later, so that support vectors must tell the
        kernel matrix.
    n_folds : int
    """

    closed_form: bool
    stores_leave_one_out: bool
    n_folds: int = CALIBRATION_FOLDS


def plan_calibration(design, n_active: int, kernel: Kernel) -> CalibrationPlan:
    """Return the plan of the threshold and the p-values of a one-class model."""
    few = n_active <= _LEAVE_ONE_OUT_UP_TO
    closed_form = few or isinstance(design, FeatureSpaceDesign)
    can_tell = kernel.is_positive_semidefinite and not isinstance(design, LandmarkDesign)
    return CalibrationPlan(closed_form, few and can_tell)


def plan_chunks(n_features: int, options: Options) -> str:
    """Return the solver of a fit to chunks: one that forms Hessians, or one that does not."""
    if options.solver == "auto":
        return "newton" if n_features <= _CHUNKED_FACTORISE_UP_TO else "newton_cg"
    if options.solver not in ("newton", "newton_cg"):
        raise ValueError(
            f"solver={options.solver!r} does not work on chunks: use 'auto', 'newton' or "
            "'newton_cg'."
        )
    return options.solver


def landmark_dtype(X, n_landmarks):
    """Return the precision of kernel values: that of the data where there are few of them."""
    return X.dtype if X.shape[0] * n_landmarks <= _DOUBLE_UP_TO else np.dtype(np.float32)


def _linear_design(X, solver):
    in_samples = solver == "newton" and X.shape[0] < X.shape[1] and not issparse(X)
    return "linear_gram" if in_samples else "features"


def plan_after(plan: Plan, prepared, solutions, options) -> Plan | None:
    """Return the plan of one more fit, where the solutions of this one miss the tolerance.

    Inner products of rows may have lost what their small columns say: then the fit goes over
    features.

    Parameters
    ----------
    plan : Plan
    prepared : Prepared
    solutions : list of Solution
    options : Options
    """
    is_linear = prepared.kernel is None and isinstance(prepared.objective, AdditiveObjective)
    was_cut_short = any(s.stopped or s.n_iter == options.max_iter for s in solutions)
    is_missed = max(solution.dual_gap for solution in solutions) > options.tol
    if not (is_linear and plan.design == "linear_gram" and is_missed) or was_cut_short:
        return None
    solver = plan.solver if prepared.X.shape[1] <= _FACTORISE_UP_TO else "newton_cg"
    return replace(plan, solver=solver, design="features")


def choose_linear_solver(X, smoothness, tol):
    """Return the solver that was fastest in the benchmarks for data and a loss of this kind.

    Sparse rows with more features than samples go to coordinate descent as long as the epochs it
    will take, which the ratio of the curvatures of loss and penalty tells, are cheaper than
    factorisations.
    """
    n_samples, n_features = X.shape
    if n_features <= _FACTORISE_UP_TO:
        costly_gram = issparse(X) and X.nnz > max(_SHORT_ROWS * n_samples, _FEW_VALUES)
        return "newton_cg" if costly_gram else "newton"
    if not issparse(X):
        is_wide = _WIDE * n_samples <= n_features and n_samples <= _SAMPLES_UP_TO
        return "newton" if n_samples <= _FACTORISE_UP_TO or is_wide else "newton_cg"
    if n_samples < n_features:
        condition = smoothness * sum_of_squares(X) / n_samples
        if condition <= _EASY_CONDITION:
            return "newton_cg"
        epochs = condition / (2 * n_samples) * -np.log10(min(tol, 0.1))
        if n_samples > _SAMPLES_UP_TO:
            return "dcd" if epochs <= _EASY_DESCENT else "newton_cg"
        cheap = epochs * X.nnz * _OPERATIONS_OF_AN_EPOCH <= float(n_samples) ** 3
        return "dcd" if cheap else "newton"
    return "newton_cg"


def check_exact_size(n_samples, options):
    """Raise an error where an exact kernel fit of so many samples must be insisted on."""
    if options.solver == "auto" and n_samples > _EXACT_UP_TO:
        raise ValueError(
            f"X has {n_samples} samples: the exact kernel solver is meant for at most "
            f"{_EXACT_UP_TO}. Set approximation='nystrom' for a model of few landmarks, use a "
            "linear model, or insist on the exact one with solver='newton_cg'."
        )


def _plan_kernel(X, objective, kernel, options):
    if options.approximation is not None:
        check_approximation(kernel, options)
        return Plan("newton", "landmarks", max_bytes=options.max_bytes, landmarks=True)
    n_samples = X.shape[0]
    curvature = objective.loss().smoothness / n_samples
    is_easy = _is_easy_descent(curvature, objective, kernel, options)
    fixed_point = options.tol >= _FIXED_POINT_TOL and curvature <= _FIXED_POINT_CURVATURE
    tile_dtype = np.dtype(np.uint16 if fixed_point else np.float32)
    tile_bytes = TileDesign.n_bytes(n_samples, fixed_point=fixed_point)
    solver = options.solver
    if solver == "auto":
        # The solver that was fastest in the benchmarks for a kernel and a loss of this kind.
        size = min(X.shape) if kernel.is_linear else n_samples
        is_hard = kernel.has_width and curvature > _HARD_CURVATURE
        is_rough = kernel.has_width and options.tol >= _BLOCKS_TOL
        in_blocks = is_rough and _has_band(type(objective)) and curvature <= _BLOCKS_CURVATURE
        if is_easy and _EXACT_AT_ONCE < size <= _SMALL_UP_TO:
            solver = "dcd"
        elif size <= (_HARD_UP_TO if is_hard else _DIRECT_UP_TO):
            solver = "newton"
        else:
            solver = "bcd" if in_blocks and tile_bytes <= options.max_bytes else "newton_cg"
    exactly = {"exact_up_to": np.inf} if kernel.is_linear and solver == "newton" else {}
    wide_and_sparse = issparse(X) and n_samples < X.shape[1]
    if exactly and not wide_and_sparse:
        # Only at the exact optimum are w and the sum over support vectors the same.
        return Plan(solver, _linear_design(X, solver), solver_options=exactly)
    check_exact_size(n_samples, options)
    if solver == "bcd":
        _check_blocks(kernel, n_samples, tile_bytes, options)
        return Plan(solver, "tiles", tile_dtype, options.max_bytes)
    if solver == "newton" or not kernel.is_positive_semidefinite:
        return Plan(solver, "gram", max_bytes=options.max_bytes, solver_options=exactly)
    if solver == "newton_cg":
        # Iterates are float64; float32 kernel values halve the memory traffic.
        precision = np.float32 if options.tol > _FLOAT32_TOL else np.float64
        return Plan(solver, "panels", np.dtype(precision), options.max_bytes)
    if n_samples <= _SMALL_UP_TO and is_easy:
        return Plan(solver, "rounded_gram")
    if 8.0 * n_samples**2 <= options.max_bytes:
        return Plan(solver, "gram")
    # Half for the rows that coordinate descent keeps, half for what certifies it.
    return Plan(solver, "panels", np.dtype(np.float64), options.max_bytes / 2)


def plan_small_pairs(objective, kernel, options: Options, sizes: list[int]) -> bool:
    """Return whether pairs of classes, of so many samples each, are solved side by side."""
    if kernel is None or options.solver not in ("auto", "dcd") or options.approximation is not None:
        return False
    # Weights of all samples sum to one, and every sample is in as many pairs as any other.
    n_samples = sum(sizes) / (np.sqrt(0.25 + 2 * len(sizes)) - 0.5)
    curvature = objective.loss().smoothness / n_samples
    is_small = _EXACT_AT_ONCE < max(sizes) <= _SMALL_UP_TO
    return is_small and _is_easy_descent(curvature, objective, kernel, options)


def _is_easy_descent(curvature, objective, kernel, options):
    """Return whether coordinate descent takes few epochs on rounded values of a radial kernel.

    Parameters
    ----------
    curvature : float
        Of the loss of one sample of mean weight; values of radial kernels are one.
    """
    is_rough = options.tol >= _SMALL_TOL and curvature <= _SMALL_CURVATURE
    return kernel.has_width and _has_band(type(objective)) and is_rough


def _check_blocks(kernel, n_samples, n_bytes, options):
    """Raise a clear error for what block coordinate descent does not work with."""
    if not kernel.has_width:
        raise ValueError(
            f"solver='bcd' works with radial kernels, such as 'rbf', not with the {kernel.name} "
            "kernel: use solver='auto' or 'newton_cg'."
        )
    if n_bytes > options.max_bytes:
        raise ValueError(
            f"solver='bcd' keeps the kernel values of {n_samples} samples, which takes "
            f"{n_bytes / 1e6:.0f} MB: set cache_size to at least that, or use "
            "solver='newton_cg'."
        )


def check_approximation(kernel, options):
    """Raise a clear error for what landmarks do not work with."""
    if not kernel.is_positive_semidefinite:
        raise ValueError(
            "approximation='nystrom' needs a kernel that is known to be positive "
            f"semi-definite, which the {kernel.name} kernel is not: use 'rbf', 'linear', 'poly' "
            "with an integer degree and coef0 >= 0, or approximation=None."
        )
    if options.solver not in ("auto", "newton"):
        raise ValueError(
            f"solver={options.solver!r} does not work with approximation='nystrom': use "
            "solver='auto' or 'newton'."
        )


def _plan_ldm(X, objective, kernel, options):
    n_samples, n_features = X.shape
    is_wide, solver = n_samples < n_features, options.solver
    if kernel is not None:
        if solver == "auto":
            small = n_samples <= _LDM_KERNEL_INTERIOR_UP_TO
            solver = "interior_point" if small or kernel.is_linear else "dcd"
        in_samples = solver == "dcd" or is_wide
        linear = "linear_gram" if in_samples else "features"
        return Plan(solver, linear if kernel.is_linear else "gram")
    if solver == "auto":
        large = min(n_samples, n_features) > _LDM_INTERIOR_UP_TO
        rough = options.tol >= _LDM_ROUGH_TOL and n_samples >= _LDM_MANY_SAMPLES
        descend = large or (rough and not np.isinf(objective.C))
        solver = "dcd" if descend else "interior_point"
    if solver == "svrg" and np.isinf(objective.C):
        raise ValueError("solver='svrg' needs a finite C: use solver='interior_point'.")
    has_gram = solver == "interior_point" or (solver == "dcd" and n_samples <= _LDM_GRAM_UP_TO)
    return Plan(solver, "linear_gram" if is_wide and has_gram else "features")
