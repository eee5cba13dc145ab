"""What is learnt, classes or numbers: estimators, estimates and baselines of each."""

from abc import ABC, abstractmethod

import numpy as np

import optimargin
from optimargin.tasks import winning_class

LEFT_OUT_UP_TO = 5000  # samples: leaving each of them out costs as much as one more fit
_MANY = 20  # different numbers from which on a target is rather a measurement


class Task(ABC):
    """What the target of a table asks for.

    Attributes
    ----------
    name : str
    step : str
        What the estimator is called in a pipeline.
    """

    name: str
    step: str

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
    def describe_training(self, y, predicted, of):
        """Return how good predictions of the training data are, as (name, text, facts)."""

    @abstractmethod
    def score(self, y, predicted):
        """Return one number, the larger the better."""


class Classification(Task):
    """Labels."""

    name, step = "classification", "classify"

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
        if not hasattr(estimator, "loo_decision_function") or X.shape[0] > LEFT_OUT_UP_TO:
            return None
        return self.labels_of(estimator, estimator.loo_decision_function(X, y))

    @staticmethod
    def labels_of(model, scores):
        """Return the labels that belong to decision values."""
        return model.classes_[winning_class(scores.reshape(len(scores), -1))]

    def describe_estimate(self, y, predicted, how):
        """Return the accuracy, beside that of the most frequent class."""
        accuracy = self.score(y, predicted)
        most, share = self.majority(y)
        return (
            "estimated accuracy",
            f"{accuracy:.4f} ({how}), always {str(most)!r}: {share:.4f}",
            {"estimated_accuracy": accuracy, "estimated_by": how, "baseline_accuracy": share},
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


class Regression(Task):
    """Measurements."""

    name, step = "regression", "regress"

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
        if not hasattr(estimator, "loo_prediction") or X.shape[0] > LEFT_OUT_UP_TO:
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


TASKS: dict[str, Task] = {task.name: task for task in (Classification(), Regression())}


def looks_like_regression(y):
    """Return whether a target is rather a measurement than a label."""
    if y.dtype.kind == "f":
        return True
    return y.dtype.kind == "i" and np.unique(y).size > _MANY


def task_of(estimator):
    """Return the task of a fitted model."""
    return TASKS["classification" if hasattr(estimator, "classes_") else "regression"]


def root_mean_square(errors):
    """Return the root of the mean of squares."""
    return float(np.sqrt(np.mean(np.square(errors))))


def counted(number, one, many):
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many}"
