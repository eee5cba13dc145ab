"""scikit-learn's own checks on every estimator, with nothing expected to fail."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from optimargin import LinearODMClassifier, ODMClassifier
from tests.cases import EXACT_SOLVERS, CauchyKernel, solvers_of

# Estimator class name -> {name of the check: why it cannot pass}.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {}

# Without an intercept one check cannot pass, whatever the method: it asks for the two classes
# of points that no plane through the origin separates. LinearSVC fails it as well.
ESTIMATORS = [
    LinearODMClassifier(),
    LinearODMClassifier(C2=0.0, D=0.0),
    LinearODMClassifier(warm_start=True),
    ODMClassifier(),
    ODMClassifier(gamma="auto"),
    ODMClassifier(gamma="mean_distance", class_weight="balanced"),
    ODMClassifier(gamma=0.1, C2=0.0, D=0.0),
    ODMClassifier(kernel="linear"),
    ODMClassifier(kernel="poly", degree=2, coef0=1.0),
    ODMClassifier(kernel="poly"),
    ODMClassifier(kernel="sigmoid"),
    ODMClassifier(kernel="precomputed"),
    ODMClassifier(kernel=CauchyKernel()),
    *(
        estimator(solver=solver)
        for estimator in (LinearODMClassifier, ODMClassifier)
        for solver in solvers_of(estimator)
        if solver in EXACT_SOLVERS
    ),
]


@parametrize_with_checks(
    ESTIMATORS, expected_failed_checks=lambda e: EXPECTED_FAILURES.get(type(e).__name__, {})
)
def test_scikit_learn_check_passes(estimator, check):
    check(estimator)


def checks_of_inexact_solvers():
    """Yield every check but two, which compare the decision values of two fits to 1e-7.

    A fit that stops at a relative gap of `tol` is that close to the optimum in its objective;
    decision values then agree to about the square root of `tol`.
    """
    for estimator in (LinearODMClassifier, ODMClassifier):
        for solver in solvers_of(estimator):
            if solver in EXACT_SOLVERS:
                continue
            for model, check in estimator_checks_generator(estimator(solver=solver)):
                name = check.func.__name__
                if not name.startswith("check_sample_weight_equivalence"):
                    yield pytest.param(model, check, id=f"{model}-{name}")


@pytest.mark.parametrize(("estimator", "check"), checks_of_inexact_solvers())
def test_scikit_learn_check_passes_with_a_solver_that_stops_at_tol(estimator, check):
    check(estimator)
