"""Optimal margin distribution machines for regression."""

from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from optimargin.estimators._base import keeps_parameters
from optimargin.estimators._documentation import described
from optimargin.estimators._forms import LandmarkForm
from optimargin.estimators._regressor import Regressor
from optimargin.estimators._stream import StreamMethods
from optimargin.estimators._uncertainty import PredictionIntervals
from optimargin.objectives import ODMRegression
from optimargin.tasks import Regression

EPSILON = [Interval(Real, 0, None, closed="left"), StrOptions({"scale"})]


class _BandRegressor(PredictionIntervals, Regressor):
    """The objective of both regressors.

    Parameters
    ----------
    C2 : float, default=None
        Penalty on predictions that are more than `epsilon` above y. None is `C1`. With
        ``epsilon=0`` the model is that of the expectile ``C1 / (C1 + C2)``. It may be 0 only
        without an intercept.

    Attributes
    ----------
    epsilon_ : float or ndarray of shape (n_targets,)
        The value of `epsilon` that was used, in the units of y; an array for "scale" with
        several targets.
    """

    _objective_type = ODMRegression
    _parameter_constraints: dict = {
        "epsilon": EPSILON,
    }

    def _objective(self):
        if self.fit_intercept and self.C2 == 0:
            raise ValueError(
                "C2=0 leaves predictions above y without a penalty, so that an intercept alone "
                "meets every target: use C2 > 0 (C2=None is C1), or fit_intercept=False."
            )
        return super()._objective()


@described()
class ODMRegressor(_BandRegressor, LandmarkForm):
    """Kernel regression with the band loss of the optimal margin distribution machine.

    Minimises ``|w|^2 / 2 + sum_i s_i l(y_i - f(x_i)) / sum_i s_i`` over the functions
    ``f(x) = phi(x)' w + b`` of a kernel, with the loss
    ``l(e) = C1 max(0, e - epsilon)^2 + C2 max(0, -e - epsilon)^2`` of the residual e and the
    sample weights s. It is the support vector regression with squared losses, with weights of
    its own below and above. With ``epsilon=0`` and ``C1 = C2`` it is kernel ridge regression
    (with an intercept), with ``epsilon=0`` and ``C1 != C2`` expectile regression.

    Predictions scale with y: multiplying y (and a numeric `epsilon`) by a constant multiplies
    the predictions by it, whatever `C1` and `C2` are.

    Parameters
    ----------
    C1 : float, default=None
        Penalty on predictions that are more than `epsilon` below y. Weights are normalised, so
        a given value means the same for any number of samples. Default: 32 times the sum of the
        sample weights, so that each sample counts 32; with ``kernel="linear"`` divided by the
        sum of the variances of the features.
    C2
    epsilon : float or "scale", default=0.0
        Half-width of the band around y that costs nothing, in the units of y. Residuals inside
        it leave no support vector: a wide band makes models sparse, and on most data a little
        less accurate. "scale" is a tenth of the standard deviation of y (of its root mean
        square without an intercept).
    kernel
    gamma : {"rms_distance", "scale", "auto", "mean_distance"}, \
            float or array-like, default="rms_distance"
        Coefficient of "rbf", "poly" and "sigmoid". "rms_distance" is ``1 / (2 s^2)`` with s the
        root mean square distance between training samples, which is also
        ``1 / (4 sum of the variances of the features)``; for "poly" and "sigmoid" it is "scale".
        "mean_distance" has the mean distance instead, "scale" is ``1 / (n_features * var(X))``
        and "auto" ``1 / n_features``.
        One value per feature, of shape (n_features,), makes the kernel "rbf"
        ``exp(-sum_j gamma_j (x_j - z_j)^2)``; a feature of gamma 0 does not count.
    degree, coef0, fit_intercept
    solver : {"auto", "newton", "newton_cg", "bcd", "dcd"}, default="auto"
        How the objective is minimised; all solvers reach the same model. "newton" factorises
        the kernel matrix and suits up to about a thousand samples, "newton_cg" and "bcd"
        iterate and suit more ("bcd" for radial kernels and moderate penalties), "dcd" is
        coordinate descent. At the default penalties "auto" takes "newton" up to 700 samples,
        which is exact up to rounding, and "bcd" past that.
    approximation, n_components, cache_size
    tol : float, default=1e-4
    max_iter, random_state

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors: the samples outside the band, of any target.
    support_vectors_
    dual_coef_ : ndarray of shape (1, n_SV) or (n_targets, n_SV)
        Coefficients of the support vectors: predictions are
        ``K(X, support_vectors_) @ dual_coef_.T + intercept_``.
    coef_ : ndarray of shape (1, n_features) or (n_targets, n_features)
        Coefficients of the features, for the linear kernel.
    intercept_, C1_, C2_
    epsilon_
    gamma_, n_iter_, objective_
    dual_gap_ : float or ndarray of shape (n_targets,)
        The certified duality gap, relative to the objective of the best constant model: no
        model has an objective lower by more than that. Where kernel values are rounded, what
        rounding adds to it is estimated from some of the rows.
    solver_, n_features_in_, feature_names_in_

    See Also
    --------
    ODMRegressorCV : Chooses its own parameters.
    LinearODMRegressor : The same without a kernel, faster and for more samples.

    Notes
    -----
    A kernel matrix that is not positive semi-definite ("sigmoid", some callables) has no unique
    minimum. The model is then fitted with the positive part of its spectrum, and a warning says
    so.

    References
    ----------
    T. Zhang and Z.-H. Zhou, "Optimal Margin Distribution Machine", IEEE Transactions on
    Knowledge and Data Engineering 32(6), 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from optimargin import ODMRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = ODMRegressor().fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> bool(model.dual_gap_ < 1e-12)
    True
    """

    @keeps_parameters
    def __init__(
        self,
        C1=None,
        C2=None,
        epsilon=0.0,
        *,
        kernel="rbf",
        gamma="rms_distance",
        degree=3,
        coef0=0.0,
        fit_intercept=True,
        solver="auto",
        approximation=None,
        n_components="auto",
        cache_size=2000,
        tol=1e-4,
        max_iter=1000,
        random_state=None,
    ):
        """Keep the parameters."""


