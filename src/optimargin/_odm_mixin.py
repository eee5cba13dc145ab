"""What the kernel and the linear ODM classifier share."""

from copy import copy
from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions, validate_params

from optimargin._base import BaseMarginClassifier
from optimargin.leave_one_out import error_bound, leave_folds_out, leave_one_out
from optimargin.problems import LandmarkDesign, MarginProblem, ODMLoss
from optimargin.problems.margin_problem import GAP_FLOOR
from optimargin.solvers import SOLVERS

_LARGEST = 1e30  # price of a margin whose square is still far from overflow
_SHARE_ABOVE = 0.25  # C2 / C1 by default
_SHARP = 1e-13  # a relative gap at which the active set is that of the solution
_SAME_OBJECTIVE = 0.01  # relative difference that rounding of float32 coefficients can make


class ODMMixin(BaseMarginClassifier):
    """The parameters of the ODM loss, and what its closed forms tell about a fit."""

    _parameter_constraints: dict = {
        "C1": [Interval(Real, 0, _LARGEST, closed="right"), None],
        "C2": [Interval(Real, 0, _LARGEST, closed="both"), None],
        "D": [Interval(Real, 0, 1, closed="left")],
    }
    _price_per_weight: float  # C1 by default, for samples whose weights sum to one

    def _resolve_prices(self, total_weight):
        """Set `C1_` and `C2_` for samples whose weights sum to `total_weight`."""
        C1 = self.C1
        if C1 is None:
            C1 = self._price_per_weight * total_weight
            if not 1 / _LARGEST <= C1 <= _LARGEST:
                raise ValueError(
                    f"sample_weight (times class_weight) sums to {total_weight:.3g}, which is no "
                    "sensible C1: give C1 a value, or scale the weights to a mean of one."
                )
        self.C1_ = float(C1)
        self.C2_ = float(_SHARE_ABOVE * C1 if self.C2 is None else self.C2)

    def _make_loss(self):
        return ODMLoss(self.C1_, self.C2_, float(self.D))

    def _make_problem(self, design, y, weight):
        return MarginProblem(self._make_loss(), design, y, weight, fit_intercept=self.fit_intercept)

    def loo_decision_function(self, X=None, y=None, sample_weight=None, *, exact=False):
        """Return for each training sample the decision value of the model without it.

        No model is refitted: the loss is quadratic on the active set of the fit, so the values
        follow in closed form, at about the price of one more fit. That holds as long as no
        other sample enters or leaves the active set; `exact` follows those that do. The
        weights of the remaining samples are kept, so a model without sample i is the one
        fitted with `C1` and `C2` times ``(sum(s) - s_i) / sum(s)``, s being the weights; with
        their defaults, which grow with the sum, it is the one fitted without the sample.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            The training data. A fitted estimator remembers them until it is pickled; then
            pass them again.
        y : array-like of shape (n_samples,), default=None
        sample_weight : array-like of shape (n_samples,), default=None
        exact : bool, default=False
            Make the values equal those of refits, by a few Newton steps for each sample whose
            removal changes the active set.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            As in `decision_function`.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from optimargin import ODMClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = ODMClassifier().fit(X / X.max(axis=0), y)
        >>> error = ((model.loo_decision_function() > 0) != y).mean()
        >>> print(f"leave-one-out error {error:.3f}")
        leave-one-out error 0.019
        """
        return self._left_out(
            X, y, sample_weight, lambda rows, *solved: leave_one_out(*solved, exact=exact)
        )

    def kfold_decision_function(
        self, cv=5, X=None, y=None, sample_weight=None, *, groups=None, exact=False
    ):
        """Return for each training sample the decision value of the model without its fold.

        The block form of `loo_decision_function`, for any splitter whose test sets hold every
        sample once.

        Parameters
        ----------
        cv : int, cross-validation generator or iterable, default=5
            As in `sklearn.model_selection.cross_val_predict`.
        X, y, sample_weight
            As in `loo_decision_function`.
        groups : array-like of shape (n_samples,), default=None
            Passed to the splitter.
        exact : bool, default=False
            As in `loo_decision_function`.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.model_selection import KFold
        >>> from optimargin import LinearODMClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> folds = KFold(10, shuffle=True, random_state=0)
        >>> LinearODMClassifier().fit(X, y).kfold_decision_function(folds).shape
        (150, 3)
        """
        from sklearn.model_selection import check_cv  # slow to import

        X, y, sample_weight = self._training_arguments(X, y, sample_weight)
        splits = list(check_cv(cv, y, classifier=True).split(X, y, groups))
        fold = np.full(len(y), -1)
        for k, (_, test) in enumerate(splits):
            if (fold[test] >= 0).any():
                raise ValueError("cv puts a sample into two test sets: it must be a partition.")
            fold[test] = k
        if (fold < 0).any():
            raise ValueError("cv leaves samples out of all test sets: it must be a partition.")

        def left_out(rows, problem, coef, intercept):
            folds = [np.flatnonzero(fold[rows] == k) for k in range(len(splits))]
            return leave_folds_out(problem, coef, intercept, folds, exact=exact)

        return self._left_out(X, y, sample_weight, left_out)

    @validate_params(
        {"kind": [StrOptions({"printed", "valid", "count"})]},
        prefer_skip_nested_validation=True,
    )
    def loo_error_bound(self, X=None, y=None, sample_weight=None, *, kind="valid"):
        """Bound the leave-one-out error by what the fit has already computed.

        Parameters
        ----------
        X, y, sample_weight
            As in `loo_decision_function`.
        kind : {"printed", "valid", "count"}, default="valid"
            ``"printed"`` is the bound as the paper prints it, which can be below the error;
            ``"valid"`` its corrected form, and ``"count"`` a tighter valid one. The last two
            hold for models without an intercept; with one, both return the share of samples
            with a margin below 1 - D, which is safe. `optimargin.leave_one_out.error_bound`
            has the formulas.

        Returns
        -------
        bound : float or ndarray of shape (n_classes,)
            One number for two classes, else one a class against the rest.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from optimargin import ODMClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = ODMClassifier(fit_intercept=False).fit(X / X.max(axis=0), y)
        >>> bool(model.loo_error_bound(kind="count") <= model.loo_error_bound())
        True
        """
        X, y, sample_weight = self._training_arguments(X, y, sample_weight)
        training = self._rebuild(X, y, sample_weight)
        bounds = []
        for k, problem in enumerate(training.problems):
            coef, intercept = self._solution(training, k)
            bounds.append(error_bound(problem, coef, intercept, kind))
        return bounds[0] if len(bounds) == 1 else np.array(bounds)

    def _left_out(self, X, y, sample_weight, left_out):
        """Apply a function of (rows, problem, coef, intercept) to every problem's solution."""
        X, y, sample_weight = self._training_arguments(X, y, sample_weight)
        training = self._rebuild(X, y, sample_weight)
        scores = np.empty((len(y), len(training.problems)))
        if training.rows.size < len(y):
            # Samples of zero weight took no part: their value is that of the model itself.
            scores[:] = np.reshape(self.decision_function(X), scores.shape)
        for k, problem in enumerate(training.problems):
            scores[training.rows, k] = left_out(
                training.rows, problem, *self._solution(training, k)
            )
        return scores[:, 0] if len(training.problems) == 1 else scores

    def _rebuild(self, X, y, sample_weight):
        X, y = self._checked_again(X, y)
        # A copy, because rebuilding the design matrix notes what it found on the estimator.
        twin = copy(self)
        twin._prepare_rebuilding(X)
        return twin._training_problems(X, y, sample_weight)

    def _prepare_rebuilding(self, X):
        """Ask for the design that a factor is made of, whatever the model was fitted with."""
        self.solver = "newton"

    def _check_objective(self, value, k):
        """Raise a clear error for samples on which the model has another objective."""
        if not hasattr(self, "objective_"):  # followed a stream
            return
        objective = float(np.ravel(self.objective_)[k])
        if not abs(value - objective) <= _SAME_OBJECTIVE * max(objective, GAP_FLOOR):
            raise ValueError(
                f"The model has an objective of {value:.4g} on these samples, and of "
                f"{objective:.4g} on those it was fitted on: pass X, y and sample_weight of the "
                "training data, every row in its place."
            )

    def _solution(self, training, k):
        """Return the solution of problem `k`, sharpened to the end of its active set."""
        problem, design = training.problems[k], training.design
        if isinstance(design, LandmarkDesign):
            coef = design.from_landmark_coefficients(self.dual_coef_[k].astype(np.float64))
            start = coef, float(self.intercept_[k])
        elif hasattr(design, "coefficients"):
            start = design.coefficients(
                self.coef_[k].astype(np.float64), float(self.intercept_[k]), problem
            )
        else:
            start = self._sample_coefficients(training, k), float(self.intercept_[k])
        point = problem.point(*start)
        self._check_objective(point.value, k)
        if point.relative_gap <= _SHARP:
            return point.coef, point.intercept
        solution = SOLVERS["newton"](tol=self.tol, max_iter=self.max_iter).solve(problem, *start)
        return solution.coef, solution.intercept
