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
    K, y, K_test = _checked(K, y, K_test, margin_tol)
    given = {"C": Cs, "lambda1": lambda1s, "lambda2": lambda2s}
    allowed = LDMClassifier._parameter_constraints
    Cs, lambda1s, lambda2s = (
        grid_values(f"{name}s", given[name], LDM.paper[name], allowed[name][0]) for name in given
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


def _checked(K, y, K_test, margin_tol):
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
