"""Random training problems, easy and nasty, for property-based tests."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

from optimargin import LinearODMClassifier, ODMClassifier
from tests import oracle
from tests.cases import CauchyKernel

KERNELS = [
    {"kernel": "linear"},
    {"kernel": "rbf", "gamma": "scale"},
    {"kernel": "rbf", "gamma": "auto"},
    {"kernel": "rbf", "gamma": "mean_distance"},
    {"kernel": "poly", "degree": 2, "coef0": 1.0},
    {"kernel": "poly", "degree": 3, "coef0": 0.0},
    {"kernel": "precomputed"},
    {"kernel": CauchyKernel()},
]


@dataclass(frozen=True)
class RandomProblem:
    """Everything that defines a training problem; all randomness comes from `seed`."""

    seed: int
    n_samples: int
    n_features: int
    noise: float
    duplicates: bool
    constant_column: bool
    bad_scales: bool
    weights: str
    log2_C1: int
    log2_C2: int | None
    D: float
    fit_intercept: bool
    kernel: dict | None

    @property
    def penalties(self):
        """C1, C2 and D."""
        C2 = 0.0 if self.log2_C2 is None else 2.0**self.log2_C2
        return 2.0**self.log2_C1, C2, self.D

    def data(self):
        """Return rows, labels -1 and +1, and weights."""
        rng = np.random.default_rng(self.seed)
        m, d = self.n_samples, self.n_features
        X = rng.normal(size=(m, d))
        score = X @ rng.normal(size=d) + self.noise * rng.normal(size=m)
        y = np.where(score > rng.normal(), 1.0, -1.0)
        y[0], y[1] = 1.0, -1.0
        if self.duplicates:
            copied = rng.integers(0, m, size=m // 2)
            X[rng.permutation(m)[: m // 2]] = X[copied]
        if self.constant_column and d > 1:  # alone it would leave kernels without a scale
            X[:, 0] = 3.0
        if self.bad_scales:
            X *= 10.0 ** rng.integers(-3, 4, size=d)
        weight = {
            "none": np.ones(m),
            "uniform": rng.uniform(0.1, 2.0, size=m),
            "counts": rng.integers(1, 6, size=m).astype(float),
            "wide": 10.0 ** rng.uniform(-3, 3, size=m),
        }[self.weights]
        return X, y, weight

    def model(self, **parameters):
        """Return the estimator of this problem, not fitted."""
        estimator = LinearODMClassifier if self.kernel is None else ODMClassifier
        C1, C2, D = self.penalties
        return estimator(
            C1, C2, D, fit_intercept=self.fit_intercept, **(self.kernel or {}), **parameters
        )

    def training_input(self, X):
        """Return what the estimator is fitted on: rows or a Gram matrix."""
        precomputed = self.kernel is not None and self.kernel["kernel"] == "precomputed"
        return rbf_kernel(X, gamma=0.1 / (X.var() or 1.0)) if precomputed else X


def random_problems(kernels):
    """Return a strategy for problems with one of these kernels (None: the linear estimator)."""
    log2_penalty = st.integers(-4, 14)
    return st.builds(
        RandomProblem,
        seed=st.integers(0, 10**6),
        n_samples=st.one_of(st.integers(2, 12), st.integers(2, 200)),
        n_features=st.one_of(st.integers(1, 8), st.integers(1, 60)),
        noise=st.sampled_from([0.0, 0.5, 3.0]),
        duplicates=st.booleans(),
        constant_column=st.booleans(),
        bad_scales=st.booleans(),
        weights=st.sampled_from(["none", "uniform", "counts", "wide"]),
        log2_C1=log2_penalty,
        log2_C2=st.one_of(st.none(), log2_penalty, log2_penalty),
        D=st.one_of(st.just(0.0), st.floats(0.0, 0.9)),
        fit_intercept=st.booleans(),
        kernel=st.sampled_from(kernels),
    )


def features_and_norm(fitted, X, given):
    """Return explicit features of the training rows and the squared norm of the fitted w."""
    if not hasattr(fitted, "kernel") or fitted.kernel == "linear":
        coef = fitted.coef_[0]
        return X, coef @ coef
    K = given if fitted.kernel == "precomputed" else fitted._kernel(X)
    theta = np.zeros(len(X))
    theta[fitted.support_] = fitted.dual_coef_[0]
    return oracle.features_of_kernel(K), max(theta @ K @ theta, 0.0)
