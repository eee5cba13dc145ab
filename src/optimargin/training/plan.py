"""How a problem is solved: decided once per fit, before the first step.

The plan compares what the machines of `optimargin.training.plan_machines` cost, and takes the
cheapest. What is only known on the way, a solution that misses the tolerance, comes back to
`plan_after`, which names the next machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from optimargin.designs import LandmarkDesign
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.kernels import Kernel
from optimargin.losses import BandLoss
from optimargin.objectives import AdditiveObjective, Objective
from optimargin.solvers.ldm_dcd import INTERIOR_UP_TO
from optimargin.training.options import Options
from optimargin.training.plan_machines import (
    INTERIOR_STEPS,
    MACHINES,
    NEWTON_STEPS,
    RATES,
    ROUGH_TOL,
    SINGLE,
    Case,
    Machine,
    rounding_of,
    tile_bytes,
)

N_FOLDS = 5  # that are left out where samples are too many to leave out each
_EXACT_UP_TO = 100_000  # samples of an exact kernel fit, unless one insists on it

# Orders of matrices, by what a search or held-out values do with them:
# benchmarks/selection_speed.py, benchmarks/novelty.py, benchmarks/uncertainty.py
_FACTORISED_UP_TO = 1000  # rows: 10 ms of a factorisation, at every point of a search
_INVERTED_UP_TO = 2000  # rows: a quarter of a second of an inverse, at every point of a search
_INVERTED_ONCE_UP_TO = 5000  # rows: a few seconds of an inverse, for all held-out values of a fit
_INNER_PRODUCTS_UP_TO = 300  # samples, whose Gram matrix compiled solves work on fastest
_PAIRS_OPERATIONS = 3e10  # multiplications for folds of all pairs of classes, at one point

# Precision and memory of a search: benchmarks/selection_speed.py, benchmarks/large_kernel.py
_DOUBLE_PRODUCTS_UP_TO = 2**21  # values of X, whose products in double precision take no longer
_DOUBLE_KERNEL_UP_TO = 2**24  # kernel values with landmarks, in double precision 128 MB
_LANDMARK_VALUES = 2 * _DOUBLE_KERNEL_UP_TO  # a few copies of which take a gigabyte
_LANDMARKS_PER_ROOT = 10.0  # landmarks of a search per root of the number of samples
_EVEN = 1 / np.finfo(np.float32).eps
"""Ratio of squared norms up to which inner products keep what every column and every row says."""


@dataclass(frozen=True)
class Estimate:
    """What a machine is expected to take.

    Attributes
    ----------
    machine : Machine
    seconds, n_bytes : float
    is_exact : bool
        Whether it ends at the exact solution.
    """

    machine: Machine
    seconds: float
    n_bytes: float
    is_exact: bool


@dataclass(frozen=True)
class Plan:
    """How it is done.

    Attributes
    ----------
    solver : str
        Its name among the solvers of the objective.
    design : str
        Its name in `optimargin.training.designs.DESIGNS`, or "landmarks".
    dtype : numpy dtype or None
        The precision of kernel values; that of the data when None.
    max_bytes : float
        For kernel values that are kept.
    solver_options : dict
        What the solver's constructor is given besides tolerance, limit and seed.
    estimates : tuple of Estimate
        Of the machine chosen and of the others, the best first; empty without a choice.
    """

    solver: str
    design: str
    dtype: Any = None
    max_bytes: float = np.inf
    solver_options: dict[str, Any] = field(default_factory=dict)
    estimates: tuple[Estimate, ...] = ()


def plan_fit(
    X, objective: Objective, kernel: Kernel | None, options: Options, n_outputs: int = 1
) -> Plan:
    """Return the plan of a fit to data in memory.

    Parameters
    ----------
    X : {ndarray, CSR} of shape (n_samples, n_features)
    objective : Objective
        With all its numbers.
    kernel : Kernel or None
        None for a model with coefficients per feature.
    options : Options
    n_outputs : int, default=1
    """
    if options.approximation is not None:
        check_approximation(kernel, options)
        return Plan("newton", "landmarks", max_bytes=options.max_bytes)
    case = Case(X, objective, kernel, options.tol, options.max_bytes, n_outputs)
    _check_solver(case, options)
    if options.solver not in ("auto", *(machine.solver for machine in MACHINES)):
        design = "features" if kernel is None else "gram"
        return Plan(options.solver, design, max_bytes=options.max_bytes)
    plan = _cheapest(case, compare(case, options.solver))
    if kernel is not None and case.is_additive and plan.design not in ("features", "linear_gram"):
        check_exact_size(X.shape[0], options)
    return plan


def compare(case, solver="auto", rounding=np.inf) -> list[Estimate]:
    """Return what all machines for a case are expected to take, the best first.

    An exact solution may take a little longer than a rough one.

    Parameters
    ----------
    case : Case
    solver : str, default="auto"
        The only one, by its name.
    rounding : float, default=inf
        Values are to be more precise than this.
    """
    found = []
    for machine in MACHINES:
        is_meant = machine.solver == solver or (solver == "auto" and not machine.is_asked_for)
        if is_meant and machine.rounding < rounding and machine.can(case):
            seconds, n_bytes = (float(cost) for cost in machine.cost(case))
            step = seconds / (NEWTON_STEPS * case.n_outputs)
            # Only at the exact optimum are w and the sum over support vectors the same.
            is_sum = case.kernel is not None and machine.design in ("features", "linear_gram")
            is_exact = machine.factorises and (step <= RATES.exactness or is_sum)
            found.append(Estimate(machine, seconds, n_bytes, is_exact))
    # Descent ends where rounding and curvature let it; Newton steps are told when they miss.
    curvature = max(case.curvature, 1.0)

    def is_enough(machine):
        factor = 1.0 if machine.takes_newton_steps else curvature
        return case.kernel is None or factor * rounding_of(machine.dtype) <= case.tol

    enough = [each for each in found if is_enough(each.machine)]
    least = min((each.machine.rounding for each in found), default=0.0)
    enough = enough or [each for each in found if each.machine.rounding == least]
    patience = RATES.exactness * case.n_outputs
    return sorted(enough, key=lambda each: each.seconds - patience * each.is_exact)


def _cheapest(case, estimates):
    machine, options = estimates[0].machine, {}
    if machine.factorises:
        options = {"exact_up_to": np.inf if estimates[0].is_exact else 0}
    max_bytes = case.max_bytes
    if (machine.solver, machine.design) == ("dcd", "panels"):
        max_bytes /= 2  # for the rows that coordinate descent keeps; the rest for certificates
    return Plan(machine.solver, machine.design, machine.dtype, max_bytes, options, tuple(estimates))


def plan_after(plan: Plan, prepared, outcomes, options) -> Plan | None:
    """Return the plan of the next machine, where one has missed the tolerance.

    Either descent was slow, or the values that the design keeps are too rounded: Newton steps go
    on, with values that are more precise where that may matter.

    Parameters
    ----------
    plan : Plan
    prepared : Prepared
    outcomes : list of Outcome
    options : Options
    """
    n_outputs = sum(misses(outcome, options) for outcome in outcomes)
    is_lossy = plan.design == "linear_gram"  # of which only the certificate knows
    if is_lossy and not any(was_cut_short(each.solution, options) for each in outcomes):
        n_outputs = sum(each.certified.dual_gap > options.tol for each in outcomes)
    if not plan.estimates or not n_outputs or not isinstance(prepared.objective, AdditiveObjective):
        return None
    machine = plan.estimates[0].machine
    case = Case(
        prepared.X, prepared.objective, prepared.kernel, options.tol, options.max_bytes, n_outputs
    )
    is_precise = machine.takes_newton_steps or options.tol < ROUGH_TOL
    estimates = [
        each
        for each in compare(case, rounding=machine.rounding if is_precise else np.inf)
        if each.machine.takes_newton_steps
    ]
    return _cheapest(case, estimates) if estimates else None


def was_cut_short(solution, options) -> bool:
    """Return whether a solve was ended from outside."""
    return solution.stopped or solution.n_iter >= options.max_iter


def misses(outcome, options) -> bool:
    """Return whether another machine has to go on with a problem: one not solved so far, too."""
    if outcome is None:
        return True
    solution = outcome.solution
    return solution.dual_gap > options.tol and not was_cut_short(solution, options)


def is_on_samples(plan) -> bool:
    """Return whether coefficients are those of kernel values of samples."""
    return plan.design in ("gram", "rounded_gram", "panels", "tiles")


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
    if kernel is None and issparse(X) and X.shape[1] > _INVERTED_UP_TO:
        return N_FOLDS  # fits take less time than a factor of all samples
    return None if is_left_out_quickly(X, kernel, options, n_active) else N_FOLDS


def is_left_out_quickly(X, kernel: Kernel | None, options: Options, n_active: int) -> bool:
    """Return whether the closed form of leave-one-out takes about as long as another fit.

    Parameters are those of `plan_held_out`.
    """
    if options.approximation is not None:
        return True
    if (kernel is None or kernel.is_linear) and X.shape[0] >= X.shape[1]:
        return X.shape[1] <= _INVERTED_UP_TO
    return n_active <= _INVERTED_ONCE_UP_TO


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
        in_samples = is_wide or n_samples <= INTERIOR_UP_TO
        return RefitterPlan(False, in_samples, n_features <= INTERIOR_UP_TO)
    few = is_band and n_samples <= _INNER_PRODUCTS_UP_TO and _is_even(X)
    few_pairs = on_own_rows and n_samples <= _INVERTED_UP_TO
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
        few = few and not (on_own_rows and n_samples <= _INVERTED_UP_TO)
        is_cheap = n_samples * n_features <= _DOUBLE_PRODUCTS_UP_TO
        return FoldsPlan(few, dtype=np.dtype(np.float64 if is_cheap else np.float32))
    by_root = _LANDMARKS_PER_ROOT * np.sqrt(n_samples)
    n_landmarks = int(min(by_root, _FACTORISED_UP_TO, max(_LANDMARK_VALUES / n_samples, 1)))
    few = n_samples > _INNER_PRODUCTS_UP_TO
    by_landmarks, by_inverses = (_folds_cost(n_asked, n) for n in (n_landmarks, None))
    if on_own_rows:
        few = few and 2 * by_landmarks < by_inverses
    else:  # one inverse serves all outputs, but for points where the loss is not quadratic
        few = few and by_landmarks < by_inverses / np.sqrt(len(n_asked))
    if not (is_band and kernel.has_width and few):
        return FoldsPlan(False)
    # In single precision rounding is enough to lead a search elsewhere on another processor.
    longer = RATES.factored * n_samples * n_landmarks**2 / 2
    is_cheap = longer <= RATES.exactness
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
        return (
            np.inf
            if kernel.is_linear
            else _INVERTED_UP_TO / (INTERIOR_STEPS * len(n_asked)) ** (1 / 3)
        )
    n_samples = X.shape[0]
    plan = plan_folds(objective_type, X, n_asked, kernel)
    if min(n_asked) < n_samples and kernel.has_width:
        cost = _folds_cost(n_asked, plan.n_landmarks if plan.in_few_dimensions else None)
        # costs grow by the square of the samples at least
        return n_samples * min(np.sqrt(_PAIRS_OPERATIONS / cost), 1.0)
    if plan.in_few_dimensions or (kernel.is_linear and _has_few_features(X)):
        return np.inf
    if not kernel.is_linear or n_samples <= _INVERTED_UP_TO:
        return _INVERTED_UP_TO
    if X.shape[1] > _FACTORISED_UP_TO:
        return _FACTORISED_UP_TO
    return _INVERTED_UP_TO**3 / X.shape[1] ** 2  # sums over samples that take as long


def _has_few_features(X):
    """Return whether normal equations of the features are cheap, whatever the number of samples."""
    return not issparse(X) and X.shape[1] < min(X.shape[0], _FACTORISED_UP_TO)


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
    n_folds: int = N_FOLDS


def plan_calibration(design, n_active: int, kernel: Kernel) -> CalibrationPlan:
    """Return the plan of the threshold and the p-values of a one-class model."""
    few = n_active <= _INVERTED_UP_TO
    closed_form = few or isinstance(design, FeatureSpaceDesign)
    can_tell = kernel.is_positive_semidefinite and not isinstance(design, LandmarkDesign)
    return CalibrationPlan(closed_form, few and can_tell)


def plan_chunks(n_features: int, options: Options) -> str:
    """Return the solver of a fit to chunks: one that forms Hessians, or one that does not."""
    if options.solver == "auto":
        return "newton" if n_features <= _INVERTED_UP_TO else "newton_cg"
    if options.solver not in ("newton", "newton_cg"):
        raise ValueError(
            f"solver={options.solver!r} does not work on chunks: use 'auto', 'newton' or "
            "'newton_cg'."
        )
    return options.solver


def landmark_dtype(X, n_landmarks):
    """Return the precision of kernel values: that of the data where there are few of them."""
    return X.dtype if X.shape[0] * n_landmarks <= _DOUBLE_KERNEL_UP_TO else np.dtype(np.float32)


def check_exact_size(n_samples, options):
    """Raise an error where an exact kernel fit of so many samples must be insisted on."""
    if options.solver == "auto" and n_samples > _EXACT_UP_TO:
        raise ValueError(
            f"X has {n_samples} samples: the exact kernel solver is meant for at most "
            f"{_EXACT_UP_TO}. Set approximation='nystrom' for a model of few landmarks, use a "
            "linear model, or insist on the exact one with solver='newton_cg'."
        )


def plan_small_pairs(prepared, places, options: Options) -> bool:
    """Return whether outputs on rows of their own are solved side by side, as small problems.

    Parameters
    ----------
    prepared : Prepared
    places : list of ndarray
        The rows of each output.
    options : Options
    """
    kernel = prepared.kernel
    if kernel is None or not kernel.has_width or options.approximation is not None:
        return False
    largest = int(np.argmax([own.size for own in places]))
    part = prepared.output(largest, places[largest])
    plan = plan_fit(part.X, part.objective, kernel, options)
    return (plan.solver, plan.design) == ("dcd", "rounded_gram")


def _check_solver(case, options):
    """Raise a clear error where the solver that is asked for does not work with a case."""
    if options.solver == "svrg" and not case.is_additive and np.isinf(case.objective.C):
        raise ValueError("solver='svrg' needs a finite C: use solver='interior_point'.")
    if options.solver != "bcd":
        return
    if not case.kernel.has_width:
        raise ValueError(
            f"solver='bcd' works with radial kernels, such as 'rbf', not with the "
            f"{case.kernel.name} kernel: use solver='auto' or 'newton_cg'."
        )
    n_samples = case.X.shape[0]
    n_bytes = tile_bytes(n_samples, SINGLE)
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
