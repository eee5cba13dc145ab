"""The optimal margin distribution machine of one class."""

from numbers import Real

from sklearn.utils._param_validation import Interval

from optimargin.estimators._base import keeps_parameters
from optimargin.estimators._documentation import described
from optimargin.estimators._forms import LandmarkForm
from optimargin.estimators._outlier import OutlierDetector
from optimargin.objectives import ODMOneClass


@described()
class OneClassODM(OutlierDetector, LandmarkForm):
    """Which samples are odd: new ones, at a false-alarm rate that is what it says, or given ones.

    Minimises ``|w|^2 / 2 + sum_i s_i l(f(x_i)) / sum_i s_i`` over the functions
    ``f(x) = phi(x)' w`` of a kernel, with the loss
    ``l(f) = C1 max(0, 1 - D - f)^2 + C2 max(0, f - 1 - D)^2`` and the sample weights s: the
    scores of normal samples are drawn into a band around one, and fall to zero away from them.

    A sample is called an outlier if its score is below a threshold. That comes from
    leave-one-out scores of the training samples, which the fit gives in closed form, so that
    about the share `false_alarm_rate` of *new* normal samples is below it. No samples have to
    be set aside. `p_values` says how unusual a sample is.

    Which are the odd ones among the samples themselves? With ``novelty=False``, `fit_predict`
    judges every sample by the model without it.

    Parameters
    ----------
    C1 : float, default=None
        Penalty on scores below ``1 - D``. Weights are normalised, so a given value means the
        same for any number of samples. Default: half the sum of the sample weights, so
        that each sample counts one half; with ``kernel="linear"`` divided by the sum of the
        variances of the features. As `C1` goes to zero the score becomes a kernel density.
    C2 : float, default=None
        Penalty on scores above ``1 + D``. Default: ``C1 / 4``. With ``C2=0`` it is the one-class
        support vector machine with squared losses.
    D : float, default=0.5
        Half-width of the band around one that costs nothing, in [0, 1). Samples inside it are
        no support vectors.
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel. A callable is given two arrays of samples and returns the matrix of
        their kernel values. Without an intercept "linear" and "poly" depend on where the origin
        is.
    gamma : {"local", "scale", "auto", "mean_distance", "rms_distance"}, \
            float or array-like, default="local"
        Coefficient of "rbf", "poly" and "sigmoid". "local" is ``1 / (2 s^2)`` with s a quarter
        of the root mean square distance of the samples from their mean, which is also
        ``8 / (sum of the variances of the features)``. "scale" is
        ``1 / (n_features * var(X))``, on standardised features eight times less, "auto"
        ``1 / n_features``, and "mean_distance" and "rms_distance" have such a distance between
        samples as s.
        One value per feature, of shape (n_features,), makes the kernel "rbf"
        ``exp(-sum_j gamma_j (x_j - z_j)^2)``; a feature of gamma 0 does not count.
    degree, coef0
    false_alarm_rate : float, default=0.05
        The share of new normal samples that may be taken for outliers, in (0, 0.5]; with
        ``novelty=False`` the share of the samples that are. It needs about
        ``1 / false_alarm_rate`` samples; with fewer a warning says so.
    novelty : bool, default=True
        As in scikit-learn's `LocalOutlierFactor`. With True new samples are judged, by `predict`,
        `decision_function`, `score_samples` and `p_values`, and there is no `fit_predict`; with
        False it is the samples of the fit that are judged, by `fit_predict` and
        `held_out_scores_`, and the other methods do not exist.
    solver : {"auto", "newton", "newton_cg", "bcd", "dcd"}, default="auto"
        How the objective is minimised; all solvers reach the same model. "newton" factorises
        the kernel matrix and suits up to about a thousand samples, "newton_cg" and "bcd"
        iterate and suit more ("bcd" for radial kernels and moderate penalties), "dcd" is
        coordinate descent. At the default penalties "auto" takes "newton" up to 200 samples,
        which is exact up to rounding, "dcd" up to 2500 and "bcd" past that.
    approximation
    n_components : int or "auto", default="auto"
        The number of landmarks. "auto" doubles it until leave-one-out scores stop rising.
    cache_size
    tol : float, default=1e-4
    max_iter
    random_state : int, RandomState instance or None, default=None
        For the order of samples in "dcd", for landmarks, and for folds where these take the
        place of leave-one-out.

    Attributes
    ----------
    offset_ : float
        The threshold: the k-th smallest leave-one-out score, k being
        ``floor(false_alarm_rate * (n + 1))`` and n the sum of the sample weights; the smallest
        where k is zero. Where more than 2000 samples are support vectors, scores by models
        without each of five folds take their place. With ``novelty=False`` it is halfway between
        the scores of the share `false_alarm_rate` of the samples and those of the others.
    held_out_scores_ : ndarray of shape (n_samples,)
        With ``novelty=False`` the score of each sample by the model without it, from which the
        threshold comes: the lower, the odder. Rows of chunks are in the order of these.
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors: the samples outside the band.
    support_vectors_
    dual_coef_ : ndarray of shape (1, n_SV)
        Coefficients of the support vectors: scores are
        ``K(X, support_vectors_) @ dual_coef_.T``.
    coef_ : ndarray of shape (1, n_features)
        Coefficients of the features, for the linear kernel.
    intercept_ : ndarray of shape (1,)
        Zero: there is no intercept.
    C1_, C2_, gamma_
    n_iter_ : int
        Newton steps or passes over the data.
    objective_ : float
        The minimum found.
    dual_gap_ : float
        The certified duality gap, relative to the objective: no model has an objective lower by
        more than that. Where kernel values are rounded, what rounding adds to it is estimated
        from some of the rows.
    solver_, n_features_in_, feature_names_in_

    Notes
    -----
    Scores depend on distances: scale the features first, for example with `StandardScaler`. A
    scaler that was fitted to few training samples has seen them, and not the new ones, which
    raises the rate of false alarms a little, as do parameters chosen on the same samples.

    References
    ----------
    T. Zhang and Z.-H. Zhou, "Optimal Margin Distribution Machine", IEEE Transactions on
    Knowledge and Data Engineering 32(6), 2020.

    R. F. Barber, E. J. Candes, A. Ramdas and R. J. Tibshirani, "Predictive inference with the
    jackknife+", Annals of Statistics 49(1), 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from optimargin import OneClassODM
    >>> rng = np.random.default_rng(0)
    >>> model = OneClassODM(false_alarm_rate=0.1).fit(rng.normal(size=(500, 2)))
    >>> alarms = model.predict(rng.normal(size=(2000, 2))) == -1
    >>> bool(0.07 < alarms.mean() < 0.13)
    True
    >>> model.predict([[0.0, 0.0], [5.0, 5.0]]).tolist()
    [1, -1]

    Which rows of a table are odd:

    >>> X = np.vstack([rng.normal(size=(500, 2)), [[6.0, 6.0], [-7.0, 5.0]]])
    >>> detector = OneClassODM(false_alarm_rate=0.005, novelty=False)
    >>> np.flatnonzero(detector.fit_predict(X) == -1)
    array([500, 501])
    """

    _objective_type = ODMOneClass
    _parameter_constraints: dict = {
        "false_alarm_rate": [Interval(Real, 0, 0.5, closed="right")],
        "novelty": ["boolean"],
    }

    @keeps_parameters
    def __init__(
        self,
        C1=None,
        C2=None,
        D=0.5,
        *,
        kernel="rbf",
        gamma="local",
        degree=3,
        coef0=0.0,
        false_alarm_rate=0.05,
        novelty=True,
        solver="auto",
        approximation=None,
        n_components="auto",
        cache_size=2000,
        tol=1e-4,
        max_iter=1000,
        random_state=None,
    ):
        """Keep the parameters."""
