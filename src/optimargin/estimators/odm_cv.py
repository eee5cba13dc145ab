"""ODM classifiers that choose their own parameters."""

from optimargin.estimators._base import keeps_parameters
from optimargin.estimators._classifier import check_calibrated
from optimargin.estimators._documentation import described
from optimargin.estimators._relevance import RELEVANCE
from optimargin.estimators._words import available_where
from optimargin.estimators.cv import GRID, ClassifierCV, KernelSelectionCV, forwarded
from optimargin.estimators.odm import LinearODMClassifier, ODMClassifier
from optimargin.objectives import ODM


class _ODMSelectionCV(ClassifierCV):
    """What both share: the grid of the loss, and the closed forms of the refitted model."""

    objective_type = ODM
    _parameter_constraints: dict = {
        "C1s": GRID,
        "C2s": GRID,
        "Ds": GRID,
    }

    predict_proba = available_where(check_calibrated)(forwarded(ODMClassifier.predict_proba))
    predict_log_proba = available_where(check_calibrated)(
        forwarded(ODMClassifier.predict_log_proba)
    )
    # The parameters stay those chosen with all samples.
    loo_decision_function = forwarded(ODMClassifier.loo_decision_function)
    kfold_decision_function = forwarded(ODMClassifier.kfold_decision_function)
    predict_set = forwarded(ODMClassifier.predict_set)
    loo_error_bound = forwarded(ODMClassifier.loo_error_bound)


@described(ODMClassifier)
class ODMClassifierCV(KernelSelectionCV, _ODMSelectionCV):
    """Kernel optimal margin distribution machine that chooses its own parameters.

    Without a grid it searches continuously over `C1`, `C2`, `D` and the width of the RBF
    kernel for the smallest held-out loss, a smooth form of the error rate. Held-out
    predictions come in closed form from one fit per point, so that the whole search costs about
    as much as a hundred fits. With a grid every point is scored: by leave-one-out in closed
    form, or, when `cv` is given, by exact, warm-started fits to its folds.

    Parameters
    ----------
    C1s, C2s, Ds : array-like or "paper", default=None
        The values of `C1`, `C2` and `D`. When none of the grids is given there is no grid.
        When some are, the others are the paper's: 1, 2, 4, ..., 1024 for `C1` and `C2`, and
        0, 0.1, ..., 0.5 for `D`. ``ODMClassifierCV(C1s="paper")`` is the paper's whole grid.
    gammas
    widths : array-like or "paper", default=None
        For the RBF kernel instead of `gammas`: widths s in ``exp(-|x - z|^2 / (2 s^2))`` as
        multiples of the mean distance of the samples. The paper's are 1/4, 1/2, 1, 2, 4.
        Other kernels with a `gamma` have ``gamma="scale"`` unless `gammas` are given.
    kernel, degree, coef0, fit_intercept, solver, approximation, n_components, cache_size, tol
    max_iter, class_weight, multi_class
    cv : int, cross-validation generator or iterable, default=None
        None: closed form, without refitting; leave-one-out with a grid, stratified 5-fold without,
        repeated three times where there are few samples. Otherwise each fold is fitted, and
        `class_weight` is applied anew in each.
    scoring : str or callable, default=None
        A scorer of scikit-learn that works on decision values or labels, or ``"smooth"``: one
        minus the smooth loss. None means the accuracy with a grid and ``"smooth"`` without.
        The search without a grid follows the smooth loss, or a smooth form of the scorers
        "balanced_accuracy", "neg_log_loss" and, for two classes, "f1" and "roc_auc"; any
        `scoring` chooses among the points it has seen. The smooth loss counts `class_weight`.
    max_evals : int, default=45
        How many points the search without a grid may evaluate. About half are a cheap first scan
        by least squares on at most 250 samples; `cv_results_` omits these. The last three are its
        best ones, judged once more, with fits without each fold; past 500 samples the last point
        is the best one.
    relevance : bool or "auto", default="auto"
        Whether the search without a grid and without `cv` continues from the best common width of
        the RBF kernel to one width per feature, by the gradient of the same loss, on at most 500
        samples. The widths are used only if 3-fold cross-validation, with widths found anew in
        each fold, confirms the gain by one standard error. From 1000 samples on they must also
        help the samples that they were not found on. With "auto" the search continues only if a
        few steps on each half of at most 400 samples lower the loss of the other half, by 4 % on
        average. Not counted in `max_evals`.
    max_samples : int or None, default=100000
        The search without a grid and without `cv` uses at most so many samples, drawn from each
        class alike. Past 300 samples (700 of several classes) the search approximates the RBF
        kernel by landmarks. A linear kernel is searched as by `LinearODMClassifierCV`, other
        kernels on at most 2000 samples. The chosen model is always fitted to all samples.
    max_time
    n_jobs
    verbose
    calibration : {"sigmoid", "isotonic", "temperature"} or None, default="sigmoid"
        As in `ODMClassifier`; by held-out values that the search has at hand, of all samples or of
        some (those that widths were not found on, or those that chose the penalty of a linear
        model). Where a shift of the threshold makes a given `scoring` worse, the map is that of
        "temperature", which has none; probabilities are then less exact.
    random_state

    Attributes
    ----------
    C1_, C2_, D_ : float
        The chosen parameters.
    gamma_ : float or ndarray of shape (n_features,)
        The chosen kernel parameter, for kernels that have one; one value per feature where
        `relevance` has found widths.
    widths_ : ndarray of shape (n_features,)
        The width of each feature, ``1 / sqrt(2 gamma_)``; for the RBF kernel.
    feature_importances_ : ndarray of shape (n_features,)
        The relevance of each feature, where `relevance` has found widths: its share of the mean
        squared distance, in widths, between samples. They sum to one.
    best_params_, held_out_score_, best_score_, best_index_
    cv_results_ : dict of ndarray
        One entry per point, ready for a data frame: ``params``, ``param_C1``, ...,
        ``mean_test_score``, ``rank_test_score`` and, with `cv` and a grid,
        ``split0_test_score``, ... and ``std_test_score``. Without a grid ``is_finalist`` marks
        the points that were judged once more; they rank before all others. Widths per feature
        are a last point: ``params`` has them all, ``param_gamma`` their geometric mean, and its
        score is that of the models without each fold; from 1000 samples on, that of samples which
        the widths were not found on. After an interrupt the table holds what was computed until
        then; an estimator that was fitted before keeps that model instead.
    best_estimator_ : ODMClassifier
        The refitted classifier. All its fitted attributes (``classes_``, ``support_``,
        ``dual_coef_``, ``intercept_``, ``objective_``, ``dual_gap_``, ...) are attributes of
        this object, too.

    See Also
    --------
    LinearODMClassifierCV : For linear models.
    odm_path : All solutions of a grid.

    Notes
    -----
    Of equally good grid points the smoothest model is chosen: the smallest `C1`, then the
    smallest `C2`, the largest `D`, the smallest gamma.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from optimargin import ODMClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X / X.max(axis=0), y, random_state=0)
    >>> model = ODMClassifierCV().fit(X_train, y_train)
    >>> bool(model.score(X_test, y_test) > 0.95)
    True
    """

    _tuned = ODMClassifier
    _parameter_constraints: dict = RELEVANCE

    @keeps_parameters
    def __init__(
        self,
        C1s=None,
        C2s=None,
        Ds=None,
        *,
        gammas=None,
        widths=None,
        kernel="rbf",
        degree=3,
        coef0=0.0,
        fit_intercept=True,
        cv=None,
        scoring=None,
        max_evals=45,
        relevance="auto",
        max_samples=100_000,
        max_time=None,
        n_jobs=None,
        verbose=0,
        solver="auto",
        approximation=None,
        n_components="auto",
        cache_size=2000,
        tol=1e-4,
        max_iter=1000,
        class_weight=None,
        multi_class="auto",
        calibration="sigmoid",
        random_state=0,
    ):
        """Keep the parameters."""


