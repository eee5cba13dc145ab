"""What is learnt, classes, numbers or what is normal: estimators, estimates and baselines."""

from abc import ABC, abstractmethod

import numpy as np
from sklearn.base import is_outlier_detector

import optimargin
from optimargin.io._dataset import looks_like_measurements
from optimargin.margins import unwrap
from optimargin.tasks import winning_class

LEFT_OUT_UP_TO = 5000
"""Samples, or features of a linear model: up to here, leaving out costs about one more fit."""
LEAVE_ONE_OUT = "leave-one-out"
SEARCHED = "folds left out in the search"
N_FOLDS = 5  # of baselines


class Task(ABC):
    """What the target of a table asks for.

    Attributes
    ----------
    name : str
    step : str
        What the estimator is called in a pipeline.
    measure : str
        What `score` returns.
    """

    name: str
    step: str
    measure: str

    @abstractmethod
    def estimator_class(self, machine, *, search=False):
        """Return the class that ``--linear`` and ``--ldm`` name, or its CV form for a search."""

    @abstractmethod
    def describe_target(self, y):
        """Return what a target is, as text and as facts."""

    @abstractmethod
    def leave_one_out(self, estimator, X, y):
        """Return predictions of models without each sample, or None if they would take long."""

    @abstractmethod
    def describe_estimate(self, y, predicted, how):
        """Return how good held-out predictions are, as (name, text, facts)."""

    @abstractmethod
    def describe_score(self, y, score, how):
        """Return a score that is known without predictions, as (name, text, facts)."""

    @abstractmethod
    def describe_training(self, y, predicted, of):
        """Return how good predictions of the training data are, as (name, text, facts)."""

    @abstractmethod
    def score(self, y, predicted):
        """Return one number, the larger the better."""

    @abstractmethod
    def baselines(self):
        """Return estimators to compare with, by name; the first looks at no feature."""

    @abstractmethod
    def folds(self, y):
        """Return a splitter."""

    def sample(self, y, size):
        """Return some of the rows, in order."""
        return np.sort(np.random.default_rng(0).permutation(len(y))[:size])


class Classification(Task):
    """Labels."""

    name, step, measure = "classification", "classify", "accuracy"

    def estimator_class(self, machine, *, search=False):
        """Return a classifier."""
        kind = ("Linear" if machine.linear else "") + ("LDM" if machine.ldm else "ODM")
        return getattr(optimargin, f"{kind}Classifier{'CV' if search else ''}")

    def describe_target(self, y):
        """Return the number of classes, and the classes."""
        classes = np.unique(y).tolist()
        return counted(len(classes), "class", "classes"), {"classes": classes}

    def leave_one_out(self, estimator, X, y):
        """Return labels in closed form."""
        if not hasattr(estimator, "loo_decision_function") or not _is_quick(estimator, X):
            return None
        return self.labels_of(estimator, estimator.loo_decision_function(X, y))

    @staticmethod
    def labels_of(model, scores):
        """Return the labels that belong to decision values."""
        return model.classes_[winning_class(scores.reshape(len(scores), -1))]

    def describe_estimate(self, y, predicted, how):
        """Return the accuracy, beside that of the most frequent class."""
        return self.describe_score(y, self.score(y, predicted), how)

    def describe_score(self, y, score, how):
        """Return the accuracy, beside that of the most frequent class."""
        most, share = self.majority(y)
        return (
            "estimated accuracy",
            f"{score:.4f} ({how}), always {str(most)!r}: {share:.4f}",
            {
                "estimated_accuracy": score,
                "estimated_by": how,
                "baseline_accuracy": share,
                "loo_error": 1 - score if how == LEAVE_ONE_OUT else None,
            },
        )

    def describe_training(self, y, predicted, of):
        """Return the accuracy, beside that of the most frequent class."""
        accuracy = self.score(y, predicted)
        most, share = self.majority(y)
        return (
            "training accuracy",
            f"{accuracy:.4f} on {of}, always {str(most)!r}: {share:.4f}",
            {"training_accuracy": accuracy, "baseline_accuracy": share},
        )

    def majority(self, y):
        """Return the most frequent label and its share."""
        labels, counts = np.unique(y, return_counts=True)
        return labels[counts.argmax()], float(counts.max() / len(y))

    def score(self, y, predicted):
        """Return the accuracy."""
        return float(np.mean(predicted == y))

    def baselines(self):
        """Return the majority, a logistic regression and an SVM."""
        from sklearn.dummy import DummyClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.svm import SVC

        return {
            "most frequent class": DummyClassifier(),
            "logistic regression": LogisticRegression(max_iter=1000),
            "SVC": SVC(),
        }

    def sample(self, y, size):
        """Return some of the rows, in order, with at least two of each class."""
        order = np.random.default_rng(0).permutation(len(y))
        some = [order[y[order] == label][:2] for label in np.unique(y)]
        return np.unique(np.concatenate([order[:size], *some]))

    def folds(self, y):
        """Return folds with each class in each of them, as far as that is possible."""
        from sklearn.model_selection import StratifiedKFold

        most = int(np.unique(y, return_counts=True)[1].max())
        return StratifiedKFold(max(2, min(N_FOLDS, most)), shuffle=True, random_state=0)


