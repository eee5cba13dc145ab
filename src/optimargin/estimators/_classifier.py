"""What all classifiers share: classes, weights, predictions; and what some have: probabilities."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from optimargin._checks import looks_like_measurements
from optimargin._ties import exceeds
from optimargin._warnings import warn_user
from optimargin.calibration import CALIBRATIONS, CalibrationMap, calibrate
from optimargin.estimators._base import BaseLearner
from optimargin.estimators._callbacks import with_callbacks
from optimargin.estimators._documentation import described
from optimargin.estimators._words import available_where
from optimargin.tasks import Classification, check_known, one_or_all

CLASS_WEIGHT = [dict, StrOptions({"balanced"}), None]
MULTI_CLASS: dict = {"multi_class": [StrOptions({"auto", "ovr", "ovo"})]}
CALIBRATION: dict = {"calibration": [StrOptions(set(CALIBRATIONS)), None]}


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

    _parameter_constraints: dict = {"class_weight": CLASS_WEIGHT}

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @described(BaseLearner._fit)
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight

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
        if looks_like_measurements(y, max_each=5):
            warn_user(
                f"y has {task.classes.size} different numbers in {len(y)} samples, as measurements "
                "have: use ODMRegressor or LinearODMRegressor unless these are classes."
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
    def _fitted_multi_class(self) -> str:
        return "ovo" if vars(self).get("_pairwise") else "ovr"

    @property
    def _multi_class(self) -> str:
        """How a fit to data in memory will tell several classes apart."""
        return "ovr"

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


class Probabilities(Classifier):
    """A classifier with an output per class or pair of classes, and with probabilities.

    Parameters
    ----------
    multi_class : {"auto", "ovr", "ovo"}, default="auto"
        How more than two classes are told apart. "ovr" fits a function per class, against the
        rest. "ovo" fits one per pair of classes, to their samples alone, with the penalties per
        sample of the whole; pairs vote, and `decision_function` has the votes for each class plus
        less than half a vote for the sum of its values. "auto" is "ovo", which is more accurate
        and faster, and "ovr" for landmarks, chunks and streams. Two classes are the same with all.
    calibration : {"sigmoid", "isotonic", "temperature"} or None, default=None
        How `predict_proba` turns decision values into probabilities; None has none. The map is
        fitted to leave-one-out decision values in closed form (to those of five folds, fitted
        again, past 5000 support vectors or, for linear models, 2000 features). "sigmoid" has a
        slope and a shift, which becomes part of `intercept_`; with more than two classes it is the
        same as "temperature", a slope alone. "isotonic" needs more data.

    Attributes
    ----------
    intercept_ : ndarray of shape (1,), (n_classes,) or (n_pairs,)
        The intercepts.
    calibration_ : dict of ndarray
        The map from decision values to log-odds, with `calibration`: its ``slope``, the ``shift``
        that was added to `intercept_`, and ``knots`` and ``log_odds`` of an isotonic map.
    oob_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Decision values of the training samples for models without them, with `calibration`.
        Identical samples leave together.
    """

    _parameter_constraints: dict = MULTI_CLASS | CALIBRATION

    @property
    def _multi_class(self):
        if self.multi_class != "auto":
            return self.multi_class
        # Landmarks are shared by classes that are asked for all samples.
        return "ovo" if self._options().approximation is None else "ovr"

    def _task_of_chunks(self):
        task_type, settings = super()._task_of_chunks()
        return task_type, {**settings, "multi_class": self.multi_class}

    def _check_chunks_fit(self):
        check_uncalibrated(self, ValueError)
        super()._check_chunks_fit()

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

            settings = self._kernel_choice(), self._options(), fit.solver
            trained = TrainedOn(X, y, weight, task, fit.objective, fit.model, *settings)
            held_out = HeldOutDecision(np.arange(len(y)), held_out_of_fit(trained))
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
