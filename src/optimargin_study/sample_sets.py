"""Two-class sets that come with scikit-learn, for a study that needs no download."""

import numpy as np
from sklearn.datasets import load_digits, load_iris, load_wine

from optimargin_study.datasets import find_set, load_paper_dataset


def _digits():
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, (3, 8))
    return X[chosen], y[chosen].astype(str)


def _iris():
    X, y = load_iris(return_X_y=True)
    return X[y > 0], y[y > 0].astype(str)


def _wine():
    X, y = load_wine(return_X_y=True)
    return X, np.where(y == 1, "second", "other")


SAMPLE_SETS = {"iris": _iris, "wine": _wine, "digits": _digits}
ABOUT = {
    "iris": "the irises versicolor and virginica, 100 samples of 4 features.",
    "wine": "the second of three cultivars against the others, 178 samples of 13 features.",
    "digits": "images of threes and eights, 357 samples of 64 features.",
}


def load_set(name):
    """Return the features and labels of a set of the paper or a sample set.

    Parameters
    ----------
    name : str

    Returns
    -------
    X : {ndarray, CSR} of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)

    Examples
    --------
    >>> from optimargin_study.sample_sets import load_set
    >>> load_set("wine")[0].shape
    (178, 13)
    """
    if name in SAMPLE_SETS:
        return SAMPLE_SETS[name]()
    return load_paper_dataset(name, return_X_y=True)


def set_name(name):
    """Return the name of a set for a name or an alias; raise ValueError if there is none."""
    return name if name in SAMPLE_SETS else find_set(name).name
