"""A loss defined here works with every solver, with chunks, leave-one-out and tuning."""

from dataclasses import dataclass
from numbers import Real

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.utils._param_validation import Interval

from optimargin.chunks import ArrayChunks
from optimargin.designs import FeatureDesign
from optimargin.estimators._base import Registered, keeps_parameters
from optimargin.estimators._classifier import Classifier
from optimargin.estimators._forms import KernelForm, LinearForm
from optimargin.estimators._held_out import HeldOutDecisions
from optimargin.estimators.cv import GRID, ClassifierCV
from optimargin.losses import Loss
from optimargin.objectives import AdditiveObjective
from optimargin.solvers import SOLVERS, Newton
from optimargin.targets import LABELS
from tests.cases import make_problem, two_classes

pytestmark = [pytest.mark.quick, pytest.mark.numbers]


# [loss]
@dataclass(frozen=True)
class StiffTailLoss(Loss):
    """``l(r) = C max(0, r)**2 + C max(0, r - knee)**2``: large shortfalls count double."""

    C: float
    knee: float

    parameters = ("log C",)
    half_width = 0.0  # the slope is zero up to r = 0, and positive beyond

    def terms(self, shortfall):
        near, far = np.maximum(shortfall, 0), np.maximum(shortfall - self.knee, 0)
        curvature = 2 * self.C * ((shortfall > 0) + 1.0 * (shortfall > self.knee))
        return self.C * (near**2 + far**2), 2 * self.C * (near + far), curvature

    def conjugate_terms(self, slope):
        r = np.where(
            slope <= 2 * self.C * self.knee,
            slope / (2 * self.C),
            (slope + 2 * self.C * self.knee) / (4 * self.C),
        )
        value = self.C * (np.maximum(r, 0) ** 2 + np.maximum(r - self.knee, 0) ** 2)
        return np.where(slope < 0, np.inf, slope * r - value)

    @property
    def smoothness(self):
        return 4 * self.C

    def parameter_slopes(self, pull, curvature, target):
        # Curvatures are proportional to C; where a pull would vanish does not depend on it.
        return np.ones((1, pull.size)), np.zeros((1, pull.size))


# [objective]
@dataclass(frozen=True)
class StiffTail(AdditiveObjective):
    """The machine of this loss: its parameter, and how the search moves it."""

    C: float = 64.0
    knee: float = 1.0

    loss_type = StiffTailLoss
    has_gradient = True
    grid_names = ("C",)
    paper = {"C": 2.0 ** np.arange(11)}
    smoother = {"C": 1, "gamma": 1}
    bounds = np.array([[-8.0, 8.0]])  # log2 C, per sample

    @classmethod
    def at(cls, x, unit):
        return {"C": float(unit * 2.0 ** x[0])}

    @classmethod
    def chain(cls, by_loss):
        return np.log(2.0) * by_loss

    def loss(self, scale=LABELS):
        return StiffTailLoss(self.C, self.knee)


# [estimator]
class StiffTailClassifier(HeldOutDecisions, LinearForm, Classifier):
    """A linear classifier with this loss."""

    _objective_type = StiffTail
    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "solver": [Registered(SOLVERS, also=("auto",))],
    }

    @keeps_parameters
    def __init__(
        self,
        C=64.0,
        *,
        fit_intercept=True,
        solver="auto",
        tol=1e-6,
        max_iter=1000,
        class_weight=None,
        random_state=None,
    ):
        """Keep the parameters."""


class StiffTailClassifierCV(ClassifierCV):
    """The same, tuned."""

    objective_type = StiffTail
    _tuned = StiffTailClassifier
    _parameter_constraints: dict = {"Cs": GRID}

    @keeps_parameters
    def __init__(
        self,
        Cs=None,
        *,
        fit_intercept=True,
        cv=None,
        scoring=None,
        max_evals=15,
        max_samples=None,
        n_jobs=None,
        verbose=0,
        tol=1e-6,
        max_iter=1000,
        class_weight=None,
        random_state=0,
    ):
        """Keep the parameters."""


