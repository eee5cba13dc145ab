"""Choosing parameters by k-fold accuracy over Gram matrices."""

from dataclasses import replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

from optimargin.kernels import Kernel
from optimargin.problems import KernelDesign, LDMDual, LDMProblem
from optimargin.problems.ldm_dual import EighShrinkage, scaled_gram
from optimargin.solvers.interior_point import InteriorPoint
from optimargin.solvers.ldm_systems import SampleSystem

# A wide grid reaches values of C at which LIBSVM does not end on data that are not separable.
SVC_MAX_ITER = 200_000
PATH_TOL = 1e-5  # of margins, or of the gap where a general solver has to help
_FACES = 30
_RIDGE = 1e-11


def gram(problem, width, X, Y):
    """Return the kernel matrix of two sets of samples, dense and float64."""
    if width is None:
        return np.asarray(X @ Y.T, dtype=np.float64)
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

    Neighbouring points of the grid have nearly the same active bounds: each solve starts at its
    neighbour's solution and mostly ends after a face or two.

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
        decisions = []
        for lambda1 in lambda1s:
            dual = LDMDual.of(problem.with_parameters(1.0, lambda1, 0.0), shrinkage)
            Q = dual.H * np.outer(y, y)
            for lambda2 in lambda2s:
                for C in Cs:
                    at = dual.problem.with_parameters(scale * C, lambda1, lambda2)
                    start = np.clip(starts.get(C, at.lower), at.lower, at.upper)
                    d = minimise_in_box(Q, at.lower, at.upper, start)
                    if d is None:
                        system = SampleSystem(replace(dual, problem=at))
                        d = (
                            InteriorPoint(tol=PATH_TOL, max_iter=200)
                            .solve_system(system)[0]
                            .box_dual
                        )
                    starts[C] = d
                    s = y * d
                    decisions.append(K_test @ (s - at.variance_gradient(dual.H @ s)))
        return np.array(decisions)

    points = [
        {"C": C, "lambda1": lambda1, "lambda2": lambda2}
        for lambda1 in lambda1s
        for lambda2 in lambda2s
        for C in Cs
    ]
    return solve, points


def minimise_in_box(Q, lower, upper, d):
    """Minimise ``1/2 d'Qd - sum(d)`` in a box by solving the equations of its faces.

    Variables that leave the box are fixed at the bound they cross, and those whose gradient
    points inside are freed, until neither happens.

    Parameters
    ----------
    Q : ndarray of shape (n, n)
        Positive semi-definite.
    lower, upper : ndarray of shape (n,)
    d : ndarray of shape (n,)
        The start, inside the box: its bounds are the first guess.

    Returns
    -------
    d : ndarray of shape (n,) or None
        None where the faces repeat themselves, as they may if the start is far away.
    """
    ridge = _RIDGE * max(np.trace(Q) / d.size, np.finfo(float).tiny)
    low, high = d <= lower, d >= upper
    for _ in range(_FACES):
        free = np.flatnonzero(~(low | high))
        d = np.where(high, upper, lower)
        if free.size:
            d[free] = 0.0
            part = Q[np.ix_(free, free)]
            part[np.diag_indices_from(part)] += ridge
            try:
                factor = cho_factor(part, lower=True, overwrite_a=True, check_finite=False)
            except LinAlgError:
                return None
            d[free] = cho_solve(factor, 1.0 - Q[free] @ d, check_finite=False)
        gradient = Q @ d - 1.0
        slack = 1e-9 * (upper - lower)
        new_low = np.where(low, gradient >= -PATH_TOL, ~high & (d < lower - slack))
        new_high = np.where(high, gradient <= PATH_TOL, ~low & (d > upper + slack))
        if (new_low == low).all() and (new_high == high).all():
            converged = free.size == 0 or np.abs(gradient[free]).max() <= 10 * PATH_TOL
            return np.clip(d, lower, upper) if converged else None
        low, high = new_low, new_high
    return None


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
