"""What form a model has: coefficients of features, or of support vectors."""

from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from optimargin.estimators._base import BaseLearner, Registered
from optimargin.kernels import KERNELS, KernelChoice, kernel_class
from optimargin.training import KernelModel, LinearModel

KERNEL_CONSTRAINTS: dict = {
    "kernel": [Registered(KERNELS), callable],
    "gamma": [
        StrOptions({"scale", "auto", "mean_distance"}),
        Interval(Real, 0, None, closed="neither"),
    ],
    "degree": [Interval(Real, 0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
}


class LinearForm(BaseLearner):
    """A model with coefficients of features."""

    def _kernel_choice(self):
        return None

    @property
    def _model(self):
        return LinearModel(self.coef_, self.intercept_)


class KernelForm(BaseLearner):
    """A model with coefficients of support vectors."""

    _parameter_constraints: dict = KERNEL_CONSTRAINTS

    def _kernel_choice(self):
        return KernelChoice(self.kernel, self.gamma, self.degree, self.coef0)

    @property
    def _model(self):
        return KernelModel(
            self._kernel,
            getattr(self, "support_", None),
            self.support_vectors_,
            self.dual_coef_,
            self.intercept_,
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
