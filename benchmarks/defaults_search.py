"""The accuracy of every candidate for the default parameters on every regular data set.

The candidates of one training half share its kernel matrix and start where the one before
ended, which is why this works on problems and solvers and not on estimators.
"""

from itertools import product

import numpy as np
from data import load, preprocessor
from joblib import Parallel, delayed
from sklearn.model_selection import StratifiedKFold

from optimargin.kernels import Kernel, resolve_gamma
from optimargin.problems import KernelDesign, MarginProblem, ODMLoss
from optimargin.solvers import Newton

N_REPEATS = 5
SCALINGS = ("unit", "standard")
KERNELS = ("linear", "scale", "auto", "mean_distance")  # the last three: gamma of the RBF kernel
C1 = [2.0**k for k in range(0, 13, 2)]
RATIO = [0.0, 1 / 64, 1 / 16, 1 / 4, 1.0]  # C2 / C1
D = [0.0, 0.1, 0.2, 0.3, 0.5]


def halves(y):
    """Yield (train, test): five random halvings, each half once the training half."""
    for seed in range(N_REPEATS):
        folds = StratifiedKFold(2, shuffle=True, random_state=seed)
        yield from folds.split(np.zeros_like(y, dtype=float), y)


def prepared(name, scaling):
    """Yield (X_train, signs_train, X_test, signs_test), scaled by the training half."""
    X, y = load(name)
    signs = np.where(y == np.unique(y)[1], 1.0, -1.0)
    for train, test in halves(y):
        scale = preprocessor(scaling).fit(X.iloc[train])
        X_train, X_test = scale.transform(X.iloc[train]), scale.transform(X.iloc[test])
        yield X_train, signs[train], X_test, signs[test]


def _kernel(name, X):
    if name == "linear":
        return Kernel("linear")
    return Kernel("rbf", resolve_gamma(name, X, np.ones(X.shape[0])))


def _accuracies(X, y, X_test, y_test, kernel_name):
    kernel = _kernel(kernel_name, X)
    design, K_test = KernelDesign(kernel(X)), kernel(X_test, X)
    weight = np.full(y.size, 1 / y.size)
    solver = Newton(tol=1e-6, max_iter=200)
    accuracy = np.empty((len(C1), len(RATIO), len(D)))
    for j, k in product(range(len(RATIO)), range(len(D))):
        coef, intercept = np.zeros(y.size), 0.0
        for i, c in enumerate(C1):
            loss = ODMLoss(c, c * RATIO[j], D[k])
            problem = MarginProblem(loss, design, y, weight, fit_intercept=True)
            solution = solver.solve(problem, coef, intercept)
            coef, intercept = solution.coef, solution.intercept
            positive = K_test @ coef + intercept > 0
            accuracy[i, j, k] = np.mean(positive == (y_test > 0))
    return accuracy


def _search_one(name, scaling):
    folds = [
        [_accuracies(*fold, kernel_name) for kernel_name in KERNELS]
        for fold in prepared(name, scaling)
    ]
    return np.mean(folds, axis=0)


def search(names, n_jobs):
    """Return mean accuracies of shape (scaling, set, kernel, C1, ratio, D)."""
    tasks = list(product(SCALINGS, names))
    results = Parallel(n_jobs=n_jobs, verbose=5)(
        delayed(_search_one)(name, scaling) for scaling, name in tasks
    )
    shape = (len(SCALINGS), len(names), len(KERNELS), len(C1), len(RATIO), len(D))
    return np.reshape(results, shape)
