"""All solutions of a large margin distribution machine over a grid of parameters."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_X_y

from optimargin._ldm import LDMClassifier
from optimargin.problems.ldm_dual import EighShrinkage, LDMDual, scaled_gram
from optimargin.solvers.ldm_dcd import LDMDualCD
from optimargin.solvers.ldm_systems import SampleSystem

PAPER = {
    "Cs": (10.0, 50.0, 100.0),
    "lambda1s": tuple(2.0**k for k in range(-8, -1)),
    "lambda2s": tuple(2.0**k for k in range(-8, -1)),
}


@dataclass(frozen=True)
class LDMPath:
    """The solutions of `ldm_path`, one a grid point.

    Attributes
    ----------
    params : list of dict
        The parameters of each point: C, lambda1 and lambda2.
    objective : ndarray of shape (n_points, n_problems)
        One problem for two classes, else one a class against the rest.
    dual_gap : ndarray of shape (n_points, n_problems)
        Certified relative duality gaps.
    coef : ndarray of shape (n_points, n_problems, n_samples)
        Kernel coefficients of the samples.
    intercept : ndarray of shape (n_points, n_problems)
    """

    params: list
    objective: np.ndarray
    dual_gap: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray


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
    X, y = check_X_y(X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
    check_classification_targets(y)
    grid = [
        _values(name, given)
        for name, given in (("lambda1s", lambda1s), ("lambda2s", lambda2s), ("Cs", Cs))
    ]
    estimator = LDMClassifier(
        grid[2][0],
        grid[0][0],
        grid[1][0],
        kernel=_GramOf(kernel) if kernel == "linear" else kernel,
        gamma=gamma,
        degree=degree,
        coef0=coef0,
        fit_intercept=fit_intercept,
        class_weight=class_weight,
    )
    estimator._validate_params()
    estimator.classes_ = np.unique(y)
    if estimator.classes_.size < 2:
        raise ValueError("y has one class only: a path needs samples of at least two classes.")
    training = estimator._training_problems(X, y, sample_weight)
    if training.rows.size < X.shape[0]:
        raise ValueError("sample_weight must be positive: leave out samples of no weight.")
    shrinkage = EighShrinkage(scaled_gram(training.problems[0]))
    points = list(product(*grid))
    shape = (len(points), len(training.problems))
    path = LDMPath(
        [{"C": C, "lambda1": l1, "lambda2": l2} for l1, l2, C in points],
        np.empty(shape),
        np.empty(shape),
        np.empty((*shape, X.shape[0])),
        np.empty(shape),
    )
    solver = LDMDualCD(tol=tol, max_iter=max_iter)
    for j, problem in enumerate(training.problems):
        _walk(problem, points, shrinkage, solver, path, j)
    return path


def _walk(problem, points, shrinkage, solver, path, j):
    """Solve all points for one problem; `lambda1` changes least often."""
    dual, start = None, None
    for k, (lambda1, lambda2, C) in enumerate(points):
        problem = problem.with_parameters(C, lambda1, lambda2)
        if dual is None or lambda1 != dual.problem.lambda1:
            dual = LDMDual.of(problem, shrinkage)
        dual = replace(dual, problem=problem)
        point, _ = solver.solve_system(SampleSystem(dual), start)
        center = 0.0
        if problem.fit_intercept:
            center = point.intercept + float(problem.balanced @ point.decision)
        start = point.box_dual, center
        path.objective[k, j] = point.value
        path.dual_gap[k, j] = point.relative_gap
        path.coef[k, j] = point.coef
        path.intercept[k, j] = point.intercept


@dataclass(frozen=True)
class _GramOf:
    """A kernel by name that is handled through its Gram matrix."""

    name: str

    def __call__(self, X, Y):
        K = X @ Y.T
        return K.toarray() if hasattr(K, "toarray") else K


def _values(name, given):
    if isinstance(given, str):
        if given != "paper":
            raise ValueError(f"{name}={given!r} is unknown: use a list of numbers or 'paper'.")
        return PAPER[name]
    values = np.asarray(given, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"{name} must be a list of at least one number, got {given!r}.")
    inside = (values > 0) & np.isfinite(values) if name == "Cs" else values >= 0
    if not inside.all():
        raise ValueError(f"{name} has values that are negative or not finite: {given!r}.")
    return tuple(values.tolist())
