"""The linear optimal margin distribution machine."""

import numpy as np
from scipy.sparse import issparse
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.extmath import safe_sparse_dot

from optimargin._base import BaseMarginClassifier, check_scale
from optimargin._odm_mixin import ODMMixin
from optimargin.problems import FeatureDesign, LinearGramDesign
from optimargin.solvers import SOLVERS


def linear_design(X, weight, fit_intercept, solver):
    """Return the design of linear data; Newton's for short and wide dense data is a Gram matrix."""
    check_scale(X)
    center = None
    if fit_intercept and not issparse(X):
        center = np.average(X, axis=0, weights=weight).astype(np.float64)
    n_samples, n_features = X.shape
    in_samples = solver == "newton" and n_samples < n_features and not issparse(X)
    return (LinearGramDesign if in_samples else FeatureDesign)(X, center)


class LinearODMClassifier(ODMMixin, BaseMarginClassifier):
    """Linear optimal margin distribution machine."""

    _parameter_constraints: dict = {
        **BaseMarginClassifier._parameter_constraints,
        **ODMMixin._parameter_constraints,
        "solver": [StrOptions({"auto", *SOLVERS})],
        "warm_start": ["boolean"],
    }

    def __init__(
        self,
        C1=64.0,
        C2=16.0,
        D=0.2,
        *,
        fit_intercept=True,
        solver="auto",
        tol=1e-6,
        max_iter=1000,
        class_weight=None,
        warm_start=False,
        random_state=None,
    ):
        self.C1 = C1
        self.C2 = C2
        self.D = D
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state

    def _make_design(self, X, weight):
        return linear_design(X, weight, self.fit_intercept, self._choose_solver(X))

    def _start(self, problem, k):
        if not (self.warm_start and hasattr(self, "coef_")):
            return None, 0.0
        shape = (1 if self.classes_.size == 2 else self.classes_.size, self.n_features_in_)
        if self.coef_.shape != shape:
            return None, 0.0
        w = self.coef_[k].astype(np.float64)
        return problem.design.coefficients(w, float(self.intercept_[k]), problem)

    def _store(self, training, solutions):
        coef = np.empty((len(solutions), self.n_features_in_))
        intercept = np.empty(len(solutions))
        for k, solution in enumerate(solutions):
            coef[k], shift = training.design.features(solution.coef)
            intercept[k] = solution.intercept + shift
        self.coef_ = coef.astype(training.X.dtype, copy=False)
        self.intercept_ = intercept.astype(training.X.dtype, copy=False)

    def _scores(self, X):
        return safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
