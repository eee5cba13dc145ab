"""What all regressors share: numbers as targets, predictions."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin, _fit_context

from optimargin._warnings import warn_user
from optimargin.estimators._base import BaseLearner
from optimargin.estimators._callbacks import with_callbacks
from optimargin.estimators._documentation import described
from optimargin.tasks import Regression, one_or_all


class Regressor(RegressorMixin, BaseLearner):
    """Numbers become targets of unit size, scores are predictions; what is between is `train`.

    Parameters
    ----------
    tol : float
        The fit ends once the certified duality gap, relative to the objective of the best
        constant model, is at most `tol`.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_targets, n_features)
        Coefficients of the features, in the precision of the data.
    intercept_ : ndarray of shape (1,) or (n_targets,)
        The intercepts.
    n_iter_ : int or ndarray of shape (n_targets,)
        Newton steps or passes over the data; with several targets one number per target.
    objective_ : float or ndarray of shape (n_targets,)
        The minimum found, in squared units of y.
    dual_gap_ : float or ndarray of shape (n_targets,)
        The certified duality gap, relative to the objective of the best constant model: no
        model has an objective lower by more than that.
    """

    _y_checks = {"multi_output": True}

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @described(BaseLearner._fit)
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the regressor.

        Parameters
        ----------
        X
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Numbers to be predicted. Several targets lead to the models of each alone, at less
            cost: they share the kernel matrix.
        sample_weight

        Returns
        -------
        self : object
            The fitted estimator.
        """
        return self._fit(X, y, sample_weight)

    def _make_task(self, y, weight, dtype):
        task = self._make_known_task(y, weight, dtype)
        if task.constant:
            values = [task.scales[k].center for k in task.constant]
            where = "" if task.n_outputs == 1 else f" in columns {task.constant}"
            warn_user(
                f"y is constant{where}: the model predicts "
                f"{', '.join(f'{value:g}' for value in values)} everywhere."
            )
        return task

    def _make_known_task(self, y, weight, dtype):
        return Regression.from_values(y, weight, fit_intercept=self.fit_intercept, dtype=dtype)

    def _further_attributes(self, X, y, weight, task, fit, held_out, score):
        """Return the held-out predictions that a search has at hand, in the units of y."""
        values = None if held_out is None else held_out.per_sample(len(y))
        if values is None:
            return {}
        restored = [scale.restored(v) for scale, v in zip(task.scales, values.T, strict=True)]
        return {"oob_prediction_": one_or_all(np.stack(restored, axis=1))}

    def _task_of_chunks(self):
        return Regression, {"fit_intercept": self.fit_intercept}

    def predict(self, X: Any) -> np.ndarray:
        """Predict the targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        predictions : ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        scores = self._scores(X)
        return Regression.of_stream(scores.shape[1]).decode(scores)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
