"""Maximal average margin.

    max over |w| <= 1   mean_i y_i w'phi_i      =>   w is parallel to sum_i y_i phi_i

Reference: K. Pelckmans, J. Suykens and B. De Moor, A risk minimization principle for a class of
Parzen estimators, NIPS 2007.
"""

import numpy as np

from optimargin_study.baselines._base import KernelBaseline


class MaximalAverageMargin(KernelBaseline):
    """The classifier with the largest average margin (MAMC), in closed form.

    It is a Parzen estimator: all samples have the same influence. With classes of different sizes
    it favours the larger one, and in extreme cases predicts only that. It has no intercept.

    Parameters
    ----------
    kernel : {"linear", "rbf"}, default="rbf"
    gamma : {"scale", "auto", "mean_distance"} or float, default="scale"

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    dual_coef_ : ndarray of shape (n_samples,)
    intercept_ : float
        Zero.

    Examples
    --------
    >>> from optimargin_study.baselines import MaximalAverageMargin
    >>> model = MaximalAverageMargin(kernel="linear").fit([[-2.0], [-1.0], [3.0]], [0, 0, 1])
    >>> model.predict([[-1.0], [1.0]])
    array([0, 1])
    """

    def __init__(self, kernel="rbf", *, gamma="scale"):
        self.kernel = kernel
        self.gamma = gamma

    def _fit_gram(self, K, y):
        norm = np.sqrt(max(y @ K @ y, 0.0))
        coef = y / norm if norm > 0 else y / y.size
        return {"dual_coef_": coef, "intercept_": 0.0}
