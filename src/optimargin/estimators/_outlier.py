"""What all novelty detectors share: scores, a threshold, p-values."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OutlierMixin, _fit_context
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from optimargin._checks import check_sparse, check_weights
from optimargin.estimators._base import BaseLearner
from optimargin.estimators._callbacks import with_callbacks
from optimargin.estimators._documentation import described
from optimargin.estimators._held_out import HeldOutValues
from optimargin.estimators._words import available_where
from optimargin.held_out.novelty import Calibrator, from_arrays
from optimargin.tasks import OneClass
from optimargin.training.plan import N_FOLDS


def check_novelty(estimator):
    """Raise AttributeError, with what to do about it, where new samples are not judged."""
    if not estimator.novelty:
        raise AttributeError(
            f"With novelty=False {type(estimator).__name__} judges the samples that it is fitted "
            "to, by fit_predict and held_out_scores_. Set novelty=True to judge new ones, by "
            "predict, decision_function, score_samples and p_values."
        )


def check_no_novelty(estimator):
    """Raise AttributeError, with what to do about it, where new samples are judged."""
    if estimator.novelty:
        raise AttributeError(
            f"With novelty=True {type(estimator).__name__} judges new samples, by predict: it "
            "scores those that it was fitted to too high to tell the odd ones. Set novelty=False "
            "to find these, by fit_predict."
        )


class OutlierDetector(HeldOutValues, OutlierMixin, BaseLearner):
    """Normal samples become targets of one, scores below a threshold are outliers."""

    # An intercept of one would meet every target without looking at the data.
    fit_intercept = False
    novelty = True  # of models of earlier versions

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the detector to normal samples, or to those among which odd ones are looked for.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; float32 and float64 are used as they are. For a precomputed kernel
            the Gram matrix, of shape (n_samples, n_samples).
        y : Ignored
            There are no labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. A weight of two is the same as repeating the sample, also for
            the threshold and for p-values.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        return self._fit(X, None, sample_weight)

    @available_where(check_no_novelty)
    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> np.ndarray:
        """Fit the detector, and tell which of the samples are odd; only with ``novelty=False``.

        Every sample is judged by the model without it.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            -1 for samples whose `held_out_scores_` are below `offset_`, the share
            `false_alarm_rate` of them but for ties, and 1 for the others.

        Examples
        --------
        >>> import numpy as np
        >>> from optimargin import OneClassODM
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> X[:3] = [[6.0, 6.0], [-6.0, 5.0], [0.0, -8.0]]
        >>> detector = OneClassODM(false_alarm_rate=0.015, novelty=False)
        >>> np.flatnonzero(detector.fit_predict(X) == -1).tolist()
        [0, 1, 2]
        """
        return self.fit(X, sample_weight=sample_weight)._judged()

    def _judged(self):
        """Return -1 for those of the samples of the fit that are odd, and 1 for the others."""
        return OneClass.of(1).decode(self.held_out_scores_[:, None] - self.offset_)

    def _further_attributes(self, X, y, weight, task, fit, held_out, score):
        """Return the held-out scores of all samples, where some had no weight."""
        if self.novelty or weight is None or weight.all():
            return {}
        # These took no part in the model itself.
        scores = np.asarray(fit.model.scores(X)[:, 0], dtype=np.float64)
        scores[weight > 0] = fit.calibrated["held_out_scores_"]
        return {"held_out_scores_": scores}

    def _validated(self, told, X, y, **checks):
        X = validate_data(told, check_sparse(X), **self._input_checks(), **checks)
        return X, np.ones(X.shape[0])

    def _make_task(self, y, weight, dtype):
        return OneClass.of(len(y), weight)

    def _make_known_task(self, y, weight, dtype):
        return self._make_task(y, weight, dtype)

    def _task_of_chunks(self):
        return OneClass, {"n_folds": N_FOLDS, "seed": self._options().seed}

    @property
    def _calibrator(self):
        return Calibrator(self.false_alarm_rate, self.novelty)

    def _training_arguments(self, X, y, sample_weight):
        if X is None:
            X, _, sample_weight = super()._training_arguments(None, None, None)
        check_is_fitted(self)
        return X, np.ones(_num_samples(X)), sample_weight

    @available_where(check_novelty)
    def score_samples(self, X: Any) -> np.ndarray:
        """Return the scores: near one for what is typical of the training samples, zero far away.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,)
        """
        return self._scores(X)[:, 0]

    @available_where(check_novelty)
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores less the threshold, ``score_samples(X) - offset_``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Negative values mean outliers.
        """
        return self.score_samples(X) - self.offset_

    @available_where(check_novelty)
    def predict(self, X: Any) -> np.ndarray:
        """Tell outliers from normal samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            -1 for outliers and 1 for normal samples. Of new normal samples about the share
            `false_alarm_rate` is taken for outliers.
        """
        return OneClass.of(1).decode(self.decision_function(X)[:, None])

    @available_where(check_novelty)
    def p_values(self, X: Any) -> np.ndarray:
        """Return p-values: how often a normal sample is at least as unusual.

        They come from the models without one training sample each,
        ``p(x) = (1 + #{i : f_-i(x_i) <= f_-i(x)}) / (n + 1)``, all of which follow from one
        factorisation. For a new normal sample the probability of a p-value up to alpha is at
        most 2 alpha (as far as removing a sample leaves the active set as it is), and in
        practice near alpha. That holds for kernel parameters that were not chosen on the same
        samples, and for features that were not scaled to them. Landmarks, precomputed kernels
        and kernels that need not be positive semi-definite use models without each of five
        folds instead, as do data with more than 2000 support vectors.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        p_values : ndarray of shape (n_samples,)
            From ``1 / (n + 1)`` to 1.

        Examples
        --------
        >>> import numpy as np
        >>> from optimargin import OneClassODM
        >>> rng = np.random.default_rng(0)
        >>> model = OneClassODM().fit(rng.normal(size=(199, 2)))
        >>> p = model.p_values([[0.0, 0.0], [6.0, 6.0]])
        >>> bool(p[0] > 0.5), float(p[1])
        (True, 0.005)
        """
        decision = self.score_samples(X).astype(np.float64)
        if "_reference" not in vars(self):
            raise ValueError("The model was fitted with novelty=False: fit it again.")
        X = self._checked_rows(X)
        reference = from_arrays(self._reference, self.dual_coef_.shape[1])
        return reference.p_values(self._model, X, decision)

    @described(HeldOutValues._leave_one_out)
    def loo_score_samples(
        self,
        X: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        exact: bool = False,
    ) -> np.ndarray:
        """Return for each training sample the score of the model without it.

        ...

        Of a sample with a weight above one, which stands for several, one is left out.

        Parameters
        ----------
        X, sample_weight, exact

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            As in `score_samples`.

        Examples
        --------
        >>> import numpy as np
        >>> from optimargin import OneClassODM
        >>> model = OneClassODM().fit(np.random.default_rng(0).normal(size=(199, 2)))
        >>> scores = np.sort(model.loo_score_samples())
        >>> bool(np.isclose(scores[9], model.offset_))  # the tenth of 200 is at 0.05
        True
        """
        X, y, sample_weight = self._training_arguments(X, None, sample_weight)
        weight = np.ones(len(y)) if sample_weight is None else check_weights(sample_weight, X)
        return self._leave_one_out(X, y, sample_weight, exact, 1.0 / np.maximum(weight, 1.0))

    @described(HeldOutValues._leave_folds_out, HeldOutValues._leave_one_out)
    def kfold_score_samples(
        self, cv=5, X=None, sample_weight=None, *, groups=None, exact=False
    ) -> np.ndarray:
        """Return for each training sample the score of the model without its fold.

        ...

        Parameters
        ----------
        cv, X, sample_weight, groups, exact

        Returns
        -------
        scores : ndarray of shape (n_samples,)

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.model_selection import KFold
        >>> from optimargin import OneClassODM
        >>> model = OneClassODM().fit(np.random.default_rng(0).normal(size=(100, 2)))
        >>> model.kfold_score_samples(KFold(10, shuffle=True, random_state=0)).shape
        (100,)
        """
        X, y, sample_weight = self._training_arguments(X, None, sample_weight)
        return self._leave_folds_out(cv, X, y, sample_weight, groups, exact)
