"""What all classifiers share: classes, weights, predictions."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from optimargin._checks import check_columns, check_weights
from optimargin.designs import canonical
from optimargin.estimators._base import BaseLearner
from optimargin.estimators._callbacks import FitTasks, with_callbacks
from optimargin.estimators._words import explained, notify_user, warn_if_short
from optimargin.tasks import Classification, check_known
from optimargin.training import rebuild, train

CLASS_WEIGHT = [dict, StrOptions({"balanced"}), None]


class Classifier(ClassifierMixin, BaseLearner):
    """Labels become targets, scores become labels; what is between is `train`."""

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
        given = (X, y, sample_weight)
        X, y, about = self._validated_training(X, y, ensure_all_finite=False)
        check_classification_targets(y)
        weight = check_weights(sample_weight, X)
        task = Classification.from_labels(y, weight, self.class_weight)
        with FitTasks(self, task.n_outputs) as progress, explained():
            fit = train(
                X,
                task.encode(y, weight),
                self._objective(),
                total_weight=task.total,
                kernel=self._kernel_choice(),
                options=self._options(),
                start=self._start(task.n_outputs, X.shape[1]),
                held_out_error=task.held_out_error,
                progress=progress,
                notify=notify_user,
                asked_by=type(self).__name__,
            )
        self._store({**about, **task.attributes(), **fit.attributes(), "_training_data": given})
        warn_if_short(self, fit)
        return self

    def _start(self, n_outputs, n_features):
        """Return the model where the fit begins, or None."""
        return

    def _fit_chunks(self, chunks):
        """Fit to chunks and store what was found."""
        from optimargin.training.chunks import train_chunks  # the command starts without it

        with FitTasks(self, None) as progress, explained():
            found = train_chunks(
                chunks,
                Classification,
                {"class_weight": self.class_weight},
                self._objective(),
                kernel=self._kernel_choice(),
                options=self._options(),
                progress=progress,
            )
        about: dict[str, Any] = {"n_features_in_": found.n_features}
        if chunks.feature_names is not None:
            about["feature_names_in_"] = np.asarray(chunks.feature_names, dtype=object)
        self._store({**about, **found.task.attributes(), **found.fit.attributes()})
        warn_if_short(self, found.fit)
        return self

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
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _task(self):
        """Return the task of a fitted classifier, as far as it is about labels."""
        return Classification(self.classes_, np.ones(self.classes_.size), 1.0)

    def _training_arguments(self, X, y, sample_weight):
        """Return the training data given, or those that `fit` remembers."""
        check_is_fitted(self)
        if X is None:
            if not hasattr(self, "_training_data"):
                raise ValueError(
                    "This estimator was loaded without its training data: pass X, y and, if it "
                    "was fitted with one, sample_weight."
                )
            X, y, sample_weight = self._training_data
        elif y is None:
            raise ValueError("X was given without y: pass the labels of the training data.")
        return X, np.asarray(y), sample_weight

    def _rebuilt(self, X, y, sample_weight):
        """Return the problems that the model was trained on, given its training data."""
        X, y = validate_data(self, X, y, reset=False, **self._input_checks())
        check_known(
            self.classes_,
            y,
            "y has labels the model was not fitted with: pass the training data.",
        )
        X = check_columns(canonical(X))
        weight = check_weights(sample_weight, X)
        task = Classification.from_labels(y, weight, self.class_weight, self.classes_)
        with explained():
            return rebuild(
                X,
                task.encode(y, weight),
                self._objective(),
                total_weight=task.total,
                kernel=self._kernel_choice(),
                options=self._options(),
                model=self._model,
                solved_by=getattr(self, "solver_", "svrg"),
            )
