"""LDM classifiers that choose their own parameters."""

from optimargin.estimators._base import keeps_parameters
from optimargin.estimators._documentation import described
from optimargin.estimators.cv import GRID, ClassifierCV, KernelSelectionCV, forwarded
from optimargin.estimators.ldm import LDMClassifier, LinearLDMClassifier
from optimargin.objectives import LDM


class _LDMSelectionCV(ClassifierCV):
    """What both share: the grid of the objective, and the paper's bound."""

    objective_type = LDM
    _parameter_constraints: dict = {
        "Cs": GRID,
        "lambda1s": GRID,
        "lambda2s": GRID,
    }

    loo_error_bound = forwarded(LDMClassifier.loo_error_bound)


@described(LDMClassifier)
class LDMClassifierCV(KernelSelectionCV, _LDMSelectionCV):
    """Kernel large margin distribution machine that chooses its own parameters.

    Every point is scored by exact fits to the folds of `cv`. Without a grid it searches
    continuously over `C`, `lambda1`, `lambda2` and the width of the RBF kernel for the smallest
    held-out loss, a smooth form of the error rate. With a grid every point is fitted from its
    neighbour's solution, and one eigendecomposition of a fold's kernel matrix serves all
    values of `lambda1`.

    Parameters
    ----------
    Cs, lambda1s, lambda2s : array-like or "paper", default=None
        The values of `C`, `lambda1` and `lambda2`. When none of the grids is given there is no
        grid. When some are, the others are the paper's: 10, 50, 100 for `C` and 2^-8, 2^-7,
        ..., 2^-2 for the others. ``LDMClassifierCV(Cs="paper")`` is the paper's whole grid.
    gammas
    widths : array-like or "paper", default=None
        For the RBF kernel instead of `gammas`: widths as multiples of the mean distance of the
        samples; see `ODMClassifierCV`.
    kernel, degree, coef0, fit_intercept, solver, tol, max_iter, class_weight
    cv : int, cross-validation generator or iterable, default=None
        The folds. None means stratified 5-fold, as in scikit-learn. `class_weight` is applied
        anew in each.
    scoring : str or callable, default=None
        As in `ODMClassifierCV`.
    max_evals : int, default=40
        How many points the search without a grid may look at.
    max_samples : int or None, default=1000
        The search without a grid and without `cv` uses at most so many samples, drawn from
        each class alike, and of kernels at most 736 of two classes, 510 of three and 340 of ten.
        The chosen model is always fitted to all samples.
    max_time
    n_jobs
    verbose
    random_state

    Attributes
    ----------
    C_, lambda1_, lambda2_ : float
        The chosen parameters.
    gamma_ : float
        The chosen kernel parameter, for kernels that have one.
    best_params_, held_out_score_, best_score_, best_index_, cv_results_
    best_estimator_ : LDMClassifier
        The refitted classifier, whose fitted attributes (``classes_``, ``support_``,
        ``dual_coef_``, ...) are attributes of this object, too.

    See Also
    --------
    LinearLDMClassifierCV : For linear models.
    ldm_path : All solutions of a grid.

    Notes
    -----
    Of equally good grid points the smoothest model is chosen: the smallest `C`, then the
    smallest `lambda2`, the largest `lambda1`, the smallest gamma.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from optimargin import LDMClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X / X.max(axis=0), y, random_state=0)
    >>> model = LDMClassifierCV(max_evals=20).fit(X_train, y_train)
    >>> bool(model.score(X_test, y_test) > 0.95)
    True
    """

    _tuned = LDMClassifier

    @keeps_parameters
    def __init__(
        self,
        Cs=None,
        lambda1s=None,
        lambda2s=None,
        *,
        gammas=None,
        widths=None,
        kernel="rbf",
        degree=3,
        coef0=0.0,
        fit_intercept=True,
        cv=None,
        scoring=None,
        max_evals=40,
        max_samples=1000,
        max_time=None,
        n_jobs=None,
        verbose=0,
        solver="auto",
        tol=1e-6,
        max_iter=1000,
        class_weight=None,
        random_state=0,
    ):
        """Keep the parameters."""


@described(LinearLDMClassifier, LDMClassifierCV)
class LinearLDMClassifierCV(_LDMSelectionCV):
    """Linear large margin distribution machine that chooses its own parameters.

    The linear form of `LDMClassifierCV`, which describes how. With many samples and fewer
    features the fits use the interior point method, which cannot use a warm start.

    Parameters
    ----------
    Cs, lambda1s, lambda2s
    fit_intercept, solver, tol, max_iter, class_weight
    cv, scoring, max_evals, n_jobs, verbose, random_state
    max_samples : int or None, default=20000
        As in `LDMClassifierCV`.
    max_time

    Attributes
    ----------
    C_, lambda1_, lambda2_ : float
        The chosen parameters.
    best_params_, held_out_score_, best_score_, best_index_, cv_results_
    best_estimator_ : LinearLDMClassifier
        The refitted classifier, whose fitted attributes (``coef_``, ``intercept_``, ...) are
        attributes of this object, too.

    See Also
    --------
    LDMClassifierCV : For kernels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from optimargin import LinearLDMClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> LinearLDMClassifierCV(max_evals=10).fit(X, y).coef_.shape
    (3, 4)
    """

    _tuned = LinearLDMClassifier

    @keeps_parameters
    def __init__(
        self,
        Cs=None,
        lambda1s=None,
        lambda2s=None,
        *,
        fit_intercept=True,
        cv=None,
        scoring=None,
        max_evals=40,
        max_samples=20000,
        max_time=None,
        n_jobs=None,
        verbose=0,
        solver="auto",
        tol=1e-6,
        max_iter=1000,
        class_weight=None,
        random_state=0,
    ):
        """Keep the parameters."""
