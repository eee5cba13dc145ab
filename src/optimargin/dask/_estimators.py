"""Estimators over Dask collections: plain estimators fitted to blocks on a cluster."""

from abc import ABCMeta, abstractmethod
from copy import copy
from numbers import Real

import dask.array as da
import numpy as np
from distributed import Client, default_client
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from optimargin._linear_odm import LinearODMClassifier
from optimargin._odm import ODMClassifier
from optimargin.dask._chunks import DaskChunks
from optimargin.dask._collections import aligned_blocks, as_array, feature_names, is_frame

_COPIED = (
    "classes_",
    "n_features_in_",
    "feature_names_in_",
    "coef_",
    "intercept_",
    "support_vectors_",
    "dual_coef_",
    "gamma_",
    "n_iter_",
    "objective_",
    "dual_gap_",
    "solver_",
)


class _DaskClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """Fit a plain estimator to blocks, and predict block by block."""

    @abstractmethod
    def _plain(self):
        """Return the plain estimator with the same parameters."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit the classifier to blocks on the cluster.

        Collections that were not persisted are computed, for example read from disk, once a
        round: call ``X.persist()`` first where the cluster has the memory.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)
            Blocks may be dense or scipy.sparse, of any sizes, also unknown or zero.
        y : dask array or series of shape (n_samples,)
            Class labels, in the blocks of `X` where sizes are unknown.
        sample_weight : dask array or series of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        chunks = DaskChunks(
            self.client if self.client is not None else _current_client(),
            aligned_blocks(X, y, sample_weight),
            feature_names=feature_names(X),
            patience=self.worker_timeout,
        )
        self._local = self._plain().fit_chunks(chunks)
        self.n_rounds_ = chunks.n_rounds
        for name in _COPIED:
            self.__dict__.pop(name, None)
            # Not hasattr: a property may have a value for one kernel alone.
            if name in self._local.__dict__:
                setattr(self, name, self._local.__dict__[name])
        return self

    def to_local(self):
        """Return the fitted estimator for data in memory.

        Returns
        -------
        estimator : LinearODMClassifier or ODMClassifier
        """
        check_is_fitted(self)
        return copy(self._local)

    def predict(self, X):
        """Predict class labels, lazily and block by block.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)

        Returns
        -------
        labels : dask array of shape (n_samples,)
        """
        check_is_fitted(self)
        return self._by_blocks("predict", X, self.classes_.dtype, None)

    def decision_function(self, X):
        """Return the decision values, lazily and block by block.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)

        Returns
        -------
        scores : dask array of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self)
        n_columns = None if self.classes_.size == 2 else self.classes_.size
        return self._by_blocks("decision_function", X, np.dtype(np.float64), n_columns)

    def score(self, X, y, sample_weight=None):
        """Return the accuracy, computed on the cluster.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)
        y : dask array or series of shape (n_samples,)
        sample_weight : dask array or series of shape (n_samples,), default=None

        Returns
        -------
        accuracy : float
        """
        right = self.predict(X) == as_array(y, "y", 1)
        if sample_weight is None:
            return float(right.mean().compute())
        weight = as_array(sample_weight, "sample_weight", 1)
        return float(((right * weight).sum() / weight.sum()).compute())

    def _by_blocks(self, method, X, dtype, n_columns):
        if is_frame(X) and hasattr(self, "feature_names_in_"):
            names = [str(name) for name in X.columns]
            if names != list(self.feature_names_in_):
                raise ValueError(
                    f"X has columns {names}; the model was fitted with "
                    f"{list(self.feature_names_in_)}."
                )
        X = as_array(X, "X", 2)
        # Blocks are bare arrays: the names were compared once, above.
        model = copy(self._local)
        model.__dict__.pop("feature_names_in_", None)
        shape = (0,) if n_columns is None else (0, n_columns)
        return da.map_blocks(
            _predict_block,
            X,
            model=model,
            method=method,
            dtype=dtype,
            meta=np.empty(shape, dtype=dtype),
            **({"drop_axis": 1} if n_columns is None else {"chunks": (X.chunks[0], (n_columns,))}),
        )

    def __getstate__(self):
        # A connection to a cluster cannot be saved.
        return {**super().__getstate__(), "client": None}


def _predict_block(block, model, method):
    if block.shape[0] == 0:
        n_columns = model.classes_.size
        values = np.empty(0 if method == "predict" or n_columns == 2 else (0, n_columns))
        return values.astype(model.classes_.dtype if method == "predict" else np.float64)
    values = getattr(model, method)(block)
    return values if method == "predict" else values.astype(np.float64, copy=False)


def _current_client():
    try:
        return default_client()
    except ValueError:
        raise ValueError(
            "There is no Dask client: create one, for example with distributed.Client(), or pass "
            "it as client."
        ) from None


