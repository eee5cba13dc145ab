"""The kernel optimal margin distribution machine."""

from numbers import Integral, Real

import numpy as np
from scipy.sparse import issparse
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from optimargin._chunked_fit import fit_landmarks
from optimargin._kernel_base import KernelClassifier
from optimargin._linear_odm import linear_design
from optimargin._low_rank import LandmarkTraining, known_landmarks
from optimargin._odm_mixin import ODMMixin
from optimargin.kernels import Kernel, PreparedKernel
from optimargin.problems import KernelDesign, PanelDesign
from optimargin.solvers import Newton

_FLOAT32_TOL = 1e-8
_ROUGH_TOL = 1e-3
_EXACT_UP_TO = 100_000
_DIRECT_UP_TO = 700


class ODMClassifier(ODMMixin, KernelClassifier):
    """Kernel optimal margin distribution machine.

    Minimises ``|w|^2 / 2 + sum_i s_i l(y_i f(x_i)) / sum_i s_i`` over the functions
    ``f(x) = phi(x)' w + b`` of a kernel, with the loss
    ``l(g) = C1 max(0, 1 - D - g)^2 + C2 max(0, g - 1 - D)^2`` of the margin g and the sample
    weights s: margins are drawn to 1 from both sides, which optimises their mean and variance
    where a support vector machine looks at the smallest one.

    Parameters
    ----------
    C1 : float, default=None
        Price of margins below ``1 - D``. Weights are normalised, so a given value means the
        same for any number of samples. None is the sum of the weights, which makes
        the price of one sample 1 however many there are, as `C` does in `SVC`.
    C2 : float, default=None
        Price of margins above ``1 + D``; may be 0. None is ``C1 / 4``.
    D : float, default=0.2
        Half-width of the band around margin 1 that costs nothing, in [0, 1). Samples inside
        the band are no support vectors: a larger `D` makes a sparser model.
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel, as for `sklearn.svm.SVC`. A callable takes two matrices and returns the
        matrix of kernel values between their rows.
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid". "scale" is
        ``1 / (n_features * X.var())`` and "auto" ``1 / n_features``, as for `SVC`;
        "mean_distance" is ``1 / (2 d^2)`` with the mean distance d of the training samples,
        the paper's width. All of them take sample weights into account.
    degree : float, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Independent term of "poly" and "sigmoid".
    fit_intercept : bool, default=True
        Whether to fit an intercept; it is not penalised.
    solver : {"auto", "newton", "newton_cg", "dcd"}, default="auto"
        How the objective is minimised; all solvers reach the same model. "newton" factorises
        the Gram matrix, "newton_cg" iterates with kernel values in float32 (in the precision
        of the data where `tol` is below 1e-8), "dcd" is the paper's coordinate descent.
        "auto" takes "newton" up to 700 samples and "newton_cg" past that.
    approximation : {"nystrom"} or None, default=None
        None solves with the kernel of all samples, for up to 100,000 of them. "nystrom"
        restricts w to the span of a few samples, the landmarks, which are chosen by randomly
        pivoted Cholesky: fits in time and memory proportional to the number of samples, and
        predictions from the landmarks alone. For kernels that are positive semi-definite:
        "rbf", "linear", and "poly" with an integer degree and ``coef0 >= 0``.
    n_components : int or "auto", default="auto"
        Number of landmarks of an approximation. "auto" doubles them, from 128 to at most 4096,
        until the closed-form leave-one-out error falls by less than 5 % of itself.
    cache_size : float, default=2000
        Memory for kernel values in MB, for "newton_cg", "dcd" and approximations. Where the whole
        Gram matrix does not fit, "newton_cg" keeps the values between samples outside the band:
        a large `D` and a small `C2` leave few of them. What does not fit is computed anew.
    tol : float, default=1e-6
        The fit ends once the certified duality gap, relative to the objective, is at most
        `tol`.
    max_iter : int, default=1000
        Limit on Newton steps or passes over the data.
    class_weight : dict or "balanced", default=None
        Factors of the sample weights, by class. "balanced" makes the weights of all classes
        sum to the same.
    random_state : int, RandomState instance or None, default=None
        For the order of samples in "dcd" and for landmarks.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    support_ : ndarray of shape (n_SV,)
        Places of the support vectors in the training data; with more than two classes, of all
        that support at least one class. With an approximation, of the landmarks.
    support_vectors_ : {ndarray, CSR} of shape (n_SV, n_features)
        The support vectors; empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (1, n_SV) or (n_classes, n_SV)
        Coefficients of the support vectors:
        ``decision_function(X) == kernel(X, support_vectors_) @ dual_coef_.T + intercept_``.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercepts.
    C1_, C2_ : float
        The values of `C1` and `C2` that were used.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients of the features; only for ``kernel="linear"``.
    gamma_ : float
        The value of `gamma` that was used, for kernels that have one.
    n_iter_ : int or ndarray of shape (n_classes,)
        Newton steps or passes over the data; with more than two classes one number a class.
    objective_ : float or ndarray of shape (n_classes,)
        The minimum found.
    dual_gap_ : float or ndarray of shape (n_classes,)
        The certified relative duality gap: no model has an objective lower by more than that.
    solver_ : str
        The solver that was used.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where the data have names that are all strings.

    See Also
    --------
    LinearODMClassifier : The same without a kernel, for large data.

    Notes
    -----
    A kernel matrix that is not positive semi-definite ("sigmoid", some callables) has no unique
    minimum. The model is then fitted with the positive part of its spectrum, and a warning says
    so.

    References
    ----------
    T. Zhang and Z.-H. Zhou, "Optimal Margin Distribution Machine", IEEE Transactions on
    Knowledge and Data Engineering 32(6), 2020.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from optimargin import ODMClassifier
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = ODMClassifier().fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> model.solver_
    'newton'
    >>> bool(model.dual_gap_ < 1e-12)
    True
    """

    _parameter_constraints: dict = {
        **KernelClassifier._parameter_constraints,
        **ODMMixin._parameter_constraints,
        "solver": [StrOptions({"auto", "newton", "newton_cg", "dcd"})],
        "approximation": [StrOptions({"nystrom"}), None],
        "n_components": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
    }

    _price_per_weight = 1.0

    def __init__(
        self,
        C1=None,
        C2=None,
        D=0.2,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        fit_intercept=True,
        solver="auto",
        approximation=None,
        n_components="auto",
        cache_size=2000,
        tol=1e-6,
        max_iter=1000,
        class_weight=None,
        random_state=None,
    ):
        self.C1 = C1
        self.C2 = C2
        self.D = D
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.approximation = approximation
        self.n_components = n_components
        self.cache_size = cache_size
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_chunks(self, chunks):
        """Fit the classifier to data that do not fit in memory.

        Every pass reads all chunks; a fit takes about ten passes.
        Solves the same problem as `fit`, to the same certified gap.

        Parameters
        ----------
        chunks : Chunks
            From `optimargin.chunks`: `NpyChunks`, `SvmlightChunks`, `ParquetChunks`, or parts of
            arrays.

        Returns
        -------
        self : object
            The fitted estimator, without `support_`: landmarks have no place in one array.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from optimargin import ODMClassifier
        >>> from optimargin.chunks import ArrayChunks
        >>> X, y = make_moons(1000, noise=0.1, random_state=0)
        >>> model = ODMClassifier(approximation="nystrom", n_components=50, random_state=0)
        >>> bool(model.fit_chunks(ArrayChunks(X, y, chunk_rows=300)).score(X, y) > 0.95)
        True
        """
        if self.approximation is None or self.n_components == "auto":
            raise ValueError(
                "A kernel model of chunks needs landmarks: set approximation='nystrom' and "
                "n_components to their number."
            )
        return fit_landmarks(self, chunks, self.n_components)

    def _fixed_kernel(self, gamma):
        """Return the kernel with that value of gamma, checked to be one for landmarks."""
        self.gamma_ = gamma
        self._kernel = Kernel(self.kernel, gamma, self.degree, self.coef0)
        self._check_approximation()
        return self._kernel

    def _linear_design(self, X, weight):
        if self.approximation is not None:
            return self._kernel_design(X, weight)
        solver = self._choose_solver(X)
        wide_and_sparse = issparse(X) and X.shape[0] < X.shape[1]
        if solver != "newton" or wide_and_sparse:
            return self._kernel_design(X, weight)
        return linear_design(X, weight, self.fit_intercept, solver)

    def _make_solver(self):
        solver = super()._make_solver()
        if self.approximation is None and self.kernel == "linear" and isinstance(solver, Newton):
            # Only at the exact optimum are w and the sum over support vectors the same.
            solver.exact_up_to = np.inf
        return solver

    def _kernel_design(self, X, weight):
        """Return the whole Gram matrix, or a design that stays within `cache_size`."""
        if self.approximation is not None:
            return self._landmark_design(X, weight)
        solver = self._choose_solver(X)
        if self.solver == "auto" and X.shape[0] > _EXACT_UP_TO:
            raise ValueError(
                f"X has {X.shape[0]} samples: the exact kernel solver is meant for at most "
                f"{_EXACT_UP_TO}. Set approximation='nystrom' for a model of few landmarks, use "
                "LinearODMClassifier, or insist on the exact one with solver='newton_cg'."
            )
        if solver == "newton" or not self._kernel.is_positive_semidefinite:
            return super()._kernel_design(X, weight)
        n_samples = X.shape[0]
        PreparedKernel(self._kernel, X).check_finite()
        if solver == "newton_cg":
            # Iterates are float64; rounding kernel values to float32 is well below any tol
            # that conjugate gradients can reach, and halves the memory traffic.
            dtype = np.float32 if self.tol > _FLOAT32_TOL else X.dtype
            if not PreparedKernel(self._kernel, X, dtype).is_finite():
                dtype = X.dtype
            prepared = PreparedKernel(self._kernel, X, dtype)
            return PanelDesign(prepared, max_bytes=self.cache_size * 1e6)
        if n_samples**2 * X.dtype.itemsize <= self.cache_size * 1e6:
            return KernelDesign(self._kernel(X))
        # Half for the rows that coordinate descent keeps, half for what certifies it.
        return PanelDesign(PreparedKernel(self._kernel, X), max_bytes=self.cache_size / 2 * 1e6)

    def _prepare_rebuilding(self, X):
        self._landmarks_are_known = True
        self.solver = "newton"
        had_limit = self.approximation is None and self.solver_ != "newton"
        if had_limit and self.kernel != "linear" and 8e-6 * X.shape[0] ** 2 > self.cache_size:
            self.solver, self.tol = "newton_cg", 0.0  # values on demand, in the precision of X

    def _check_approximation(self):
        if not self._kernel.is_positive_semidefinite:
            name = self.kernel if isinstance(self.kernel, str) else "given"
            raise ValueError(
                "approximation='nystrom' needs a kernel that is known to be positive "
                f"semi-definite, which the {name} kernel is not: use 'rbf', 'linear', 'poly' with "
                "an integer degree and coef0 >= 0, or approximation=None."
            )
        if self.solver not in ("auto", "newton"):
            raise ValueError(
                f"solver={self.solver!r} does not work with approximation='nystrom': use "
                "solver='auto' or 'newton'."
            )

    def _landmark_design(self, X, weight):
        self._check_approximation()
        PreparedKernel(self._kernel, X).check_finite()
        max_bytes = self.cache_size * 1e6
        if getattr(self, "_landmarks_are_known", False):
            return known_landmarks(self._kernel, X, self.support_vectors_, max_bytes)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        self._landmarks = LandmarkTraining(
            self._kernel, X, weight, self.n_components, max_bytes=max_bytes, seed=seed
        )
        return self._landmarks.design(1)

    def _before_solving(self, training):
        if self.approximation is None:
            return training
        rough = Newton(tol=_ROUGH_TOL, max_iter=self.max_iter, exact_up_to=0)
        fine = Newton(tol=self.tol, max_iter=self.max_iter)
        training, self._starts = self._landmarks.solve(training, rough, fine)
        return training

    def _start(self, problem, k):
        if self.approximation is None:
            return super()._start(problem, k)
        return self._starts[k]

    def _store(self, training, solutions):
        if self.approximation is None:
            super()._store(training, solutions)
            return
        rows = self._landmarks.landmarks.rows
        order = np.argsort(rows)
        coef = np.array([training.design.landmark_coefficients(s.coef) for s in solutions])
        X, dtype = training.X, training.X.dtype
        self.support_ = training.rows[rows[order]]
        self.support_vectors_ = X[rows[order]]
        self.dual_coef_ = coef[:, order].astype(dtype, copy=False)
        self.intercept_ = np.array([s.intercept for s in solutions], dtype=dtype)
        del self._landmarks, self._starts, self._projector

    def _choose_solver(self, X):
        if self.approximation is not None:
            return "newton"
        if self.solver != "auto":
            return self.solver
        small = min(X.shape) if self.kernel == "linear" else X.shape[0]
        return "newton" if small <= _DIRECT_UP_TO else "newton_cg"
