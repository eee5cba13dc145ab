"""All solutions over a grid of parameters, or what they predict."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_X_y

from optimargin._checks import check_sparse, check_weights
from optimargin._warnings import warn_user
from optimargin.certificates import ROUNDING_FLOOR
from optimargin.designs import GramDesign, canonical
from optimargin.estimators.ldm import LDMClassifier
from optimargin.estimators.odm import ODMClassifier
from optimargin.held_out.engine import KernelData
from optimargin.held_out.ldm import LDMBoxRefitter, LDMRefitter
from optimargin.held_out.refitter import GramTest
from optimargin.kernels import KernelChoice, resolve_gamma
from optimargin.objectives import LDM, ODM
from optimargin.selection.criteria import describe_point
from optimargin.selection.data import SelectionData
from optimargin.selection.grid import grid_values, make_grid, run_grid
from optimargin.solvers import LDMDualCD
from optimargin.tasks import Classification


@dataclass(frozen=True)
class _Path:
    params: list
    objective: np.ndarray
    dual_gap: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray


@dataclass(frozen=True)
class ODMPath(_Path):
    """The solutions of `odm_path`, one per grid point.

    Attributes
    ----------
    params : list of dict
        The parameters of each point: C1, C2, D and, for kernels that have one, gamma.
    objective : ndarray of shape (n_points, n_problems)
        One problem for two classes, otherwise one per class (one-vs-rest).
    dual_gap : ndarray of shape (n_points, n_problems)
        Certified relative duality gaps.
    coef : ndarray of shape (n_points, n_problems, n_coef)
        Kernel coefficients of the samples (`n_coef` is n_samples), or, for the linear
        kernel, coefficients of the features.
    intercept : ndarray of shape (n_points, n_problems)
    loo_decision : ndarray of shape (n_points, n_samples, n_problems) or None
        Closed-form leave-one-out decision values, see
        `ODMClassifier.loo_decision_function`.
    """

    loo_decision: np.ndarray | None


@dataclass(frozen=True)
class LDMPath(_Path):
    """The solutions of `ldm_path`, one per grid point.

    Attributes
    ----------
    params : list of dict
        The parameters of each point: C, lambda1 and lambda2.
    objective, dual_gap, intercept
        As in `ODMPath`.
    coef : ndarray of shape (n_points, n_problems, n_samples)
        Kernel coefficients of the samples.
    """


def odm_path(
    X,
    y,
    *,
    C1s="paper",
    C2s="paper",
    Ds="paper",
    gammas=None,
    widths=None,
    kernel="rbf",
    degree=3,
    coef0=0.0,
    fit_intercept=True,
    sample_weight=None,
    class_weight=None,
    loo=True,
    n_jobs=None,
):
    """Solve an ODM at every point of a grid, and leave each sample out at every point.

    All points share the distances of the samples, those of one width share the Gram matrix,
    each solve starts at its neighbour's solution, and leave-one-out values come from the
    factor that the solve ended with. Solutions are exact: each equals that of a cold fit.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    C1s, C2s, Ds : array-like or "paper", default="paper"
        The values of `C1`, `C2` and `D`; ``"paper"`` is 1, 2, 4, ..., 1024 for the first two
        and 0, 0.1, ..., 0.5 for `D`.
    gammas : array-like, default=None
        Kernel parameters, for the kernels "rbf", "poly" and "sigmoid".
    widths : array-like or "paper", default=None
        For the RBF kernel instead of `gammas`: widths as multiples of the mean distance of
        the samples. When neither is given, the paper's: 1/4, 1/2, 1, 2, 4.
    kernel, degree, coef0, fit_intercept, class_weight
        As in `ODMClassifier`.
    sample_weight : array-like of shape (n_samples,), default=None
        Positive weights.
    loo : bool, default=True
        Whether to compute leave-one-out values.
    n_jobs : int, default=None
        The number of threads.

    Returns
    -------
    path : ODMPath

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from optimargin import odm_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = odm_path(X / X.max(axis=0), y, C1s=[16, 256], C2s=[4], Ds=[0.2], widths=[1])
    >>> for point, decision in zip(path.params, path.loo_decision):
    ...     error = ((decision[:, 0] > 0) != y).mean()
    ...     print(f"C1={point['C1']:.0f}: leave-one-out error {error:.3f}")
    C1=16: leave-one-out error 0.053
    C1=256: leave-one-out error 0.021
    """
    choice = KernelChoice(kernel, degree=degree, coef0=coef0)
    data = _checked(ODM, X, y, sample_weight, class_weight, choice, fit_intercept)
    given = {"C1": C1s, "C2": C2s, "D": Ds}
    grid = make_grid(data, given, gammas, widths, _allowed(ODMClassifier, given))
    loo_decision = None
    if loo:
        loo_decision = np.empty((len(grid), data.n_samples, data.task.n_outputs))
    objective, gaps, coef, intercept = _solutions(data, grid, n_jobs, loo_decision)
    return ODMPath(grid.points, objective, gaps, coef, intercept, loo_decision)


def ldm_path(
    X,
    y,
    *,
    Cs="paper",
    lambda1s="paper",
    lambda2s="paper",
    kernel="rbf",
    gamma="scale",
    degree=3,
    coef0=0.0,
    fit_intercept=True,
    sample_weight=None,
    class_weight=None,
    tol=1e-6,
    max_iter=1000,
):
    """Solve a large margin distribution machine at every point of a grid.

    One eigendecomposition of the Gram matrix serves every `lambda1`, `lambda2` only moves the
    box of the dual variables, and each solve starts at its neighbour's solution.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    Cs, lambda1s, lambda2s : array-like or "paper", default="paper"
        The values of the parameters; ``"paper"`` is 10, 50, 100 for `C` and 2^-8, ..., 2^-2 for
        the others.
    kernel, gamma, degree, coef0, fit_intercept, class_weight, tol, max_iter
        As in `LDMClassifier`.
    sample_weight : array-like of shape (n_samples,), default=None
        Positive weights.

    Returns
    -------
    path : LDMPath

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from optimargin import ldm_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = ldm_path(X / X.max(axis=0), y, Cs=[10], lambda1s=[0, 1], lambda2s=[0])
    >>> path.coef.shape
    (2, 1, 569)
    """
    shared = {"degree": degree, "coef0": coef0}
    options = {"tol": tol, "max_iter": max_iter}
    LDMClassifier(
        kernel=kernel,
        gamma=gamma,
        fit_intercept=fit_intercept,
        class_weight=class_weight,
        **shared,
        **options,
    )._validate_params()
    choice = KernelChoice(kernel, gamma, **shared)
    refit = partial(_in_samples, solver=LDMDualCD(**options))
    data = _checked(LDM, X, y, sample_weight, class_weight, choice, fit_intercept, refit=refit)
    given = {"lambda1": lambda1s, "lambda2": lambda2s, "C": Cs}
    gammas = [resolve_gamma(gamma, data.X, data.weight)] if choice.has_gamma else None
    grid = make_grid(data, given, gammas, None, _allowed(LDMClassifier, given))
    objective, gaps, *model = _solutions(data, grid)
    points = [{name: point[name] for name in given} for point in grid.points]
    path = LDMPath(points, objective, np.maximum(gaps, ROUNDING_FLOOR), *model)
    missed = path.dual_gap.max(axis=1) > max(tol, ROUNDING_FLOOR)
    if missed.any():
        worst = path.params[int(path.dual_gap.max(axis=1).argmax())]
        warn_user(
            f"ldm_path stopped after max_iter={max_iter} iterations above tol={tol:g} at "
            f"{missed.sum()} of {len(points)} points, with the largest relative duality gap, "
            f"{path.dual_gap.max():.2g}, at {describe_point(worst)}. Scale the features (for "
            "example with StandardScaler), increase max_iter or raise tol.",
            ConvergenceWarning,
        )
    return path


def ldm_path_decision(
    K, y, K_test, *, Cs="paper", lambda1s="paper", lambda2s="paper", margin_tol=1e-5
):
    """Predict test samples at every point of a grid of large margin distribution machines.

    Without an intercept and for test samples alone, a grid takes a small part of the time of
    `ldm_path`: neighbouring points have nearly the same active bounds, which a compiled active set
    method starts from. Meant for choosing among many points, fold by fold.

    Parameters
    ----------
    K : array-like of shape (n_samples, n_samples)
        Kernel values of the training samples.
    y : array-like of shape (n_samples,)
        Labels of two classes, or of several (one-vs-rest).
    K_test : array-like of shape (n_test, n_samples)
        Kernel values between test and training samples.
    Cs, lambda1s, lambda2s : array-like or "paper", default="paper"
        As in `ldm_path`.
    margin_tol : float, default=1e-5
        How far the margins of training samples may be from optimal.

    Returns
    -------
    decision : ndarray of shape (n_Cs, n_lambda1s, n_lambda2s, n_test, n_problems)
        One problem for two classes, otherwise one per class.

    See Also
    --------
    ldm_path : The same models with their coefficients, certified, also with an intercept.

    Examples
    --------
    >>> import numpy as np
    >>> from optimargin import ldm_path_decision
    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [3.0]]), [0, 0, 1, 1]
    >>> ldm_path_decision(X @ X.T, y, [[-1.0]] @ X.T, Cs=[1, 100], lambda2s=[0]).shape
    (2, 7, 1, 1, 1)
    """
    K, y, K_test = _checked_gram(K, y, K_test, margin_tol)
    given = {"C": Cs, "lambda1": lambda1s, "lambda2": lambda2s}
    allowed = _allowed(LDMClassifier, given)
    Cs, lambda1s, lambda2s = (
        grid_values(f"{name}s", given[name], LDM.paper[name], allowed[name]) for name in given
    )
    task = Classification.from_labels(y)
    test = GramTest(K_test)
    refitter = LDMBoxRefitter(GramDesign(K), task.encode(y), test, margin_tol=margin_tol)
    decision = np.empty((Cs.size, lambda1s.size, lambda2s.size, len(K_test), task.n_outputs))
    # Changing lambda1 takes most time, changing lambda2 least.
    for j, lambda1 in enumerate(lambda1s):
        for i, C in enumerate(Cs):
            path = [LDM(lambda1, lambda2, C).resolve(None) for lambda2 in lambda2s]
            decision[i, j] = refitter.predict_path(path)
    return decision


def _checked_gram(K, y, K_test, margin_tol):
    """Return the arrays, validated."""
    K, y = check_X_y(K, y, dtype=np.float64, order="C")
    K_test = check_array(K_test, dtype=np.float64, order="C")
    check_classification_targets(y)
    if K.shape[0] != K.shape[1]:
        raise ValueError(f"K has shape {K.shape}: it must be square, for the samples of y.")
    if K_test.shape[1] != y.size:
        raise ValueError(
            f"K_test has {K_test.shape[1]} columns and y {y.size} samples: give one column per "
            "training sample."
        )
    if not margin_tol > 0:
        raise ValueError(f"margin_tol must be positive, got {margin_tol!r}.")
    return K, y, K_test


def _checked(objective_type, X, y, sample_weight, class_weight, kernel, fit_intercept, **settings):
    """Return the data of a path, validated."""
    X, y = check_X_y(
        check_sparse(X), y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C"
    )
    X = canonical(X)
    check_classification_targets(y)
    weight = check_weights(sample_weight, X)
    if weight is not None and not (weight > 0).all():
        raise ValueError("sample_weight must be positive: leave out samples of no weight.")
    task = Classification.from_labels(y, weight, class_weight)
    shared = {"kernel": kernel, "fit_intercept": fit_intercept, "task": task}
    return SelectionData(objective_type, X, y, weight, **shared, **settings)


def _allowed(estimator, names):
    """Return the interval of each parameter, as the estimator declares it."""
    return {name: estimator._parameter_constraints[name][0] for name in names}


def _solutions(data, grid, n_jobs=None, loo_decision=None):
    """Return objectives, gaps, coefficients and intercepts; leave-one-out values go where told."""
    found: list = [None] * len(grid)

    def visit(_, refitter, places, objectives):
        for place, objective in zip(places, objectives, strict=True):
            solved = refitter.solve(objective)
            kept = solved.objective, solved.dual_gap, solved.coef, solved.intercept
            found[place] = [np.array(each) for each in kept]  # the next solve may overwrite them
            if loo_decision is not None:
                loo_decision[place] = solved.leave_one_out()

    run_grid(data, grid, None, visit, n_jobs)
    return [np.array(each) for each in zip(*found, strict=True)]


def _in_samples(data, objective_type, targets, fit_intercept, solver):
    """Return the refitter in sample space, also for the linear kernel."""
    K = data.K if isinstance(data, KernelData) else None
    if K is None:
        K = safe_sparse_dot(data.X, data.X.T, dense_output=True).astype(np.float64)
    return LDMRefitter(GramDesign(K), targets, fit_intercept, solver=solver)
