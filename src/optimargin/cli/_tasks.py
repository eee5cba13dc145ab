"""What is learnt, classes, numbers or what is normal: estimators, estimates and baselines."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import is_outlier_detector

import optimargin
from optimargin.margins import unwrap
from optimargin.tasks import winning_class

LEAVE_ONE_OUT = "leave-one-out"
SEARCHED = "folds left out in the search"


@dataclass(frozen=True)
class Judgement:
    """How good predictions are.

    Attributes
    ----------
    noun : str
        What is told, such as accuracy.
    text : str
    facts : dict of float
    baseline : dict of float
        The same of always answering alike.
    """

    noun: str
    text: str
    facts: dict
    baseline: dict

    def tell(self, report, of, **facts):
        """Add it to a report as the estimated, training or test accuracy or error."""
        own = {f"{of}_{name}" if of else name: fact for name, fact in self.facts.items()}
        if of in ("estimated", "training"):
            own |= {f"baseline_{name}": fact for name, fact in self.baseline.items()}
        report.add(f"{of} {self.noun}".strip(), self.text, **own, **facts)
        return own


class Task:
    """What the target of a table asks for.

    A task without a target has no scores, baselines and folds.

    Attributes
    ----------
    name : str
    step : str
        What the estimator is called in a pipeline.
    measure, fact : str
        What `score` returns, for people and for programs.
    """

    name: str
    step: str
    measure: str
    fact: str

    def estimator_class(self, machine, *, search=False):
        """Return the class that ``--linear`` and ``--ldm`` name, or its CV form for a search."""
        raise NotImplementedError

    def describe_target(self, y):
        """Return what a target is, as text and as facts."""
        raise NotImplementedError

    def held_out(self, estimator, X, y, folds=None):
        """Return predictions of models without each sample, or without each fold.

        None where the library has no closed form, or where it would take long.
        """

    def judge(self, y, predicted, how=""):
        """Return the `Judgement` of predictions; the text includes `how` they were made."""
        raise self._no_target()

    def judge_score(self, y, score, how):
        """Return the `Judgement` if only the score is known."""
        raise self._no_target()

    def score(self, y, predicted):
        """Return one number, the larger the better."""
        raise self._no_target()

    def baselines(self):
        """Return estimators to compare with, by name; the first ignores the features."""
        raise self._no_target()

    def folds(self, y, n_folds=5):
        """Return a splitter."""
        raise self._no_target()

    def _no_target(self):
        """Return the error of what needs a target."""
        return ValueError(
            f"--task {self.name} has no target to choose by: use optimargin train --task "
            f"{self.name}."
        )


class Classification(Task):
    """Labels."""

    name, step, measure, fact = "classification", "classify", "accuracy", "accuracy"

    def estimator_class(self, machine, *, search=False):
        kind = ("Linear" if machine.linear else "") + ("LDM" if machine.ldm else "ODM")
        return getattr(optimargin, f"{kind}Classifier{'CV' if search else ''}")

    def describe_target(self, y):
        classes = np.unique(y).tolist()
        return counted(len(classes), "class", "classes"), {"classes": classes}

    def held_out(self, estimator, X, y, folds=None):
        values = _held_out(estimator, X, y, folds, "decision_function")
        return None if values is None else self.labels_of(estimator, values)

    @staticmethod
    def labels_of(model, scores):
        """Return the labels that belong to decision values."""
        return model.classes_[winning_class(scores.reshape(len(scores), -1))]

    def judge(self, y, predicted, how=""):
        return self.judge_score(y, self.score(y, predicted), how)

    def judge_score(self, y, score, how):
        most, share = self.majority(y)
        text = f"{score:.4f}{how}, always {str(most)!r}: {share:.4f}"
        return Judgement("accuracy", text, {"accuracy": score}, {"accuracy": share})

    def majority(self, y):
        """Return the most frequent label and its share."""
        labels, counts = np.unique(y, return_counts=True)
        return labels[counts.argmax()], float(counts.max() / len(y))

    def score(self, y, predicted):
        return float(np.mean(predicted == y))

    def baselines(self):
        from sklearn.dummy import DummyClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.svm import SVC

        return {
            "most frequent class": DummyClassifier(),
            "logistic regression": LogisticRegression(max_iter=1000),
            "SVC": SVC(),
        }

    def folds(self, y, n_folds=5):
        from sklearn.model_selection import StratifiedKFold

        most = int(np.unique(y, return_counts=True)[1].max())
        return StratifiedKFold(max(2, min(n_folds, most)), shuffle=True, random_state=0)


class Regression(Task):
    """Measurements."""

    name, step, measure, fact = "regression", "regress", "R²", "r2"

    def estimator_class(self, machine, *, search=False):
        if machine.ldm:
            raise ValueError("--ldm is for classes: there is no such model for --task regression.")
        kind = "Linear" if machine.linear else ""
        return getattr(optimargin, f"{kind}ODMRegressor{'CV' if search else ''}")

    def describe_target(self, y):
        low, high, mean = float(np.min(y)), float(np.max(y)), float(np.mean(y))
        facts = {"target_min": low, "target_max": high, "target_mean": mean}
        return f"a target from {low:.6g} to {high:.6g} (mean {mean:.6g})", facts

    def held_out(self, estimator, X, y, folds=None):
        return _held_out(estimator, X, y, folds, "prediction")

    def judge(self, y, predicted, how=""):
        rmse, r2 = root_mean_square(y - predicted), self.score(y, predicted)
        always = root_mean_square(y - np.mean(y))
        text = f"{rmse:.4g} root mean square{how}, always the mean: {always:.4g}; R² {r2:.4f}"
        return Judgement("error", text, {"rmse": rmse, "r2": r2}, {"rmse": always})

    def judge_score(self, y, score, how):
        return Judgement("R²", f"{score:.4f}{how}, always the mean: 0", {"r2": score}, {})

    def score(self, y, predicted):
        spread = float(np.sum((y - np.mean(y)) ** 2))
        return 1 - float(np.sum((y - predicted) ** 2)) / spread if spread > 0 else 0.0

    def baselines(self):
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

    def folds(self, y, n_folds=5):
        from sklearn.model_selection import KFold

        return KFold(max(2, min(n_folds, len(y))), shuffle=True, random_state=0)


class Novelty(Task):
    """Normal samples; the model detects those that differ. There is no target."""

    name, step, measure, fact = "novelty", "detect", "false alarms", "alarms"

    def estimator_class(self, machine, *, search=False):
        if search:
            raise self._no_target()
        for given, option in (
            (machine.linear, "--linear"),
            (machine.ldm, "--ldm"),
            (machine.class_weight, "--class-weight"),
        ):
            if given:
                raise ValueError(f"{option} has no meaning for --task novelty.")
        return optimargin.OneClassODM

    def describe_target(self, y):
        return "all taken as normal", {}


TASKS: dict[str, Task] = {task.name: task for task in (Classification(), Regression(), Novelty())}


def _held_out(estimator, X, y, folds, values):
    """Return held-out values in closed form, or None; `values` says which methods have them."""
    if not hasattr(estimator, f"loo_{values}") or not estimator._is_left_out_quickly(X):
        return None
    if folds is None:
        return getattr(estimator, f"loo_{values}")(X, y)
    return getattr(estimator, f"kfold_{values}")(folds, X, y)


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


def number_or_range(value, digits=6):
    """Return a number as text, or from where to where the numbers of all features go."""
    if np.ndim(value):
        return f"{min(value):.{digits}g} to {max(value):.{digits}g} (per feature)"
    return f"{value:.{digits}g}"
