"""What the baselines share: two classes, encoded as -1 and +1, and a kernel expansion."""

from abc import ABCMeta, abstractmethod
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from optimargin._base import check_two_classes
from optimargin.kernels import Kernel, resolve_gamma

KERNEL_CONSTRAINTS: dict = {
    "kernel": [StrOptions({"linear", "rbf"})],
    "gamma": [
        StrOptions({"scale", "auto", "mean_distance"}),
        Interval(Real, 0, None, closed="neither"),
    ],
}


class TwoClassBaseline(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """Validation, labels and predictions; a subclass fits -1 and +1."""

    _parameter_constraints: dict = {}

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Fit the classifier.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels of two classes.

        Returns
        -------
        self : object
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, encoded = np.unique(y, return_inverse=True)
        if self.classes_.size > 2:
            # The wording that scikit-learn's checks of binary classifiers ask for.
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass."
            )
        check_two_classes(self.classes_)
        self._fit(X, np.where(encoded == 1, 1.0, -1.0))
        return self

    @abstractmethod
    def _fit(self, X, y):
        """Fit to labels of -1 and +1."""

    @abstractmethod
    def _decide(self, X):
        """Return decision values."""

    def decision_function(self, X):
        """Return decision values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Positive values mean ``classes_[1]``.
        """
        check_is_fitted(self)
        return self._decide(validate_data(self, X, dtype=np.float64, reset=False))

    def predict(self, X):
        """Predict class labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(int)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class KernelBaseline(TwoClassBaseline):
    """A kernel expansion over the training samples plus an intercept."""

    _parameter_constraints: dict = KERNEL_CONSTRAINTS

    def _fit(self, X, y):
        self._kernel = Kernel(self.kernel)
        if self.kernel == "rbf":
            gamma = resolve_gamma(self.gamma, X, np.ones(y.size))
            self._kernel = Kernel("rbf", gamma)
        self.dual_coef_, self.intercept_ = self._fit_gram(self._kernel(X), y)
        self._X = X

    @abstractmethod
    def _fit_gram(self, K, y):
        """Return coefficients of shape (n_samples,) and the intercept."""

    def _decide(self, X):
        return self._kernel(X, self._X) @ self.dual_coef_ + self.intercept_
