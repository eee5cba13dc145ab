"""What the tests are written over. A new loss, estimator, kernel or solver is one row here."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.base import is_classifier, is_outlier_detector, is_regressor
from sklearn.metrics.pairwise import rbf_kernel

from optimargin import (
    LDMClassifier,
    LDMClassifierCV,
    LinearLDMClassifier,
    LinearLDMClassifierCV,
    LinearODMClassifier,
    LinearODMClassifierCV,
    LinearODMRegressor,
    LinearODMRegressorCV,
    ODMClassifier,
    ODMClassifierCV,
    ODMRegressor,
    ODMRegressorCV,
    OneClassODM,
)
from optimargin.designs import FeatureDesign, GramDesign, KernelMatrix, LinearGramDesign
from optimargin.designs.kernel import Triangle
from optimargin.kernels import Kernel, PreparedKernel
from optimargin.losses import BandLoss
from optimargin.problems import AdditiveProblem
from optimargin.targets import Target
from optimargin_study.baselines import (
    KernelFisherDiscriminant,
    MarginDistributionGame,
    MarginDistributionOptimizer,
    MaximalAverageMargin,
)

LOSSES = [
    BandLoss(C1=1.0, C2=1.0, D=0.0),
    BandLoss(C1=64.0, C2=16.0, D=0.2),
    BandLoss(C1=0.125, C2=512.0, D=0.9),
    BandLoss(C1=4.0, C2=0.0, D=0.3),
    BandLoss(C1=2.0, C2=0.0, D=0.0),
]


@dataclass(frozen=True)
class EstimatorCase:
    """An estimator with settings that make it cheap, and what can be asked of it.

    Attributes
    ----------
    model : estimator
    weights : bool
        Whether `fit` takes sample weights.
    several_classes : bool
        Whether it takes more than two; not asked of regressors.
    sparse : bool
    any_precision : bool
        Whether float32 data give float32 scores.
    callbacks : bool
    digits : float
        How closely the decision values of two fits of one problem agree.
    """

    model: Any
    weights: bool = True
    several_classes: bool = True
    sparse: bool = True
    any_precision: bool = True
    callbacks: bool = True
    digits: float = 1e-7

    @property
    def classifier(self):
        """Whether it predicts labels."""
        return is_classifier(self.model)

    @property
    def regressor(self):
        """Whether it predicts numbers."""
        return is_regressor(self.model)

    @property
    def outlier_detector(self):
        """Whether it looks for outliers, and at no y."""
        return is_outlier_detector(self.model)

    def data(self, n_samples=40, *, seed=0):
        """Return rows and labels "a" and "b", or numbers for a regressor."""
        X, y = two_classes(n_samples, 3, seed=seed)
        if self.regressor:
            return X, 5.0 + y + 3.0 * X[:, 0]
        return X, np.where(y > 0, "b", "a")

    def outputs(self, model, X):
        """Return the numbers that a fitted model computes."""
        return model.predict(X) if self.regressor else model.decision_function(X)

    @property
    def takes_functions(self):
        """Whether a function may be its kernel."""
        if getattr(self.model, "approximation", None) is not None:
            return False
        return callable in self.model._parameter_constraints.get("kernel", [])

    @property
    def is_search(self):
        """Whether it chooses its own parameters."""
        return hasattr(self.model, "scoring")


def _baseline(model):
    flags = ("weights", "several_classes", "sparse", "any_precision", "callbacks")
    return EstimatorCase(model, **dict.fromkeys(flags, False))


# Every estimator once, and once per way of fitting that changes what it does with the data.
ESTIMATORS = {
    "LinearODM": EstimatorCase(LinearODMClassifier()),
    "ODM": EstimatorCase(ODMClassifier()),
    "ODM-nystrom": EstimatorCase(
        ODMClassifier(approximation="nystrom", n_components=100, random_state=0), digits=1e-5
    ),
    "ODM-sigmoid": EstimatorCase(ODMClassifier(calibration="sigmoid")),
    "LinearODM-isotonic": EstimatorCase(LinearODMClassifier(calibration="isotonic")),
    "LDM": EstimatorCase(LDMClassifier()),
    "LinearLDM": EstimatorCase(LinearLDMClassifier()),
    "LinearODM-CV": EstimatorCase(LinearODMClassifierCV(max_evals=6)),
    "ODM-CV": EstimatorCase(ODMClassifierCV(max_evals=6)),
    "ODM-CV-grid": EstimatorCase(ODMClassifierCV(C1s=[1, 16], C2s=[4], Ds=[0.2], widths=[0.5, 1])),
    "LDM-CV": EstimatorCase(
        LDMClassifierCV(Cs=[1, 10], lambda1s=[0.5], lambda2s=[0.1], widths=[1], cv=2)
    ),
    "LinearLDM-CV": EstimatorCase(LinearLDMClassifierCV(max_evals=2, cv=2)),
    "LinearODM-regression": EstimatorCase(LinearODMRegressor(), several_classes=False),
    "ODM-regression": EstimatorCase(ODMRegressor(epsilon=0.1), several_classes=False),
    "ODM-regression-nystrom": EstimatorCase(
        ODMRegressor(C2=8.0, approximation="nystrom", n_components=100, random_state=0),
        several_classes=False,
        digits=1e-4,
    ),
    "LinearODM-regression-CV": EstimatorCase(
        LinearODMRegressorCV(max_evals=6), several_classes=False
    ),
    "ODM-regression-CV": EstimatorCase(ODMRegressorCV(max_evals=6), several_classes=False),
    "ODM-regression-CV-grid": EstimatorCase(
        ODMRegressorCV(C1s=[16, 64], epsilons=[0.0, 0.2], widths=[0.5, 1], expectile=0.7),
        several_classes=False,
    ),
    "one-class": EstimatorCase(OneClassODM(), several_classes=False),
    "one-class-nystrom": EstimatorCase(
        OneClassODM(approximation="nystrom", n_components=100, random_state=0),
        several_classes=False,
        digits=1e-5,
    ),
    "KernelFisher": _baseline(KernelFisherDiscriminant()),
    "MarginGame": _baseline(MarginDistributionGame()),
    "MarginOptimizer": _baseline(MarginDistributionOptimizer()),
    "AverageMargin": _baseline(MaximalAverageMargin()),
}
ODM_ESTIMATORS = [LinearODMClassifier, ODMClassifier]


def estimator_cases(*flags):
    """Return the parameters of a test over all estimators that have these flags."""
    return [
        pytest.param(case, id=name)
        for name, case in ESTIMATORS.items()
        if all(getattr(case, flag) for flag in flags)
    ]


# Solvers that end at rounding error rather than at `tol`.
EXACT_SOLVERS = ("newton",)


def solvers_of(estimator):
    """Return the names of the solvers that an estimator accepts, without "auto"."""
    return sorted(estimator._parameter_constraints["solver"][0].options - {"auto"})


ESTIMATOR_SOLVERS = [
    pytest.param(estimator, solver, id=f"{estimator.__name__}-{solver}")
    for estimator in ODM_ESTIMATORS
    for solver in solvers_of(estimator)
]


@dataclass(frozen=True)
class CauchyKernel:
    """The kernel ``1 / (1 + gamma |x - z|^2)``, positive semi-definite, as a user writes it.

    A class rather than a function because its name, which becomes part of the names of tests,
    is the same in every process.
    """

    gamma: float = 0.5

    def __call__(self, X, Y):
        X, Y = (A.toarray() if sp.issparse(A) else A for A in (X, Y))
        return 1.0 / (1.0 + self.gamma * cdist(X, Y, "sqeuclidean"))


MODELS = {
    "linear": LinearODMClassifier(),
    "kernel-linear": ODMClassifier(kernel="linear"),
    "rbf-scale": ODMClassifier(),
    "rbf-auto": ODMClassifier(gamma="auto"),
    "rbf-mean_distance": ODMClassifier(gamma="mean_distance"),
    "rbf-float": ODMClassifier(gamma=0.3),
    "poly": ODMClassifier(kernel="poly", coef0=1.0),
    "sigmoid": ODMClassifier(kernel="sigmoid", coef0=-0.5),
    "precomputed": ODMClassifier(kernel="precomputed"),
    "callable": ODMClassifier(kernel=CauchyKernel()),
}


def models(*without):
    """Return the parameters of a test over all models but those named."""
    return [pytest.param(m, id=name) for name, m in MODELS.items() if name not in without]


def training_input(model, X, rows=slice(None)):
    """Return what `model` is fitted on for these rows: they, or their Gram matrix."""
    if getattr(model, "kernel", None) == "precomputed":
        return rbf_kernel(X[rows], gamma=0.3)
    return X[rows]


def two_classes(n_samples=60, n_features=4, *, noise=0.7, seed=0):
    """Return overlapping classes of unequal size with labels -1 and +1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features)) + 0.5
    score = X @ rng.normal(size=n_features) + noise * rng.normal(size=n_samples)
    y = np.where(score > np.quantile(score, 0.6), 1.0, -1.0)
    return X, y


