"""The optimal margin distribution machines."""

from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets

from optimargin.estimators._callbacks import with_callbacks
from optimargin.estimators._forms import EXACT_OR_LANDMARKS, WARM_STARTS, LandmarkForm
from optimargin.estimators._probabilities import Probabilities, check_uncalibrated
from optimargin.estimators._stream import StreamMethods
from optimargin.estimators._uncertainty import PredictionSets
from optimargin.estimators._words import available_where
from optimargin.objectives import LARGEST, ODM
from optimargin.tasks import Classification, check_in_memory, check_known

if TYPE_CHECKING:
    from optimargin.chunks import Chunks

ODM_CONSTRAINTS: dict = {
    "C1": [Interval(Real, 0, LARGEST, closed="right"), None],
    "C2": [Interval(Real, 0, LARGEST, closed="both"), None],
    "D": [Interval(Real, 0, 1, closed="left")],
}


class ODMClassifier(PredictionSets, LandmarkForm, Probabilities):
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
    C2 : float, default=None
        Penalty on margins above ``1 + D``; may be 0. None is ``C1 / 4``.
    D : float, default=0.5
        Half-width of the band around margin 1 that costs nothing, in [0, 1). Samples inside
        the band are no support vectors: a larger `D` makes a sparser model.
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel, as for `sklearn.svm.SVC`. A callable takes two matrices and returns the
        matrix of kernel values between their rows.
    gamma : {"scale", "auto", "mean_distance"}, float or array-like, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid". "scale" is
        ``1 / (n_features * X.var())`` and "auto" ``1 / n_features``, as for `SVC`;
        "mean_distance" is ``1 / (2 d^2)`` with the mean distance d of the training samples,
        the paper's width. All of them take sample weights into account.
        One value per feature, of shape (n_features,), makes the kernel "rbf"
        ``exp(-sum_j gamma_j (x_j - z_j)^2)``; a feature of gamma 0 does not count.
    degree : float, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Independent term of "poly" and "sigmoid".
    fit_intercept : bool, default=True
        Whether to fit an intercept; it is not penalised.
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
    approximation : {"nystrom"} or None, default=None
        None solves with the kernel of all samples, for up to 100,000 of them. "nystrom"
        restricts w to the span of a few samples, the landmarks, which are chosen by randomly
        pivoted Cholesky: fits in time and memory proportional to the number of samples, and
        predictions from the landmarks alone. For kernels that are positive semi-definite:
        "rbf", "linear", and "poly" with an integer degree and ``coef0 >= 0``.
    n_components : int or "auto", default="auto"
        Number of landmarks of an approximation. "auto" doubles them, from 128 on, until
        the closed-form leave-one-out error falls by less than 5 % of itself, or there are 16 per
        root of the number of samples (1024 to 4096): an exact fit is then faster.
    cache_size : float, default=2000
        Memory for kernel values in MB, for all solvers but "newton", and for approximations.
        Where the whole Gram matrix does not fit, "newton_cg" keeps the values between samples
        outside the band: a large `D` and a small `C2` leave few of them. What does not fit is
        computed anew. A kernel that may not be positive semi-definite ("sigmoid", a function, a
        matrix) takes up to four whole matrices with any solver, which must fit.
    tol : float, default=1e-4
        The fit ends once the certified duality gap, relative to the objective, is at most
        `tol`. "newton" goes on to the exact optimum, up to rounding: by default fits to at most
        200 samples are exact.
    max_iter : int, default=1000
        Limit on Newton steps or passes over the data.
    class_weight : dict or "balanced", default=None
        Factors of the sample weights, by class. "balanced" makes the weights of all classes
        sum to the same.
    multi_class : {"auto", "ovr", "ovo"}, default="auto"
        How more than two classes are told apart. "ovr" fits a function per class, against the
        rest. "ovo" fits one per pair of classes, to their samples alone, with the penalties per
        sample of the whole; pairs vote, and `decision_function` has the votes for each class plus
        less than half a vote for the sum of its values. "auto" is "ovo", which is more accurate
        and faster, and "ovr" for landmarks, chunks and streams. Two classes are the same with all.
    calibration : {"sigmoid", "isotonic", "temperature"} or None, default=None
        How `predict_proba` turns decision values into probabilities; None has none. The map is
        fitted to leave-one-out decision values in closed form (to those of five folds, fitted
        again, past 5000 support vectors or, for linear models, 2000 features). "sigmoid" has a
        slope and a shift, which becomes part of `intercept_`; with more than two classes it is the
        same as "temperature", a slope alone. "isotonic" needs more data.
    random_state : int, RandomState instance or None, default=None
        For the order of samples in "dcd" and for landmarks.
        None is a fixed seed: the same data give the same model.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    support_ : ndarray of shape (n_SV,)
        Places of the support vectors in the training data; with more than two classes, of all
        that support at least one class. With an approximation, of the landmarks.
    support_vectors_ : {ndarray, CSR} of shape (n_SV, n_features)
        The support vectors; empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (1, n_SV), (n_classes, n_SV) or (n_pairs, n_SV)
        Coefficients of the support vectors:
        ``decision_function(X) == kernel(X, support_vectors_) @ dual_coef_.T + intercept_``. With
        "ovo" and more than two classes, one row per pair of classes in the order
        (0, 1), (0, 2), ..., (1, 2), ...; positive values speak for the second of the pair. So
        it is for all that is said to be per class below.
    intercept_ : ndarray of shape (1,), (n_classes,) or (n_pairs,)
        The intercepts.
    C1_, C2_ : float
        The values of `C1` and `C2` that were used.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients of the features; only for ``kernel="linear"``.
    gamma_ : float or ndarray of shape (n_features,)
        The value of `gamma` that was used, for kernels that have one.
    n_iter_ : int or ndarray of shape (n_classes,)
        Newton steps or passes over the data; with more than two classes one number per class.
    objective_ : float or ndarray of shape (n_classes,)
        The minimum found.
    dual_gap_ : float or ndarray of shape (n_classes,)
        The certified relative duality gap: no model has an objective lower by more than that.
        Where kernel values are rounded, past some hundred samples, what rounding adds to it is
        estimated from some of the rows.
    solver_ : str
        The solver that was used.
    calibration_ : dict of ndarray
        The map from decision values to log-odds, with `calibration`: its ``slope``, the ``shift``
        that was added to `intercept_`, and ``knots`` and ``log_odds`` of an isotonic map.
    oob_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Decision values of the training samples for models without them, with `calibration`.
        Identical samples leave together.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where the data have names that are all strings.

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

    _parameter_constraints: dict = {
        **Probabilities._parameter_constraints,
        **LandmarkForm._parameter_constraints,
        **ODM_CONSTRAINTS,
        **EXACT_OR_LANDMARKS,
    }

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
        self.C1 = C1
        self.C2 = C2
        self.D = D
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.approximation = approximation
        self.n_components = n_components
        self.cache_size = cache_size
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.calibration = calibration
        self.random_state = random_state

    def _objective(self):
        return ODM(self.C1, self.C2, self.D)

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit_chunks(self, chunks: "Chunks") -> Self:
        """Fit the classifier to data that do not fit in memory.

        Every pass reads all chunks; a fit takes about ten passes.
        Solves the same problem as `fit`, to the same certified gap.

        Parameters
        ----------
        chunks : Chunks
            From `optimargin.chunks`: `NpyChunks`, `SvmlightChunks`, `ParquetChunks`, or parts of
            arrays.

        Returns
        -------
        self : object
            The fitted estimator, without `support_`: landmarks have no place in one array.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from optimargin import ODMClassifier
        >>> from optimargin.chunks import ArrayChunks
        >>> X, y = make_moons(1000, noise=0.1, random_state=0)
        >>> model = ODMClassifier(approximation="nystrom", n_components=50, random_state=0)
        >>> bool(model.fit_chunks(ArrayChunks(X, y, chunk_rows=300)).score(X, y) > 0.95)
        True
        """
        self._check_landmarks_given()
        check_uncalibrated(self, ValueError)
        return self._fit_chunks(chunks)


