"""The linear optimal margin distribution machine."""

import numpy as np
from scipy.sparse import issparse
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import validate_data

from optimargin._base import check_scale, check_weights, sum_of_squares
from optimargin._chunked_fit import fit_linear
from optimargin._core._svrg import StochasticPass
from optimargin._linear_base import LinearClassifier
from optimargin._odm_mixin import ODMMixin
from optimargin.problems import FeatureDesign, LinearGramDesign
from optimargin.solvers import SOLVERS

# Crossovers read off benchmarks/linear.py run with each solver.
_FACTORISE_UP_TO = 1000  # features, or dense samples, up to which a factorisation is fastest
_SHORT_ROWS = 16  # values a sparse row up to which a Gram matrix of the features is cheap,
_FEW_VALUES = 200_000  # or in all of them: what is fast anyway may as well be exact
_EASY_CONDITION = 100.0  # up to which conjugate gradients take next to no steps
_SAMPLES_UP_TO = 5000  # up to which a factorisation in sample space is the alternative
_WIDE = 4  # features a sample, from which it is worth a Gram matrix of more than 1000 dense samples
_EASY_DESCENT = 250.0  # epochs that coordinate descent may take beyond
# An epoch over v values takes as long as factorisations of 70 v operations; all those of a fit take
# about n_samples**3.
_OPERATIONS_OF_AN_EPOCH = 70.0
_STREAM_WEIGHT = 256.0  # sum of weights that a stream is taken to have for the default of C1
_STEPS_OF_EQUAL_LENGTH = 64  # of a stream between two updates of the step length


def linear_design(X, weight, fit_intercept, solver):
    """Return the design of linear data: for Newton on short and wide dense data a Gram matrix."""
    center = None
    if fit_intercept and not issparse(X):
        center = FeatureDesign(X).represent(weight) / weight.sum()
    in_samples = solver == "newton" and X.shape[0] < X.shape[1] and not issparse(X)
    return (LinearGramDesign if in_samples else FeatureDesign)(X, center)


def choose_linear_solver(X, C, tol):
    """Return the solver that was fastest in the benchmarks for data and a loss of this kind.

    Sparse rows with more features than samples go to coordinate descent as long as the epochs it
    will take, which the ratio of the curvatures of loss and penalty tells, are cheaper than
    factorisations.
    """
    n_samples, n_features = X.shape
    if n_features <= _FACTORISE_UP_TO:
        dear_gram = issparse(X) and X.nnz > max(_SHORT_ROWS * n_samples, _FEW_VALUES)
        return "newton_cg" if dear_gram else "newton"
    if not issparse(X):
        is_wide = _WIDE * n_samples <= n_features and n_samples <= _SAMPLES_UP_TO
        return "newton" if n_samples <= _FACTORISE_UP_TO or is_wide else "newton_cg"
    if n_samples < n_features:
        condition = 2 * C * sum_of_squares(X) / n_samples
        if condition <= _EASY_CONDITION:
            return "newton_cg"
        epochs = condition / (2 * n_samples) * -np.log10(min(tol, 0.1))
        if n_samples > _SAMPLES_UP_TO:
            return "dcd" if epochs <= _EASY_DESCENT else "newton_cg"
        cheap = epochs * X.nnz * _OPERATIONS_OF_AN_EPOCH <= float(n_samples) ** 3
        return "dcd" if cheap else "newton"
    return "newton_cg"


