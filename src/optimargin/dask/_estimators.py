"""Linear and kernel models over Dask collections."""

from optimargin.dask._base import DaskClassifier, DaskOutlierDetector, DaskRegressor
from optimargin.estimators.odm import LinearODMClassifier, ODMClassifier
from optimargin.estimators.odm_regression import LinearODMRegressor, ODMRegressor
from optimargin.estimators.one_class import OneClassODM

# What a cluster does not offer, and what takes its place.
_LINEAR = {"without": {"warm_start", "multi_class", "calibration"}}
_LANDMARKS = {
    "without": {"solver", "approximation", "cache_size", "multi_class", "calibration"},
    "fixed": {"approximation": "nystrom"},
    "defaults": {"n_components": 500},
}


class DaskLinearODMClassifier(DaskClassifier, of=LinearODMClassifier, **_LINEAR):
    """Linear optimal margin distribution machine over Dask collections.

    It finds the same model as `LinearODMClassifier`. Every round of the fit computes loss and
    gradient of all blocks and, up to 2000 features, the Hessian; above that, products with the
    Hessian.

    Parameters
    ----------
    C1, C2, D, fit_intercept, solver, tol, max_iter, class_weight, random_state
    client, worker_timeout

    Attributes
    ----------
    classes_, coef_, intercept_, C1_, C2_, n_iter_, objective_, dual_gap_, solver_
    n_rounds_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import make_classification
    >>> from optimargin.dask import DaskLinearODMClassifier
    >>> X, y = make_classification(1000, random_state=0)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     X, y = da.from_array(X, chunks=(300, 20)), da.from_array(y, chunks=300)
    ...     model = DaskLinearODMClassifier().fit(X, y)
    ...     accuracy = model.score(X, y)
    >>> accuracy > 0.9
    True
    """


class DaskODMClassifier(DaskClassifier, of=ODMClassifier, **_LANDMARKS):
    """Kernel optimal margin distribution machine over Dask collections.

    It finds a model of ``ODMClassifier(approximation="nystrom")``: landmarks are chosen from a
    sample of the rows, and workers compute kernel values with them, again in every round.

    Parameters
    ----------
    C1, C2, D, degree, coef0, fit_intercept, tol, max_iter, class_weight, random_state
    kernel
    gamma : {"scale", "auto"} or float, default="scale"
    n_components, client, worker_timeout

    Attributes
    ----------
    classes_, support_vectors_, dual_coef_, intercept_, gamma_, C1_, C2_
    n_iter_, objective_, dual_gap_, solver_, n_rounds_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import make_moons
    >>> from optimargin.dask import DaskODMClassifier
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     X, y = da.from_array(X, chunks=(300, 2)), da.from_array(y, chunks=300)
    ...     model = DaskODMClassifier(n_components=50).fit(X, y)
    ...     accuracy = model.score(X, y)
    >>> accuracy > 0.95
    True
    """


class DaskLinearODMRegressor(DaskRegressor, of=LinearODMRegressor, **_LINEAR):
    """Linear regression with a band loss over Dask collections.

    It finds the same model as `LinearODMRegressor`. Every round of the fit computes loss and
    gradient of all blocks and, up to 2000 features, the Hessian; above that, products with the
    Hessian.

    Parameters
    ----------
    C1, C2, epsilon, fit_intercept, tol, max_iter, random_state
    solver, client, worker_timeout

    Attributes
    ----------
    coef_, intercept_, C1_, C2_, epsilon_, n_iter_, objective_, dual_gap_, solver_
    n_rounds_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import make_regression
    >>> from optimargin.dask import DaskLinearODMRegressor
    >>> X, y = make_regression(1000, 20, noise=10, random_state=0)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     X, y = da.from_array(X, chunks=(300, 20)), da.from_array(y, chunks=300)
    ...     model = DaskLinearODMRegressor().fit(X, y)
    ...     r2 = model.score(X, y)
    >>> r2 > 0.95
    True
    """


class DaskODMRegressor(DaskRegressor, of=ODMRegressor, **_LANDMARKS):
    """Kernel regression with a band loss over Dask collections.

    It finds a model of ``ODMRegressor(approximation="nystrom")``: landmarks are chosen from a
    sample of the rows, and workers compute kernel values with them, again in every round.

    Parameters
    ----------
    C1, C2, epsilon, degree, coef0, fit_intercept, tol, max_iter, random_state
    kernel
    gamma : {"rms_distance", "scale", "auto"} or float, default="rms_distance"
    n_components, client, worker_timeout

    Attributes
    ----------
    support_vectors_, dual_coef_, intercept_, gamma_
    C1_, C2_, epsilon_, n_iter_, objective_, dual_gap_, solver_
    n_rounds_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import make_friedman1
    >>> from optimargin.dask import DaskODMRegressor
    >>> X, y = make_friedman1(1000, random_state=0)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     X, y = da.from_array(X, chunks=(300, 10)), da.from_array(y, chunks=300)
    ...     model = DaskODMRegressor(n_components=200).fit(X, y)
    ...     r2 = model.score(X, y)
    >>> r2 > 0.9
    True
    """


class DaskOneClassODM(DaskOutlierDetector, of=OneClassODM, **_LANDMARKS):
    """Novelty detection with a known false-alarm rate over Dask collections.

    It finds a model of ``OneClassODM(approximation="nystrom")``: landmarks are chosen from a
    sample of the rows, and workers compute kernel values with them, again in every round. The
    models without each of five folds, from which the threshold and p-values come, are fitted in
    the same rounds. One number per row comes back to the driver.

    Parameters
    ----------
    C1, C2, D, degree, coef0, false_alarm_rate, novelty, tol, max_iter, random_state
    kernel
    gamma : {"local", "rms_distance", "scale", "auto"} or float, default="local"
    n_components, client, worker_timeout

    Attributes
    ----------
    offset_, held_out_scores_, support_vectors_, dual_coef_, intercept_, gamma_
    C1_, C2_, n_iter_, objective_, dual_gap_, solver_
    n_rounds_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from optimargin.dask import DaskOneClassODM
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     X = da.random.default_rng(0).normal(size=(2000, 2), chunks=(500, 2)).persist()
    ...     model = DaskOneClassODM(n_components=50, random_state=0).fit(X)
    ...     alarms = (model.predict(X) == -1).mean().compute()
    >>> bool(0.03 < alarms < 0.07)
    True
    """
