"""optimargin's LinearODMClassifier; C2 = 0 and D = 0 make it the squared-hinge SVM."""

from optimargin import LinearODMClassifier


def fit(X, y, C1, tol, C2=0.0, D=0.0):
    model = LinearODMClassifier(C1, C2, D, fit_intercept=False, tol=tol, max_iter=5000)
    return model.fit(X, y).coef_[0]