@described(LinearODMClassifier, ODMClassifierCV)
class LinearODMClassifierCV(_ODMSelectionCV):
    """Linear optimal margin distribution machine that chooses its own parameters.

    The linear form of `ODMClassifierCV`, which describes how.

    Parameters
    ----------
    C1s, C2s, Ds
    fit_intercept, solver, tol, max_iter, class_weight, multi_class
    cv, scoring, max_evals, n_jobs, verbose, random_state
    calibration : {"sigmoid", "isotonic", "temperature"} or None, default="sigmoid"
        As in `ODMClassifierCV`.
    max_samples : int or None, default=1000000
        As in `ODMClassifierCV`. Sparse rows are searched on at most 20,000 samples; past 1000
        features, sparse or not, on at most 1000 (2000 where there are no more). Where that are not
        all, fits to four fifths of all samples, scored on the others, then choose the penalty:
        that is the last point of `cv_results_`. Below 20,000 samples three folds are held out one
        after the other; from there on it is one, and without `scoring` and `class_weight` the
        accuracy decides, not its smooth form.
    max_time

    Attributes
    ----------
    C1_, C2_, D_ : float
        The chosen parameters.
    best_params_, held_out_score_, best_score_, best_index_, cv_results_
    best_estimator_ : LinearODMClassifier
        The refitted classifier, whose fitted attributes (``coef_``, ``intercept_``, ...) are
        attributes of this object, too.

    See Also
    --------
    ODMClassifierCV : For kernels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from optimargin import LinearODMClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> LinearODMClassifierCV().fit(X, y).coef_.shape
    (3, 4)
    """

    _tuned = LinearODMClassifier

    @keeps_parameters
    def __init__(
        self,
        C1s=None,
        C2s=None,
        Ds=None,
        *,
        fit_intercept=True,
        cv=None,
        scoring=None,
        max_evals=45,
        max_samples=1_000_000,
        max_time=None,
        n_jobs=None,
        verbose=0,
        solver="auto",
        tol=1e-6,
        max_iter=1000,
        class_weight=None,
        multi_class="auto",
        calibration="sigmoid",
        random_state=0,
    ):
        """Keep the parameters."""
