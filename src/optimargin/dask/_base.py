"""The common base of the estimators over Dask collections."""

from abc import ABCMeta, abstractmethod
from copy import copy
from numbers import Real

import dask.array as da
import numpy as np
from distributed import Client, default_client
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from optimargin.dask._chunks import DaskChunks
from optimargin.dask._collections import aligned_blocks, as_array, feature_names, is_frame
from optimargin.estimators._callbacks import CALLBACKS, CallbackSupportMixin
from optimargin.estimators._store import StoreMixin, public_attributes


class DaskClassifier(
    StoreMixin, CallbackSupportMixin, ClassifierMixin, BaseEstimator, metaclass=ABCMeta
):
    """Fit an in-memory estimator to blocks, and predict block by block.

    Parameters
    ----------
    C1, C2, D, fit_intercept, tol, max_iter, class_weight, random_state
        As for the in-memory estimator.
    client : distributed.Client or None
    worker_timeout : float
    """

    _cluster_constraints: dict = {
        "client": [Client, None],
        "worker_timeout": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        C1,
        C2,
        D,
        fit_intercept,
        tol,
        max_iter,
        class_weight,
        random_state,
        client,
        worker_timeout,
    ):
        self.C1 = C1
        self.C2 = C2
        self.D = D
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.random_state = random_state
        self.client = client
        self.worker_timeout = worker_timeout

    @abstractmethod
    def _plain(self):
        """Return the in-memory estimator with the same parameters."""

    def _plain_parameters(self):
        parameters = self.get_params(deep=False)
        return {
            name: value
            for name, value in parameters.items()
            if name not in self._cluster_constraints
        }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit the classifier to blocks on the cluster.

        Collections that were not persisted are computed once per round, for example read from
        disk. Call ``X.persist()`` first if the cluster has enough memory.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)
            Blocks may be dense or scipy.sparse, of any size, including unknown and zero.
        y : dask array or series of shape (n_samples,)
            Class labels, in the same blocks as `X` if sizes are unknown.
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
            timeout=self.worker_timeout,
        )
        local = self._plain()
        if CALLBACKS in vars(self):  # the plain estimator reports to them
            vars(local)[CALLBACKS] = vars(self)[CALLBACKS]
        local.fit_chunks(chunks)
        vars(local).pop(CALLBACKS, None)
        rounds = {"n_rounds_": chunks.n_rounds}
        self._store({**public_attributes(local), **rounds, "_local": local})
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
        # Blocks are arrays without names: the names were compared once, above.
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
