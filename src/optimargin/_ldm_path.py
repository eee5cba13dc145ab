"""All solutions of a large margin distribution machine over a grid of parameters."""

from dataclasses import dataclass
from itertools import product

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_X_y

from optimargin._ldm import LDMClassifier
from optimargin._selection.grid import grid_values
from optimargin._selection.ldm_learners import LDMSampleLearner
from optimargin._selection.machines import LDM
from optimargin._selection.scoring import describe
from optimargin._warnings import warn_user
from optimargin.solvers.ldm_dcd import LDMDualCD


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
    given = {"lambda1": lambda1s, "lambda2": lambda2s, "C": Cs}
    grid = {
        name: grid_values(
            f"{name}s", given[name], paper, LDMClassifier._parameter_constraints[name][0]
        )
        for name, paper in LDM.paper.items()
    }
    estimator = LDMClassifier(
        kernel=_GramOf(kernel) if kernel == "linear" else kernel,
        gamma=gamma,
        degree=degree,
        coef0=coef0,
        fit_intercept=fit_intercept,
        class_weight=class_weight,
        tol=tol,
        max_iter=max_iter,
    )
    estimator._validate_params()
    estimator.classes_ = np.unique(y)
    if estimator.classes_.size < 2:
        raise ValueError("y has one class only: a path needs samples of at least two classes.")
    training = estimator._training_problems(X, y, sample_weight)
    if training.rows.size < X.shape[0]:
        raise ValueError("sample_weight must be positive: leave out samples of no weight.")
    first = training.problems[0]
    signs = np.array([problem.y for problem in training.problems])
    solver = LDMDualCD(tol=tol, max_iter=max_iter)
    learner = LDMSampleLearner(training.design, signs, first.weight, fit_intercept, solver=solver)
    points = list(product(*grid.values()))
    shape = (len(points), len(signs))
    path = LDMPath(
        [dict(zip(grid, map(float, point), strict=True)) for point in points],
        np.empty(shape),
        np.empty(shape),
        np.empty((*shape, X.shape[0])),
        np.empty(shape),
    )
    for k, point in enumerate(points):
        learner.fit(*map(float, point))
        path.objective[k] = learner.objective
        path.dual_gap[k] = learner.dual_gap
        path.coef[k] = learner.coef
        path.intercept[k] = learner.intercept
    missed = path.dual_gap.max(axis=1) > tol
    if missed.any():
        worst = path.params[int(path.dual_gap.max(axis=1).argmax())]
        warn_user(
            f"ldm_path stopped after max_iter={max_iter} iterations above tol={tol:g} at "
            f"{missed.sum()} of {len(points)} points, with the largest relative duality gap, "
            f"{path.dual_gap.max():.2g}, at {describe(worst)}. Scale the features (for example "
            "with StandardScaler), increase max_iter or raise tol.",
            ConvergenceWarning,
        )
    return path


@dataclass(frozen=True)
class _GramOf:
    """A kernel by name that is handled through its Gram matrix."""

    name: str

    def __call__(self, X, Y):
        K = X @ Y.T
        return K.toarray() if hasattr(K, "toarray") else K
