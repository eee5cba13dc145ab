"""From held-out decision values to probabilities.

A map turns a decision value f into log-odds z(f), which increase with f. With two classes the
probability of the second one is ``1 / (1 + exp(-z(f)))``. With several, each has a decision value,
and the same z for all of them keeps their order, so that the class that wins is the most probable.

    sigmoid      z = a f + b (Platt). With several classes there is no b: it is the temperature.
    temperature  z = a f; with several classes the probabilities are softmax(a f).
    isotonic     z is piecewise linear through the steps of an isotonic regression, which are
                 drawn to those of the sigmoid as if by two more samples each, and placed at the
                 centre of what they are made of; beyond the last steps it has the slope of the
                 sigmoid. Several classes share one z and are normalised.

``f`` is positive where the second class wins, so z must vanish at f = 0: where a map has its zero
elsewhere, the *shift* says what to add to f, and the model keeps it in its intercept. Slopes
are positive whatever the held-out values say: at chance level these are correlated with the wrong
class, and a negative slope would invert the model.

References
----------
J. Platt, "Probabilistic outputs for support vector machines", 1999; H.-T. Lin, C.-J. Lin and
R. C. Weng, "A note on Platt's probabilistic outputs for support vector machines", 2007;
C. Guo et al., "On calibration of modern neural networks", 2017; A. P. Oron and N. Flournoy,
"Centered isotonic regression", 2017.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import expit, log_expit, logit, logsumexp, softmax

_SMALLEST_SLOPE = 1e-2  # per mean absolute decision value
_STEP_SAMPLES = 2.0  # by which a step of the isotonic regression is drawn to the sigmoid
_MAX_STEPS = 100
_ROUNDING = (
    1e-12  # what only rounding makes: slopes per sample, steps, differences of probabilities
)
_NONE = np.empty(0)


@dataclass(frozen=True)
class CalibrationMap:
    """Log-odds as an increasing, piecewise linear function of decision values.

    Attributes
    ----------
    slope : float
        Positive: of the whole function where there are no knots, else beyond the knots.
    shift : ndarray of shape (n_outputs,)
        What was added to the decision values that the model had before.
    knots, log_odds : ndarray of shape (n_knots,)
        Both increasing; empty for a straight line through zero.
    """

    slope: float
    shift: np.ndarray
    knots: np.ndarray = field(default_factory=lambda: _NONE)
    log_odds: np.ndarray = field(default_factory=lambda: _NONE)

    def attributes(self) -> dict[str, np.ndarray]:
        """Return the numbers of the map, as a model keeps them."""
        return {name: np.asarray(values) for name, values in vars(self).items()}

    def odds(self, decision):
        """Return the log-odds of decision values of any shape."""
        if self.knots.size == 0:
            return self.slope * decision
        beyond = decision - np.clip(decision, self.knots[0], self.knots[-1])
        return np.interp(decision, self.knots, self.log_odds) + self.slope * beyond

    def probabilities(self, decision):
        """Return the probabilities of all classes.

        Parameters
        ----------
        decision : ndarray of shape (n_samples, n_outputs)
            With the shift.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Each row sums to one, and its largest value is that of the class that wins.
        """
        z = self.odds(decision.astype(np.float64, copy=False))
        if z.shape[1] == 1:
            wins = decision[:, 0] > 0
            second = expit(z[:, 0])
            # Rounding must not let the other class win.
            second = np.where(wins, np.maximum(second, np.nextafter(0.5, 1)), second)
            return np.column_stack([expit(-z[:, 0]) * ~wins + (1 - second) * wins, second])
        if self.knots.size == 0:
            out = softmax(z, axis=1)
        else:
            values = log_expit(z)
            out = np.exp(values - logsumexp(values, axis=1, keepdims=True))
        winner = decision.argmax(axis=1)
        rows = np.flatnonzero(out.argmax(axis=1) != winner)
        out[rows, winner[rows]] = np.nextafter(out[rows].max(axis=1), 2)
        return out


def calibrate(kind, decision, encoded, weight, *, shiftable):
    """Return the map of a kind, fitted to held-out decision values.

    Parameters
    ----------
    kind : {"sigmoid", "isotonic", "temperature"}
    decision : ndarray of shape (n_samples, n_outputs)
        Decision values of samples that took no part in the models they are of.
    encoded : ndarray of shape (n_samples,)
        Classes, as integers from 0.
    weight : ndarray of shape (n_samples,)
        A weight of two is the same as repeating the sample.
    shiftable : bool
        Whether the model has an intercept, which a shift can be added to.

    Returns
    -------
    map : CalibrationMap
    """
    used = weight > 0
    decision, encoded, weight = decision[used], encoded[used], weight[used]
    if np.all(encoded == encoded[:1]):
        kind = "temperature"  # one class alone does not say where the other begins
    return CALIBRATIONS[kind](decision.astype(np.float64), encoded, weight, shiftable)


def _sigmoid(decision, encoded, weight, shiftable):
    if decision.shape[1] > 1 or not shiftable:
        return _temperature(decision, encoded, weight, shiftable)
    slope, offset = _platt(decision[:, 0], encoded == 1, weight)
    return CalibrationMap(slope, np.array([offset / slope]))


def _temperature(decision, encoded, weight, shiftable):
    n_outputs = decision.shape[1]
    if n_outputs == 1:
        slope, _ = _platt(decision[:, 0], encoded == 1, weight, with_offset=False)
    else:
        slope = _softmax_slope(decision, encoded, weight)
    return CalibrationMap(slope, np.zeros(n_outputs))


def _isotonic(decision, encoded, weight, shiftable):
    n_outputs = decision.shape[1]
    if n_outputs == 1:
        knots, log_odds, slope = _steps(decision[:, 0], encoded == 1, weight)
        made = CalibrationMap(slope, np.zeros(1), knots, log_odds)
        zero = _zero(made)
        return replace(made, shift=np.array([-zero]), knots=knots - zero)
    is_own = encoded[:, None] == np.arange(n_outputs)
    pooled = np.repeat(weight, n_outputs)
    knots, log_odds, slope = _steps(decision.ravel(), is_own.ravel(), pooled)
    return CalibrationMap(slope, np.zeros(n_outputs), knots, log_odds)


CALIBRATIONS = {"sigmoid": _sigmoid, "isotonic": _isotonic, "temperature": _temperature}


def _unit(decision, weight):
    """Return the mean absolute decision value, or one where all of them vanish."""
    return float(weight @ np.abs(decision) / weight.sum()) or 1.0


def _platt(decision, positive, weight, *, with_offset=True):
    """Return the slope and the offset of a sigmoid.

    Targets are drawn to one half as if each class had one more sample of the other: the sigmoid
    is finite for separable classes.
    """
    n_positive, n_negative = weight @ positive, weight @ ~positive
    high, low = (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2)
    target = np.where(positive, high, low)
    unit = _unit(decision, weight)
    f, ones = decision / unit, np.ones(decision.size)
    columns = np.column_stack([f, ones]) if with_offset else f[:, None]
    slope, *offset = _logistic(columns, 0.0, target, weight)
    if slope < _SMALLEST_SLOPE:
        # The loss is convex: the best slope that is allowed is the smallest one.
        slope = _SMALLEST_SLOPE
        offset = _logistic(ones[:, None], slope * f, target, weight) if with_offset else []
    return slope / unit, offset[0] if with_offset else 0.0


def _logistic(columns, known, target, weight):
    """Return the coefficients of a logistic regression on targets between zero and one.

    Parameters
    ----------
    columns : ndarray of shape (n_samples, n_coef)
    known : float or ndarray of shape (n_samples,)
        Added to the log-odds.
    target, weight : ndarray of shape (n_samples,)
    """

    def loss(v):
        z = columns @ v + known
        value = -(weight * (target * log_expit(z) + (1 - target) * log_expit(-z))).sum()
        return value, columns.T @ (weight * (expit(z) - target))

    def curvature(v):
        p = expit(columns @ v + known)
        return columns.T @ ((weight * p * (1 - p))[:, None] * columns)

    return _minimised(loss, curvature, np.zeros(columns.shape[1]), weight.sum())


def _softmax_slope(decision, encoded, weight):
    """Return the slope of a softmax, with targets as if one sample in all were of other classes."""
    n_samples, n_classes = decision.shape
    unit = _unit(decision.ravel(), np.repeat(weight, n_classes))
    f = decision / unit
    other = 1 / ((weight.sum() + 2) * (n_classes - 1))
    target = np.full(f.shape, other)
    target[np.arange(n_samples), encoded] = 1 - other * (n_classes - 1)
    aim = (target * f).sum(axis=1)

    def loss(v):
        z = v[0] * f
        p = softmax(z, axis=1)
        value = weight @ (logsumexp(z, axis=1) - v[0] * aim)
        return value, np.array([weight @ ((p * f).sum(axis=1) - aim)])

    def curvature(v):
        p = softmax(v[0] * f, axis=1)
        mean = (p * f).sum(axis=1)
        return np.array([[weight @ ((p * f**2).sum(axis=1) - mean**2)]])

    (slope,) = _minimised(loss, curvature, np.array([2.0]), weight.sum())
    return max(slope, _SMALLEST_SLOPE) / unit


def _minimised(loss, curvature, start, size):
    """Return the minimum of a smooth convex function that is a sum over `size` samples."""
    # Near the minimum the loss changes by less than its rounding error.
    rounding = 8 * np.finfo(np.float64).eps
    point = start
    value, slope = loss(point)
    for _ in range(_MAX_STEPS):
        if np.abs(slope).max() <= _ROUNDING * size:
            break
        H = curvature(point)
        step = np.linalg.solve(H + 1e-12 * np.trace(H) * np.eye(point.size), -slope)
        length = 1.0
        while length > _ROUNDING:
            new_value, new_slope = loss(point + length * step)
            if new_value <= value + 1e-4 * length * (slope @ step) + rounding * abs(value):
                break
            length /= 2
        else:
            break  # rounding errors are all that is left
        point = point + length * step
        value, slope = new_value, new_slope
    return point


def _steps(decision, positive, weight):
    """Return the knots of an isotonic map and the slope beyond them."""
    from sklearn.isotonic import IsotonicRegression  # slow to import

    slope, offset = _platt(decision, positive, weight)
    fitted = (
        IsotonicRegression(out_of_bounds="clip")
        .fit(decision, positive, sample_weight=weight)
        .predict(decision)
    )
    x, p, w = _centres(decision, fitted, weight)
    drawn = (w * p + _STEP_SAMPLES * expit(slope * x + offset)) / (w + _STEP_SAMPLES)
    drawn = (
        IsotonicRegression(out_of_bounds="clip")
        .fit(x, drawn, sample_weight=w + _STEP_SAMPLES)
        .predict(x)
    )
    x, p, _ = _centres(x, drawn, w)
    return x, logit(p), slope


def _centres(x, values, weight):
    """Return centres, values and weights of the steps of an increasing function."""
    order = np.argsort(values, kind="stable")
    x, values, weight = x[order], values[order], weight[order]
    step = np.concatenate([[0], np.cumsum(np.diff(values) > _ROUNDING)])
    total = np.bincount(step, weight)
    return np.bincount(step, weight * x) / total, np.bincount(step, weight * values) / total, total


def _zero(made):
    """Return the decision value whose log-odds vanish."""
    x, z = made.knots, made.log_odds
    if z[0] > 0:
        return x[0] - z[0] / made.slope
    if z[-1] < 0:
        return x[-1] - z[-1] / made.slope
    return float(np.interp(0.0, z, x))
