"""Margin distribution optimisation.

    min over |w| = 1   mean_i c(y_i w'x_i),    c(g) = exp(-alpha g^2) for g >= 0, else exp(-beta g)

on samples of unit length with a constant feature. The loss is not convex: descent starts at the
ridge regression of the labels, and ends in a local minimum.

The form of the loss is this library's reading of the idea, larger for smaller margins: a result
here says little about the authors' program.

Reference: A. Garg and D. Roth, Margin distribution and learning algorithms, ICML 2003.
"""

from numbers import Real

import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import ridge_regression
from sklearn.utils._param_validation import Interval

from optimargin_study.baselines._base import TwoClassBaseline


class MarginDistributionOptimizer(TwoClassBaseline):
    """Margin distribution optimisation (MDO), for linear classifiers.

    Parameters
    ----------
    alpha : float, default=100.0
        How fast the loss of a correctly classified sample falls with its margin.
    beta : float, default=10.0
        How fast the loss of a misclassified sample grows.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    objective_ : float
        The mean loss of the training samples.

    Examples
    --------
    >>> from optimargin_study.baselines import MarginDistributionOptimizer
    >>> model = MarginDistributionOptimizer().fit([[-2.0], [-1.0], [3.0], [4.0]], [0, 0, 1, 1])
    >>> model.predict([[-1.0], [3.0]])
    array([0, 1])
    """

    _parameter_constraints: dict = {
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "beta": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(self, alpha=100.0, beta=10.0):
        self.alpha = alpha
        self.beta = beta

    def _fit(self, X, y):
        scale = max(float(np.abs(X).max()), np.finfo(float).tiny)
        Z = _unit_rows(X / scale)
        start = ridge_regression(Z, y, alpha=1.0)
        if not np.linalg.norm(start) > 0:
            start = np.append(np.zeros(X.shape[1]), 1.0)

        def loss(w):
            norm = np.linalg.norm(w)
            direction = w / norm
            value, slope = self._loss(y * (Z @ direction))
            gradient = Z.T @ (slope * y)
            return value, (gradient - (gradient @ direction) * direction) / norm

        found = minimize(loss, start / np.linalg.norm(start), jac=True, method="L-BFGS-B")
        direction = found.x / np.linalg.norm(found.x)
        return {
            "coef_": direction[:-1] / scale,
            "intercept_": float(direction[-1]),
            "objective_": float(found.fun),
        }

    def _loss(self, margin):
        """Return the mean loss and its derivatives with respect to the margins."""
        right = np.exp(-self.alpha * np.square(np.maximum(margin, 0.0)))
        wrong = np.exp(self.beta * np.maximum(-margin, 0.0))
        is_right = margin >= 0
        slope = np.where(is_right, -2 * self.alpha * margin * right, -self.beta * wrong)
        return float(np.mean(np.where(is_right, right, wrong))), slope / margin.size

    def _decide(self, X):
        return X @ self.coef_ + self.intercept_


def _unit_rows(X):
    Z = np.column_stack([X, np.ones(X.shape[0])])
    return Z / np.linalg.norm(Z, axis=1, keepdims=True)
