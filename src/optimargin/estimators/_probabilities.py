"""Probabilities from held-out decision values."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from optimargin._ties import exceeds
from optimargin.calibration import CALIBRATIONS, CalibrationMap, calibrate
from optimargin.estimators._classifier import PairwiseClassifier
from optimargin.estimators._words import available_where
from optimargin.tasks import one_or_all

CALIBRATION: dict = {"calibration": [StrOptions(set(CALIBRATIONS)), None]}


@dataclass(frozen=True)
class HeldOutDecision:
    """Decision values of samples that took no part in the models they are of.

    Attributes
    ----------
    rows : ndarray of shape (n_values,)
        The samples; one may occur several times, or not at all.
    decision : ndarray of shape (n_values, n_outputs)
    """

    rows: np.ndarray
    decision: np.ndarray

    def per_sample(self, n_samples):
        """Return the mean value of each sample, or None where some have none."""
        times = np.bincount(self.rows, minlength=n_samples)
        if not times.all():
            return None
        out = np.zeros((n_samples, self.decision.shape[1]))
        np.add.at(out, self.rows, self.decision)
        return out / times[:, None]


def check_calibrated(estimator):
    """Raise AttributeError, with what to do about it, where there are no probabilities."""
    if estimator.calibration is None:
        raise AttributeError(
            f"{type(estimator).__name__} has no probabilities with calibration=None: set "
            "calibration='sigmoid' before fit."
        )
    return True


def check_uncalibrated(estimator, error=AttributeError):
    """Raise an error for ways of fitting that have no held-out values."""
    if estimator.calibration is not None:
        raise error(
            f"calibration={estimator.calibration!r} needs all data at once, which chunks and "
            "streams are not: set calibration=None, and calibrate on other data, for example with "
            "sklearn.calibration.CalibratedClassifierCV(FrozenEstimator(model))."
        )
    return True


class Probabilities(PairwiseClassifier):
    """A classifier that may fit a map from decision values to probabilities.

    Parameters
    ----------
    calibration : {"sigmoid", "isotonic", "temperature"} or None, default=None
        How `predict_proba` turns decision values into probabilities; None has none. The map is
        fitted to leave-one-out decision values in closed form (to those of five folds, fitted
        again, past 5000 support vectors or, for linear models, 2000 features). "sigmoid" has a
        slope and a shift, which becomes part of `intercept_`; with more than two classes it is the
        same as "temperature", a slope alone. "isotonic" needs more data.

    Attributes
    ----------
    calibration_ : dict of ndarray
        The map from decision values to log-odds, with `calibration`: its ``slope``, the ``shift``
        that was added to `intercept_`, and ``knots`` and ``log_odds`` of an isotonic map.
    oob_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Decision values of the training samples for models without them, with `calibration`.
        Identical samples leave together.
    """

    _parameter_constraints: dict = {**PairwiseClassifier._parameter_constraints, **CALIBRATION}

    def _further_attributes(self, X, y, weight, task, fit, held_out, score):
        """Return the map, the shifted intercept and the values they come from."""
        if self.calibration is None:
            return {}
        if self.calibration == "isotonic" and not self.fit_intercept and task.n_outputs == 1:
            raise ValueError(
                "calibration='isotonic' needs fit_intercept=True: where its probabilities cross "
                "one half becomes part of the intercept. Without an intercept use 'temperature'."
            )
        if held_out is None:
            from optimargin.held_out.of_fit import TrainedOn, held_out_of_fit  # slow to import

            values = held_out_of_fit(
                TrainedOn(
                    X,
                    y,
                    weight,
                    task,
                    fit.objective,
                    fit.model,
                    self._kernel_choice(),
                    self._options(),
                    fit.solver,
                )
            )
            held_out = HeldOutDecision(np.arange(len(y)), values)
        held_out = HeldOutDecision(held_out.rows, task.combine(held_out.decision))
        encoded = task.strata(y)
        counted = task.factor[encoded] if weight is None else task.factor[encoded] * weight
        times = np.bincount(held_out.rows, minlength=len(y))
        values = held_out.decision
        known = values, encoded[held_out.rows], (counted / np.maximum(times, 1))[held_out.rows]
        made = calibrate(self.calibration, *known, shiftable=self.fit_intercept)
        if score is not None and made.shift.any():
            # One half is where errors are fewest, which is not what every score asks for.
            kept, moved = (score(held_out.rows, each) for each in (values, values + made.shift))
            if exceeds(kept, moved):
                made = calibrate("temperature", *known, shiftable=False)
        dtype = fit.model.intercept.dtype
        found: dict[str, Any] = {"calibration_": made.attributes()}
        if not task.is_pairwise:  # votes have no intercept, and several classes no shift
            found["intercept_"] = (fit.model.intercept + made.shift).astype(dtype)
        values = held_out.per_sample(len(y))
        if values is not None:
            found["oob_decision_function_"] = one_or_all(values + made.shift)
        return found

    def _shift(self):
        if "calibration_" not in vars(self) or self._task().is_pairwise:
            return super()._shift()
        return self.calibration_["shift"]

    @available_where(check_calibrated)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes; only with `calibration`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`. The most probable class is the one that `predict` returns.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from optimargin import ODMClassifier
        >>> X, y = make_moons(200, noise=0.2, random_state=0)
        >>> model = ODMClassifier(calibration="sigmoid").fit(X, y)
        >>> model.predict_proba(X[:3]).shape
        (3, 2)
        >>> bool((model.predict_proba(X).argmax(axis=1) == model.predict(X)).all())
        True
        """
        check_is_fitted(self)
        if "calibration_" not in vars(self):
            raise ValueError(
                f"The model was fitted without calibration={self.calibration!r}: fit it again."
            )
        return CalibrationMap(**self.calibration_).probabilities(self._told(self._scores(X)))

    @available_where(check_calibrated)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the probabilities of the classes; only with `calibration`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
