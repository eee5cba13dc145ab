"""What the kernel and the linear large margin distribution machine share."""

from copy import copy
from numbers import Real

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions, validate_params

from optimargin._base import BaseMarginClassifier
from optimargin.problems import FeatureDesign, LDMDual, LDMProblem, LinearGramDesign
from optimargin.solvers import LDM_SOLVERS
from optimargin.solvers.ldm_systems import FeatureSystem

_LARGEST = 1e30


class LDMMixin(BaseMarginClassifier):
    """The parameters of the LDM objective and the paper's error bound."""

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, np.inf, closed="right")],
        "lambda1": [Interval(Real, 0, None, closed="left")],
        "lambda2": [Interval(Real, 0, None, closed="left")],
    }

    def _make_problem(self, design, y, weight):
        for name in ("C", "lambda1", "lambda2"):
            value = float(getattr(self, name))
            if _LARGEST < value < np.inf:
                raise ValueError(
                    f"{name}={value:g} is too large for arithmetic: use at most {_LARGEST:g}"
                    f"{' or inf, a hard margin' if name == 'C' else ''}."
                )
        return LDMProblem(
            design,
            y,
            weight,
            float(self.C),
            float(self.lambda1),
            float(self.lambda2),
            fit_intercept=self.fit_intercept,
        )

    def _make_solver(self):
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        return LDM_SOLVERS[self.solver_](tol=self.tol, max_iter=self.max_iter, seed=seed)

    @validate_params({"kind": [StrOptions({"printed"})]}, prefer_skip_nested_validation=True)
    def loo_error_bound(self, X=None, y=None, sample_weight=None, *, kind="printed"):
        """Return the paper's bound of the leave-one-out error, which can be below the error.

        With the dual variables a_i of the hinge loss and the diagonal h of the dual's matrix it
        is ``(sum of a_i h_ii over 0 < a_i < C/m, plus the number of a_i = C/m) / m``. Its proof
        compares with the model whose variable a_i is zero. That takes sample i out of the hinge
        loss, but leaves it in the mean and the variance of the margins, so the model compared
        with is not the one without the sample. For small `lambda2` it is a useful indicator; for
        large `lambda2` the error often exceeds it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            The training data. A fitted estimator remembers them until it is pickled; then
            pass them again.
        y : array-like of shape (n_samples,), default=None
        sample_weight : array-like of shape (n_samples,), default=None
        kind : {"printed"}, default="printed"

        Returns
        -------
        bound : float or ndarray of shape (n_classes,)
            One number for two classes, else one a class against the rest.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from optimargin import LDMClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = LDMClassifier(fit_intercept=False).fit(X / X.max(axis=0), y)
        >>> 0 < model.loo_error_bound(kind="printed") < 1
        True
        """
        X, y, sample_weight = self._training_arguments(X, y, sample_weight)
        X, y = self._checked_again(X, y)
        # A copy, because rebuilding the design matrix notes what it found on the estimator.
        training = copy(self)._training_problems(X, y, sample_weight)
        scores = np.reshape(self.decision_function(X), (X.shape[0], -1))[training.rows]
        bounds = []
        for k, problem in enumerate(training.problems):
            score = scores[:, k].astype(np.float64)
            hinge_dual = self._hinge_dual(training, problem, k, score)
            bounds.append(_printed_bound(problem, hinge_dual))
        return bounds[0] if len(bounds) == 1 else np.array(bounds)

    def _hinge_dual(self, training, problem, k, score):
        """Return the dual variables of the hinge loss of a fitted model."""
        if hasattr(self, "dual_coef_"):
            theta = self._sample_coefficients(training, k)
            box_dual = problem.y * (theta + problem.variance_gradient(score))
        else:
            # A linear model keeps w alone: solving again, from nothing, is as cheap as keeping
            # a number for every sample is dear.
            point = self._make_solver().solve(problem)
            box_dual = problem.y * (problem.y * point.dual + problem.variance_gradient(score))
        return np.clip(box_dual, problem.lower, problem.upper) - problem.lower


def _printed_bound(problem, hinge_dual):
    if problem.design.space == "feature":
        diagonal = FeatureSystem(problem).exact_diagonal()
    else:
        diagonal = np.diagonal(LDMDual.of(problem).H)
        if problem.fit_intercept and problem.kappa > 0:
            diagonal = diagonal + 1.0 / problem.kappa
    price = problem.C * problem.weight
    tiny = 1e-7 * problem.weight * max(min(problem.C, hinge_dual.sum()), 1e-300)
    at_price = hinge_dual >= price - tiny
    inside = (hinge_dual > tiny) & ~at_price
    terms = np.where(at_price, 1.0, np.where(inside, hinge_dual * diagonal, 0.0))
    return float(problem.weight @ terms)


def ldm_design(X, weight, fit_intercept, *, in_samples):
    """Return the design of linear data, one coefficient a feature or one a sample."""
    center = None
    if fit_intercept and not issparse(X):
        center = np.average(X, axis=0, weights=weight).astype(np.float64)
    return (LinearGramDesign if in_samples else FeatureDesign)(X, center)
