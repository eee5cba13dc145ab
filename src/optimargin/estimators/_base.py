"""What all estimators share: parameters, validation, storage, scores and pickling."""

from abc import ABCMeta, abstractmethod
from dataclasses import replace
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from optimargin._checks import check_sparse, check_weights
from optimargin._threads import blas_threads_for
from optimargin.designs import canonical
from optimargin.estimators._callbacks import CallbackSupportMixin, FitTasks
from optimargin.estimators._documentation import DocLinkMixin
from optimargin.estimators._words import explained, notify_user, warn_if_short
from optimargin.kernels import KernelChoice
from optimargin.objectives import Objective
from optimargin.tasks import Task
from optimargin.training import Options, Request, rebuild, train


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


def keeps_parameters(init):
    """Decorate an `__init__` that does nothing but keep its arguments on the estimator."""
    expected = signature(init)

    @wraps(init)
    def keep(self, *args, **kwargs):
        init(self, *args, **kwargs)  # its errors say how many arguments it takes
        try:
            given = expected.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}() {error}") from None
        given.apply_defaults()
        vars(self).update(list(given.arguments.items())[1:])

    return keep


class Estimator(DocLinkMixin, CallbackSupportMixin, BaseEstimator, metaclass=ABCMeta):
    """Parameters that are checked, and fitted attributes that change all at once.

    A class says what its own parameters may be; those of its bases are known.
    """

    _parameter_constraints: dict = {}
    _private = (
        "_kernel",
        "_reference",
        "_training_data",
        "_kept",
        "_largest_norm",
        "_local",
        "_pairwise",
    )

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        constraints: dict = {}
        for base in reversed(cls.__mro__):
            constraints |= vars(base).get("_parameter_constraints", {})
        if cls.__init__ is not object.__init__:
            names = signature(cls.__init__).parameters
            constraints = {name: constraints[name] for name in names if name in constraints}
        cls._parameter_constraints = constraints

    def _store(self, attributes: dict[str, Any]) -> None:
        """Forget all fitted attributes and set new ones: the only place that sets any."""
        for name in self._fitted_names():
            del self.__dict__[name]
        self.__dict__.update(attributes)

    def _fitted_names(self) -> list[str]:
        """Return the names of what a fit has set."""
        parameters = self.get_params(deep=False)
        return [
            name
            for name in vars(self)
            if name in self._private
            or (name.endswith("_") and not name.startswith("_") and name not in parameters)
        ]

    def _public_attributes(self) -> dict[str, Any]:
        """Return the fitted attributes that are meant for users."""
        return {name: vars(self)[name] for name in self._fitted_names() if name[0] != "_"}