class Regression(Task):
    """Measurements."""

    name, step, measure = "regression", "regress", "R²"

    def estimator_class(self, machine, *, search=False):
        """Return a regressor."""
        if machine.ldm:
            raise ValueError("--ldm is for classes: there is no such model for --task regression.")
        kind = "Linear" if machine.linear else ""
        name = f"{kind}ODMRegressor{'CV' if search else ''}"
        if name not in optimargin.__all__:
            raise ValueError("this version has no models for --task regression yet.")
        return getattr(optimargin, name)

    def describe_target(self, y):
        """Return the range."""
        low, high, mean = float(np.min(y)), float(np.max(y)), float(np.mean(y))
        facts = {"target_min": low, "target_max": high, "target_mean": mean}
        return f"a target from {low:.6g} to {high:.6g} (mean {mean:.6g})", facts

    def leave_one_out(self, estimator, X, y):
        """Return numbers in closed form."""
        if not hasattr(estimator, "loo_prediction") or not _is_quick(estimator, X):
            return None
        return estimator.loo_prediction(X, y)

    def describe_estimate(self, y, predicted, how):
        """Return the root mean squared error, beside that of the mean, and R²."""
        rmse, r2 = root_mean_square(y - predicted), self.score(y, predicted)
        always = root_mean_square(y - np.mean(y))
        return (
            "estimated error",
            f"{rmse:.4g} root mean square ({how}), always the mean: {always:.4g}; R² {r2:.4f}",
            {
                "estimated_rmse": rmse,
                "estimated_r2": r2,
                "estimated_by": how,
                "baseline_rmse": always,
            },
        )

    def describe_score(self, y, score, how):
        """Return R²."""
        facts = {"estimated_r2": score, "estimated_by": how}
        return "estimated R²", f"{score:.4f} ({how}), always the mean: 0", facts

    def describe_training(self, y, predicted, of):
        """Return the root mean squared error, beside that of the mean, and R²."""
        rmse, r2 = root_mean_square(y - predicted), self.score(y, predicted)
        always = root_mean_square(y - np.mean(y))
        return (
            "training error",
            f"{rmse:.4g} root mean square on {of}, always the mean: {always:.4g}; R² {r2:.4f}",
            {"training_rmse": rmse, "training_r2": r2, "baseline_rmse": always},
        )

    def score(self, y, predicted):
        """Return R²."""
        spread = float(np.sum((y - np.mean(y)) ** 2))
        return 1 - float(np.sum((y - predicted) ** 2)) / spread if spread > 0 else 0.0

    def baselines(self):
        """Return the mean, a ridge regression and an SVM."""
        from sklearn.compose import TransformedTargetRegressor
        from sklearn.dummy import DummyRegressor
        from sklearn.linear_model import RidgeCV
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVR

        return {
            "mean": DummyRegressor(),
            "ridge regression": RidgeCV(np.logspace(-3, 3, 13)),
            "SVR": TransformedTargetRegressor(SVR(), transformer=StandardScaler()),
        }

    def folds(self, y):
        """Return folds."""
        from sklearn.model_selection import KFold

        return KFold(max(2, min(N_FOLDS, len(y))), shuffle=True, random_state=0)


class Novelty(Task):
    """Normal samples, which others are told from; there is no target."""

    name, step, measure = "novelty", "detect", "false alarms"

    def estimator_class(self, machine, *, search=False):
        """Return the detector."""
        if search:
            raise ValueError(
                "--task novelty has nothing to choose by: use optimargin train --task novelty."
            )
        for given, option in (
            (machine.linear, "--linear"),
            (machine.ldm, "--ldm"),
            (machine.class_weight, "--class-weight"),
        ):
            if given:
                raise ValueError(f"{option} has no meaning for --task novelty.")
        return optimargin.OneClassODM

    def describe_target(self, y):
        """Return that there is none."""
        return "all taken as normal", {}

    def leave_one_out(self, estimator, X, y):
        """Return None: what is known of new samples is the false-alarm rate."""
        return

    def describe_training(self, y, predicted, of):
        """Return how many training samples are below the threshold."""
        alarms = int(np.sum(predicted == -1))
        text = f"{alarms} of {predicted.size} ({of}), which the model has seen"
        return "below it", text, {"training_alarms": alarms / predicted.size}

    def _no_target(self, *args):
        raise ValueError("--task novelty has no target to compare with: use optimargin train.")

    describe_estimate = describe_score = score = folds = _no_target

    def baselines(self):
        """Return none."""
        return {}


TASKS: dict[str, Task] = {task.name: task for task in (Classification(), Regression(), Novelty())}


def _is_quick(estimator, X):
    """Return whether leaving out every sample costs about one more fit."""
    n_columns = X.shape[0]
    if type(estimator).__name__.startswith("Linear"):
        n_columns = X.shape[1]
    elif getattr(estimator, "approximation", None) is not None:
        n_columns = estimator.support_vectors_.shape[0]  # landmarks
    return min(n_columns, X.shape[0]) <= LEFT_OUT_UP_TO


def looks_like_regression(y):
    """Return whether a target looks like measurements, not labels."""
    return y.dtype.kind in "if" and looks_like_measurements(y)


def task_of(estimator):
    """Return the task of a fitted model."""
    if hasattr(estimator, "classes_"):
        return TASKS["classification"]
    if not is_outlier_detector(unwrap(estimator)):
        return TASKS["regression"]
    if not hasattr(estimator, "predict"):
        raise ValueError(
            "This model judges the samples that it was fitted to alone: fit one with novelty=True."
        )
    return TASKS["novelty"]


def root_mean_square(errors):
    """Return the root of the mean of squares."""
    return float(np.sqrt(np.mean(np.square(errors))))


def counted(number, one, many):
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many}"
