"""ODM regressors that choose their own parameters."""

from numbers import Real

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions

from optimargin.estimators._base import keeps_parameters
from optimargin.estimators._documentation import described
from optimargin.estimators.cv import BaseSelectionCV, KernelSelectionCV, forwarded
from optimargin.estimators.odm_regression import LinearODMRegressor, ODMRegressor
from optimargin.held_out.outliers import far_from_held_out
from optimargin.objectives import ODMRegression
from optimargin.selection.criteria import AbsoluteError, ExpectileError
from optimargin.tasks import Regression

_VALUES = ["array-like", None]
_MAX_ROUNDS = 5  # of trimming


def _without_copies(model):
    """Return predictions of the training samples, each by a model without it and its copies."""
    from optimargin.held_out.of_fit import held_out_of_fit  # slow to import

    return held_out_of_fit(model._trained_on(*model._checked_training(None)))


class _ODMRegressorCV(RegressorMixin, BaseSelectionCV):
    """What both share: what is fixed, what held-out predictions are worth, and trimming."""

    objective_type = ODMRegression
    _task_type = Regression
    _parameter_constraints: dict = {
        "C1s": _VALUES,
        "C2s": _VALUES,
        "epsilons": _VALUES,
        "expectile": [Interval(Real, 0, 1, closed="neither")],
        "outliers": [StrOptions({"trim"}), None],
    }

    def _default_criterion(self, has_grid):
        return AbsoluteError() if self.expectile == 0.5 else ExpectileError(self.expectile)

    @property
    def _share_above(self):
        return (1 - self.expectile) / self.expectile

    def _fixed(self):
        return {"epsilon": self.epsilon, "share_above": self._share_above}

    def _make_estimator(self, **point):
        if "C1" in point and self._share_above != 1:
            point = {"C2": self._share_above * point["C1"], **point}
        return super()._make_estimator(**point)

    def _make_grid(self, data):
        if self.fit_intercept and self.C2s is not None and np.any(np.asarray(self.C2s) == 0):
            raise ValueError("C2s has a zero: with an intercept C2 must be positive.")
        return super()._make_grid(data)

    def _selected(self, given, checked, weight, task, routed, tasks):
        found = super()._selected(given, checked, weight, task, routed, tasks)
        if self.outliers is None:
            return found
        n_samples = len(checked[1])
        kept = np.ones(n_samples, dtype=bool)
        for _ in range(_MAX_ROUNDS):
            usual = kept * (np.ones(n_samples) if weight is None else weight)
            predicted = _without_copies(found["best_estimator_"])
            far = kept & far_from_held_out(checked[1], predicted, usual)
            if not far.any():
                break
            kept &= ~far
            # Rows without a weight take no part, and keep their places.
            weight = (np.ones(n_samples) if weight is None else weight) * kept
            part = self._make_estimator()._make_task(checked[1], weight, checked[0].dtype)
            found = super()._selected(given, checked, weight, part, routed, tasks)
        return {**found, "outliers_": np.flatnonzero(~kept)}

    predict = forwarded(ODMRegressor.predict)
    # The parameters stay those chosen with all samples.
    predict_interval = forwarded(ODMRegressor.predict_interval)
    loo_prediction = forwarded(ODMRegressor.loo_prediction)
    kfold_prediction = forwarded(ODMRegressor.kfold_prediction)


