"""The common base of the estimators over Dask collections."""

from copy import copy
from inspect import Parameter, Signature, cleandoc, signature
from numbers import Real
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, default_client
from sklearn.base import ClassifierMixin, OutlierMixin, RegressorMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from optimargin.dask._chunks import DaskChunks
from optimargin.dask._collections import aligned_blocks, as_array, feature_names, is_frame
from optimargin.estimators._base import Estimator, keeps_parameters
from optimargin.estimators._callbacks import CALLBACKS
from optimargin.estimators._classifier import Classifier
from optimargin.estimators._documentation import described
from optimargin.estimators._outlier import OutlierDetector, check_no_novelty, check_novelty
from optimargin.estimators._regressor import Regressor
from optimargin.estimators._words import available_where


def by_blocks(method):
    """Return a method of an estimator in memory as one of collections: lazy, block by block."""

    def ask(self, X):
        check_is_fitted(self)
        return self._by_blocks(method.__name__, X)

    ask.__name__, ask.__qualname__ = method.__name__, method.__qualname__
    if method.__doc__:  # there is none with python -OO
        text = cleandoc(method.__doc__).partition("\n\nExamples\n")[0]
        summary, _, rest = text.partition("\n\n")
        rest = rest.replace("{array-like, sparse matrix}", "dask array or dataframe")
        rest = rest.replace("ndarray", "dask array")
        ask.__doc__ = f"{summary}\n\nLazily, block by block.\n\n{rest}"
    return ask


class DaskEstimator(Estimator):
    """Fit an in-memory estimator to blocks, and predict block by block.

    A subclass that is not abstract says of which estimator it is, and has its parameters.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly"}, default="rbf"
        The kernel, of samples and landmarks.
    n_components : int, default=500
        Number of landmarks.
    solver : {"auto", "newton", "newton_cg"}, default="auto"
        "newton" computes Hessians, "newton_cg" products with them; "auto" chooses by the number
        of features.
    client : distributed.Client, default=None
        The cluster; the current client when None.
    worker_timeout : float, default=60.0
        Seconds to wait for a worker when the cluster has none; then the fit ends with an error.

    Attributes
    ----------
    support_vectors_ : {ndarray, CSR} of shape (n_components, n_features)
        The landmarks.
    n_rounds_ : int
        Passes over the data, including those before the first step.
    """

    _doc_link_template = ""
    _cluster_constraints: dict = {
        "client": [Client, None],
        "worker_timeout": [Interval(Real, 0, None, closed="left")],
    }
    _y_dimensions: tuple[int, ...] = (1,)
    _of: Any
    _fixed: dict

    def __init_subclass__(cls, of=None, without=(), fixed=None, defaults=None, **kwargs):
        """Give a class the parameters of an estimator in memory, and what they are documented by.

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
        if of is not None:
            described(of)(cls)
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

    def _by_blocks(self, method, X):
        """Return what the estimator in memory says about every block."""
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
        none = getattr(model, method)(np.zeros((1, self.n_features_in_)))[:0]
        none = none if method == "predict" else none.astype(np.float64)
        is_flat = none.ndim == 1
        return da.map_blocks(
            _predict_block,
            X,
            model=model,
            method=method,
            none=none,
            dtype=none.dtype,
            meta=none,
            **({"drop_axis": 1} if is_flat else {"chunks": (X.chunks[0], (none.shape[1],))}),
        )

    def __getstate__(self):
        # A connection to a cluster cannot be saved.
        return {**super().__getstate__(), "client": None}


class DaskClassifier(ClassifierMixin, DaskEstimator):
    """A classifier over Dask collections."""

    predict = by_blocks(Classifier.predict)
    decision_function = by_blocks(Classifier.decision_function)

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

    predict = by_blocks(Regressor.predict)

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

    predict = available_where(check_novelty)(by_blocks(OutlierDetector.predict))
    score_samples = available_where(check_novelty)(by_blocks(OutlierDetector.score_samples))
    decision_function = available_where(check_novelty)(by_blocks(OutlierDetector.decision_function))
    p_values = available_where(check_novelty)(by_blocks(OutlierDetector.p_values))

    @described(DaskEstimator.fit)
    def fit(self, X, y=None, sample_weight=None):
        """Fit the detector to blocks of normal samples on the cluster.

        ...

        Parameters
        ----------
        X
        y : Ignored
            There are no labels.
        sample_weight

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


def _init_of(estimator, without, defaults):
    """Return an `__init__` with the parameters of an estimator, and those of a cluster."""
    own = [
        parameter.replace(default=defaults.get(name, parameter.default))
        for name, parameter in signature(estimator.__init__).parameters.items()
        if name not in without
    ]

    def init(self, *args, **kwargs):
        """Keep the parameters."""

    # Which scikit-learn and help() ask for.
    vars(init)["__signature__"] = Signature(
        [
            *own,
            Parameter("client", Parameter.KEYWORD_ONLY, default=None),
            Parameter("worker_timeout", Parameter.KEYWORD_ONLY, default=60.0),
        ]
    )
    return keeps_parameters(init)


def _predict_block(block, model, method, none):
    if block.shape[0] == 0:
        return none
    return getattr(model, method)(block).astype(none.dtype, copy=False)


def _current_client():
    try:
        return default_client()
    except ValueError:
        raise ValueError(
            "There is no Dask client: create one, for example with distributed.Client(), or pass "
            "it as client."
        ) from None
