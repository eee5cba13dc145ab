"""What all classifiers share: classes, weights, one-vs-rest, diagnostics."""

from abc import ABCMeta, abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    assert_all_finite,
    check_is_fitted,
    validate_data,
)

from optimargin._callbacks import CallbackSupportMixin, FitTasks, with_callbacks
from optimargin._core import _dense_products
from optimargin._doc_link import DocLinkMixin
from optimargin._threads import n_threads_for, one_blas_thread
from optimargin._warnings import warn_user
from optimargin.problems import (
    FeatureDesign,
    KernelDesign,
    LandmarkDesign,
    MarginProblem,
    canonical,
)
from optimargin.solvers import SOLVERS


@dataclass(frozen=True)
class TrainingProblems:
    """The training data as the solvers see them.

    Attributes
    ----------
    X : {ndarray, CSR} of shape (n_rows, n_features)
        The samples of positive weight.
    rows : ndarray of shape (n_rows,)
        Their places in the data given to `fit`.
    design : FeatureDesign, KernelDesign or LandmarkDesign
        Shared by all problems.
    problems : list of MarginProblem
        One for two classes, else one a class against the rest.
    """

    X: np.ndarray
    rows: np.ndarray
    design: FeatureDesign | KernelDesign | LandmarkDesign
    problems: list[MarginProblem]


class BaseMarginClassifier(
    DocLinkMixin, CallbackSupportMixin, ClassifierMixin, BaseEstimator, metaclass=ABCMeta
):
    """Encode classes and weights, solve one problem a class, store the diagnostics.

    A subclass says what the loss is, how the data become a design matrix, and how solutions
    become fitted attributes.
    """

    _parameter_constraints: dict = {
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "random_state": ["random_state"],
    }

    @abstractmethod
    def _make_design(self, X, weight):
        """Return the design matrix of the training data."""

    @abstractmethod
    def _store(self, training, solutions):
        """Turn one solution a problem into fitted attributes."""

    @abstractmethod
    def _scores(self, X):
        """Return decision values of shape (n_samples, 1 or n_classes)."""

    @abstractmethod
    def _make_problem(self, design, y, weight):
        """Return the problem of one class against the rest; `weight` sums to one."""

    def _make_solver(self):
        """Return the solver that `solver_` names."""
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        return SOLVERS[self.solver_](tol=self.tol, max_iter=self.max_iter, seed=seed)

    def _check_values(self, X):
        """Raise a clear error for values that cannot be computed with."""
        check_scale(X, type(self).__name__)

    def _resolve_prices(self, total_weight):
        """Set the prices of the loss, where they depend on the sum of the weights."""

    def _before_solving(self, training):
        """Return the problems to be solved; an approximation may replace their design."""
        return training

    def _start(self, problem, k):
        """Return the starting point (coef, intercept) of problem `k`."""
        return None, 0.0

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit the classifier.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; float32 and float64 are used as they are. For a precomputed kernel
            the Gram matrix, of shape (n_samples, n_samples).
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. A weight of two is the same as repeating the sample.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        data = (X, y, sample_weight)
        X, y = validate_data(self, X, y, ensure_all_finite=False, **self._input_checks())
        X = check_columns(canonical(X))
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        check_two_classes(self.classes_)
        training = self._training_problems(X, y, sample_weight)
        self.solver_ = self._choose_solver(training.X)
        solver = self._make_solver()
        training = self._before_solving(training)
        tasks = FitTasks(self, len(training.problems))
        solutions = []
        with one_blas_thread() if solver.own_threads(training.design) else nullcontext():
            for k, problem in enumerate(training.problems):
                with tasks.problem(solver):
                    solutions.append(solver.solve(problem, *self._start(problem, k)))
        tasks.close()
        self._store_diagnostics(solutions)
        self._store(training, solutions)
        self._training_data = data
        return self

    def _training_problems(self, X, y, sample_weight):
        """Return what is to be solved for `X` and `y` with known classes."""
        if self.classes_.size == 2:  # many times faster than a search
            encoded = (y == self.classes_[1]).astype(np.intp)
        else:
            encoded = np.searchsorted(self.classes_, y)
        weight = self._weights(X, encoded, sample_weight)
        rows = np.flatnonzero(weight > 0)
        if rows.size < X.shape[0]:
            check_finite(X, type(self).__name__)
            X, encoded, weight = self._take(X, rows), encoded[rows], weight[rows]
        self._check_values(X)
        self._resolve_prices(float(weight.sum()))
        design = self._make_design(X, weight)
        positives = [1] if self.classes_.size == 2 else range(self.classes_.size)
        problems = [
            self._make_problem(design, 2.0 * (encoded == k) - 1.0, weight / weight.sum())
            for k in positives
        ]
        return TrainingProblems(X, rows, design, problems)

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
            raise ValueError("X was given without y: pass the labels of the training data.")
        return X, np.asarray(y), sample_weight

    def _checked_again(self, X, y):
        """Return the training data of a fitted estimator, validated."""
        X, y = validate_data(self, X, y, reset=False, **self._input_checks())
        if not np.isin(y, self.classes_).all():
            raise ValueError("y has labels the model was not fitted with: pass the training data.")
        return check_columns(canonical(X)), y

    def _sample_coefficients(self, training, k):
        """Return the kernel coefficients of problem `k` for the rows of the training data."""
        if not np.isin(self.support_, training.rows).all():
            raise ValueError(
                f"X and sample_weight have {training.rows.size} samples of positive weight, and "
                "not all support vectors are among them: pass the training data, every row in "
                "its place."
            )
        coef = np.zeros(training.rows.size)
        coef[np.searchsorted(training.rows, self.support_)] = self.dual_coef_[k]
        return coef

    def __getstate__(self):
        # Training data can be large and private: a saved model does not carry them.
        state = super().__getstate__()
        return {key: value for key, value in state.items() if key != "_training_data"}

    def predict(self, X):
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        winners = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[winners]

    def decision_function(self, X):
        """Return the decision values.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Positive values mean ``classes_[1]``; with more than two classes, one column a
            class and the largest wins.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **self._input_checks())
        X = check_columns(canonical(X))
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self._scores(X)
        if not np.isfinite(scores).all():
            raise ValueError(
                f"Decision values overflow on X (largest absolute value {abs(X).max():.3g}): scale "
                "the features as those of the training data."
            )
        return scores[:, 0] if self.classes_.size == 2 else scores

    def _input_checks(self):
        return {
            "accept_sparse": "csr",
            "dtype": [np.float64, np.float32],
            "order": "C",
        }

    def _take(self, X, rows):
        return X[rows]

    def _choose_solver(self, X):
        return "newton" if self.solver == "auto" else self.solver

    def _weights(self, X, encoded, sample_weight):
        """Return sample_weight times class_weight, checked."""
        weight = check_weights(sample_weight, X)
        totals = np.bincount(encoded, weights=weight, minlength=self.classes_.size)
        factor = self._checked_class_factors(totals)
        return weight if (factor == 1).all() else weight * factor[encoded]

    def _checked_class_factors(self, totals):
        """Return the factor of each class, checked to leave a weight to every class."""
        if not np.isfinite(totals.sum()):
            raise ValueError("sample_weight overflows when summed: use smaller weights.")
        if not totals.any():
            raise ValueError(
                "sample_weight is zero for every sample: at least one sample of every class "
                "needs a positive weight."
            )
        factor = self._class_factors(totals)
        with np.errstate(over="ignore"):
            total = np.sum(totals * factor)
        if not np.isfinite(total):
            raise ValueError(
                "sample_weight times class_weight overflows when summed: use smaller weights."
            )
        empty = self.classes_[totals * factor == 0]
        if empty.size:
            raise ValueError(
                f"All samples of class {empty.tolist()[0]!r} have zero weight (sample_weight times "
                "class_weight): give the class a positive weight or remove it from y."
            )
        return factor

    def _class_factors(self, totals):
        """Return the factor of each class; `totals` are the sums of their sample weights."""
        if self.class_weight is None:
            return np.ones(totals.size)
        if isinstance(self.class_weight, str):
            with np.errstate(divide="ignore"):
                factor = totals.sum() / (totals.size * totals)
            return np.where(totals == 0, 0.0, factor)
        factor = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_)
        if not (np.isfinite(factor).all() and (factor >= 0).all()):
            raise ValueError(
                "class_weight has negative or non-finite values: weights must be at least zero."
            )
        return factor

    def _store_diagnostics(self, solutions):
        def summary(name, dtype):
            values = np.array([getattr(solution, name) for solution in solutions], dtype=dtype)
            return values if len(solutions) > 1 else values[0].item()

        self.n_iter_ = summary("n_iter", int)
        self.objective_ = summary("objective", float)
        self.dual_gap_ = summary("dual_gap", float)
        worst = float(np.max(self.dual_gap_))
        if not worst <= self.tol:
            warn_user(
                f"{type(self).__name__} stopped at iteration {np.max(self.n_iter_)} of solver "
                f"{self.solver_!r} with a relative duality gap of {worst:.2g}, above "
                f"tol={self.tol:g}. Scale the features (for example with StandardScaler), "
                "increase max_iter or raise tol"
                + (".", ", or try solver='auto'.")[self.solver != "auto"],
                ConvergenceWarning,
            )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def check_two_classes(classes):
    """Raise a clear error for labels of a single class."""
    if classes.size < 2:
        raise ValueError(
            f"y has one class only ({classes.tolist()[0]!r}): a classifier needs samples of at "
            "least two classes."
        )


def check_columns(X):
    """Return `X`; raise a clear error for a sparse matrix with columns it does not have.

    Of sorted rows the first and the last entry tell.
    """
    if issparse(X) and X.nnz:
        begins, ends = X.indptr[:-1], X.indptr[1:]
        filled = ends > begins
        first, last = X.indices[begins[filled]], X.indices[ends[filled] - 1]
        if first.min() < 0 or last.max() >= X.shape[1]:
            raise ValueError(
                f"X is a sparse matrix of {X.shape[1]} columns with indices from {first.min()} to "
                f"{last.max()}: build it again, from correct indices."
            )
    return X


def check_weights(sample_weight, X):
    """Return `sample_weight` as a non-negative float64 array, ones when it is None."""
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weight < 0).any():
        raise ValueError("sample_weight has negative values: weights must be at least zero.")
    return weight


def check_finite(X, estimator_name):
    """Raise scikit-learn's error for NaN and infinity, found in one pass on all cores."""
    if not np.isfinite(sum_of_squares(X)):
        assert_all_finite(X, estimator_name=estimator_name, input_name="X")


def check_scale(X, estimator_name=""):
    """Raise a clear error for NaN, infinity and features whose products would overflow."""
    if sum_of_squares(X) <= float(np.finfo(X.dtype).max) ** 0.9:  # one pass on all cores
        return
    assert_all_finite(X, estimator_name=estimator_name, input_name="X")
    values = X.data if issparse(X) else X
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    if largest > float(np.finfo(X.dtype).max) ** 0.45:
        raise ValueError(
            f"X has values as large as {largest:.3g}, whose products overflow: scale the "
            "features, for example with StandardScaler."
        )


def sum_of_squares(X):
    """Return the sum of the squares of all values, without waking the threads of BLAS."""
    values = (X.data if issparse(X) else X).ravel()
    n_threads = n_threads_for(values.size)
    return _dense_products.sum_of_squares(values, np.zeros(n_threads), n_threads)
