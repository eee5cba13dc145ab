"""The common base of the baselines: two classes, encoded as -1 and +1; a kernel expansion."""

from abc import ABCMeta, abstractmethod
from copy import copy
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from optimargin.kernels import Kernel, resolve_gamma

LARGEST_VALUE = float(np.finfo(np.float64).max) ** 0.45  # whose products are far from overflow
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
        checked = copy(self)
        X, y = validate_data(checked, X, y, dtype=np.float64)
        largest = np.abs(X).max()
        if largest > LARGEST_VALUE:
            raise ValueError(
                f"X has values as large as {largest:.3g}, whose products overflow: scale the "
                "features, for example with StandardScaler."
            )
        check_classification_targets(y)
        classes = np.unique(y)
        if classes.size < 2:
            raise ValueError(
                f"y has one class only ({classes.tolist()[0]!r}): a classifier needs samples of at "
                "least two classes."
            )
        if classes.size > 2:
            # The wording that scikit-learn's checks of binary classifiers ask for.
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass."
            )
        names = ("n_features_in_", "feature_names_in_")
        about = {name: vars(checked)[name] for name in names if name in vars(checked)}
        fitted = self._fit(X, np.where(y == classes[1], 1.0, -1.0))
        # Last, so that a fit that fails leaves the earlier model as it was.
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        for name, value in {**about, "classes_": classes, **fitted}.items():
            setattr(self, name, value)
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
        is_second = self.decision_function(X) > 0
        return self.classes_[is_second.astype(np.intp)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class KernelBaseline(TwoClassBaseline):
    """A kernel expansion over the training samples plus an intercept."""

    _parameter_constraints: dict = KERNEL_CONSTRAINTS

    def _fit(self, X, y):
        has_gamma = self.kernel == "rbf"
        gamma = resolve_gamma(self.gamma, X, np.ones(y.size)) if has_gamma else 1.0
        # Its metaclass makes the kernel of that name.
        kernel = Kernel(self.kernel, gamma=gamma)  # type: ignore[abstract, call-arg]
        return {"_kernel": kernel, "support_vectors_": X, **self._fit_gram(kernel(X), y)}

    @abstractmethod
    def _fit_gram(self, K, y):
        """Return the fitted attributes: `dual_coef_` of shape (n_samples,) and `intercept_`."""

    def _decide(self, X):
        return self._kernel(X, self.support_vectors_) @ self.dual_coef_ + self.intercept_
