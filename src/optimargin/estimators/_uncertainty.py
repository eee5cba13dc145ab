"""Prediction intervals and prediction sets, from all models without one training sample each."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions, validate_params
from sklearn.utils.validation import check_is_fitted

from optimargin._checks import check_weights
from optimargin.conformal import check_levels, conforming, conformities, intervals
from optimargin.designs import canonical
from optimargin.estimators._documentation import described
from optimargin.estimators._held_out import HeldOutDecisions, HeldOutPredictions, HeldOutValues
from optimargin.estimators._words import explained
from optimargin.tasks import as_numbers
from optimargin.training import KernelModel

_BLOCK_ELEMENTS = 1 << 22  # 32 MB of float64 for what all models say about some new samples


class Uncertainty(HeldOutValues):
    """A model that knows the models without each of its training samples."""

    def _further_attributes(self, X, y, weight, task, fit, held_out, score):
        """Return what has to be known of the training samples besides the support vectors.

        That is for kernels alone: other models do not hold the samples that models without them
        follow from.
        """
        further = super()._further_attributes(X, y, weight, task, fit, held_out, score)
        model = fit.model
        if not isinstance(model, KernelModel) or self._options().approximation is not None:
            return further
        if model.kernel.is_precomputed or not model.kernel.is_positive_semidefinite:
            return further
        rows = np.arange(len(y)) if weight is None else np.flatnonzero(weight)
        kept = {
            "rows": rows,
            "y": self._kept_y(task, np.asarray(y)[rows]),
            "weight": np.ones(rows.size) if weight is None else weight[rows],
        }
        if fit.decision is not None:
            kept["decision"] = np.asarray(fit.decision, dtype=np.float64)
        return {**further, "_kept": kept}

    def _kept_with_decision(self):
        """Return what was kept, with decision values.

        Solvers of pairs of classes see the samples of two classes alone: the values of the others
        are predicted.
        """
        if "decision" not in self._kept:
            decision = self._minimum.scores(self._checked_training(None)[0][self._kept["rows"]])
            self._kept["decision"] = np.asarray(decision, dtype=np.float64)
        return self._kept

    def __getstate__(self):
        # Without the training data, which a saved model does not carry, it is too late.
        if hasattr(self, "_kept"):
            self._kept_with_decision()
        return super().__getstate__()

    def _kept_y(self, task, y):
        return as_numbers(y)

    def _y_of_kept(self):
        y = self._kept["y"]
        return y[:, 0] if y.shape[1] == 1 else y

    def _trained_on(self, X, y, weight):
        """Return what the models without each sample follow from."""
        from optimargin.held_out.of_fit import TrainedOn  # slow to import

        objective: Any = self._objective()
        return TrainedOn(
            X,
            y,
            weight,
            self._make_known_task(y, weight, X.dtype),
            replace(objective, C1=self.C1_, C2=self.C2_),
            self._minimum,
            self._kernel_choice(),
            self._options(),
            getattr(self, "solver_", "newton"),
        )

    def _left_out_models(self, training_data, *, exact):
        """Return the models without each sample, from support vectors or from training data."""
        check_is_fitted(self)
        models = None
        if training_data is None and not exact and hasattr(self, "_kept"):
            models = self._models_of_vectors()
        if models is None:
            from optimargin.held_out.of_fit import left_out_models  # slow to import

            trained = self._trained_on(*self._checked_training(training_data))
            if exact and trained.n_folds is not None:
                raise ValueError(
                    f"exact=True would fit {len(trained.y)} models of so many samples: use "
                    "exact=False."
                )
            with explained():
                models = left_out_models(trained)
        return replace(models, own=models.own + self._shift())

    def _models_of_vectors(self):
        """Return the models without each sample where support vectors suffice, else None."""
        from optimargin.held_out.of_fit import left_out_models  # slow to import

        kept = self._kept
        y, weight = self._y_of_kept(), kept["weight"]
        places = np.searchsorted(kept["rows"], self.support_)
        trained = replace(
            self._trained_on(self.support_vectors_, y, weight),
            y=y[places],
            weight=weight[places],
            model=replace(self._minimum, support=np.arange(places.size)),
        )
        if trained.n_folds is not None:
            return None
        with explained():
            models = left_out_models(trained)
        others = np.delete(np.arange(weight.size), places)
        return replace(
            models,
            own=np.concatenate([models.own, self._kept_with_decision()["decision"][others]]),
            y=np.concatenate([models.y, y[others]]),
            weight=np.concatenate([models.weight, weight[others]]),
        )

    def _checked_training(self, training_data):
        """Return validated training data: those given, or those that `fit` remembers."""
        is_given = training_data is not None
        if not is_given:
            if not hasattr(self, "_training_data"):
                raise ValueError(
                    "This estimator was loaded without its training data, which the models without "
                    "each sample follow from: pass training_data=(X, y) or (X, y, sample_weight)."
                )
            training_data = self._training_data
        if not isinstance(training_data, tuple | list) or len(training_data) not in (2, 3):
            raise ValueError(
                "training_data must be a tuple (X, y) or (X, y, sample_weight) of what was fitted."
            )
        X, y, *rest = training_data
        weight = rest[0] if rest else None
        if is_given:
            self._rebuilt_solutions(X, y, weight)  # raises where the model has another objective
        X, y = self._validated(self, X, y, reset=False)
        X = canonical(X)
        return X, y, check_weights(weight, X)

    def _answers(self, X, training_data, exact, needs_models):
        """Return the models without each sample, and what they say about new samples.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features)
        exact : bool, default=False
            Follow the samples that enter or leave the active set when another one is left out, so
            that all models are those of refits. It needs the training data, and changes nothing
            for regressors with ``epsilon=0`` and ``C1 = C2``.
        training_data : tuple of (X, y) or (X, y, sample_weight), default=None
            A fitted estimator remembers its training data until it is pickled. After that a kernel
            model makes do with its support vectors; other forms (linear, landmarks, precomputed
            or indefinite kernels), and ``exact=True``, need them again.
        needs_models : bool
            Whether values of new samples are needed; they are None otherwise.

        Returns
        -------
        models : LeftOutModels
        scores : ndarray of shape (n_new, n_outputs)
        blocks : iterator of (slice, values, own)
            For blocks of new samples.
        """
        scores, shift = np.asarray(self._scores(X), dtype=np.float64), self._shift()
        X = self._checked_rows(X)
        models = self._left_out_models(training_data, exact=exact)

        def blocks():
            n_block = max(_BLOCK_ELEMENTS // max(models.own.size, 1), 1)
            if exact:  # every block would solve all problems again
                n_block = max(X.shape[0], 1)
            for first in range(0, X.shape[0], n_block):
                part = slice(first, first + n_block)
                values, own = None, models.own
                if exact:
                    values, own = (each + shift for each in models.exactly(X[part]))
                elif needs_models:
                    values = models.values(X[part], scores[part] - shift) + shift
                yield part, values, own

        return models, scores, blocks()


_CHECKS: dict = {"exact": ["boolean"], "method": [StrOptions({"plus", "minmax", "base"})]}


class PredictionIntervals(HeldOutPredictions, Uncertainty):
    """A regressor with prediction intervals."""

    @validate_params(_CHECKS, prefer_skip_nested_validation=True)
    @described(Uncertainty._answers)
    def predict_interval(
        self,
        X,
        confidence_level=0.9,
        *,
        method="plus",
        exact=False,
        training_data=None,
    ):
        """Predict intervals that hold the target with a given confidence.

        By the jackknife+: all models without one training sample each follow in closed form from
        one factor of the fit. Past 5000 support vectors (2000 features of a linear model), by CV+
        over five folds, which are fitted again.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float or array-like of shape (n_levels,), default=0.9
            Between 0 and 1. A level that the number of training samples is too small for has
            infinite ends: ``n_samples >= level / (1 - level)`` is needed.
        method : {"plus", "minmax", "base"}, default="plus"
            ``"plus"``: the jackknife+, whose coverage is at least ``2 level - 1`` and near `level`
            in practice. ``"minmax"``: wider; at least `level`. ``"base"``: residuals around the
            prediction, without a guarantee. Guarantees hold for samples that are exchangeable
            and parameters that were not chosen on them; see :ref:`uncertainty`.
        exact, training_data

        Returns
        -------
        points : ndarray of shape (n_samples,)
            As `predict` returns them.
        intervals : ndarray of shape (n_samples, 2, n_levels)
            Lower and upper ends. The last axis is there for a single level, too.

        Examples
        --------
        >>> from sklearn.datasets import make_friedman1
        >>> from optimargin import ODMRegressor
        >>> X, y = make_friedman1(400, noise=1.0, random_state=0)
        >>> model = ODMRegressor().fit(X[:200], y[:200])
        >>> points, intervals = model.predict_interval(X[200:], confidence_level=[0.8, 0.95])
        >>> intervals.shape
        (200, 2, 2)
        >>> low, high = intervals[:, 0, 1], intervals[:, 1, 1]
        >>> bool(((low <= y[200:]) & (y[200:] <= high)).mean() > 0.9)
        True
        """
        check_is_fitted(self)
        levels = check_levels(confidence_level)
        if self._model.intercept.size > 1:
            raise ValueError(
                "predict_interval needs one target: the model was fitted to y of shape (n_samples, "
                f"{self._model.intercept.size}). Fit one regressor per target."
            )
        left_out, scores, blocks = self._answers(X, training_data, exact, method != "base")
        out = np.empty((scores.shape[0], 2, levels.size))
        y = as_numbers(left_out.y)[:, 0]
        for part, values, own in blocks:
            out[part] = intervals(
                method,
                scores[part, 0],
                None if values is None else values[..., 0],
                np.abs(y - own[:, 0]),
                left_out.weight,
                levels,
            )
        return scores[:, 0].astype(self._model.intercept.dtype), out


class PredictionSets(HeldOutDecisions, Uncertainty):
    """A classifier with prediction sets."""

    def _kept_y(self, task, y):
        return task.strata(y)

    def _y_of_kept(self):
        return self.classes_[self._kept["y"]]

    @validate_params(
        {**_CHECKS, "method": [StrOptions({"plus", "base"})], "class_wise": ["boolean"]},
        prefer_skip_nested_validation=True,
    )
    @described(Uncertainty._answers)
    def predict_set(
        self,
        X,
        confidence_level=0.9,
        *,
        method="plus",
        class_wise=True,
        exact=False,
        training_data=None,
    ):
        """Predict sets of classes that hold the true one with a given confidence.

        A class is in the set unless the sample conforms less with it than nearly all training
        samples of that class do, each judged by the model without it (see `predict_interval` of
        the regressors for how these models are found). An empty set says that the sample is
        unlike all classes, a full one that it could be of any.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        confidence_level : float or array-like of shape (n_levels,), default=0.9
            Between 0 and 1. Classes with too few samples for a level (below
            ``level / (1 - level)``) are in all sets.
        method : {"plus", "base"}, default="plus"
            ``"plus"`` compares each training sample with what the model without it says about the
            new one: coverage is at least ``2 level - 1``, near `level` in practice. ``"base"``
            compares with what the whole model says: faster, without a guarantee.
        class_wise : bool, default=True
            Whether the confidence holds within each class, or only over all of them: then large
            classes make up for small ones.
        exact, training_data

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            As `predict` returns them.
        sets : ndarray of shape (n_samples, n_classes, n_levels), dtype bool
            Which classes are in each set. The last axis is there for a single level, too.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from optimargin import ODMClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = ODMClassifier().fit(X[::2], y[::2])
        >>> labels, sets = model.predict_set(X[1::2])
        >>> sets.shape
        (75, 3, 1)
        >>> bool(sets[range(75), y[1::2], 0].mean() > 0.85)
        True
        """
        check_is_fitted(self)
        levels = check_levels(confidence_level)
        left_out, scores, blocks = self._answers(X, training_data, exact, method == "plus")
        task = self._task()
        encoded = task.strata(left_out.y)
        n_classes = self.classes_.size
        sets = np.empty((scores.shape[0], n_classes, levels.size), dtype=bool)
        rows_of = [encoded == k if class_wise else slice(None) for k in range(n_classes)]
        for part, values, own in blocks:
            of_samples = conformities(task.combine(own))[np.arange(len(own)), encoded]
            new = conformities(task.combine(scores[part][:, None] if method == "base" else values))
            for k, rows in enumerate(rows_of):
                of_class = new[..., k] if method == "base" else new[:, rows, k]
                sets[part, k] = conforming(
                    of_class, of_samples[rows], left_out.weight[rows], levels
                )
        return task.decode(scores), sets