@described(ODMRegressor)
class ODMRegressorCV(KernelSelectionCV, _ODMRegressorCV):
    """Kernel regression with a band loss that chooses its own parameters.

    Without a grid it searches continuously over `C1` and the width of the RBF kernel for the
    smallest held-out absolute error. Held-out predictions come in closed form from one fit per
    point, with the exact gradient, so that the whole search costs about as much as a hundred
    fits. With a grid every point is scored: by leave-one-out in closed form, or, when `cv` is
    given, by exact, warm-started fits to its folds. Neither depends on the units of y.

    Parameters
    ----------
    C1s : array-like, default=None
        The values of `C1`. When none of the grids is given there is no grid. When another is,
        they are 1/16, 1/4, 1, ..., 256 times the number of samples (in units of the data for
        the linear kernel, see `LinearODMRegressor`).
    C2s : array-like, default=None
        The values of `C2`. None ties it to `C1` by `expectile`.
    epsilons : array-like, default=None
        The values of `epsilon`, in the units of y. None keeps `epsilon`.
    gammas
    widths : array-like, default=None
        For the RBF kernel instead of `gammas`: widths s in ``exp(-|x - z|^2 / (2 s^2))`` as
        multiples of the mean distance of the samples; 1/4, 1/2, 1, 2, 4 when neither is given.
        Other kernels with a `gamma` have ``gamma="scale"`` unless `gammas` are given.
    epsilon : float or "scale", default=0.0
        As in `ODMRegressor`; it is not searched for.
    expectile : float, default=0.5
        ``C1 / (C1 + C2)``. With another value than 0.5 the expectile is predicted, and by
        default the held-out expectile loss decides.
    outliers : {"trim"}, default=None
        With "trim", samples whose leave-one-out residual is more than five robust standard
        deviations (1.4826 times the median absolute residual) are left out, and parameters are
        chosen again, until none is left, at most five times. For data with gross errors in y;
        on clean data with heavy tails it costs accuracy.
    kernel, degree, coef0, fit_intercept, solver, approximation, n_components, cache_size, tol
    max_iter
    cv : int, cross-validation generator or iterable, default=None
        None: closed form, without refitting; leave-one-out with a grid, three times repeated
        5-fold without. Otherwise each fold is fitted.
    scoring : str or callable, default=None
        ``"absolute_error"`` (the default), ``"squared_error"``, or a scorer of scikit-learn for
        predictions. Errors count negative, in the units of y. The search without a grid follows
        the error itself, or for another scorer the absolute (or, for "r2" and its kin, the
        squared) error, and the scorer chooses among the points it has seen.
    max_evals : int, default=40
        How many points the search without a grid may look at. The last three are its best ones,
        judged once more.
    max_samples : int or None, default=100000
        The search without a grid and without `cv` uses at most so many samples, drawn at random.
        The chosen model is always fitted to all samples.
    max_time
    n_jobs
    verbose
    random_state

    Attributes
    ----------
    C1_, C2_, epsilon_ : float
        The chosen parameters.
    gamma_ : float
        The chosen kernel parameter, for kernels that have one.
    best_params_
    held_out_score_ : float
        The R² of held-out predictions at the chosen point, whatever it was chosen by.
    oob_prediction_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Held-out predictions of the training samples at the chosen point, averaged over repeats
        of the folds; absent where the search saw a part of the samples.
    best_score_, best_index_
    cv_results_
    outliers_ : ndarray of shape (n_outliers,)
        Indices of the samples that were left out, with ``outliers="trim"``.
    best_estimator_ : ODMRegressor
        The refitted regressor. All its fitted attributes (``support_``, ``dual_coef_``,
        ``intercept_``, ``objective_``, ``dual_gap_``, ...) are attributes of this object, too.

    See Also
    --------
    LinearODMRegressorCV : For linear models.

    Notes
    -----
    Of equally good grid points the smoothest model is chosen: the smallest `C1`, then the
    smallest `C2`, the largest `epsilon`, the smallest gamma.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.model_selection import train_test_split
    >>> from optimargin import ODMRegressorCV
    >>> X, y = make_friedman1(400, noise=1.0, random_state=0)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = ODMRegressorCV().fit(X_train, y_train)
    >>> bool(model.score(X_test, y_test) > 0.8)
    True
    """

    _tuned = ODMRegressor
    _parameter_constraints: dict = {"widths": _VALUES}

    @keeps_parameters
    def __init__(
        self,
        C1s=None,
        C2s=None,
        epsilons=None,
        *,
        gammas=None,
        widths=None,
        epsilon=0.0,
        expectile=0.5,
        outliers=None,
        kernel="rbf",
        degree=3,
        coef0=0.0,
        fit_intercept=True,
        cv=None,
        scoring=None,
        max_evals=40,
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
        random_state=0,
    ):
        """Keep the parameters."""


@described(LinearODMRegressor, ODMRegressorCV)
class LinearODMRegressorCV(_ODMRegressorCV):
    """Linear regression with a band loss that chooses its own parameters.

    The linear form of `ODMRegressorCV`, which describes how.

    Parameters
    ----------
    C1s, C2s, epsilons
    epsilon, expectile, outliers
    fit_intercept, solver, tol, max_iter
    cv, scoring, max_evals, n_jobs, verbose, random_state
    max_samples : int or None, default=1000000
        As in `LinearODMClassifierCV`.
    max_time

    Attributes
    ----------
    C1_, C2_, epsilon_ : float
        The chosen parameters.
    best_params_, held_out_score_, oob_prediction_, best_score_, best_index_, cv_results_, outliers_
    best_estimator_ : LinearODMRegressor
        The refitted regressor, whose fitted attributes (``coef_``, ``intercept_``, ...) are
        attributes of this object, too.

    See Also
    --------
    ODMRegressorCV : For kernels.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from optimargin import LinearODMRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> LinearODMRegressorCV().fit(X, y).coef_.shape
    (1, 10)
    """

    _tuned = LinearODMRegressor

    @keeps_parameters
    def __init__(
        self,
        C1s=None,
        C2s=None,
        epsilons=None,
        *,
        epsilon=0.0,
        expectile=0.5,
        outliers=None,
        fit_intercept=True,
        cv=None,
        scoring=None,
        max_evals=40,
        max_samples=1_000_000,
        max_time=None,
        n_jobs=None,
        verbose=0,
        solver="auto",
        tol=1e-6,
        max_iter=1000,
        random_state=0,
    ):
        """Keep the parameters."""
