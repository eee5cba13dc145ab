"""Choosing parameters by k-fold accuracy over Gram matrices."""

import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC
from sklearn.utils.extmath import safe_sparse_dot

from optimargin._core._box_qp import BoxQP
from optimargin.kernels import Kernel
from optimargin.problems import KernelDesign, LDMDual, LDMProblem
from optimargin.problems.ldm_dual import EighShrinkage, scaled_gram

# A wide grid reaches values of C at which LIBSVM does not end on data that are not separable.
SVC_MAX_ITER = 200_000
PATH_TOL = 1e-5  # of margins
_SWEEPS = 20  # of coordinate descent where there is no neighbour to start at


def gram(problem, width, X, Y):
    """Return the kernel matrix of two sets of samples, dense and float64."""
    if width is None:
        return safe_sparse_dot(X, Y.T, dense_output=True)
    return Kernel("rbf", problem.gamma(width))(X, Y)


def choose(problem, solve, points):
    """Return the point and the width of the best mean accuracy over the folds.

    Parameters
    ----------
    problem : Problem
    solve : callable
        Takes the Gram matrix of training rows, their labels, and the kernel of test and
        training rows; returns decision values of shape (n_points, n_test).
    points : list of dict
        Smoothest first: of equally good ones the first is taken, and of widths the largest.

    Returns
    -------
    params : dict
        The point, with its ``width`` for the RBF kernel.
    """
    best_score, best = -1.0, {}
    for width in problem.widths:
        K = gram(problem, width, problem.X, problem.X)
        scores = np.zeros(len(points))
        for train, test in problem.folds:
            decision = solve(K[np.ix_(train, train)], problem.y[train], K[np.ix_(test, train)])
            scores += (np.where(decision > 0, 1, -1) == problem.y[test]).mean(axis=1)
        k = int(scores.argmax())
        if scores[k] > best_score + 1e-12:
            best_score = scores[k]
            best = dict(points[k]) if width is None else {**points[k], "width": width}
    return best


def ldm_solver(Cs, lambda1s, lambda2s, *, per_sample):
    """Return ``(solve, points)`` for `choose`: large margin distribution machines, no intercept.

    In variables that count from their lower bounds neighbouring points of the grid have nearly
    the same active bounds: each solve starts at its neighbour's solution.

    Parameters
    ----------
    Cs, lambda1s, lambda2s : sequence of float
    per_sample : bool
        Whether C is the price of one sample's loss, or of the mean loss.
    """

    def solve(K, y, K_test):
        scale = y.size if per_sample else 1
        weight = np.full(y.size, 1.0 / y.size)
        problem = LDMProblem(
            KernelDesign(K), y.astype(np.float64), weight, 1.0, 0.0, 0.0, fit_intercept=False
        )
        shrinkage = EighShrinkage(scaled_gram(problem))
        starts: dict = {}
        coef = np.empty((len(Cs), len(lambda1s), len(lambda2s), y.size))
        for j, lambda1 in enumerate(lambda1s):
            dual = LDMDual.of(problem.with_parameters(1.0, lambda1, 0.0), shrinkage)
            Q = dual.H * np.outer(y, y)
            row_sums = Q.sum(axis=1)
            box = BoxQP(Q)
            for i, C in enumerate(Cs):
                width = np.full(y.size, scale * C / y.size)
                a = starts.get(C, np.zeros(y.size))
                n_sweeps = 0 if C in starts else _SWEEPS
                for k, lambda2 in enumerate(lambda2s):
                    lower = lambda2 / y.size
                    if not box.solve(1.0 - lower * row_sums, width, a, PATH_TOL, n_sweeps):
                        raise ArithmeticError(f"No solution at {C=}, {lambda1=}, {lambda2=}.")
                    if k == 0:
                        starts[C] = a.copy()
                    n_sweeps = 0
                    s = y * (lower + a)
                    coef[i, j, k] = s - dual.problem.variance_gradient(dual.H @ s)
        return coef.reshape(-1, y.size) @ K_test.T

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
    """Return the point of the best mean accuracy, by fitting each to every fold.

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
    return points[int(np.argmax(scores))]


def with_widths(problem, points):
    """Return the points with every width of the kernel, largest first."""
    return [
        point if width is None else {**point, "width": width}
        for width in problem.widths
        for point in points
    ]
