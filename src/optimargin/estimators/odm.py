"""The optimal margin distribution machines."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets

from optimargin.estimators._base import keeps_parameters
from optimargin.estimators._classifier import Probabilities, check_uncalibrated
from optimargin.estimators._documentation import described
from optimargin.estimators._forms import LandmarkForm
from optimargin.estimators._stream import StreamMethods
from optimargin.estimators._uncertainty import PredictionSets
from optimargin.estimators._words import available_where
from optimargin.objectives import ODM
from optimargin.tasks import Classification, check_in_memory, check_known


class _ODMClassifier(PredictionSets, Probabilities):
    """The objective of both classifiers.

    Parameters
    ----------
    C2 : float, default=None
        Penalty on margins above ``1 + D``; may be 0. None is ``C1 / 4``.
    """

    _objective_type = ODM


@described()
class ODMClassifier(LandmarkForm, _ODMClassifier):
    """Kernel optimal margin distribution machine.

    Minimises ``|w|^2 / 2 + sum_i s_i l(y_i f(x_i)) / sum_i s_i`` over the functions
    ``f(x) = phi(x)' w + b`` of a kernel, with the loss
    ``l(g) = C1 max(0, 1 - D - g)^2 + C2 max(0, g - 1 - D)^2`` of the margin g and the sample
    weights s: margins are drawn to 1 from both sides, which optimises their mean and variance
    where a support vector machine looks at the smallest one.

    Parameters
    ----------
    C1 : float, default=None
        Penalty on margins below ``1 - D``. Weights are normalised, so a given value means the
        same for any number of samples. Default: twice the sum of the sample weights, so that
        each sample counts 2; with ``kernel="linear"`` divided by the sum of the variances of
        the features.
    C2
    D : float, default=0.5
        Half-width of the band around margin 1 that costs nothing, in [0, 1). Samples inside
        the band are no support vectors: a larger `D` makes a sparser model.
    kernel
    gamma : {"scale", "auto", "mean_distance"}, float or array-like, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid". "scale" is
        ``1 / (n_features * X.var())`` and "auto" ``1 / n_features``, as for `SVC`;
        "mean_distance" is ``1 / (2 d^2)`` with the mean distance d of the training samples,
        the paper's width. All of them take sample weights into account.
        One value per feature, of shape (n_features,), makes the kernel "rbf"
        ``exp(-sum_j gamma_j (x_j - z_j)^2)``; a feature of gamma 0 does not count.
    degree, coef0, fit_intercept
    solver : {"auto", "newton", "newton_cg", "bcd", "dcd"}, default="auto"
        How the objective is minimised; all solvers reach the same model. "newton" factorises
        the Gram matrix, "newton_cg" iterates with kernel values in float32 (in float64
        where `tol` is below 1e-8 or rounding matters), "bcd" is coordinate descent by blocks
        of samples on kernel values in 16 bits (in float32 where `tol` is below 3e-5 or
        penalties are large), for radial kernels whose values fit into `cache_size`, and "dcd"
        is the paper's coordinate descent, compiled and on float32 values of up to 2500
        samples. At the default penalties "auto" takes "newton" up to 200 samples, "dcd" up to
        2500 and "bcd" past that. With penalties above 4 per sample it takes "newton" up to 700,
        then "bcd", and "newton_cg" where they exceed 32, or for kernels that are not radial. Above
        128 per sample it takes "newton" up to 6000.
    approximation, n_components, cache_size
    tol : float, default=1e-4
        The fit ends once the certified duality gap, relative to the objective, is at most
        `tol`. "newton" goes on to the exact optimum, up to rounding: by default fits to at most
        200 samples are exact.
    max_iter, class_weight, multi_class, calibration, random_state

    Attributes
    ----------
    classes_
    support_ : ndarray of shape (n_SV,)
        Places of the support vectors in the training data; with more than two classes, of all
        that support at least one class. With an approximation, of the landmarks.
    support_vectors_
    dual_coef_ : ndarray of shape (1, n_SV), (n_classes, n_SV) or (n_pairs, n_SV)
        Coefficients of the support vectors:
        ``decision_function(X) == kernel(X, support_vectors_) @ dual_coef_.T + intercept_``. With
        "ovo" and more than two classes, one row per pair of classes in the order
        (0, 1), (0, 2), ..., (1, 2), ...; positive values speak for the second of the pair. So
        it is for all that is said to be per class below.
    intercept_, C1_, C2_
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients of the features; only for ``kernel="linear"``.
    gamma_, n_iter_, objective_
    dual_gap_ : float or ndarray of shape (n_classes,)
        The certified relative duality gap: no model has an objective lower by more than that.
        Where kernel values are rounded, past some hundred samples, what rounding adds to it is
        estimated from some of the rows.
    solver_, calibration_, oob_decision_function_, n_features_in_, feature_names_in_

    See Also
    --------
    LinearODMClassifier : The same without a kernel, for large data.

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
    >>> from sklearn.datasets import make_moons
    >>> from optimargin import ODMClassifier
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = ODMClassifier().fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> model.solver_
    'newton'
    >>> bool(model.dual_gap_ < 1e-12)
    True
    """

    @keeps_parameters
    def __init__(
        self,
        C1=None,
        C2=None,
        D=0.5,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        fit_intercept=True,
        solver="auto",
        approximation=None,
        n_components="auto",
        cache_size=2000,
        tol=1e-4,
        max_iter=1000,
        class_weight=None,
        multi_class="auto",
        calibration=None,
        random_state=None,
    ):
        """Keep the parameters."""


@described()
class LinearODMClassifier(StreamMethods, _ODMClassifier):
    """Linear optimal margin distribution machine.

    Minimises ``|w|^2 / 2 + sum_i s_i l(y_i (x_i' w + b)) / sum_i s_i`` with the loss
    ``l(g) = C1 max(0, 1 - D - g)^2 + C2 max(0, g - 1 - D)^2`` of the margin g and the sample
    weights s: margins are drawn to 1 from both sides, which optimises their mean and variance
    where a support vector machine looks at the smallest one. ``C2=0, D=0`` is the support vector
    machine with squared hinge loss and ``C = C1 / n_samples``.

    Parameters
    ----------
    C1 : float, default=None
        Penalty on margins below ``1 - D``. Weights are normalised, so a given value means the
        same for any number of samples. Default: twice the sum of the sample weights, divided
        by the sum of the variances of the features, so that the units of the features do not
        matter.
    C2
    D : float, default=0.5
        Half-width of the band around margin 1 that costs nothing, in [0, 1).
    fit_intercept
    solver : {"auto", "newton", "newton_cg", "dcd", "svrg"}, default="auto"
        How the objective is minimised; all solvers reach the same model. "newton" factorises
        (few features, or few samples), "newton_cg" iterates (many of both), "dcd" and "svrg"
        are the paper's algorithms. "auto" chooses by the size of the data.
    tol : float, default=1e-6
    max_iter, class_weight, warm_start, multi_class, calibration, random_state

    Attributes
    ----------
    classes_
    coef_ : ndarray of shape (1, n_features), (n_classes, n_features) or (n_pairs, n_features)
        Coefficients of the features, in the precision of the data. With "ovo" and
        more than two classes, one row per pair of classes in the order (0, 1), (0, 2), ...,
        (1, 2), ...; positive values speak for the second of the pair. So it is for all that is
        said to be per class below.
    intercept_, C1_, C2_, n_iter_, objective_, dual_gap_, solver_, t_, calibration_
    oob_decision_function_, n_features_in_, feature_names_in_

    See Also
    --------
    ODMClassifier : The same with a kernel.

    References
    ----------
    T. Zhang and Z.-H. Zhou, "Optimal Margin Distribution Machine", IEEE Transactions on
    Knowledge and Data Engineering 32(6), 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from optimargin import LinearODMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LinearODMClassifier()).fit(X, y)
    >>> bool(model.score(X, y) > 0.96)
    True
    >>> bool(model[-1].dual_gap_ < 1e-12)
    True
    """

    @keeps_parameters
    def __init__(
        self,
        C1=None,
        C2=None,
        D=0.5,
        *,
        fit_intercept=True,
        solver="auto",
        tol=1e-6,
        max_iter=1000,
        class_weight=None,
        multi_class="auto",
        calibration=None,
        warm_start=False,
        random_state=None,
    ):
        """Keep the parameters."""

    @available_where(check_uncalibrated)
    @_fit_context(prefer_skip_nested_validation=True)
    @described(StreamMethods._partial_fit)
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from one batch of a stream that does not fit in memory; without `calibration`.

        ...

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever occur; needed in the first call.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object
            The estimator.

        Examples
        --------
        >>> from sklearn.datasets import make_classification
        >>> from optimargin import LinearODMClassifier
        >>> X, y = make_classification(10_000, random_state=0)
        >>> model = LinearODMClassifier()
        >>> for first in range(0, 10_000, 1000):
        ...     batch = slice(first, first + 1000)
        ...     _ = model.partial_fit(X[batch], y[batch], classes=[0, 1])
        >>> bool(model.score(X, y) > 0.8)
        True
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all data at once: pass a dict, or sample_weight."
            )

        def make_task(checked, y):
            check_classification_targets(y)
            _check_partial_fit_first_call(checked, classes)
            check_in_memory(checked.classes_, self.multi_class)
            task = Classification.of_stream(checked.classes_, self.class_weight)
            check_known(
                task.classes, y, "y has labels that are not in classes of the first partial_fit."
            )
            return task, np.zeros(task.n_outputs)

        return self._partial_fit(X, y, sample_weight, make_task)
