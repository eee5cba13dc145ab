"""What the kernel classifiers share: the Gram matrix, support vectors, scores."""

from abc import abstractmethod
from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot

from optimargin._base import BaseMarginClassifier, check_finite
from optimargin._warnings import warn_user
from optimargin.kernels import Kernel, gram_matrix, kernel_product, resolve_gamma
from optimargin.problems import KernelDesign


class KernelClassifier(BaseMarginClassifier):
    """Turn data into a kernel design, and solutions into support vectors and scores."""

    _parameter_constraints: dict = {
        **BaseMarginClassifier._parameter_constraints,
        "kernel": [StrOptions({"linear", "rbf", "poly", "sigmoid", "precomputed"}), callable],
        "gamma": [
            StrOptions({"scale", "auto", "mean_distance"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
    }

    def _check_values(self, X):
        if self.kernel == "precomputed" or callable(self.kernel):  # used as it is
            check_finite(X, type(self).__name__)
        else:
            super()._check_values(X)

    def _make_design(self, X, weight):
        self._projector = None
        if self.kernel == "linear":
            self._kernel = Kernel("linear")
            return self._linear_design(X, weight)
        if self.kernel == "precomputed" or callable(self.kernel):
            if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
                raise ValueError(
                    "With kernel='precomputed' X must be the square matrix of kernel values "
                    f"between the training samples; got shape {X.shape}."
                )
            self._kernel = Kernel(self.kernel)
        else:
            self.gamma_ = resolve_gamma(self.gamma, X, weight)
            self._kernel = Kernel(self.kernel, self.gamma_, self.degree, self.coef0)
        return self._kernel_design(X, weight)

    @abstractmethod
    def _linear_design(self, X, weight):
        """Return the design of the linear kernel."""

    def _kernel_design(self, X, weight):
        """Return the design of the whole Gram matrix."""
        gram = gram_matrix(self._kernel, X, weight)
        if gram.projector is not None:
            name = self.kernel if isinstance(self.kernel, str) else "given"
            warn_user(
                f"The {name} kernel matrix is not positive semi-definite "
                f"({gram.negative_share:.1%} of its spectrum is negative). The model was "
                "fitted with the positive part of the spectrum, which is the nearest problem "
                "that has a unique solution. Other kernel parameters may avoid this.",
            )
            self._projector = gram.projector
        return KernelDesign(gram.K)

    def _store(self, training, solutions):
        X, design = training.X, training.design
        dual_coef = np.empty((len(solutions), X.shape[0]))
        intercept = np.empty(len(solutions))
        for k, (solution, problem) in enumerate(zip(solutions, training.problems, strict=True)):
            intercept[k] = solution.intercept
            in_features = design.space == "feature"
            dual_coef[k] = problem.y * solution.dual if in_features else solution.coef
            if hasattr(design, "features"):
                intercept[k] += design.features(solution.coef)[1]
        if self._projector is not None:
            dual_coef = dual_coef @ self._projector.T
        del self._projector
        support = np.flatnonzero(dual_coef.any(axis=0))
        self.support_ = training.rows[support]
        self.support_vectors_ = (
            np.empty((0, 0), dtype=X.dtype) if self.kernel == "precomputed" else X[support]
        )
        self.dual_coef_ = dual_coef[:, support].astype(X.dtype, copy=False)
        self.intercept_ = intercept.astype(X.dtype, copy=False)

    @property
    def coef_(self):
        """Coefficients of the features, of shape (1 or n_classes, n_features)."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available with kernel='linear'.")
        return safe_sparse_dot(self.dual_coef_, self.support_vectors_)

    def _scores(self, X):
        if self.kernel == "linear":
            return safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        if self.kernel == "precomputed":
            return X[:, self.support_] @ self.dual_coef_.T + self.intercept_
        product = kernel_product(self._kernel, X, self.support_vectors_, self.dual_coef_.T)
        return product + self.intercept_

    def _take(self, X, rows):
        return X[np.ix_(rows, rows)] if self.kernel == "precomputed" else X[rows]

    def _input_checks(self):
        checks = super()._input_checks()
        if self.kernel == "precomputed":
            checks["accept_sparse"] = False
        return checks

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags
