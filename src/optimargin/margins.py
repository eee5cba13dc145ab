"""Margins of a fitted classifier: their mean, variance and distribution.

The margin of a sample says how clearly it is classified: positive if correct, negative if wrong.
With two classes it is ``y f(x)`` for a label y of -1 or +1 and the decision value f(x); with
more, the score of the true class minus the largest of the other scores. That is the
*functional* margin. The *geometric* margin is a distance in feature space: the functional
margin divided by the norm of w, or with more classes the smallest of
``(f_true(x) - f_k(x)) / |w_true - w_k|``.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted

from optimargin.kernels import kernel_product, make_kernel

KINDS = ("functional", "geometric")


@dataclass(frozen=True)
class MarginDistribution:
    """The margins of a set of samples and their weights.

    Attributes
    ----------
    margins : ndarray of shape (n_samples,)
        In the order of the samples.
    weights : ndarray of shape (n_samples,)
        Sample weights, scaled to sum to one.

    Examples
    --------
    >>> import numpy as np
    >>> from optimargin.margins import MarginDistribution
    >>> distribution = MarginDistribution(np.array([1.5, -0.5]), np.array([0.75, 0.25]))
    >>> distribution.mean, distribution.variance
    (1.0, 0.75)
    >>> distribution.cumulative()
    (array([-0.5,  1.5]), array([0.25, 1.  ]))
    """

    margins: np.ndarray
    weights: np.ndarray

    @property
    def mean(self):
        """The weighted mean of the margins."""
        return float(self.weights @ self.margins)

    @property
    def variance(self):
        """The weighted mean squared distance of the margins from their mean."""
        return float(self.weights @ np.square(self.margins - self.mean))

    def cumulative(self):
        """Return the cumulative distribution.

        Returns
        -------
        margins : ndarray of shape (n_samples,)
            In increasing order.
        shares : ndarray of shape (n_samples,)
            The share of weight with at most that margin.
        """
        order = np.argsort(self.margins, kind="stable")
        return self.margins[order], np.cumsum(self.weights[order])


def margin_mean(est, X, y, sample_weight=None, *, kind="functional"):
    """Return the mean margin of a fitted classifier.

    Parameters
    ----------
    est : classifier
        Fitted, with ``decision_function``.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        True class labels.
    sample_weight : array-like of shape (n_samples,), default=None
    kind : {"functional", "geometric"}, default="functional"
        See `margin_distribution`.

    Returns
    -------
    mean : float

    Examples
    --------
    >>> from sklearn.svm import LinearSVC
    >>> from optimargin.margins import margin_mean
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], ["a", "a", "b", "b"]
    >>> print(f"{margin_mean(LinearSVC(C=1e3).fit(X, y), X, y):.3f}")
    1.500
    """
    return margin_distribution(est, X, y, kind=kind, sample_weight=sample_weight).mean


def margin_variance(est, X, y, sample_weight=None, *, kind="functional"):
    """Return the variance of the margins of a fitted classifier.

    The mean squared distance from the mean margin, without a correction for small samples.

    Parameters
    ----------
    est : classifier
        Fitted, with ``decision_function``.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        True class labels.
    sample_weight : array-like of shape (n_samples,), default=None
    kind : {"functional", "geometric"}, default="functional"
        See `margin_distribution`.

    Returns
    -------
    variance : float

    Examples
    --------
    >>> from sklearn.svm import LinearSVC
    >>> from optimargin.margins import margin_variance
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], ["a", "a", "b", "b"]
    >>> print(f"{margin_variance(LinearSVC(C=1e3).fit(X, y), X, y):.3f}")
    0.250
    """
    return margin_distribution(est, X, y, kind=kind, sample_weight=sample_weight).variance


def margin_distribution(est, X, y, *, kind="functional", sample_weight=None):
    """Return the distribution of the margins of a fitted classifier.

    Parameters
    ----------
    est : classifier
        Fitted, with ``decision_function``. Where the norm of w is needed, it is taken from the last
        step of a pipeline or the best estimator of a search.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        True class labels.
    kind : {"functional", "geometric"}, default="functional"
        Margins as the classifier scores them, or as distances in feature space. Distances make
        classifiers of different scale comparable. They need the norm of w, which is known for
        linear models, for `ODMClassifier` with a kernel, and for two-class `SVC` and `NuSVC` with a
        kernel (not with a precomputed kernel).
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    distribution : MarginDistribution

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from optimargin import LinearODMClassifier
    >>> from optimargin.margins import margin_distribution
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> est = LinearODMClassifier().fit(X, y)
    >>> distribution = margin_distribution(est, X, y, kind="geometric")
    >>> distribution.margins.shape
    (569,)
    >>> margins, shares = distribution.cumulative()
    >>> bool((shares[margins <= 0].max() < 0.05))  # few samples on the wrong side
    True
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is unknown: use one of {', '.join(map(repr, KINDS))}.")
    check_is_fitted(est)
    if not hasattr(est, "decision_function"):
        raise TypeError(f"{type(est).__name__} has no decision_function, so no margins.")
    check_consistent_length(X, y)
    scores = np.asarray(est.decision_function(X)) - calibration_shift(unwrap(est))
    if est.classes_.size > 2 and getattr(unwrap(est), "decision_function_shape", "") == "ovo":
        raise ValueError(
            f"{type(unwrap(est)).__name__} with decision_function_shape='ovo' scores pairs of "
            "classes: use decision_function_shape='ovr'."
        )
    gram = _weight_gram(est) if kind == "geometric" else None
    return distribution_from_scores(y, scores, est.classes_, sample_weight, gram)


