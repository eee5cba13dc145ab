"""What form a model has: coefficients of features, or of support vectors."""

from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from optimargin.designs import KernelMatrix
from optimargin.designs.base import SampleSpaceDesign
from optimargin.estimators._base import BaseLearner, Registered
from optimargin.kernels import KERNELS, KernelChoice, kernel_class, one_or_each
from optimargin.solvers import SOLVERS
from optimargin.training import KernelModel, LinearModel
from optimargin.training.plan import check_approximation, check_exact_size

KERNEL_CONSTRAINTS: dict = {
    "kernel": [Registered(KERNELS), callable],
    "gamma": [
        StrOptions({"scale", "auto", "mean_distance", "rms_distance", "local"}),
        Interval(Real, 0, None, closed="neither"),
        "array-like",
    ],
    "degree": [Interval(Real, 0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
}


EXACT_OR_LANDMARKS: dict = {
    "solver": [
        Registered(
            SOLVERS,
            lambda s: s.works_with(SampleSpaceDesign) or s.works_with(KernelMatrix),
            also=("auto",),
        )
    ],
    "approximation": [StrOptions({"nystrom"}), None],
    "n_components": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "cache_size": [Interval(Real, 0, None, closed="neither")],
}


class LinearForm(BaseLearner):
    """A model with coefficients of features."""

    def _kernel_choice(self):
        return None

    @property
    def _model(self):
        return LinearModel(self.coef_, self.intercept_)


class KernelForm(BaseLearner):
    """A model with coefficients of support vectors.

    Parameters
    ----------
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel, as for `sklearn.svm.SVC`. A callable takes two matrices and returns the
        matrix of kernel values between their rows.
    degree : float, default=3
        Degree of "poly"; at least 0.
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid".

    Attributes
    ----------
    gamma_ : float or ndarray of shape (n_features,)
        The value of `gamma` that was used, for kernels that have one.
    """

    _parameter_constraints: dict = KERNEL_CONSTRAINTS

    def _kernel_choice(self):
        return KernelChoice(self.kernel, one_or_each(self.gamma), self.degree, self.coef0)

    @property
    def _model(self):
        return KernelModel(
            self._kernel,
            getattr(self, "support_", None),
            self.support_vectors_,
            self.dual_coef_,
            self.intercept_,
            float(np.max(getattr(self, "dual_gap_", 0.0))),
        )

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients of the features, of shape (1 or n_classes, n_features)."""
        if not kernel_class(self.kernel).is_linear:
            raise AttributeError("coef_ is only available with kernel='linear'.")
        return self._model.coef

    def _input_checks(self):
        checks = super()._input_checks()
        if kernel_class(self.kernel).is_precomputed:
            checks["accept_sparse"] = False
        return checks

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        is_precomputed = self.kernel in KERNELS and kernel_class(self.kernel).is_precomputed
        tags.input_tags.pairwise = is_precomputed
        tags.input_tags.sparse = not is_precomputed
        return tags


class LandmarkForm(KernelForm):
    """A kernel model that may be restricted to the span of landmarks.

    Parameters
    ----------
    approximation : {"nystrom"} or None, default=None
        None solves with the kernel of all samples, for up to 100,000 of them. "nystrom"
        restricts w to the span of a few samples, the landmarks, which are chosen by randomly
        pivoted Cholesky: fits in time and memory proportional to the number of samples, and
        predictions from the landmarks alone. For kernels that are positive semi-definite:
        "rbf", "linear", and "poly" with an integer degree and ``coef0 >= 0``.
    n_components : int or "auto", default="auto"
        Number of landmarks of an approximation. "auto" doubles them, from 128 on, until
        the closed-form leave-one-out error falls by less than 5 % of itself, or there are 16 per
        root of the number of samples (1024 to 4096): an exact fit is then faster.
    cache_size : float, default=2000
        Memory for kernel values in MB, for all solvers but "newton", and for approximations.
        Where the whole Gram matrix does not fit, "newton_cg" keeps the values between samples
        outside the band: the wider it is, the fewer they are. What does not fit is computed
        anew. A kernel that may not be positive semi-definite ("sigmoid", a function, a
        matrix) takes up to four whole matrices with any solver, which must fit.

    Attributes
    ----------
    support_vectors_ : {ndarray, CSR} of shape (n_SV, n_features)
        The support vectors, or the landmarks; empty for a precomputed kernel.
    """

    _parameter_constraints: dict = EXACT_OR_LANDMARKS

    def _options(self):
        return replace(
            super()._options(),
            max_bytes=self.cache_size * 1e6,
            approximation=self.approximation,
            n_components=self.n_components,
        )

    def _check_plan(self, n_samples):
        """Raise the errors of a fit before time is spent on choosing its parameters."""
        options = self._options()
        if options.approximation is not None:
            check_approximation(self._kernel_choice().at(1.0), options)
        elif not kernel_class(self.kernel).is_linear:
            check_exact_size(n_samples, options)

    def _check_chunks_fit(self):
        if self.approximation is None or self.n_components == "auto":
            raise ValueError(
                "A kernel model of chunks needs landmarks: set approximation='nystrom' and "
                "n_components to their number."
            )
        super()._check_chunks_fit()