class LinearODMClassifier(ODMMixin, LinearClassifier):
    """Linear optimal margin distribution machine.

    Minimises ``|w|^2 / 2 + sum_i s_i l(y_i (x_i' w + b)) / sum_i s_i`` with the loss
    ``l(g) = C1 max(0, 1 - D - g)^2 + C2 max(0, g - 1 - D)^2`` of the margin g and the sample
    weights s: margins are drawn to 1 from both sides, which optimises their mean and variance
    where a support vector machine looks at the smallest one. ``C2=0, D=0`` is the support vector
    machine with squared hinge loss and ``C = C1 / n_samples``.

    Parameters
    ----------
    C1 : float, default=None
        Price of margins below ``1 - D``. Weights are normalised, so a given value means the
        same for any number of samples. None is a quarter of the sum of the weights, which makes
        the price of one sample 1/4 however many there are, as `C` does in `LinearSVC`.
    C2 : float, default=None
        Price of margins above ``1 + D``; may be 0. None is ``C1 / 4``.
    D : float, default=0.2
        Half-width of the band around margin 1 that costs nothing, in [0, 1).
    fit_intercept : bool, default=True
        Whether to fit an intercept; it is not penalised.
    solver : {"auto", "newton", "newton_cg", "dcd", "svrg"}, default="auto"
        How the objective is minimised; all solvers reach the same model. "newton" factorises
        (few features, or few samples), "newton_cg" iterates (many of both), "dcd" and "svrg"
        are the paper's algorithms. "auto" chooses by the size of the data.
    tol : float, default=1e-6
        The fit ends once the certified duality gap, relative to the objective, is at most
        `tol`.
    max_iter : int, default=1000
        Limit on Newton steps or passes over the data.
    class_weight : dict or "balanced", default=None
        Factors of the sample weights, by class. "balanced" makes the weights of all classes
        sum to the same.
    warm_start : bool, default=False
        Start the next `fit` at the current coefficients.
    random_state : int, RandomState instance or None, default=None
        For the order of samples in "dcd" and "svrg" and in `partial_fit`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients of the features, in the precision of the data.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercepts.
    C1_, C2_ : float
        The values of `C1` and `C2` that were used.
    n_iter_ : int or ndarray of shape (n_classes,)
        Newton steps or passes over the data; with more than two classes one number a class.
    objective_ : float or ndarray of shape (n_classes,)
        The minimum found.
    dual_gap_ : float or ndarray of shape (n_classes,)
        The certified relative duality gap: no model has an objective lower by more than that.
    solver_ : str
        The solver that was used.
    t_ : int
        Samples seen by `partial_fit`, after a call of it.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where the data have names that are all strings.

    See Also
    --------
    ODMClassifier : The same with a kernel.

    References
    ----------
    T. Zhang and Z.-H. Zhou, "Optimal Margin Distribution Machine", IEEE Transactions on
    Knowledge and Data Engineering 32(6), 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from optimargin import LinearODMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LinearODMClassifier()).fit(X, y)
    >>> bool(model.score(X, y) > 0.96)
    True
    >>> bool(model[-1].dual_gap_ < 1e-12)
    True
    """

    _parameter_constraints: dict = {
        **LinearClassifier._parameter_constraints,
        **ODMMixin._parameter_constraints,
        "solver": [StrOptions({"auto", *SOLVERS})],
        "warm_start": ["boolean"],
    }

    _price_per_weight = 0.25

    def __init__(
        self,
        C1=None,
        C2=None,
        D=0.2,
        *,
        fit_intercept=True,
        solver="auto",
        tol=1e-6,
        max_iter=1000,
        class_weight=None,
        warm_start=False,
        random_state=None,
    ):
        self.C1 = C1
        self.C2 = C2
        self.D = D
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state

    def _make_design(self, X, weight):
        return linear_design(X, weight, self.fit_intercept, self._choose_solver(X))

    def _start(self, problem, k):
        if not (self.warm_start and hasattr(self, "coef_")):
            return None, 0.0
        shape = (1 if self.classes_.size == 2 else self.classes_.size, self.n_features_in_)
        if self.coef_.shape != shape:
            return None, 0.0
        w = self.coef_[k].astype(np.float64)
        intercept = float(self.intercept_[k]) if self.fit_intercept else 0.0
        return problem.design.coefficients(w, intercept, problem)

    def _store(self, training, solutions):
        super()._store(training, solutions)
        self.__dict__.pop("t_", None)  # a stream that was followed before ends here

    def _choose_solver(self, X):
        if self.solver != "auto":
            return self.solver
        return choose_linear_solver(X, max(self.C1_, self.C2_), self.tol)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_chunks(self, chunks):
        """Fit the classifier to data that do not fit in memory.

        Every pass reads all chunks; a fit takes about ten passes with up to 2000 features.
        Solves the same problem as `fit`, to the same certified gap.

        Parameters
        ----------
        chunks : Chunks
            From `optimargin.chunks`: `NpyChunks`, `SvmlightChunks`, `ParquetChunks`, or parts of
            arrays.

        Returns
        -------
        self : object
            The fitted estimator.

        Examples
        --------
        >>> from sklearn.datasets import make_classification
        >>> from optimargin import LinearODMClassifier
        >>> from optimargin.chunks import ArrayChunks
        >>> X, y = make_classification(1000, random_state=0)
        >>> model = LinearODMClassifier().fit_chunks(ArrayChunks(X, y, chunk_rows=300))
        >>> bool(model.dual_gap_ <= 1e-6)
        True
        """
        return fit_linear(self, chunks)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn from one batch of a stream that does not fit in memory.

        Every call makes one pass of stochastic gradient steps over the batch. With t samples
        seen the step is ``1 / (t + t0)``, so that (Robbins and Monro) the coefficients converge
        to the minimiser of ``|w|^2 / 2 + E[s l(y (x' w + b))]`` over the distribution the
        batches are drawn from; for w the expected error of the objective falls as O(1 / t).
        Batches that repeat one data set lead to the model that `fit` finds on it with the same
        `C1`, if its weights have mean one. No gap is certified: `fit` is exact, this is not.
        A stream has no length that `C1` could grow with: None is 64 here, or the value of a
        `fit` before.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever occur; needed in the first call.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : object
            The estimator.

        Examples
        --------
        >>> from sklearn.datasets import make_classification
        >>> from optimargin import LinearODMClassifier
        >>> X, y = make_classification(10_000, random_state=0)
        >>> model = LinearODMClassifier()
        >>> for first in range(0, 10_000, 1000):
        ...     batch = slice(first, first + 1000)
        ...     _ = model.partial_fit(X[batch], y[batch], classes=[0, 1])
        >>> bool(model.score(X, y) > 0.8)
        True
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all data at once: pass a dict, or sample_weight."
            )
        first = not hasattr(self, "t_")
        X, y = validate_data(self, X, y, reset=first, **self._input_checks())
        for name in ("objective_", "dual_gap_", "_training_data"):  # no longer of this model
            self.__dict__.pop(name, None)
        check_classification_targets(y)
        _check_partial_fit_first_call(self, classes)
        if self.classes_.size < 2:
            raise ValueError("classes has one class only: list every label of the stream.")
        if first:
            n_problems = 1 if self.classes_.size == 2 else self.classes_.size
            if getattr(self, "coef_", np.empty(0)).shape != (n_problems, X.shape[1]):
                self.coef_ = np.zeros((n_problems, X.shape[1]), dtype=X.dtype)
                self.intercept_ = np.zeros(n_problems, dtype=X.dtype)
            self.t_, self._largest_norm = 0, 0.0
        encoded = np.searchsorted(self.classes_, y)
        if (self.classes_[np.minimum(encoded, self.classes_.size - 1)] != y).any():
            raise ValueError("y has labels that are not in classes of the first partial_fit.")
        if self.C1 is not None or not hasattr(self, "C1_"):
            self._resolve_prices(_STREAM_WEIGHT)
        check_scale(X)
        weight = check_weights(sample_weight, X)
        weight = weight * self._class_factors(np.ones(self.classes_.size))[encoded]
        self._stochastic_pass(X, encoded, weight)
        return self

    def _stochastic_pass(self, X, encoded, weight):
        n_samples = X.shape[0]
        design = FeatureDesign(X)
        loss = self._make_loss()
        self._largest_norm = max(
            self._largest_norm, (weight * (design.squared_norms + self.fit_intercept)).max()
        )
        seed = check_random_state(self.random_state).randint(2**31 - 1) + self.t_
        zeros = np.zeros(n_samples)
        for k in range(self.coef_.shape[0]):
            positive = 1 if self.classes_.size == 2 else k
            y = np.where(encoded == positive, 1.0, -1.0)
            # A pass scales gradients by the number of samples, as for weights that sum to one.
            step = loss.coordinate_step(np.maximum(weight, np.finfo(float).tiny) / n_samples)
            passes = StochasticPass(step, y, seed=seed)
            w = self.coef_[k].astype(np.float64)
            intercept = float(self.intercept_[k])
            for seen in range(0, n_samples, _STEPS_OF_EQUAL_LENGTH):
                eta = 1.0 / (1 + self.t_ + seen + loss.smoothness * self._largest_norm)
                scale, intercept = passes.run(
                    design.rows_of(w),
                    zeros,
                    zeros,
                    intercept,
                    eta,
                    eta if self.fit_intercept else 0.0,
                    min(_STEPS_OF_EQUAL_LENGTH, n_samples - seen),
                    1,
                )
                w *= scale
            self.coef_[k] = w
            self.intercept_[k] = intercept
        self.t_ += n_samples