class LinearODMClassifier(PredictionSets, StreamMethods, Probabilities):
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
    C2 : float, default=None
        Penalty on margins above ``1 + D``; may be 0. None is ``C1 / 4``.
    D : float, default=0.5
        Half-width of the band around margin 1 that costs nothing, in [0, 1).
    fit_intercept : bool, default=True
        Whether to fit an intercept; it is not penalised.
    solver : {"auto", "newton", "newton_cg", "dcd", "svrg"}, default="auto"
        How the objective is minimised; all solvers reach the same model. "newton" factorises
        (few features, or few samples), "newton_cg" iterates (many of both), "dcd" and "svrg"
        are the paper's algorithms. "auto" chooses by the size of the data.
    tol : float, default=1e-6
        The fit ends once the certified duality gap, relative to the objective, is at most
        `tol`.
    max_iter : int, default=1000
        Limit on Newton steps or passes over the data.
    class_weight : dict or "balanced", default=None
        Factors of the sample weights, by class. "balanced" makes the weights of all classes
        sum to the same.
    warm_start : bool, default=False
        Start the next `fit` at the current coefficients.
    multi_class : {"auto", "ovr", "ovo"}, default="auto"
        How more than two classes are told apart. "ovr" fits a function per class, against the
        rest. "ovo" fits one per pair of classes, to their samples alone, with the penalties per
        sample of the whole; pairs vote, and `decision_function` has the votes for each class plus
        less than half a vote for the sum of its values. "auto" is "ovo", which is more accurate
        and faster, and "ovr" for landmarks, chunks and streams. Two classes are the same with all.
    calibration : {"sigmoid", "isotonic", "temperature"} or None, default=None
        How `predict_proba` turns decision values into probabilities; None has none. The map is
        fitted to leave-one-out decision values in closed form (to those of five folds, fitted
        again, past 5000 support vectors or, for linear models, 2000 features). "sigmoid" has a
        slope and a shift, which becomes part of `intercept_`; with more than two classes it is the
        same as "temperature", a slope alone. "isotonic" needs more data.
    random_state : int, RandomState instance or None, default=None
        For the order of samples in "dcd" and "svrg" and in `partial_fit`.
        None is a fixed seed: the same data give the same model.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    coef_ : ndarray of shape (1, n_features), (n_classes, n_features) or (n_pairs, n_features)
        Coefficients of the features, in the precision of the data. With "ovo" and
        more than two classes, one row per pair of classes in the order (0, 1), (0, 2), ...,
        (1, 2), ...; positive values speak for the second of the pair. So it is for all that is
        said to be per class below.
    intercept_ : ndarray of shape (1,), (n_classes,) or (n_pairs,)
        The intercepts.
    C1_, C2_ : float
        The values of `C1` and `C2` that were used.
    n_iter_ : int or ndarray of shape (n_classes,)
        Newton steps or passes over the data; with more than two classes one number per class.
    objective_ : float or ndarray of shape (n_classes,)
        The minimum found.
    dual_gap_ : float or ndarray of shape (n_classes,)
        The certified relative duality gap: no model has an objective lower by more than that.
    solver_ : str
        The solver that was used.
    t_ : int
        Samples seen by `partial_fit`, after a call of it.
    calibration_ : dict of ndarray
        The map from decision values to log-odds, with `calibration`: its ``slope``, the ``shift``
        that was added to `intercept_`, and ``knots`` and ``log_odds`` of an isotonic map.
    oob_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Decision values of the training samples for models without them, with `calibration`.
        Identical samples leave together.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where the data have names that are all strings.

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

    _parameter_constraints: dict = {
        **Probabilities._parameter_constraints,
        **ODM_CONSTRAINTS,
        **WARM_STARTS,
    }

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
        self.C1 = C1
        self.C2 = C2
        self.D = D
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.calibration = calibration
        self.warm_start = warm_start
        self.random_state = random_state

    def _objective(self):
        return ODM(self.C1, self.C2, self.D)

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit_chunks(self, chunks: "Chunks") -> Self:
        """Fit the classifier to data that do not fit in memory.

        Every pass reads all chunks; a fit takes about ten passes with up to 2000 features.
        Solves the same problem as `fit`, to the same certified gap.

        Parameters
        ----------
        chunks : Chunks
            From `optimargin.chunks`: `NpyChunks`, `SvmlightChunks`, `ParquetChunks`, or parts of
            arrays.

        Returns
        -------
        self : object
            The fitted estimator.

        Examples
        --------
        >>> from sklearn.datasets import make_classification
        >>> from optimargin import LinearODMClassifier
        >>> from optimargin.chunks import ArrayChunks
        >>> X, y = make_classification(1000, random_state=0)
        >>> model = LinearODMClassifier().fit_chunks(ArrayChunks(X, y, chunk_rows=300))
        >>> bool(model.dual_gap_ <= 1e-6)
        True
        """
        check_uncalibrated(self, ValueError)
        return self._fit_chunks(chunks)

    @available_where(check_uncalibrated)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from one batch of a stream that does not fit in memory; without `calibration`.

        Every call makes one pass of stochastic gradient steps over the batch. With t samples
        seen the step is ``1 / (t + t0)``, so that (Robbins and Monro) the coefficients converge
        to the minimiser of ``|w|^2 / 2 + E[s l(y (x' w + b))]`` over the distribution the
        batches are drawn from; for w the expected error of the objective falls as O(1 / t).
        Batches that repeat one data set lead to the model that `fit` finds on it with the same
        `C1`, if its weights have mean one. No gap is certified: `fit` is exact, this is not.
        A stream has no length that `C1` could grow with: None is the default for 256 samples
        like those of the first batch, or the value of a `fit` before.

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
