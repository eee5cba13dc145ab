"""What held-out decision values are worth."""

import math
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer

# How sharply the smooth 0-1 loss falls at margin 0, in units of the mean absolute margin.
SHARPNESS = 2.0


def true_margins(decision, encoded):
    """Return how far each sample is on the right side, and the class it is measured against.

    Parameters
    ----------
    decision : ndarray of shape (n_samples, n_problems)
    encoded : ndarray of shape (n_samples,)

    Returns
    -------
    margin : ndarray of shape (n_samples,)
        ``y f`` for two classes, else the value of the true class minus the largest other.
    rival : ndarray of shape (n_samples,) or None
        The column of that largest other.
    """
    if decision.shape[1] == 1:
        return np.where(encoded == 1, 1.0, -1.0) * decision[:, 0], None
    every = np.arange(encoded.size)
    others = decision.copy()
    others[every, encoded] = -np.inf
    rival = others.argmax(axis=1)
    return decision[every, encoded] - others[every, rival], rival


def smooth_loss(decision, encoded, weight, sharpness=SHARPNESS):
    """Return the mean of ``sigmoid(-sharpness margin / mean|margin|)`` and its derivative.

    It counts errors like the 0-1 loss, but changes smoothly with the decision values and does
    not depend on their scale.

    Parameters
    ----------
    decision : ndarray of shape (n_samples, n_problems)
    encoded : ndarray of shape (n_samples,)
    weight : ndarray of shape (n_samples,)
        Summing to one.
    sharpness : float

    Returns
    -------
    loss : float
    slope : ndarray of shape (n_samples, n_problems)
    """
    margin, rival = true_margins(decision, encoded)
    scale = weight @ np.abs(margin)
    if not scale > 0:
        return 0.5, np.zeros_like(decision)
    relative = margin / scale
    # 1 / (1 + exp(z)) by tanh, which cannot overflow
    share = 0.5 - 0.5 * np.tanh(0.5 * sharpness * relative)
    steepness = weight * share * (1 - share) * (sharpness / scale)
    by_margin = (steepness @ relative) * weight * np.sign(margin) - steepness
    slope = np.zeros_like(decision)
    if rival is None:
        slope[:, 0] = np.where(encoded == 1, by_margin, -by_margin)
    else:
        every = np.arange(encoded.size)
        slope[every, encoded] = by_margin
        slope[every, rival] -= by_margin
    return float(weight @ share), slope


class _Decided(ClassifierMixin, BaseEstimator):
    """A classifier whose decision values are known, for scorers to ask."""

    def __init__(self, classes, decision):
        self.classes_ = classes
        self.decision = decision

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        return self.decision[:, 0] if self.classes_.size == 2 else self.decision

    def predict(self, X):
        return self.classes_[winners(self.decision)]


def winners(decision):
    """Return the encoded class of each row of decision values, the last axis."""
    if decision.shape[-1] == 1:
        return (decision[..., 0] > 0).astype(np.intp)
    return decision.argmax(axis=-1)


def describe(point):
    """Return a grid point in words."""
    return ", ".join(f"{name}={value:g}" for name, value in point.items())


class Score:
    """A number, larger is better, for held-out decision values.

    Parameters
    ----------
    scoring : str, callable or None
        None is "accuracy", "smooth" is one minus the smooth loss; else a scorer of
        scikit-learn that works on decision values or labels.
    training : TrainingSet
    score_params : dict
        What to pass to the scorer; arrays of n_samples are cut to the samples scored.
    """

    def __init__(self, scoring, training, score_params):
        self.name = scoring
        self.training = training
        self.params = score_params
        self._scorer = None if scoring in (None, "smooth", "accuracy") else get_scorer(scoring)

    def of_path(self, decisions, rows, points):
        """Return the scores of several models.

        Parameters
        ----------
        decisions : ndarray of shape (n_points, n_rows, n_problems)
        rows : ndarray of shape (n_rows,)
        points : list of dict
            Their parameters.
        """
        if self.name in (None, "accuracy") and self.training.sample_weight is None:
            return (winners(decisions) == self.training.encoded[rows]).mean(axis=1)
        return [
            self(decision, rows, describe(point))
            for decision, point in zip(decisions, points, strict=True)
        ]

    def __call__(self, decision, rows, where):
        """Return the score of `rows`; `where` says in words which model is scored."""
        training = self.training
        encoded = training.encoded[rows]
        if self._scorer is None:
            weight = training.scoring_weight[rows]
            if not weight.any():
                raise ValueError(f"The samples scored at {where} have zero weight.")
            weight = weight / weight.sum()
            if self.name == "smooth":
                return 1.0 - smooth_loss(decision, encoded, weight)[0]
            right = winners(decision) == encoded
            # The plain mean is what scikit-learn's scorer returns, to the last bit.
            return float(right.mean() if training.sample_weight is None else weight @ right)
        params = {key: np.asarray(value)[rows] for key, value in self.params.items()}
        model = _Decided(training.classes, decision)
        name = getattr(self.name, "__name__", self.name)
        try:
            value = self._scorer(model, rows[:, None], training.classes[encoded], **params)
        except Exception as error:
            raise ValueError(
                f"The scorer {name!r} failed at {where}: {error}. It is given held-out "
                "decision values, so it must need no more than decision_function or predict."
            ) from error
        if not (isinstance(value, Real) and math.isfinite(value)):
            raise ValueError(
                f"The scorer {name!r} returned {value} at {where}: it must return a finite number."
            )
        return float(value)
