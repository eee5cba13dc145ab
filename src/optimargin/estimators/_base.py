"""What all estimators share: validation, storage, scores and pickling."""

from abc import ABCMeta, abstractmethod
from copy import copy
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from optimargin._checks import check_columns
from optimargin.designs import canonical
from optimargin.estimators._callbacks import CallbackSupportMixin
from optimargin.estimators._doc_link import DocLinkMixin
from optimargin.estimators._store import StoreMixin
from optimargin.kernels import KernelChoice
from optimargin.objectives import Objective
from optimargin.training import Options


class Registered(StrOptions):
    """A parameter that is a key of a registry, which may grow after the class was made.

    Parameters
    ----------
    registry : mapping of str
    suits : callable, default=None
        Given an entry of the registry, it says whether that is allowed here.
    also : tuple of str, default=()
        Other allowed values.
    """

    def __init__(self, registry, suits=None, also=()):
        self.type, self.deprecated, self.hidden = str, set(), False
        self._registry, self._suits, self._also = registry, suits, also

    @property
    def options(self):
        """The allowed values."""
        suits = self._suits
        names = [n for n, entry in self._registry.items() if suits is None or suits(entry)]
        return {*self._also, *names}


class BaseLearner(StoreMixin, DocLinkMixin, CallbackSupportMixin, BaseEstimator, metaclass=ABCMeta):
    """Validate, train, store.

    A subclass says what the objective is, what form the model has, and what y means.
    """

    _parameter_constraints: dict = {
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    @abstractmethod
    def _objective(self) -> Objective:
        """Return the objective with this estimator's parameters."""

    @abstractmethod
    def _kernel_choice(self) -> KernelChoice | None:
        """Return the kernel, or None for coefficients per feature."""

    @property
    @abstractmethod
    def _model(self) -> Any:
        """The trained model, from the fitted attributes."""

    def _options(self) -> Options:
        """Return how this estimator wants to be trained."""
        return Options(
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            fit_intercept=self.fit_intercept,
            seed=check_random_state(self.random_state).randint(2**31 - 1),
        )

    def _input_checks(self) -> dict[str, Any]:
        return {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C"}

    def _validated_training(self, X, y, **checks):
        """Return training data, and what they say about the features.

        A copy of the estimator is told about them: it itself does not change before all of the
        fit has succeeded.
        """
        checked = copy(self)
        X, y = validate_data(checked, X, y, **self._input_checks(), **checks)
        names = ("n_features_in_", "feature_names_in_")
        about = {name: vars(checked)[name] for name in names if name in vars(checked)}
        return check_columns(canonical(X)), y, about

    def _scores(self, X):
        """Return decision values of shape (n_samples, n_outputs)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **self._input_checks())
        X = check_columns(canonical(X))
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self._model.scores(X)
        if not np.isfinite(scores).all():
            raise ValueError(
                f"Decision values overflow on X (largest absolute value {abs(X).max():.3g}): scale "
                "the features as those of the training data."
            )
        return scores

    def __getstate__(self):
        # Training data can be large and private: a saved model does not carry them.
        state = super().__getstate__()
        return {key: value for key, value in state.items() if key != "_training_data"}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