@described()
class LinearODMRegressor(_BandRegressor, StreamMethods):
    """Linear regression with the band loss of the optimal margin distribution machine.

    Minimises ``|w|^2 / 2 + sum_i s_i l(y_i - x_i' w - b) / sum_i s_i`` with the loss
    ``l(e) = C1 max(0, e - epsilon)^2 + C2 max(0, -e - epsilon)^2`` of the residual e and the
    sample weights s. With ``C1 = C2`` it is `LinearSVR` with squared losses and
    ``C = C1 / n_samples``; with ``epsilon=0`` as well, ridge regression with
    ``alpha = n_samples / (2 C1)``; with ``epsilon=0`` and ``C1 != C2``, expectile regression.

    Predictions scale with y: multiplying y (and a numeric `epsilon`) by a constant multiplies
    the predictions by it, whatever `C1` and `C2` are.

    Parameters
    ----------
    C1 : float, default=None
        Penalty on predictions that are more than `epsilon` below y. Weights are normalised, so
        a given value means the same for any number of samples. Default: 32 times the sum of the
        sample weights, divided by the sum of the variances of the features, so that the units
        of the features do not matter.
    C2
    epsilon : float or "scale", default=0.0
        Half-width of the band around y that costs nothing, in the units of y. "scale" is a
        tenth of the standard deviation of y (of its root mean square without an intercept).
    fit_intercept
    solver : {"auto", "newton", "newton_cg", "dcd", "svrg"}, default="auto"
        How the objective is minimised; all solvers reach the same model. "newton" factorises
        (few features, or few samples), "newton_cg" iterates (many of both), "dcd" and "svrg"
        are coordinate descent and a stochastic gradient method. "auto" chooses by the size of
        the data.
    tol : float, default=1e-6
    max_iter, warm_start, random_state

    Attributes
    ----------
    coef_, intercept_, C1_, C2_
    epsilon_
    n_iter_, objective_, dual_gap_, solver_, t_, n_features_in_, feature_names_in_

    See Also
    --------
    LinearODMRegressorCV : Chooses its own parameters.
    ODMRegressor : The same with a kernel.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from optimargin import LinearODMRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LinearODMRegressor()).fit(X, y)
    >>> print(f"R2 {model.score(X, y):.2f}")
    R2 0.52
    >>> bool(model[-1].dual_gap_ < 1e-12)
    True
    """

    @keeps_parameters
    def __init__(
        self,
        C1=None,
        C2=None,
        epsilon=0.0,
        *,
        fit_intercept=True,
        solver="auto",
        tol=1e-6,
        max_iter=1000,
        warm_start=False,
        random_state=None,
    ):
        """Keep the parameters."""

    @_fit_context(prefer_skip_nested_validation=True)
    @described(StreamMethods._partial_fit)
    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from one batch of a stream that does not fit in memory.

        ...

        The intercept begins at the mean of the first batch.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object
            The estimator.

        Examples
        --------
        >>> from sklearn.datasets import make_regression
        >>> from optimargin import LinearODMRegressor
        >>> X, y = make_regression(10_000, noise=10, random_state=0)
        >>> model = LinearODMRegressor()
        >>> for first in range(0, 10_000, 1000):
        ...     batch = slice(first, first + 1000)
        ...     _ = model.partial_fit(X[batch], y[batch])
        >>> bool(model.score(X, y) > 0.9)
        True
        """
        if self.epsilon == "scale":
            raise ValueError(
                "epsilon='scale' needs all data at once: pass a number in the units of y."
            )

        def make_task(checked, y):
            # Knows only this batch: that is enough to check it, and for a first intercept.
            task = Regression.from_values(y, fit_intercept=self.fit_intercept)
            stream = Regression.of_stream(task.n_outputs)
            if hasattr(self, "t_") and task.n_outputs != self.intercept_.size:
                raise ValueError(
                    f"y has {task.n_outputs} targets; the first partial_fit had "
                    f"{self.intercept_.size}."
                )
            return stream, np.array([scale.center for scale in task.scales])

        return self._partial_fit(X, y, sample_weight, make_task)
