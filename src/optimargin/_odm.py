"""The kernel optimal margin distribution machine."""

from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from optimargin._kernel_base import KernelClassifier
from optimargin._odm_mixin import ODMMixin
from optimargin.problems import KernelDesign, PanelDesign

_FLOAT32_TOL = 1e-8
_DIRECT_UP_TO = 700


class ODMClassifier(ODMMixin, KernelClassifier):
    """Kernel optimal margin distribution machine."""

    _parameter_constraints: dict = {
        **KernelClassifier._parameter_constraints,
        **ODMMixin._parameter_constraints,
        "solver": [StrOptions({"auto", "newton", "newton_cg", "dcd"})],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        C1=64.0,
        C2=16.0,
        D=0.2,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        fit_intercept=True,
        solver="auto",
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
        self.cache_size = cache_size
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.random_state = random_state

    def _kernel_design(self, X, weight):
        """Return the whole Gram matrix, or a design that stays within `cache_size`."""
        solver = self._choose_solver(X)
        if solver == "newton" or not self._kernel.is_positive_semidefinite:
            return super()._kernel_design(X, weight)
        n_samples = X.shape[0]
        if solver == "newton_cg":
            # Iterates are float64; rounding kernel values to float32 is well below any tol
            # that conjugate gradients can reach, and halves the memory traffic.
            dtype = np.float32 if self.tol > _FLOAT32_TOL else X.dtype
            return PanelDesign(self._kernel, X, dtype=dtype, max_bytes=self.cache_size * 1e6)
        if n_samples**2 * X.dtype.itemsize <= self.cache_size * 1e6:
            return KernelDesign(self._kernel(X))
        return PanelDesign(self._kernel, X, dtype=X.dtype, max_bytes=self.cache_size * 1e6)

    def _choose_solver(self, X):
        if self.solver != "auto":
            return self.solver
        if self.kernel == "linear":
            return super()._choose_solver(X)
        return "newton" if X.shape[0] <= _DIRECT_UP_TO else "newton_cg"
