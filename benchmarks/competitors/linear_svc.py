"""scikit-learn's LinearSVC, which wraps LIBLINEAR, by its dual and its primal solver."""

from sklearn.svm import LinearSVC


def _fit(X, y, C1, tol, dual):
    model = LinearSVC(
        C=C1 / y.size, loss="squared_hinge", dual=dual, fit_intercept=False, tol=tol, max_iter=5000
    )
    return model.fit(X, y).coef_[0]


def fit_dual(X, y, C1, tol):
    return _fit(X, y, C1, tol, dual=True)


def fit_primal(X, y, C1, tol):
    return _fit(X, y, C1, tol, dual=False)
