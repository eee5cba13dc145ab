"""The linear large margin distribution machine."""

import numpy as np
from sklearn.utils._param_validation import StrOptions

from optimargin._ldm_mixin import LDMMixin, ldm_design
from optimargin._linear_base import LinearClassifier
from optimargin.solvers import LDM_SOLVERS
from optimargin.solvers.ldm_dcd import INTERIOR_UP_TO

_ROUGH = 1e-5
_MANY_SAMPLES = 5000
_GRAM_UP_TO = 4000  # samples that are worth a Gram matrix


class LinearLDMClassifier(LDMMixin, LinearClassifier):
    """Linear large margin distribution machine.

    Minimises ``1/2 |w|^2 + lambda1 Var - lambda2 Mean + C sum_i w_i max(0, 1 - g_i)`` over the
    margins ``g_i = y_i (w'x_i + b)``; see `LDMClassifier`.

    Parameters
    ----------
    C : float, default=10.0
        Price of margins below one. ``np.inf`` asks for a hard margin: all margins at least one.
    lambda1 : float, default=1.0
        Weight of the margin variance.
    lambda2 : float, default=1.0
        Weight of the margin mean.
    fit_intercept : bool, default=True
        Fit an intercept that the penalty on w leaves alone.
    solver : {"auto", "dcd", "interior_point", "svrg"}, default="auto"
        Interior point method for few features or few samples; coordinate descent on the dual, or
        stochastic variance-reduced gradient, for large sparse data.
    tol : float, default=1e-6
        The largest certified relative duality gap; most fits end far below it.
    max_iter : int, default=1000
    class_weight : dict or "balanced", default=None
    random_state : int, RandomState instance or None, default=None
        For the order in which the samples are visited.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1 or n_classes, n_features)
    intercept_ : ndarray of shape (1 or n_classes,)
    objective_ : float or ndarray of shape (n_classes,)
    dual_gap_ : float or ndarray of shape (n_classes,)
        Certified relative duality gap.
    n_iter_ : int or ndarray of shape (n_classes,)
    solver_ : str

    References
    ----------
    T. Zhang and Z.-H. Zhou, "Large margin distribution machine", KDD 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from optimargin import LinearLDMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LinearLDMClassifier()).fit(X, y)
    >>> model.predict(X[:3])
    array([0, 0, 0])
    """

    _parameter_constraints: dict = {
        **LinearClassifier._parameter_constraints,
        **LDMMixin._parameter_constraints,
        "solver": [StrOptions({"auto", *LDM_SOLVERS})],
    }

    def __init__(
        self,
        C=10.0,
        lambda1=1.0,
        lambda2=1.0,
        *,
        fit_intercept=True,
        solver="auto",
        tol=1e-6,
        max_iter=1000,
        class_weight=None,
        random_state=None,
    ):
        self.C = C
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.random_state = random_state

    def _make_design(self, X, weight):
        n_samples, n_features = X.shape
        solver = self._choose_solver(X)
        in_samples = n_samples < n_features and (
            solver == "interior_point" or (solver == "dcd" and n_samples <= _GRAM_UP_TO)
        )
        return ldm_design(X, weight, self.fit_intercept, in_samples=in_samples)

    def _choose_solver(self, X):
        if self.solver != "auto":
            return self.solver
        n_samples, n_features = X.shape
        large = min(n_samples, n_features) > INTERIOR_UP_TO
        # A loose tolerance is met by few epochs, before factorisations pay.
        rough = self.tol >= _ROUGH and n_samples >= _MANY_SAMPLES
        return "dcd" if large or (rough and not np.isinf(self.C)) else "interior_point"