def calibration_shift(estimator):
    """Return what calibration added to the decision values: margins are those of the fit."""
    shift = np.asarray(getattr(estimator, "calibration_", {}).get("shift", 0.0))
    return shift[0] if shift.size == 1 and shift.ndim else shift


def distribution_from_scores(y, scores, classes, sample_weight=None, gram=None):
    """Return the margin distribution of given decision values.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
    scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
    classes : ndarray of shape (n_classes,)
        Sorted class labels, in the order of the columns of `scores`.
    sample_weight : array-like of shape (n_samples,), default=None
    gram : ndarray of shape (1, 1) or (n_classes, n_classes), default=None
        Inner products of the weight vectors, for geometric margins.

    Returns
    -------
    distribution : MarginDistribution
    """
    scores = np.asarray(scores, dtype=np.float64)
    y = np.asarray(y)
    check_consistent_length(scores, y)
    encoded = np.searchsorted(classes, y)
    is_known = classes[np.minimum(encoded, classes.size - 1)] == y
    if not np.all(is_known):
        raise ValueError(f"y has labels the classifier does not know: {np.unique(y[~is_known])}.")
    expected = (y.size,) if classes.size == 2 else (y.size, classes.size)
    if scores.shape != expected:
        raise ValueError(
            f"Decision values of shape {scores.shape} do not fit {classes.size} classes: "
            f"expected {expected}."
        )
    if classes.size == 2:
        margins = np.where(encoded == 1, scores, -scores)
        if gram is not None:
            margins /= np.sqrt(_positive(gram[0, 0]))
    else:
        margins = _multiclass_margins(scores, encoded, gram)
    if sample_weight is not None and not np.any(sample_weight):
        raise ValueError("sample_weight is zero for every sample: give some a positive weight.")
    weights = _check_sample_weight(
        sample_weight, scores, dtype=np.float64, ensure_non_negative=True
    )
    return MarginDistribution(margins, weights / weights.sum())


def unwrap(est):
    """Return the classifier inside pipelines and searches."""
    while True:
        if hasattr(est, "best_estimator_"):
            est = est.best_estimator_
        elif hasattr(est, "steps"):
            est = est.steps[-1][1]
        else:
            return est


def _multiclass_margins(scores, encoded, gram):
    rows = np.arange(encoded.size)
    differences = scores[rows, encoded][:, None] - scores
    if gram is not None:
        squares = np.diagonal(gram)
        distances = squares[:, None] + squares - 2 * gram
        np.fill_diagonal(distances, 1.0)
        differences /= np.sqrt(_positive(distances))[encoded]
    differences[rows, encoded] = np.inf  # a class is not compared with itself
    return differences.min(axis=1)


def _positive(squared_norm):
    if np.any(squared_norm <= 0):
        raise ValueError("w is zero, so geometric margins do not exist: use kind='functional'.")
    return squared_norm


def _weight_gram(est):
    """Return the inner products of the weight vectors: one vector per class, or one for two."""
    from sklearn.svm import SVC, NuSVC  # slow to import, needed only for distances

    est = unwrap(est)
    name = type(est).__name__
    advice = "use kind='functional'"
    n_vectors = 1 if est.classes_.size == 2 else est.classes_.size
    is_of_pairs = isinstance(est, SVC | NuSVC) or vars(est).get("_pairwise")
    if is_of_pairs and n_vectors > 1:
        other = ", or fit with multi_class='ovr'" if hasattr(est, "multi_class") else ""
        raise ValueError(
            f"{name} with more than two classes has one w per pair of classes: {advice}{other}."
        )
    if hasattr(est, "coef_"):
        coef = _dense(est.coef_)
        gram = coef @ coef.T
    elif hasattr(est, "dual_coef_") and est.support_vectors_.shape[0] == est.dual_coef_.shape[1]:
        gram = _kernel_gram(est)
    else:
        raise ValueError(f"The norm of w of this {name} is not known: {advice}.")
    if gram.shape != (n_vectors, n_vectors):
        raise ValueError(f"{name} has {gram.shape[0]} weight vectors, not {n_vectors}: {advice}.")
    return gram


def _kernel_gram(est):
    # scikit-learn keeps the numeric value of gamma in a private attribute.
    gamma = getattr(est, "gamma_", getattr(est, "_gamma", 1.0))
    kernel = make_kernel(est.kernel, gamma, est.degree, est.coef0)
    vectors = est.support_vectors_
    dual_coef = _dense(est.dual_coef_)
    return dual_coef @ kernel_product(kernel, vectors, vectors, dual_coef.T)


def _dense(array):
    return np.asarray(array.toarray() if issparse(array) else array, dtype=np.float64)
