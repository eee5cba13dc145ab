"""Decision values of test samples over a grid of large margin distribution machines."""

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_X_y

from optimargin.designs import GramDesign
from optimargin.estimators.ldm import LDMClassifier
from optimargin.held_out.ldm import LDMBoxRefitter
from optimargin.held_out.refitter import GramTest
from optimargin.objectives import LDM
from optimargin.selection.grid import grid_values
from optimargin.tasks import Classification

MARGIN_TOL = 1e-5
"""How far the margins of training samples may be from optimal: this moves no accuracy."""


def ldm_path_decision(K, y, K_test, *, Cs="paper", lambda1s="paper", lambda2s="paper"):
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

    Returns
    -------
    decision : ndarray of shape (n_Cs, n_lambda1s, n_lambda2s, n_test, n_problems)
        One problem for two classes, otherwise one per class. The margins of training samples are
        within 1e-5 of the optimal ones.

    Raises
    ------
    ArithmeticError
        If the method ends before a point is solved.

    See Also
    --------
    ldm_path : The same models with their coefficients, certified, also with an intercept.

    Examples
    --------
    >>> import numpy as np
    >>> from optimargin import ldm_path_decision
    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [3.0]]), [0, 0, 1, 1]
    >>> decision = ldm_path_decision(X @ X.T, y, [[-1.0]] @ X.T, Cs=[1, 100], lambda2s=[0])
    >>> decision.shape
    (2, 7, 1, 1, 1)
    >>> bool((decision < 0).all())
    True
    """
    K, y = check_X_y(K, y, dtype=np.float64, order="C")
    if K.shape[0] != K.shape[1]:
        raise ValueError(f"K has shape {K.shape}: give the kernel values of y's samples, a square.")
    K_test = check_array(K_test, dtype=np.float64, order="C")
    if K_test.shape[1] != y.size:
        raise ValueError(
            f"K_test has {K_test.shape[1]} columns and y {y.size} samples: give one column per "
            "training sample."
        )
    check_classification_targets(y)
    grid = {
        name: grid_values(f"{name}s", values, LDM.paper[name], _allowed(name))
        for name, values in {"C": Cs, "lambda1": lambda1s, "lambda2": lambda2s}.items()
    }
    task = Classification.from_labels(y)
    refitter = LDMBoxRefitter(
        GramDesign(K), task.encode(y), GramTest(K_test), margin_tol=MARGIN_TOL
    )
    shape = tuple(values.size for values in grid.values())
    decision = np.empty((*shape, K_test.shape[0], task.n_outputs))
    # Changing lambda1 takes most time, changing lambda2 least.
    for j, lambda1 in enumerate(grid["lambda1"]):
        for i, C in enumerate(grid["C"]):
            path = [LDM(lambda1, lambda2, C).resolve(None) for lambda2 in grid["lambda2"]]
            decision[i, j] = refitter.predict_path(path)
    return decision


def _allowed(name):
    """Return the interval of a parameter, as the estimator declares it."""
    return LDMClassifier._parameter_constraints[name][0]
