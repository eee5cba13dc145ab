"""What a search that may find a width per feature says about features."""

import numpy as np
from scipy.sparse import issparse
from sklearn.utils._param_validation import StrOptions

RELEVANCE: dict = {"relevance": ["boolean", StrOptions({"auto"})]}


class Relevance:
    """A search that may have found a width per feature."""

    @property
    def feature_importances_(self) -> np.ndarray:
        """The share of each feature in squared distances, of shape (n_features,)."""
        found = vars(self)
        if np.ndim(found.get("gamma_", 0.0)) > 0:  # one width for all says nothing about features
            return found["feature_importances_"]
        way = "Look for widths of an RBF kernel with relevance=True, without a grid and cv, or use "
        if getattr(self, "relevance", True) is True:  # it has looked, or cannot
            way = "Use "
        raise AttributeError(
            "feature_importances_ is there where a search has found a width per feature: one "
            f"width for all says nothing about them. {way}permutation_importance of "
            "sklearn.inspection."
        )


def relevance_of(gamma, X, weight):
    """Return the width of each feature, and, where these differ, its share of squared distances.

    Parameters
    ----------
    gamma : float or ndarray of shape (n_features,)
    X : {ndarray, CSR} of shape (n_samples, n_features)
    weight : ndarray of shape (n_samples,) or None
    """
    gammas = np.broadcast_to(np.asarray(gamma, dtype=np.float64), X.shape[1])
    with np.errstate(divide="ignore"):
        found = {"widths_": 1.0 / np.sqrt(2.0 * gammas)}
    if np.ndim(gamma) > 0:
        share = gammas * _variances(X, weight)
        found["feature_importances_"] = share / share.sum()
    return found


def _variances(X, weight):
    """Return the weighted variance of each feature."""
    weight = np.ones(X.shape[0]) if weight is None else weight
    weight = weight / weight.sum()
    mean = weight @ X
    if issparse(X):
        return np.maximum(weight @ X.power(2) - mean**2, 0.0)
    return weight @ np.square(X - mean)
