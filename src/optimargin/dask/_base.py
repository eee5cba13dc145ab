"""The common base of the estimators over Dask collections."""

from copy import copy
from inspect import Parameter, Signature, signature
from numbers import Real
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, default_client
from sklearn.base import (
    ClassifierMixin,
    OutlierMixin,
    RegressorMixin,
    _fit_context,
)
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from optimargin.dask._chunks import DaskChunks
from optimargin.dask._collections import aligned_blocks, as_array, feature_names, is_frame
from optimargin.estimators._base import Estimator
from optimargin.estimators._callbacks import CALLBACKS
from optimargin.estimators._outlier import check_no_novelty, check_novelty
from optimargin.estimators._words import available_where

_CLUSTER_DEFAULTS = {"client": None, "worker_timeout": 60.0}


class DaskEstimator(Estimator):
    """Fit an in-memory estimator to blocks, and predict block by block.

    A subclass that is not abstract says of which estimator it is, and has its parameters.

    Parameters
    ----------
    of : type
        The estimator in memory.
    without : set of str
        Those of its parameters that are not offered.
    fixed : dict
        Those of its parameters that have one value here.
    defaults : dict
        Those whose default is another one here.
    """

    _cluster_constraints: dict = {
        "client": [Client, None],
        "worker_timeout": [Interval(Real, 0, None, closed="left")],
    }
    _y_dimensions: tuple[int, ...] = (1,)
    _of: Any
    _fixed: dict

    def __init_subclass__(cls, of=None, without=(), fixed=None, defaults=None, **kwargs):
        if of is not None:
            cls._of, cls._fixed = of, fixed or {}
            cls.__init__ = _init_of(of, without, defaults or {})  # type: ignore[method-assign]
            cls._parameter_constraints = of._parameter_constraints | cls._cluster_constraints
        super().__init_subclass__(**kwargs)

    def _plain(self):
        """Return the in-memory estimator with the same parameters."""
        own = self.get_params(deep=False)
        shared = {name: own[name] for name in own if name not in self._cluster_constraints}
        return self._of(**self._fixed, **shared)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit the model to blocks on the cluster.

        Collections that were not persisted are computed once per round, for example read from
        disk. Call ``X.persist()`` first if the cluster has enough memory.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)
            Blocks may be dense or scipy.sparse, of any size, including unknown and zero.
        y : dask array or series of shape (n_samples,)
            Class labels, or numbers for regressors (also of shape (n_samples, n_targets)), in
            the same blocks as `X` if sizes are unknown.
        sample_weight : dask array or series of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        chunks = DaskChunks(
            self.client if self.client is not None else _current_client(),
            aligned_blocks(X, y, sample_weight, y_dimensions=self._y_dimensions),
            feature_names=feature_names(X),
            timeout=self.worker_timeout,
        )
        local = self._plain()
        if CALLBACKS in vars(self):  # the plain estimator reports to them
            vars(local)[CALLBACKS] = vars(self)[CALLBACKS]
        local.fit_chunks(chunks)
        vars(local).pop(CALLBACKS, None)
        rounds = {"n_rounds_": chunks.n_rounds}
        self._store({**local._public_attributes(), **rounds, "_local": local})
        return self

    def to_local(self):
        """Return the fitted estimator for data in memory.

        Returns
        -------
        estimator : estimator
            Of the same name without Dask.
        """
        check_is_fitted(self)
        return copy(self._local)

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
            shape=shape,
            kind=dtype,
            dtype=dtype,
            meta=np.empty(shape, dtype=dtype),
            **({"drop_axis": 1} if n_columns is None else {"chunks": (X.chunks[0], (n_columns,))}),
        )

    def __getstate__(self):
        # A connection to a cluster cannot be saved.
        return {**super().__getstate__(), "client": None}


class DaskClassifier(ClassifierMixin, DaskEstimator):
    """A classifier over Dask collections."""

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


