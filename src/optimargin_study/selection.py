"""Choose parameters by k-fold accuracy, on Gram matrices."""

import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC
from sklearn.utils.extmath import safe_sparse_dot

from optimargin import ldm_path_decision
from optimargin.kernels import Kernel
from optimargin.selection import place_of_best

# A wide grid contains values of C for which LIBSVM does not end on inseparable data.
SVC_MAX_ITER = 200_000


def gram(problem, width, X, Y):
    """Return the kernel matrix of two sets of samples, dense and float64."""
    if width is None:
        return safe_sparse_dot(X, Y.T, dense_output=True)
    # Its metaclass makes the kernel of that name.
    kernel = Kernel("rbf", gamma=problem.gamma(width))  # type: ignore[abstract, call-arg]
    return kernel(X, Y)


def choose(problem, solve, points):
    """Return the point and the width with the best mean accuracy over the folds.

    Parameters
    ----------
    problem : Problem
    solve : callable
        Takes the Gram matrix of training rows, their labels, and the kernel of test and
        training rows; returns decision values of shape (n_points, n_test).
    points : list of dict
        Smoothest first: among equal points the first is taken, and the largest width.

    Returns
    -------
    params : dict
        The point, with its ``width`` for the RBF kernel.
    """
    scores = np.zeros((len(problem.widths), len(points)))
    for width, score in zip(problem.widths, scores, strict=True):
        K = gram(problem, width, problem.X, problem.X)
        for train, test in problem.folds:
            decision = solve(K[np.ix_(train, train)], problem.y[train], K[np.ix_(test, train)])
            score += (np.where(decision > 0, 1, -1) == problem.y[test]).mean(axis=1)
    return with_widths(problem, points)[place_of_best(scores.ravel())]


def ldm_solver(Cs, lambda1s, lambda2s, *, per_sample):
    """Return ``(solve, points)`` for `choose`: large margin distribution machines, no intercept.

    Parameters
    ----------
    Cs, lambda1s, lambda2s : sequence of float
    per_sample : bool
        Whether C multiplies the loss of each sample, or the mean loss.
    """

    def solve(K, y, K_test):
        scale = y.size if per_sample else 1
        decision = ldm_path_decision(
            K, y, K_test, Cs=scale * np.array(Cs), lambda1s=lambda1s, lambda2s=lambda2s
        )
        return decision.reshape(-1, K_test.shape[0])  # of one problem

    points = [
        {"C": C, "lambda1": lambda1, "lambda2": lambda2}
        for C in Cs
        for lambda1 in lambda1s
        for lambda2 in lambda2s
    ]
    return solve, points


def svc_solver(Cs):
    """Return ``(solve, points)`` for `choose`: scikit-learn's SVM, with an intercept."""

    def solve(K, y, K_test):
        models = (SVC(C=C, kernel="precomputed", max_iter=SVC_MAX_ITER).fit(K, y) for C in Cs)
        return np.array([model.decision_function(K_test) for model in models])

    return solve, [{"C": C} for C in Cs]


def choose_by_refits(problem, build, points):
    """Return the point with the best mean accuracy, by fitting each point to every fold.

    Parameters
    ----------
    problem : Problem
    build : callable
        Takes the problem and a point, returns an estimator.
    points : list of dict
        Smoothest first.
    """
    scores = [
        cross_val_score(build(problem, point), problem.X, problem.y, cv=problem.folds).mean()
        for point in points
    ]
    return points[place_of_best(scores)]


def with_widths(problem, points):
    """Return the points with every width of the kernel, largest first."""
    return [
        point if width is None else {**point, "width": width}
        for width in problem.widths
        for point in points
    ]