def labels_target(y, weight=None):
    """Return the target of labels -1 and +1."""
    weight = np.ones(len(y)) if weight is None else weight
    return Target(y, y, weight / weight.sum())


def make_problem(loss, design, y, weight=None, *, fit_intercept):
    """Return the problem of labels -1 and +1 over a design."""
    return AdditiveProblem(loss, design, labels_target(y, weight), fit_intercept=fit_intercept)


def untidy_csr(X):
    """Return X as CSR with unsorted indices, and with one entry per row stored in two parts."""
    X = sp.csr_array(X)
    data = [np.insert(X.data[a:b], 0, X.data[a] / 2)[::-1] for a, b in pairwise(X.indptr)]
    indices = [np.insert(X.indices[a:b], 0, X.indices[a])[::-1] for a, b in pairwise(X.indptr)]
    for row in data:
        row[-2] /= 2
    indptr = X.indptr + np.arange(X.shape[0] + 1)
    untidy = sp.csr_array((np.concatenate(data), np.concatenate(indices), indptr), shape=X.shape)
    assert not untidy.has_canonical_format
    return untidy


def with_wide_indices(X):
    """Return X as CSR with 64-bit indices."""
    X = sp.csr_array(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def _mostly_zero(X):
    return np.where(np.abs(X) > 0.4, X, 0)


# Each row makes, of float32 or float64 rows X, a design and the features it stands for.
FEATURE_DESIGNS = {
    "dense": lambda X: (FeatureDesign(X), X),
    "dense-centred": lambda X: (FeatureDesign(X, _mean(X)), X - _mean(X)),
    "csr": lambda X: (FeatureDesign(sp.csr_array(_mostly_zero(X))), _mostly_zero(X)),
    "csr-int64": lambda X: (FeatureDesign(with_wide_indices(_mostly_zero(X))), _mostly_zero(X)),
}
SAMPLE_DESIGNS = {
    "gram": lambda X: (GramDesign(_gram(X)), X),
    "panels": lambda X: (_panels(X, kept=1.0), X),
    "panels-half-kept": lambda X: (_panels(X, kept=0.3), X),
    "panels-none-kept": lambda X: (_panels(X, kept=0.0), X),
    "linear-gram": lambda X: (LinearGramDesign(X), X),
    "linear-gram-centred": lambda X: (LinearGramDesign(X, _mean(X)), X - _mean(X)),
}
DESIGNS = FEATURE_DESIGNS | SAMPLE_DESIGNS


def _mean(X):
    return X.mean(axis=0, dtype=np.float64)


def _gram(X):
    return np.ascontiguousarray(X @ X.T)


def _panels(X, *, kept):
    n_bytes = Triangle.n_bytes(len(X), X.dtype)
    return KernelMatrix(PreparedKernel(Kernel("linear"), X), max_bytes=kept * n_bytes)


def make_design(name, X):
    """Return the design of that name for rows X, and its features in double precision."""
    design, features = DESIGNS[name](X)
    return design, features.astype(np.float64)
