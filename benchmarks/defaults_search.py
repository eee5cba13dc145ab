"""The accuracy of every candidate for the default parameters on every regular data set.

The candidates of one training half share its kernel matrix, and each starts from the solution of
the one before. So this works with problems and solvers, not with estimators.
"""

from itertools import product

import numpy as np
from data import load, preprocessor
from joblib import Parallel, delayed
from sklearn.model_selection import StratifiedKFold

from optimargin.designs import FeatureDesign, GramDesign, LinearGramDesign
from optimargin.kernels import Kernel, resolve_gamma
from optimargin.losses import BandLoss
from optimargin.problems import AdditiveProblem
from optimargin.solvers import Newton
from optimargin.targets import Target

SEEDS = range(5)
SCALINGS = ("unit", "standard")
KERNELS = ("linear", "scale", "auto", "mean_distance")  # the last three: gamma of the RBF kernel
PENALTY = [2.0**k for k in range(-6, 7, 2)]  # C1 / n_samples
RATIO = [0.0, 1 / 64, 1 / 16, 1 / 4, 1.0]  # C2 / C1
D = [0.0, 0.1, 0.2, 0.3, 0.5]


def halves(y, seed):
    """Yield (train, test) of one random half split, each half training once."""
    folds = StratifiedKFold(2, shuffle=True, random_state=seed)
    yield from folds.split(np.zeros(y.size), y)


def prepared(name, scaling, seed):
    """Yield (X_train, signs_train, X_test, signs_test), scaled by the training half."""
    X, y = load(name)
    signs = np.where(y == np.unique(y)[1], 1.0, -1.0)
    for train, test in halves(y, seed):
        scale = preprocessor(scaling).fit(X.iloc[train])
        X_train = np.ascontiguousarray(scale.transform(X.iloc[train]))
        X_test = scale.transform(X.iloc[test])
        yield X_train, signs[train], X_test, signs[test]


def _design_and_decision(X, X_test, name):
    """Return the design matrix and a function from coefficients to decision values."""
    if name == "linear":
        design = (FeatureDesign if X.shape[1] < X.shape[0] else LinearGramDesign)(X, X.mean(axis=0))

        def decision(coef):
            w, shift = design.to_features(coef)
            return X_test @ w + shift

        return design, decision
    kernel = Kernel("rbf", resolve_gamma(name, X, np.ones(X.shape[0])))
    return GramDesign(kernel(X)), kernel(X_test, X).__matmul__


def _accuracies(X, y, X_test, y_test, kernel):
    design, decision = _design_and_decision(X, X_test, kernel)
    target = Target(y, y, np.full(y.size, 1 / y.size))
    solver = Newton(tol=1e-6, max_iter=200)
    accuracy = np.empty((len(PENALTY), len(RATIO), len(D)))
    for j, k in product(range(len(RATIO)), range(len(D))):
        coef, intercept = np.zeros(design.n_coef), 0.0
        for i, penalty in enumerate(PENALTY):
            loss = BandLoss(y.size * penalty, y.size * penalty * RATIO[j], D[k])
            problem = AdditiveProblem(loss, design, target, fit_intercept=True)
            solution = solver.solve(problem, coef, intercept)
            coef, intercept = solution.coef, solution.intercept
            accuracy[i, j, k] = np.mean((decision(coef) + intercept > 0) == (y_test > 0))
    return accuracy


def _search_one(name, scaling, seed):
    folds = [
        [_accuracies(*fold, kernel) for kernel in KERNELS] for fold in prepared(name, scaling, seed)
    ]
    return np.mean(folds, axis=0)


def search(names, seeds, n_jobs):
    """Return mean accuracies of shape (scaling, set, kernel, penalty, ratio, D)."""
    tasks = product(SCALINGS, names, seeds)
    results = Parallel(n_jobs=n_jobs)(
        delayed(_search_one)(name, scaling, seed) for scaling, name, seed in tasks
    )
    return np.reshape(results, (len(SCALINGS), len(names), len(seeds), *results[0].shape)).mean(2)