# [end]
class StiffTailKernelClassifier(HeldOutDecisions, KernelForm, Classifier):
    """The same with a kernel."""

    _objective_type = StiffTail
    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "solver": [Registered(SOLVERS, also=("auto",))],
    }

    def __init__(self, C=64.0, *, solver="auto", tol=1e-10, max_iter=1000):
        self.C, self.solver, self.tol, self.max_iter = C, solver, tol, max_iter
        self.kernel, self.gamma, self.degree, self.coef0 = "rbf", 0.3, 3, 0.0
        self.fit_intercept, self.class_weight, self.random_state = True, None, 0


def objective(coef, intercept, X, y, C, knee=1.0):
    r = 1 - y * (X @ coef + intercept)
    loss = C * np.mean(np.maximum(r, 0) ** 2 + np.maximum(r - knee, 0) ** 2)
    return coef @ coef / 2 + loss


def independent_minimum(X, y, C):
    """Return the minimum found by an optimiser that knows nothing of this library."""

    def value(z):
        return objective(z[:-1], z[-1], X, y, C)

    options = {"maxiter": 20_000, "ftol": 1e-15, "gtol": 1e-10}
    return minimize(value, np.zeros(X.shape[1] + 1), method="L-BFGS-B", options=options).fun


X, Y = two_classes(80, 4)


@pytest.mark.parametrize(
    "solver", sorted(name for name in SOLVERS if SOLVERS[name].works_with(FeatureDesign))
)
def test_every_solver_finds_the_minimum(solver):
    model = StiffTailClassifier(8.0, solver=solver, tol=1e-9, max_iter=2000).fit(X, Y)
    found = objective(model.coef_[0], model.intercept_[0], X, Y, 8.0)
    assert model.dual_gap_ <= 1e-9
    assert found == pytest.approx(independent_minimum(X, Y, 8.0), rel=1e-7)


@pytest.mark.parametrize("solver", ["newton", "newton_cg", "dcd"])
def test_every_kernel_solver_agrees(solver):
    exact = StiffTailKernelClassifier(solver="newton").fit(X, Y)
    model = StiffTailKernelClassifier(solver=solver).fit(X, Y)
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_chunks_lead_to_the_same_model(n_classes):
    y = Y if n_classes == 2 else np.digitize(X[:, 0], [0.2, 0.9])
    whole = StiffTailClassifier(tol=1e-12).fit(X, y)
    parts = StiffTailClassifier(tol=1e-12).fit_chunks(ArrayChunks(X, y, chunk_rows=30))
    np.testing.assert_allclose(parts.coef_, whole.coef_, atol=1e-6)


@pytest.mark.parametrize("make", [StiffTailClassifier, StiffTailKernelClassifier])
def test_exact_leave_one_out_equals_refits(make):
    left_out = make(8.0, tol=1e-12).fit(X, Y).loo_decision_function(exact=True)
    for i in range(0, 80, 9):
        rest = np.arange(80) != i
        refit = make(8.0 * 79 / 80, tol=1e-12).fit(X[rest], Y[rest])
        assert left_out[i] == pytest.approx(refit.decision_function(X[[i]])[0], abs=1e-5)


def test_tuning_by_gradients_beats_most_of_a_grid():
    tuned = StiffTailClassifierCV(scoring="smooth").fit(X, Y)
    grid = StiffTailClassifierCV(Cs="paper", scoring="smooth", cv=5).fit(X, Y)
    assert tuned.best_estimator_.dual_gap_ <= 1e-6
    assert tuned.score(X, Y) >= grid.score(X, Y) - 0.03


def test_the_certificate_is_the_gap_to_the_dual():
    problem = make_problem(StiffTailLoss(8.0, 1.0), FeatureDesign(X), Y, fit_intercept=True)
    for coef in np.random.default_rng(0).normal(size=(5, 4)):
        point = problem.point(coef)
        assert point.gap == pytest.approx(point.value - problem.dual_value(point.pull), rel=1e-9)
    solution = Newton(tol=1e-12, max_iter=50).solve(problem)
    assert solution.dual_gap < 1e-12
