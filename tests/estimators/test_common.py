"""scikit-learn's own checks on every estimator, with nothing expected to fail.

The normal run has one instance per class and per path through the code that is a different one;
the others, which share their paths with these, are slow tests.
"""

import warnings

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

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
from optimargin_study.baselines import (
    KernelFisherDiscriminant,
    MarginDistributionGame,
    MarginDistributionOptimizer,
    MaximalAverageMargin,
)
from tests.cases import EXACT_SOLVERS, CauchyKernel, solvers_of

LDM_GRID = {"Cs": [10], "lambda1s": [0.1], "lambda2s": [0.1]}

# Without an intercept one check cannot pass, whatever the method: it asks for the two classes
# of points that no plane through the origin separates. LinearSVC fails it as well.
ESTIMATORS = [
    LinearODMClassifier(),
    LinearODMClassifier(solver="svrg"),
    ODMClassifier(),
    ODMClassifier(kernel="linear"),
    ODMClassifier(kernel="poly", degree=2, coef0=1.0),
    ODMClassifier(kernel="sigmoid"),
    ODMClassifier(kernel="precomputed"),
    ODMClassifier(kernel=CauchyKernel()),
    ODMClassifier(solver="newton_cg"),
    ODMClassifier(solver="dcd"),
    ODMClassifier(approximation="nystrom", n_components=20),
    ODMClassifier(calibration="sigmoid"),
    LinearODMClassifier(calibration="isotonic"),
    LDMClassifier(),
    LinearLDMClassifier(),
    ODMClassifierCV(max_evals=4),
    LinearODMClassifierCV(C1s=[1, 16], C2s=[4], Ds=[0.2], cv=2),
    LDMClassifierCV(**LDM_GRID, widths=[1], cv=2),
    LinearLDMClassifierCV(max_evals=2, cv=2),
    LinearODMRegressor(),
    ODMRegressor(),
    ODMRegressor(epsilon="scale"),
    ODMRegressor(approximation="nystrom", n_components=20),
    ODMRegressorCV(max_evals=4),
    ODMRegressorCV(max_evals=4, outliers="trim"),
    LinearODMRegressorCV(C1s=[1, 16], cv=2),
    OneClassODM(),
    OneClassODM(novelty=False),
    OneClassODM(kernel="linear"),
    OneClassODM(kernel="sigmoid"),
    OneClassODM(approximation="nystrom", n_components=20),
    KernelFisherDiscriminant(),
    MarginDistributionGame(),
    MarginDistributionOptimizer(),
    MaximalAverageMargin(),
]
MORE_ESTIMATORS = [
    ODMClassifier(calibration="isotonic"),
    ODMClassifier(calibration="sigmoid", approximation="nystrom", n_components=20),
    LinearODMClassifier(calibration="sigmoid", class_weight="balanced"),
    LinearODMClassifier(calibration="temperature"),
    LinearODMClassifierCV(C1s=[1, 16], C2s=[4], Ds=[0.2], calibration="isotonic"),
    ODMClassifierCV(max_evals=4, calibration=None),
    LinearODMClassifier(C2=0.0, D=0.0),
    LinearODMClassifier(warm_start=True),
    *(LinearODMClassifier(solver=s) for s in solvers_of(LinearODMClassifier) if s != "svrg"),
    ODMClassifier(solver="newton"),
    ODMClassifier(gamma="auto"),
    ODMClassifier(gamma="mean_distance", class_weight="balanced"),
    ODMClassifier(gamma=0.1, C2=0.0, D=0.0),
    ODMClassifier(kernel="poly"),
    OneClassODM(kernel="poly", degree=2, coef0=1.0),
    OneClassODM(kernel=CauchyKernel()),
    OneClassODM(solver="newton_cg"),
    OneClassODM(novelty=False, approximation="nystrom", n_components=20),
    OneClassODM(novelty=False, kernel="sigmoid"),
    OneClassODM(gamma="scale", C2=0.0, D=0.0),
    LDMClassifier(solver="dcd"),
    LDMClassifier(lambda1=0.0, lambda2=0.0),
    LDMClassifier(kernel="linear"),
    LDMClassifier(kernel="poly"),
    LDMClassifier(kernel="sigmoid"),
    LDMClassifier(kernel="precomputed"),
    LDMClassifier(kernel=CauchyKernel()),
    LDMClassifier(gamma="mean_distance", class_weight="balanced"),
    LinearLDMClassifier(lambda1=0.0, lambda2=0.0),
    LinearLDMClassifier(class_weight="balanced"),
    LinearLDMClassifier(solver="dcd", tol=1e-12),
    ODMClassifierCV(max_evals=12),
    ODMClassifierCV(C1s=[1, 16], C2s=[4], Ds=[0.2], widths=[1]),
    LinearODMClassifierCV(max_evals=12),
    LDMClassifierCV(max_evals=4),
    LDMClassifierCV(Cs=[10], lambda1s=[0.1, 1], lambda2s=[0.1], widths=[1]),
    LinearLDMClassifierCV(max_evals=4),
    LinearLDMClassifierCV(Cs=[10], lambda1s=[0.1, 1], lambda2s=[0.1], cv=2),
    LinearODMRegressor(fit_intercept=False, epsilon=0.1),
    *(LinearODMRegressor(solver=s) for s in solvers_of(LinearODMRegressor)),
    *(ODMRegressor(solver=s) for s in solvers_of(ODMRegressor)),
    ODMRegressor(kernel="linear"),
    ODMRegressor(kernel="poly", degree=2, coef0=1.0),
    ODMRegressor(kernel="precomputed"),
    ODMRegressor(kernel=CauchyKernel()),
    LinearODMRegressorCV(max_evals=12),
    ODMRegressorCV(C1s=[1e3, 1e4], widths=[1], expectile=0.6),
]


def stops_at_tol(estimator):
    """Return whether an ODM is fitted by a solver that ends at `tol`, not at rounding error.

    Such a fit is that close to the optimum in its objective; decision values then agree to about
    the square root of `tol`.
    """
    kinds = LinearODMClassifier | ODMClassifier | LinearODMRegressor | ODMRegressor | OneClassODM
    is_odm = isinstance(estimator, kinds)
    return is_odm and estimator.solver not in ("auto", *EXACT_SOLVERS)


def checks(estimators, *marks):
    """Yield every check of every estimator.

    Two compare the decision values of two fits to 1e-7, which is for exact solvers alone.
    """
    for estimator in estimators:
        for model, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            if not (name.startswith("check_sample_weight_equivalence") and stops_at_tol(model)):
                yield pytest.param(model, check, id=f"{model}-{name}", marks=marks)


@pytest.mark.parametrize(
    ("estimator", "check"),
    [*checks(ESTIMATORS), *checks(MORE_ESTIMATORS, pytest.mark.slow)],
)
def test_scikit_learn_check_passes(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)
