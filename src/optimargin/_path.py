"""All solutions over a grid of parameters."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_X_y

from optimargin._linear_odm import LinearODMClassifier
from optimargin._odm import ODMClassifier
from optimargin._selection.grid import make_grid, run_grid
from optimargin._selection.machines import ODM
from optimargin._selection.training import TrainingSet


@dataclass(frozen=True)
class ODMPath:
    """The solutions of `odm_path`, one a grid point.

    Attributes
    ----------
    params : list of dict
        The parameters of each point: C1, C2, D and, for kernels that have one, gamma.
    objective : ndarray of shape (n_points, n_problems)
        One problem for two classes, else one a class against the rest.
    coef : ndarray of shape (n_points, n_problems, n_coef)
        Kernel coefficients of the samples (`n_coef` is n_samples), or, for the linear
        kernel, coefficients of the features.
    intercept : ndarray of shape (n_points, n_problems)
    loo_decision : ndarray of shape (n_points, n_samples, n_problems) or None
        Closed-form leave-one-out decision values, see
        `ODMClassifier.loo_decision_function`.
    """

    params: list
    objective: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    loo_decision: np.ndarray | None


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
    X, y = check_X_y(X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
    check_classification_targets(y)
    if sample_weight is not None:
        sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if not (sample_weight > 0).all():
            raise ValueError("sample_weight must be positive: leave out samples of no weight.")
    if np.unique(y).size < 2:
        raise ValueError("y has one class only: a path needs samples of at least two classes.")
    common = {"fit_intercept": fit_intercept, "class_weight": class_weight}
    estimator = (
        LinearODMClassifier(**common)
        if kernel == "linear"
        else ODMClassifier(kernel=kernel, degree=degree, coef0=coef0, **common)
    )
    training = TrainingSet(ODM, estimator, X, y, sample_weight)
    grid = make_grid(training, {"C1": C1s, "C2": C2s, "D": Ds}, gammas, widths)
    n_coef = X.shape[1] if kernel == "linear" else X.shape[0]
    shape = (len(grid), training.n_problems)
    path = ODMPath(
        grid.points,
        np.empty(shape),
        np.empty((*shape, n_coef)),
        np.empty(shape),
        np.empty((len(grid), X.shape[0], training.n_problems)) if loo else None,
    )

    def visit(_, learner, places, points):
        for place, point in zip(places, points, strict=True):
            learner.fit(*point)
            path.objective[place] = learner.objective
            path.coef[place] = learner.coef
            path.intercept[place] = learner.intercept
            if path.loo_decision is not None:
                path.loo_decision[place] = learner.leave_one_out()

    run_grid(training, grid, None, visit, n_jobs)
    return path
