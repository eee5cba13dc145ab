"""What the linear classifiers share: coefficients of features, and scores by them."""

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot

from optimargin._base import BaseMarginClassifier


class LinearClassifier(BaseMarginClassifier):
    """Turn solutions into coefficients of the features."""

    def _store(self, training, solutions):
        coef = np.empty((len(solutions), self.n_features_in_))
        intercept = np.empty(len(solutions))
        for k, solution in enumerate(solutions):
            coef[k], shift = training.design.features(solution.coef)
            intercept[k] = solution.intercept + shift
        self.coef_ = coef.astype(training.X.dtype, copy=False)
        self.intercept_ = intercept.astype(training.X.dtype, copy=False)

    def _scores(self, X):
        return safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
