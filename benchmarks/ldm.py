"""The large margin distribution machine against SVC and LIBLINEAR, ratios within one run.

Prints one line per comparison:

    path     the paper's 7 x 7 x 3 grid on half of german, against as many SVC fits
    kernel   one RBF fit on 2000 samples of adult-a, against SVC; also the Gram matrix alone
    linear   halves of ijcnn1 and adult-a, against LIBLINEAR's hinge loss at a gap of 1e-4
    bound    how often the paper's leave-one-out bound is below the error
"""

import lzma
from time import perf_counter

import data
import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.svm import SVC, LinearSVC

from optimargin import LDMClassifier, LinearLDMClassifier, ldm_path
from optimargin.kernels import Kernel, resolve_gamma

GAP = 1e-4


def timed(function, repeats=3):
    """Return the shortest time of `repeats` calls, and the last result."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        result = function()
        times.append(perf_counter() - start)
    return min(times), result


def half(n_samples, seed=0):
    return np.random.default_rng(seed).permutation(n_samples)[: n_samples // 2]


def load_sparse(name):
    with lzma.open(data.FOLDER / f"{name}.svm.xz") as file:
        X, y = load_svmlight_file(file)
    rows = half(X.shape[0])
    return X[rows], y[rows]


def path():
    X, y = data.load("german")
    rows = half(len(y))
    X, y = data.preprocessor("unit").fit_transform(X)[rows], y[rows]
    gamma = resolve_gamma("mean_distance", X, np.ones(len(y)))
    for fit_intercept in (False, True):
        options = {"gamma": gamma, "fit_intercept": fit_intercept}
        seconds, result = timed(lambda options=options: ldm_path(X, y, **options))

        def peers(params=result.params):
            for point in params:
                SVC(C=point["C"] / len(y), gamma=gamma).fit(X, y)

        peer, _ = timed(peers, 1)
        cold = [LDMClassifier(**point, **options).fit(X, y).objective_ for point in result.params]
        difference = np.max(np.abs(result.objective[:, 0] - cold) / np.abs(cold))
        print(
            f"path    german m={len(y)} intercept={fit_intercept!s:5} {seconds:.2f} s, "
            f"147 SVC fits {peer:.2f} s, ratio {seconds / peer:.2f}, "
            f"largest difference from a cold fit {difference:.1e}"
        )


def kernel(n_samples=2000):
    X, y = load_sparse("adult-a")
    X, y = X[:n_samples], y[:n_samples]
    gamma = resolve_gamma("mean_distance", X, np.ones(n_samples))
    gram, _ = timed(lambda: Kernel("rbf", gamma)(X))
    for C in (10.0, 100.0):
        peer, _ = timed(lambda C=C: SVC(C=C / n_samples, gamma=gamma).fit(X, y))
        seconds, model = timed(lambda C=C: LDMClassifier(C=C, gamma=gamma).fit(X, y))
        print(
            f"kernel  adult-a m={n_samples} C={C:g}: {seconds:.2f} s, of it Gram matrix {gram:.2f} "
            f"s, SVC {peer:.2f} s, ratio {seconds / peer:.2f}, gap {model.dual_gap_:.1e}"
        )


def linear():
    for name in ("ijcnn1", "adult-a"):
        X, y = load_sparse(name)
        for C in (10.0, 100.0):
            seconds, left, gap = ours(X, y, C)
            peer, peer_left = liblinear(X, y, C)
            print(
                f"linear  {name} {X.shape[0]} x {X.shape[1]} C={C:g}: {seconds:.3f} s, {left:.1e} "
                f"above the optimum, certified {gap:.1e}; LIBLINEAR {peer:.3f} s, {peer_left:.1e}; "
                f"ratio {seconds / peer:.2f}"
            )


def ours(X, y, C):
    """Return the time, distance and certificate of the loosest fit within `GAP` of the optimum."""
    exact = LinearLDMClassifier(C, fit_intercept=False, tol=1e-9).fit(X, y).objective_
    for tol in 1e-2 * 2.0 ** -np.arange(20):
        model = LinearLDMClassifier(C, fit_intercept=False, tol=tol)
        seconds, model = timed(lambda model=model: model.fit(X, y))
        left = (model.objective_ - exact) / abs(exact)
        if left <= GAP:
            break
    return seconds, left, model.dual_gap_


def liblinear(X, y, C):
    """Return the time and distance of the loosest LIBLINEAR fit within `GAP` of its optimum."""
    exact = LinearLDMClassifier(C, 0.0, 0.0, fit_intercept=False, tol=1e-9).fit(X, y)
    sign = np.where(y == exact.classes_[1], 1.0, -1.0)
    for tol in 2.0 ** -np.arange(30):
        model = LinearSVC(
            C=C / len(y), loss="hinge", fit_intercept=False, tol=tol, max_iter=10**6, random_state=0
        )
        seconds, model = timed(lambda model=model: model.fit(X, y))
        w = model.coef_[0]
        value = 0.5 * w @ w + C * np.mean(np.maximum(0.0, 1.0 - sign * (X @ w)))
        left = value / exact.objective_ - 1
        if left <= GAP:
            break
    return seconds, left


def bound(n_problems=100):
    """Count how often the printed bound is below the brute-force leave-one-out error."""
    rng = np.random.default_rng(0)
    for lambda2 in (0.0, 0.25, 1.0, 4.0, 10.0, 20.0, 40.0):
        violated = 0
        for _ in range(n_problems):
            X = rng.normal(size=(25, 2))
            y = np.where(X[:, 0] + 0.8 * rng.normal(size=25) > 0, 1, -1)
            y[:2] = -1, 1
            options = {"lambda2": lambda2, "gamma": 1.0, "fit_intercept": False}
            C = 10.0 ** rng.uniform(0, 2)
            lambda1 = 10.0 ** rng.uniform(-1, 1)
            limit = LDMClassifier(C, lambda1, **options).fit(X, y).loo_error_bound(kind="printed")
            wrong = 0
            for i in range(25):
                rest = np.arange(25) != i
                if np.unique(y[rest]).size < 2:
                    continue
                left = LDMClassifier(C, lambda1, **options).fit(X[rest], y[rest])
                wrong += left.predict(X[i : i + 1])[0] != y[i]
            violated += wrong / 25 > limit + 1e-9
        print(f"bound   lambda2={lambda2:g}: violated in {violated} of {n_problems} problems")


if __name__ == "__main__":
    for part in (path, kernel, linear, bound):
        part()
