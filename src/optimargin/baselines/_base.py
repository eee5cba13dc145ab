"""The common base of the baselines: two classes, encoded as -1 and +1; a kernel expansion."""

from abc import ABCMeta, abstractmethod
from copy import copy
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from optimargin._checks import check_scale
from optimargin.estimators._store import StoreMixin
from optimargin.kernels import KernelChoice
from optimargin.tasks import Classification, winning_class

KERNEL_CONSTRAINTS: dict = {
    "kernel": [StrOptions({"linear", "rbf"})],
    "gamma": [
        StrOptions({"scale", "auto", "mean_distance"}),
        Interval(Real, 0, None, closed="neither"),
    ],
}


class TwoClassBaseline(StoreMixin, ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
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
        checked = copy(self)
        X, y = validate_data(checked, X, y, dtype=np.float64)
        check_scale(X)
        check_classification_targets(y)
        task = Classification.from_labels(y)
        if task.n_outputs > 1:
            # The wording that scikit-learn's checks of binary classifiers ask for.
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass."
            )
        (target,) = task.encode(y)
        names = ("n_features_in_", "feature_names_in_")
        about = {name: vars(checked)[name] for name in names if name in vars(checked)}
        self._store({**about, **task.attributes(), **self._fit(X, target.value)})
        return self

    @abstractmethod
    def _fit(self, X, y):
        """Fit to labels of -1 and +1, and return the fitted attributes."""

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
        scores = self.decision_function(X)
        return self.classes_[winning_class(scores[:, None])]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class KernelBaseline(TwoClassBaseline):
    """A kernel expansion over the training samples plus an intercept."""

    _parameter_constraints: dict = KERNEL_CONSTRAINTS

    def _fit(self, X, y):
        kernel = KernelChoice(self.kernel, self.gamma).resolve(X, np.ones(y.size))
        return {"_kernel": kernel, "support_vectors_": X, **self._fit_gram(kernel(X), y)}

    @abstractmethod
    def _fit_gram(self, K, y):
        """Return the fitted attributes: `dual_coef_` of shape (n_samples,) and `intercept_`."""

    def _decide(self, X):
        return self._kernel(X, self.support_vectors_) @ self.dual_coef_ + self.intercept_
