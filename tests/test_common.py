"""scikit-learn's own checks on every estimator, with nothing expected to fail."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from optimargin import LinearODMClassifier, ODMClassifier
from tests.cases import CauchyKernel, solvers_of

# Estimator class name -> {name of the check: why it cannot pass}.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {}

# Without an intercept one check cannot pass, whatever the method: it asks for the two classes
# of points that no plane through the origin separates. LinearSVC fails it as well.
ESTIMATORS = [
    LinearODMClassifier(),
    LinearODMClassifier(C2=0.0, D=0.0),
    LinearODMClassifier(class_weight="balanced", warm_start=True),
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
    # Two checks compare decision values to 1e-7, so a gap of about its square is asked for.
    *(
        estimator(solver=solver, tol=1e-18, max_iter=20_000)
        for estimator in (LinearODMClassifier, ODMClassifier)
        for solver in solvers_of(estimator)
    ),
]


@parametrize_with_checks(
    ESTIMATORS, expected_failed_checks=lambda e: EXPECTED_FAILURES.get(type(e).__name__, {})
)
def test_scikit_learn_check_passes(estimator, check):
    check(estimator)