class DaskRegressor(RegressorMixin, DaskEstimator):
    """A regressor over Dask collections."""

    _y_dimensions = (1, 2)

    def predict(self, X):
        """Predict the targets, lazily and block by block.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)

        Returns
        -------
        predictions : dask array of shape (n_samples,) or (n_samples, n_targets)
        """
        check_is_fitted(self)
        n_columns = None if self.intercept_.size == 1 else self.intercept_.size
        return self._by_blocks("predict", X, np.dtype(np.float64), n_columns)

    def score(self, X, y, sample_weight=None):
        """Return the coefficient of determination R2, computed on the cluster.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)
        y : dask array or series of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : dask array or series of shape (n_samples,), default=None

        Returns
        -------
        r2 : float
            The mean over several targets.
        """
        predicted, y = self.predict(X), as_array(y, "y", 1, 2)
        if y.ndim == 2 and predicted.ndim == 1:
            y = y[:, 0]
        weight = da.ones_like(y[..., 0] if y.ndim == 2 else y, dtype=np.float64)
        if sample_weight is not None:
            weight = as_array(sample_weight, "sample_weight", 1)
        weight = weight[:, None] if y.ndim == 2 else weight
        mean = (weight * y).sum(axis=0) / weight.sum(axis=0)
        left = (weight * (y - predicted) ** 2).sum(axis=0)
        whole = (weight * (y - mean) ** 2).sum(axis=0)
        return float(np.mean(1 - np.divide(*dask.compute(left, whole))))


class DaskOutlierDetector(OutlierMixin, DaskEstimator):
    """A novelty detector over Dask collections."""

    novelty = True  # of models of earlier versions

    def fit(self, X, y=None, sample_weight=None):
        """Fit the detector to blocks of normal samples on the cluster.

        Collections that were not persisted are computed once per round, for example read from
        disk. Call ``X.persist()`` first if the cluster has enough memory.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)
            Blocks may be dense or scipy.sparse, of any size, including unknown and zero.
        y : Ignored
            There are no labels.
        sample_weight : dask array or series of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        return super().fit(X, None, sample_weight)

    @available_where(check_no_novelty)
    def fit_predict(self, X, y=None, sample_weight=None):
        """Fit the detector, and tell which of the samples are odd; only with ``novelty=False``.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            As in `OneClassODM.fit_predict`.
        """
        return self.fit(X, y, sample_weight)._local._judged()

    @available_where(check_novelty)
    def predict(self, X):
        """Return -1 for outliers and 1 for normal samples, lazily and block by block.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)

        Returns
        -------
        labels : dask array of shape (n_samples,)
        """
        return self._numbers("predict", X, np.intp)

    @available_where(check_novelty)
    def score_samples(self, X):
        """Return the scores, lazily and block by block.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)

        Returns
        -------
        scores : dask array of shape (n_samples,)
        """
        return self._numbers("score_samples", X)

    @available_where(check_novelty)
    def decision_function(self, X):
        """Return the scores less the threshold, lazily and block by block.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)

        Returns
        -------
        scores : dask array of shape (n_samples,)
        """
        return self._numbers("decision_function", X)

    @available_where(check_novelty)
    def p_values(self, X):
        """Return p-values, lazily and block by block; see `OneClassODM.p_values`.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)

        Returns
        -------
        p_values : dask array of shape (n_samples,)
        """
        return self._numbers("p_values", X)

    def _numbers(self, method, X, dtype=np.float64):
        check_is_fitted(self)
        return self._by_blocks(method, X, np.dtype(dtype), None)


def _init_of(estimator, without, defaults):
    """Return an `__init__` with the parameters of an estimator, and those of a cluster."""
    own = [
        parameter.replace(default=defaults.get(name, parameter.default))
        for name, parameter in signature(estimator.__init__).parameters.items()
        if name not in without
    ]
    cluster = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default)
        for name, default in _CLUSTER_DEFAULTS.items()
    ]
    expected = Signature([*own, *cluster])

    def init(self, *args, **kwargs):
        try:
            bound = expected.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}() {error}") from None
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            setattr(self, name, value)

    vars(init)["__signature__"] = expected  # which scikit-learn and help() ask for
    return init


def _predict_block(block, model, method, shape, kind):
    if block.shape[0] == 0:
        return np.empty(shape, dtype=kind)
    return getattr(model, method)(block).astype(kind, copy=False)


def _current_client():
    try:
        return default_client()
    except ValueError:
        raise ValueError(
            "There is no Dask client: create one, for example with distributed.Client(), or pass "
            "it as client."
        ) from None