_DASK_CONSTRAINTS: dict = {
    "client": [Client, None],
    "worker_timeout": [Interval(Real, 0, None, closed="left")],
}


class DaskLinearODMClassifier(_DaskClassifier):
    """Linear optimal margin distribution machine over Dask collections.

    Finds the model of `LinearODMClassifier`. Every round of the fit computes loss, gradient and,
    up to 2000 features, the Hessian of all blocks; past that, products with the Hessian.

    Parameters
    ----------
    C1, C2, D, fit_intercept, tol, max_iter, class_weight, random_state
        As for `LinearODMClassifier`.
    solver : {"auto", "newton", "newton_cg"}, default="auto"
        "newton" computes Hessians, "newton_cg" products with them; "auto" chooses by the number
        of features.
    client : distributed.Client, default=None
        The cluster; the current client when None.
    worker_timeout : float, default=60.0
        Seconds to wait for a worker when the cluster has none; then the fit ends with an error.

    Attributes
    ----------
    classes_, coef_, intercept_, n_iter_, objective_, dual_gap_, solver_
        As for `LinearODMClassifier`.
    n_rounds_ : int
        Passes over the data, those that looked at them first included.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns of a dataframe.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import make_classification
    >>> from optimargin.dask import DaskLinearODMClassifier
    >>> X, y = make_classification(1000, random_state=0)
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     X, y = da.from_array(X, chunks=(300, 20)), da.from_array(y, chunks=300)
    ...     model = DaskLinearODMClassifier().fit(X, y)
    ...     accuracy = model.score(X, y)
    >>> accuracy > 0.9
    True
    """

    _parameter_constraints: dict = {
        **{
            name: constraint
            for name, constraint in LinearODMClassifier._parameter_constraints.items()
            if name != "warm_start"
        },
        **_DASK_CONSTRAINTS,
    }

    def __init__(
        self,
        C1=None,
        C2=None,
        D=0.2,
        *,
        fit_intercept=True,
        solver="auto",
        tol=1e-6,
        max_iter=1000,
        class_weight=None,
        random_state=None,
        client=None,
        worker_timeout=60.0,
    ):
        self.C1 = C1
        self.C2 = C2
        self.D = D
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.random_state = random_state
        self.client = client
        self.worker_timeout = worker_timeout

    def _plain(self):
        return LinearODMClassifier(**_without_cluster(self))


class DaskODMClassifier(_DaskClassifier):
    """Kernel optimal margin distribution machine over Dask collections.

    The model of ``ODMClassifier(approximation="nystrom")``: landmarks are chosen in a sample of
    the rows, workers compute kernel values with them, anew in every round.

    Parameters
    ----------
    C1, C2, D, degree, coef0, fit_intercept, tol, max_iter, class_weight, random_state
        As for `ODMClassifier`.
    kernel : {"rbf", "linear", "poly"}, default="rbf"
        As for `ODMClassifier`.
    gamma : {"scale", "auto"} or float, default="scale"
        As for `ODMClassifier`.
    n_components : int, default=500
        Number of landmarks.
    client, worker_timeout
        As for `DaskLinearODMClassifier`.

    Attributes
    ----------
    classes_, support_vectors_, dual_coef_, intercept_, gamma_
        As for `ODMClassifier`; the support vectors are the landmarks.
    n_iter_, objective_, dual_gap_, solver_, n_rounds_, n_features_in_, feature_names_in_
        As for `DaskLinearODMClassifier`.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import make_moons
    >>> from optimargin.dask import DaskODMClassifier
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     X, y = da.from_array(X, chunks=(300, 2)), da.from_array(y, chunks=300)
    ...     model = DaskODMClassifier(n_components=50).fit(X, y)
    ...     accuracy = model.score(X, y)
    >>> accuracy > 0.95
    True
    """

    _parameter_constraints: dict = {
        **{
            name: constraint
            for name, constraint in ODMClassifier._parameter_constraints.items()
            if name not in ("solver", "approximation", "cache_size")
        },
        **_DASK_CONSTRAINTS,
    }

    def __init__(
        self,
        C1=None,
        C2=None,
        D=0.2,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        fit_intercept=True,
        n_components=500,
        tol=1e-6,
        max_iter=1000,
        class_weight=None,
        random_state=None,
        client=None,
        worker_timeout=60.0,
    ):
        self.C1 = C1
        self.C2 = C2
        self.D = D
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.random_state = random_state
        self.client = client
        self.worker_timeout = worker_timeout

    def _plain(self):
        return ODMClassifier(approximation="nystrom", **_without_cluster(self))


def _without_cluster(estimator):
    parameters = estimator.get_params(deep=False)
    return {name: value for name, value in parameters.items() if name not in _DASK_CONSTRAINTS}
