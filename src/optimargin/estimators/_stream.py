"""Learning from streams: what all linear estimators share."""

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from optimargin._checks import check_scale, check_sparse, check_weights
from optimargin.designs import FeatureDesign, canonical
from optimargin.estimators._base import Registered
from optimargin.estimators._forms import LinearForm
from optimargin.solvers import SOLVERS
from optimargin.solvers.stream import StreamState, follow
from optimargin.training import LinearModel
from optimargin.training.prepare import penalty_unit_of

_STREAM_WEIGHT = 256.0  # sum of weights that a stream is taken to have for the default of C1


class StreamMethods(LinearForm):
    """A linear model that may start where it is, and learn one batch after another.

    Parameters
    ----------
    warm_start : bool, default=False
        Start the next `fit` at the current coefficients.
    random_state : int, RandomState instance or None, default=None
        For the order of samples in "dcd" and "svrg" and in `partial_fit`.
        None is a fixed seed: the same data give the same model.

    Attributes
    ----------
    t_ : int
        Samples seen by `partial_fit`, after a call of it.
    """

    _parameter_constraints: dict = {
        "solver": [Registered(SOLVERS, lambda s: s.works_with(FeatureDesign), also=("auto",))],
        "warm_start": ["boolean"],
    }

    def _warm_model(self, n_outputs, n_features):
        """Return the model of the last fit, or None where it does not fit these data."""
        if not hasattr(self, "coef_") or self.coef_.shape != (n_outputs, n_features):
            return None
        intercept = self.intercept_ if self.fit_intercept else np.zeros(n_outputs)
        return LinearModel(self.coef_, intercept)

    def _partial_fit(self, X, y, sample_weight, make_task):
        """Learn from one batch and store what was found.

        Every call makes one pass of stochastic gradient steps over the batch. With t samples
        seen the step is ``1 / (t + t0)``, so that (Robbins and Monro) the coefficients converge
        to the minimiser of ``|w|^2 / 2 + E[s l]``, l being the loss, over the distribution the
        batches are drawn from; for w the expected error of the objective falls as O(1 / t).
        Batches that repeat one data set lead to the model that `fit` finds on it with the same
        `C1`, if its weights have mean one. No gap is certified: `fit` is exact, this is not.
        A stream has no length that `C1` could grow with: None is the default for 256 samples
        like those of the first batch, or the value of a `fit` before.

        Parameters
        ----------
        X, y, sample_weight
            The batch.
        make_task : callable
            Given an estimator that is told about the features, and y, it returns the task of
            the stream and the intercepts that it begins with.
        """
        is_first = not hasattr(self, "t_")
        checked = copy(self)  # told about the data; the estimator changes at the end
        X, y = validate_data(
            checked, check_sparse(X), y, reset=is_first, **self._input_checks(), **self._y_checks
        )
        X = canonical(X)
        weight = check_weights(sample_weight, X)
        task, intercepts = make_task(checked, y)
        check_scale(X, type(self).__name__)
        state = self._stream_state(is_first, intercepts, X)
        targets = task.encode(y, weight)
        objective = self._stream_objective(X, targets[0].weight)
        state = follow(
            state,
            X,
            targets,
            objective.loss(),
            fit_intercept=self.fit_intercept,
            seed=self._options().seed,
        )
        names = ("n_features_in_", "feature_names_in_", "classes_")
        self._store(
            {
                **{name: vars(checked)[name] for name in names if name in vars(checked)},
                **objective.attributes(task.scales),
                "coef_": state.coef,
                "intercept_": state.intercept,
                "t_": state.n_seen,
                "_largest_norm": state.largest_norm,
            }
        )
        return self

    def _stream_state(self, is_first, intercepts, X):
        """Return where a stream is: at its last batch, at an earlier fit, or at its beginning."""
        if not is_first:
            return StreamState(self.coef_, self.intercept_, self.t_, self._largest_norm)
        shape = (len(intercepts), X.shape[1])
        is_of_pairs = vars(self).get("_pairwise")  # of classes; a stream tells each from the rest
        if hasattr(self, "coef_") and self.coef_.shape == shape and not is_of_pairs:
            return StreamState(self.coef_, self.intercept_)
        return StreamState.begin(intercepts, X.shape[1], X.dtype)

    def _stream_objective(self, X, weight):
        """Return the objective of a stream; by default with the penalties of a fit before."""
        objective: Any = self._objective()
        if self.C1 is None and hasattr(self, "C1_"):
            C2 = self.C2_ if self.C2 is None else self.C2
            objective = replace(objective, C1=self.C1_, C2=C2)
        share = weight / (weight.sum() or 1.0)
        return objective.resolve(lambda: penalty_unit_of(X, share, _STREAM_WEIGHT, is_linear=True))
