"""What all classifiers share: classes, weights, predictions."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets

from optimargin._warnings import warn_user
from optimargin.estimators._base import BaseLearner
from optimargin.estimators._callbacks import with_callbacks
from optimargin.tasks import Classification, check_known, one_or_all

MULTI_CLASS: dict = {"multi_class": [StrOptions({"auto", "ovr", "ovo"})]}
CLASS_WEIGHT = [dict, StrOptions({"balanced"}), None]


_MANY = 20  # classes; more numbers than that, each of
_FEW = 5  # samples at most, look like measurements


def no_probabilities():
    """Return a property in place of ``predict_proba``: it is missing, and says what to use."""

    def missing(self):
        name = type(self).__name__
        raise AttributeError(
            f"{name} has no predict_proba: its decision values are no probabilities. Use "
            f"sklearn.calibration.CalibratedClassifierCV({name}(), ensemble=False)."
        )

    return property(missing, doc="Not available: see `CalibratedClassifierCV`.")


class Classifier(ClassifierMixin, BaseLearner):
    """Labels become targets, scores become labels; what is between is `train`.

    Parameters
    ----------
    class_weight : dict or "balanced", default=None
        Factors of the sample weights, by class. "balanced" makes the weights of all classes
        sum to the same.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercepts.
    n_iter_ : int or ndarray of shape (n_classes,)
        Newton steps or passes over the data; with more than two classes one number per class.
    objective_ : float or ndarray of shape (n_classes,)
        The minimum found.
    dual_gap_ : float or ndarray of shape (n_classes,)
        The certified relative duality gap: no model has an objective lower by more than that.
    """

    _parameter_constraints: dict = {
        **BaseLearner._parameter_constraints,
        "class_weight": CLASS_WEIGHT,
    }

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; float32 and float64 are used as they are. For a precomputed kernel
            the Gram matrix, of shape (n_samples, n_samples).
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. A weight of two is the same as repeating the sample.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        return self._fit(X, y, sample_weight)

    def _make_task(self, y, weight, dtype):
        check_classification_targets(y)
        task = Classification.from_labels(
            y, weight, self.class_weight, multi_class=self._multi_class
        )
        n_classes = task.classes.size
        if y.dtype.kind in "iuf" and n_classes > _MANY and len(y) < _FEW * n_classes:
            warn_user(
                f"y has {n_classes} different numbers in {len(y)} samples, as measurements have: "
                "use ODMRegressor or LinearODMRegressor unless these are classes."
            )
        return task

    def _make_known_task(self, y, weight, dtype):
        check_known(
            self.classes_,
            y,
            "y has labels the model was not fitted with: pass the training data.",
        )
        return Classification.from_labels(
            y, weight, self.class_weight, self.classes_, self._fitted_multi_class
        )

    @property
    def _multi_class(self) -> str:
        """How a fit to data in memory will tell several classes apart."""
        return "ovr"

    @property
    def _fitted_multi_class(self) -> str:
        return "ovo" if vars(self).get("_pairwise") else "ovr"

    def _task_of_chunks(self):
        return Classification, {"class_weight": self.class_weight}

    def predict(self, X: Any) -> np.ndarray:
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        scores = self._scores(X)
        return self._task().decode(scores)

    predict_proba = no_probabilities()

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the decision values.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Positive values mean ``classes_[1]``; with more than two classes, there is one column
            per class and the largest wins.
        """
        return one_or_all(self._told(self._scores(X)))

    def _told(self, values):
        return self._task().combine(values)

    def _task(self):
        """Return the task of a fitted classifier, as far as it is about labels."""
        n_classes = self.classes_.size
        return Classification(
            self.classes_, np.ones(n_classes), 1.0, multi_class=self._fitted_multi_class
        )


class PairwiseClassifier(Classifier):
    """A classifier that may have an output per pair of classes.

    Parameters
    ----------
    multi_class : {"auto", "ovr", "ovo"}, default="auto"
        How more than two classes are told apart. "ovr" fits a function per class, against the
        rest. "ovo" fits one per pair of classes, to their samples alone, with the penalties per
        sample of the whole; pairs vote, and `decision_function` has the votes for each class plus
        less than half a vote for the sum of its values. "auto" is "ovo", which is more accurate
        and faster, and "ovr" for landmarks, chunks and streams. Two classes are the same with all.

    Attributes
    ----------
    intercept_ : ndarray of shape (1,), (n_classes,) or (n_pairs,)
        The intercepts.
    """

    _parameter_constraints: dict = {**Classifier._parameter_constraints, **MULTI_CLASS}

    @property
    def _multi_class(self):
        if self.multi_class != "auto":
            return self.multi_class
        # Landmarks are shared by classes that are asked for all samples.
        return "ovo" if self._options().approximation is None else "ovr"

    def _task_of_chunks(self):
        task_type, settings = super()._task_of_chunks()
        return task_type, {**settings, "multi_class": self.multi_class}
