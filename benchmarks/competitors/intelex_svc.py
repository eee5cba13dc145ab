"""The SVC of scikit-learn-intelex."""

try:
    from sklearnex.svm import SVC
except ImportError:
    SVC = None


def fit(X, y, gamma):
    if SVC is None:
        raise ImportError("pip install scikit-learn-intelex")
    return SVC(C=1.0, gamma=gamma).fit(X, y)