class BaseLearner(Estimator):
    """Validate, train, store.

    A subclass says what the objective is, what form the model has, and what y means.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether to fit an intercept; it is not penalised.
    tol : float
        The fit ends once the certified duality gap, relative to the objective, is at most
        `tol`.
    max_iter : int, default=1000
        Limit on Newton steps or passes over the data.
    random_state : int, RandomState instance or None, default=None
        For the order of samples in "dcd", and for landmarks.
        None is a fixed seed: the same data give the same model.

    Attributes
    ----------
    C1_, C2_ : float
        The values of `C1` and `C2` that were used.
    solver_ : str
        The solver that was used.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where the data have names that are all strings.
    """

    _parameter_constraints: dict = {
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    _y_checks: ClassVar[dict[str, Any]] = {}  # passed to scikit-learn's validation of y

    _objective_type: type[Objective]
    _calibrator: Any = None  # says what scores mean, where more than a model is wanted

    def _objective(self) -> Objective:
        """Return the objective with this estimator's parameters."""
        names = self._objective_type.grid_names
        return self._objective_type(**{name: getattr(self, name) for name in names})

    @abstractmethod
    def _kernel_choice(self) -> KernelChoice | None:
        """Return the kernel, or None for coefficients per feature."""

    @property
    @abstractmethod
    def _model(self) -> Any:
        """The trained model, from the fitted attributes."""

    def _options(self) -> Options:
        """Return how this estimator wants to be trained."""
        random_state = self.random_state
        return Options(
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            fit_intercept=self.fit_intercept,
            # None is a fixed seed: a fit gives the same numbers from run to run.
            seed=0
            if random_state is None
            else int(check_random_state(random_state).randint(2**31 - 1)),
        )

    @abstractmethod
    def _make_task(self, y, weight, dtype) -> Task:
        """Return what y means in a fit, with what has to be known of all of it.

        Parameters
        ----------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        weight : ndarray of shape (n_samples,) or None
        dtype : numpy dtype
            Of the data.
        """

    @abstractmethod
    def _make_known_task(self, y, weight, dtype) -> Task:
        """Return the same of the training data of a fitted model, given again."""

    @abstractmethod
    def _task_of_chunks(self) -> tuple[type[Task], dict[str, Any]]:
        """Return the task, and its settings, that chunks are described for."""

    def _further_attributes(self, X, y, weight, task, fit, held_out, score) -> dict[str, Any]:
        """Return what a fitted estimator has besides the model.

        Parameters
        ----------
        X, y, weight
            The training data, validated.
        task : Task
        fit : Fit
        held_out : HeldOutDecision or None
            Values that a search for parameters has found.
        score : callable or None
            What a search was asked to maximise: a number for rows and their decision values.
        """
        return {}

    def _shift(self) -> Any:
        """Return what was added to the decision values of the minimum, per output."""
        return np.zeros(self._model.intercept.size)

    @property
    def _minimum(self) -> Any:
        """The model that the solver found: without what was then added to its decision values."""
        model = self._model
        return replace(model, intercept=model.intercept - self._shift())

    def _fit(self, X, y, sample_weight, held_out=None, score=None):
        """Fit to data in memory and store what was found.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; float32 and float64 are used as they are. For a precomputed kernel
            the Gram matrix, of shape (n_samples, n_samples).
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. A weight of two is the same as repeating the sample.
        """
        given = (X, y, sample_weight)
        X, y, about = self._validated_training(X, y, ensure_all_finite=False)
        weight = check_weights(sample_weight, X)
        task = self._make_task(y, weight, X.dtype)
        is_warm = getattr(self, "warm_start", False)
        alone = blas_threads_for(X.shape[0])
        with FitTasks(self, task.n_outputs) as progress, explained(), alone:
            fit = train(
                X,
                task.encode(y, weight),
                self._objective(),
                kernel=self._kernel_choice(),
                options=self._options(),
                start=self._warm_model(task.n_outputs, X.shape[1]) if is_warm else None,
                request=Request(
                    total_weight=task.total,
                    held_out_error=task.held_out_error,
                    calibrate=self._calibrator,
                    progress=progress,
                    notify=notify_user,
                    asked_by=type(self).__name__,
                ),
            )
            further = self._further_attributes(X, y, weight, task, fit, held_out, score)
        found = {**task.attributes(), **fit.attributes(), **further}
        self._store({**about, **found, "_training_data": given})
        warn_if_short(self, fit)
        return self

    def _check_chunks_fit(self):
        """Raise a clear error unless chunks can be fitted with these parameters."""

    def _training_arguments(self, X, y, sample_weight):
        """Return the training data given, or those that `fit` remembers."""
        check_is_fitted(self)
        if X is None:
            if not hasattr(self, "_training_data"):
                raise ValueError(
                    "This estimator was loaded without its training data: pass X, y and, if it "
                    "was fitted with one, sample_weight."
                )
            X, y, sample_weight = self._training_data
        elif y is None:
            raise ValueError("X was given without y: pass that of the training data.")
        return X, np.asarray(y), sample_weight

    def _rebuilt(self, X, y, sample_weight):
        """Return the problems that the model was trained on, given its training data."""
        X, y = self._validated(self, X, y, reset=False)
        X = canonical(X)
        weight = check_weights(sample_weight, X)
        task = self._make_known_task(y, weight, X.dtype)
        with explained():
            return rebuild(
                X,
                task.encode(y, weight),
                self._objective(),
                total_weight=task.total,
                kernel=self._kernel_choice(),
                options=self._options(),
                model=self._minimum,
                solved_by=getattr(self, "solver_", "svrg"),
            )

    def _input_checks(self) -> dict[str, Any]:
        return {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C"}

    def _validated_training(self, X, y, **checks):
        """Return training data, and what they say about the features.

        A copy of the estimator is told about them: it itself does not change before all of the
        fit has succeeded.
        """
        checked = object.__new__(type(self))
        checked.__dict__.update(self.__dict__)
        X, y = self._validated(checked, X, y, **checks)
        names = ("n_features_in_", "feature_names_in_")
        about = {name: vars(checked)[name] for name in names if name in vars(checked)}
        return canonical(X), y, about

    def _validated(self, told, X, y, **checks):
        """Return data as scikit-learn checks them; `told` is the one told about the features."""
        checks = {**self._input_checks(), **self._y_checks, **checks}
        return validate_data(told, check_sparse(X), y, **checks)

    def _checked_rows(self, X):
        """Return new samples, checked to have the features of the fit."""
        check_is_fitted(self)
        X = validate_data(self, check_sparse(X), reset=False, **self._input_checks())
        return canonical(X)

    def _scores(self, X):
        """Return decision values of shape (n_samples, n_outputs)."""
        X = self._checked_rows(X)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self._model.scores(X)
        if not np.isfinite(scores).all():
            raise ValueError(
                f"Decision values overflow on X (largest absolute value {abs(X).max():.3g}): scale "
                "the features as those of the training data."
            )
        return scores

    def _told(self, values):
        """Return values of all outputs, the last axis, as they are told to users."""
        return values

    def __getstate__(self):
        # Training data can be large and private: a saved model does not carry them.
        state = super().__getstate__()
        return {key: value for key, value in state.items() if key != "_training_data"}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
