"""Kernel Fisher discriminant.

    max over a   (a'(k_+ - k_-))^2 / a'(N + r I)a      =>   (N + r I) a = k_+ - k_-

with k_c the mean kernel column of class c and N the scatter of the kernel columns within the
classes; the intercept is that of linear discriminant analysis on the projected samples.

Reference: S. Mika et al., Fisher discriminant analysis with kernels, NNSP 1999.
"""

from numbers import Real

import numpy as np
from scipy.linalg import solve
from sklearn.utils._param_validation import Interval

from optimargin_study.baselines._base import KERNEL_CONSTRAINTS, KernelBaseline


class KernelFisherDiscriminant(KernelBaseline):
    """Linear discriminant analysis in the feature space of a kernel.

    Parameters
    ----------
    kernel : {"linear", "rbf"}, default="rbf"
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"
    reg : float, default=1e-3
        The ridge, relative to the mean diagonal of the scatter.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    dual_coef_ : ndarray of shape (n_samples,)
    intercept_ : float

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from optimargin_study.baselines import KernelFisherDiscriminant
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = X / X.max(axis=0)
    >>> bool(KernelFisherDiscriminant().fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.93)
    True
    """

    _parameter_constraints: dict = {
        **KERNEL_CONSTRAINTS,
        "reg": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(self, kernel="rbf", *, gamma="scale", reg=1e-3):
        self.kernel = kernel
        self.gamma = gamma
        self.reg = reg

    def _fit_gram(self, K, y):
        positive, negative = K[:, y > 0], K[:, y < 0]
        means = [part.mean(axis=1) for part in (positive, negative)]
        scatter = np.zeros_like(K)
        for part, mean in zip((positive, negative), means, strict=True):
            deviation = part - mean[:, None]
            scatter += deviation @ deviation.T
        ridge = self.reg * max(np.trace(scatter) / y.size, np.finfo(float).tiny)
        scatter[np.diag_indices_from(scatter)] += ridge
        coef = solve(scatter, means[0] - means[1], assume_a="pos")
        projected = K @ coef
        centers = [projected[y > 0].mean(), projected[y < 0].mean()]
        spread = np.mean((projected - np.where(y > 0, *centers)) ** 2)
        distance = centers[0] - centers[1]
        # The effect of the class shares on the threshold; zero if the classes coincide.
        prior = spread / distance * np.log((y > 0).sum() / (y < 0).sum()) if distance > 0 else 0.0
        intercept = float(prior - 0.5 * (centers[0] + centers[1]))
        return {"dual_coef_": coef, "intercept_": intercept}
