"""The large margin distribution machines."""

from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions, validate_params

from optimargin.designs import FeatureDesign
from optimargin.designs.base import SampleSpaceDesign
from optimargin.estimators._base import Registered, keeps_parameters
from optimargin.estimators._classifier import Classifier
from optimargin.estimators._documentation import described
from optimargin.estimators._forms import KernelForm, LinearForm
from optimargin.held_out import ldm_printed_bound
from optimargin.objectives import LDM
from optimargin.solvers import LDM_SOLVERS
from optimargin.training.models import sample_pulls


class _LDMClassifier(Classifier):
    """The objective of the LDM and the paper's error bound.

    Parameters
    ----------
    C : float
        Penalty on margins below one. ``np.inf`` asks for a hard margin: all margins at least one.
    lambda1 : float
        Weight of the margin variance.
    lambda2 : float
        Weight of the margin mean.
    tol : float
        The largest certified relative duality gap; most fits end far below it.
    random_state : int, RandomState instance or None, default=None
        For the order in which the samples are visited.
        None is a fixed seed: the same data give the same model.
    """

    _objective_type = LDM
    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, np.inf, closed="right")],
        "lambda1": [Interval(Real, 0, None, closed="left")],
        "lambda2": [Interval(Real, 0, None, closed="left")],
    }

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
            One number for two classes, otherwise one per class (one-vs-rest).

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
        rebuilt = self._rebuilt(X, y, sample_weight)
        scores = self._scores(X)[rebuilt.rows].astype(np.float64)
        dtype = self._model.intercept.dtype
        bounds = [
            ldm_printed_bound(problem, self._hinge_dual(rebuilt, problem, k, scores[:, k]), dtype)
            for k, problem in enumerate(rebuilt.problems)
        ]
        return bounds[0] if len(bounds) == 1 else np.array(bounds)

    def _hinge_dual(self, rebuilt, problem, k, score):
        """Return the dual variables of the hinge loss of a fitted model."""
        pull = self._pulls(rebuilt, problem, k)
        box_dual = problem.y * (pull + problem.variance_gradient(score))
        return np.clip(box_dual, problem.lower, problem.upper) - problem.lower

    def _pulls(self, rebuilt, problem, k):
        """Return the pulls of the training samples: re-solving is cheaper than storing them."""
        options = self._options()
        solver = LDM_SOLVERS[self.solver_](
            tol=options.tol, max_iter=options.max_iter, seed=options.seed
        )
        return solver.solve(problem).pull


@described()
class LDMClassifier(KernelForm, _LDMClassifier):
    """Kernel large margin distribution machine.

    Minimises ``1/2 |w|^2 + lambda1 Var - lambda2 Mean + C sum_i w_i max(0, 1 - g_i)`` over the
    margins ``g_i = y_i f(x_i)``: a support vector machine that also makes the mean of the margins
    large and their variance small. ``lambda1 = lambda2 = 0`` is the SVM with ``C / n_samples``
    for its C. The paper calls it ODM^L; it was published as LDM.

    Parameters
    ----------
    C : float, default=256.0
    lambda1 : float, default=4.0
    lambda2 : float, default=1.0
    kernel
    gamma : {"scale", "auto", "mean_distance"}, float or array-like, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid"; see `ODMClassifier`.
    degree, coef0, fit_intercept
    solver : {"auto", "dcd", "interior_point"}, default="auto"
        Coordinate descent on the dual with an exact end, or an interior point method.
    tol : float, default=1e-6
    max_iter, class_weight, random_state

    Attributes
    ----------
    classes_
    support_ : ndarray of shape (n_SV,)
        Indices of the samples with a coefficient. With ``lambda1 > 0`` these are all.
    support_vectors_ : ndarray of shape (n_SV, n_features)
    dual_coef_ : ndarray of shape (1 or n_classes, n_SV)
    intercept_, objective_, dual_gap_, n_iter_, solver_

    References
    ----------
    T. Zhang and Z.-H. Zhou, "Large margin distribution machine", KDD 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from optimargin import LDMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LDMClassifier()).fit(X, y)
    >>> model.predict(X[:3])
    array([0, 0, 0])
    """

    _parameter_constraints: dict = {
        "solver": [
            Registered(LDM_SOLVERS, lambda s: s.works_with(SampleSpaceDesign), also=("auto",))
        ],
    }

    @keeps_parameters
    def __init__(
        self,
        C=256.0,
        lambda1=4.0,
        lambda2=1.0,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        fit_intercept=True,
        solver="auto",
        tol=1e-6,
        max_iter=1000,
        class_weight=None,
        random_state=None,
    ):
        """Keep the parameters."""

    def _pulls(self, rebuilt, problem, k):
        """Return the pulls of the training samples: their coefficients, unless projected."""
        if rebuilt.projector is not None:
            return super()._pulls(rebuilt, problem, k)
        return sample_pulls(self._model, k, rebuilt.rows)


@described()
class LinearLDMClassifier(LinearForm, _LDMClassifier):
    """Linear large margin distribution machine.

    Minimises ``1/2 |w|^2 + lambda1 Var - lambda2 Mean + C sum_i w_i max(0, 1 - g_i)`` over the
    margins ``g_i = y_i (w'x_i + b)``; see `LDMClassifier`.

    Parameters
    ----------
    C : float, default=10.0
    lambda1 : float, default=1.0
    lambda2 : float, default=1.0
    fit_intercept
    solver : {"auto", "dcd", "interior_point", "svrg"}, default="auto"
        Interior point method for few features or few samples; coordinate descent on the dual, or
        stochastic variance-reduced gradient, for large sparse data.
    tol : float, default=1e-6
    max_iter, class_weight, random_state

    Attributes
    ----------
    classes_
    coef_ : ndarray of shape (1 or n_classes, n_features)
    intercept_, objective_, dual_gap_, n_iter_, solver_

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
        "solver": [Registered(LDM_SOLVERS, lambda s: s.works_with(FeatureDesign), also=("auto",))],
    }

    @keeps_parameters
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
        """Keep the parameters."""
