"""One training set, and the learners of its parts for any kernel parameter."""

from functools import cached_property

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone

from optimargin._base import check_scale
from optimargin.kernels import (
    Kernel,
    gram_matrix,
    mean_distance,
    resolve_gamma,
    squared_distances,
)


class TrainingSet:
    """Validated data and the estimator that will be fitted to them.

    Distances, or inner products, are computed once and shared by all learners.

    Parameters
    ----------
    machine : Machine
        Says which learners to make.
    estimator : classifier
        Says which kernel, intercept and class weights to use.
    X : {ndarray, CSR} of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Class labels.
    sample_weight : ndarray of shape (n_samples,) or None

    Attributes
    ----------
    rows : ndarray of shape (n_samples,)
        The places of the samples in the data that they were drawn from.
    """

    def __init__(self, machine, estimator, X, y, sample_weight):
        self.rows = np.arange(X.shape[0])
        self.machine = machine
        self.estimator = estimator
        self.X = X
        self.classes, self.encoded = np.unique(y, return_inverse=True)
        self.weight = self._weights(np.arange(X.shape[0]), sample_weight)
        self.sample_weight = sample_weight
        ones = np.ones(X.shape[0])
        self.scoring_weight = ones if sample_weight is None else np.asarray(sample_weight)
        self.kernel = getattr(estimator, "kernel", "linear")
        self.n_problems = 1 if self.classes.size == 2 else self.classes.size

    def _weights(self, rows, sample_weight):
        """Return the weights of a training set of `rows`, as the estimator would use them."""
        model = clone(self.estimator)
        model.classes_, encoded = np.unique(self.encoded[rows], return_inverse=True)
        if isinstance(model.class_weight, dict):
            model.classes_ = self.classes[model.classes_]
        return model._weights(
            self.X[rows], encoded, None if sample_weight is None else sample_weight[rows]
        )

    def sample(self, max_samples, random_state):
        """Return a training set of at most `max_samples`, with the same shares of the classes."""
        n_samples = self.X.shape[0]
        if max_samples is None or n_samples <= max_samples:
            return self
        shuffled = random_state.permutation(n_samples)
        in_classes = shuffled[np.argsort(self.encoded[shuffled], kind="stable")]
        places = np.arange(max_samples) * n_samples // max_samples
        rows = np.sort(in_classes[places])
        X = self.X[np.ix_(rows, rows)] if self.kernel == "precomputed" else self.X[rows]
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        labels = self.classes[self.encoded[rows]]
        drawn = TrainingSet(self.machine, self.estimator, X, labels, weight)
        drawn.rows = rows
        return drawn

    def allowed(self, name):
        """Return the interval of a parameter, as the estimator declares it."""
        return self.estimator._parameter_constraints[name][0]

    @cached_property
    def mean_distance(self):
        """The width that `gamma="mean_distance"` stands for."""
        rows = np.flatnonzero(self.weight)
        return float(mean_distance(self.X[rows], self.weight[rows])) or 1.0

    def default_gamma(self):
        """Return the number of `gamma="scale"`."""
        rows = np.flatnonzero(self.weight)
        return resolve_gamma("scale", self.X[rows], self.weight[rows])

    @property
    def has_gamma(self):
        """Whether the kernel has a parameter gamma."""
        return self.kernel in ("rbf", "poly", "sigmoid")

    @cached_property
    def distances(self):
        """Squared distances between all samples, float64."""
        check_scale(self.X)
        return np.ascontiguousarray(squared_distances(self.X), dtype=np.float64)

    def prepare(self):
        """Compute what learners share, before threads ask for it."""
        if self.kernel == "rbf":
            _ = self.distances

    def learner(self, gamma=None, train=None, test=None):
        """Return a learner for some of the samples.

        Parameters
        ----------
        gamma : float or None
            For kernels that have one.
        train : ndarray of shape (n_train,), default=None
            All samples when not given; those of zero weight are left out.
        test : ndarray of shape (n_test,), default=None
            Samples to be predicted.
        """
        if train is None:
            train, weight = np.flatnonzero(self.weight), self.weight[self.weight > 0]
        else:
            weight = self._weights(train, self.sample_weight)
            train, weight = train[weight > 0], weight[weight > 0]
        weight = weight / weight.sum()
        positives = [1] if self.classes.size == 2 else range(self.classes.size)
        signs = np.array([np.where(self.encoded[train] == k, 1.0, -1.0) for k in positives])
        fit_intercept = self.estimator.fit_intercept
        if self.kernel == "linear":
            check_scale(self.X)
            X = self.X[train]
            center = None
            if fit_intercept and not issparse(X):
                center = np.average(X, axis=0, weights=weight).astype(np.float64)
            narrow = X.shape[1] <= X.shape[0]
            make = self.machine.feature_learner if narrow else self.machine.wide_learner
            X_test = None if test is None else self.X[test]
            return make(X, signs, weight, fit_intercept, center, X_test)
        K, K_test = self.gram(gamma, train, weight, test)
        return self.machine.kernel_learner(K, signs, weight, fit_intercept, K_test)

    def gram(self, gamma, train, weight, test=None):
        """Return the positive semi-definite Gram matrix, and the kernel of test and train.

        Where an indefinite kernel was replaced by its positive part, the second matrix is
        changed with it.
        """
        if self.kernel == "rbf":
            K = _exponential(self.distances, gamma, train, train)
            return K, None if test is None else _exponential(self.distances, gamma, test, train)
        raw = self._raw_gram(gamma)
        part = np.ascontiguousarray(raw[np.ix_(train, train)])
        if self.kernel == "poly" and self._kernel(gamma).is_positive_semidefinite:
            return part, None if test is None else raw[np.ix_(test, train)]
        gram = gram_matrix(Kernel("precomputed"), part, weight)
        K_test = None if test is None else raw[np.ix_(test, train)]
        if gram.projector is not None and test is not None:
            K_test = K_test @ gram.projector
        return gram.K, K_test

    def _kernel(self, gamma):
        if self.has_gamma:
            return Kernel(self.kernel, gamma, self.estimator.degree, self.estimator.coef0)
        return Kernel(self.kernel)

    def _raw_gram(self, gamma):
        K = np.asarray(self._kernel(gamma)(self.X), dtype=np.float64)
        if not np.isfinite(K).all():
            raise ValueError(
                f"Kernel {self.kernel!r} overflows on X: scale the features, for example with "
                "StandardScaler."
            )
        return K


def _exponential(distances, gamma, rows, columns):
    if rows.size == columns.size == distances.shape[0]:
        K = distances * -gamma
    else:
        K = distances[np.ix_(rows, columns)]
        K *= -gamma
    return np.exp(K, out=K)
