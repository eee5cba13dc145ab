"""A loss of two formulas works with every solver."""

import numpy as np
import pytest
from scipy.optimize import minimize

from optimargin.losses import BandLoss
from optimargin.solvers import SOLVERS, SVRG, DualCD, Newton
from tests.cases import DESIGNS, LOSSES, make_design, make_problem, two_classes
from tests.python_losses import HuberLoss, LogisticLoss, PlainBand
from tests.sampling import pairwise

pytestmark = pytest.mark.numbers

with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])
SOLVER_DESIGNS = [
    (solver, design)
    for solver in SOLVERS
    for design in ("dense-centred", "csr", "gram", "panels-none-kept")
    if SOLVERS[solver].works_with(type(make_design(design, np.eye(3))[0]))
    and solver != "bcd"  # which takes the band loss alone
]
BANDS = [LOSSES[0], BandLoss(8.0, 2.0, 0.2), LOSSES[3]]
OTHER = [HuberLoss(), HuberLoss(0.1), LogisticLoss()]


def problem_of(loss, design="dense", n_samples=40, *, fit_intercept):
    X, y = two_classes(n_samples, 4)
    weight = np.random.default_rng(5).uniform(0.5, 2.0, size=n_samples)
    made = make_design(design, X)[0]
    return make_problem(loss, made, y, weight, fit_intercept=fit_intercept)


def optimum(loss, features, problem):
    """Return the objective that a general solver finds in feature space."""
    target = problem.target

    def objective(wb):
        w, b = wb[:-1], wb[-1] if problem.fit_intercept else 0.0
        value, slope, _ = loss.terms(target.shortfall(features @ w + b))
        pull = target.weight * target.orientation * slope
        by_b = -pull.sum() if problem.fit_intercept else 0.0
        return 0.5 * w @ w + target.weight @ value, np.append(w - features.T @ pull, by_b)

    start = np.zeros(features.shape[1] + 1)
    found = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-10})
    return found.fun


@pytest.mark.parametrize(
    ("solver", "design", "loss", "fit_intercept"),
    [(*first, *rest) for first, *rest in pairwise(SOLVER_DESIGNS, OTHER, [True, False])],
    ids=str,
)
def test_every_solver_minimises_losses_of_other_shapes(solver, design, loss, fit_intercept):
    problem = problem_of(loss, design, fit_intercept=fit_intercept)
    features = make_design(design, two_classes(40, 4)[0])[1]
    tol = 1e-7 if "newton" in solver else 1e-4
    found = SOLVERS[solver](tol=tol, max_iter=3000).solve(problem)
    assert found.dual_gap <= tol
    assert found.objective == pytest.approx(optimum(loss, features, problem), rel=2 * tol)
    value = problem.point(found.coef, found.intercept).value
    assert found.objective == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(
    ("solver", "design", "band", "fit_intercept"),
    [(*first, *rest) for first, *rest in pairwise(SOLVER_DESIGNS, BANDS, [True, False])],
    ids=str,
)
def test_every_solver_finds_the_same_without_anything_compiled(solver, design, band, fit_intercept):
    plain = PlainBand(band.C1, band.C2, band.D)
    best = Newton(tol=1e-12, max_iter=100).solve(
        problem_of(band, design, fit_intercept=fit_intercept)
    )
    tol = 1e-7 if "newton" in solver else 1e-4
    found = SOLVERS[solver](tol=tol, max_iter=2000).solve(
        problem_of(plain, design, fit_intercept=fit_intercept)
    )
    assert found.dual_gap <= tol
    assert found.objective == pytest.approx(best.objective, rel=2 * tol)


@with_and_without_intercept
@pytest.mark.parametrize("name", DESIGNS)
def test_one_epoch_of_coordinate_steps_is_that_of_the_compiled_loss(name, fit_intercept):
    band = BandLoss(8.0, 2.0, 0.2)
    plain = PlainBand(band.C1, band.C2, band.D)
    compiled, python = (
        DualCD(tol=1e-12, max_iter=1, seed=3).solve(
            problem_of(loss, name, fit_intercept=fit_intercept)
        )
        for loss in (band, plain)
    )
    np.testing.assert_allclose(python.pull, compiled.pull, atol=1e-13)
    assert python.dual_gap == pytest.approx(compiled.dual_gap, rel=1e-8)


@with_and_without_intercept
def test_stochastic_steps_are_those_of_the_compiled_loss(fit_intercept):
    band = BandLoss(8.0, 2.0, 0.2)
    compiled, python = (
        SVRG(tol=1e-12, max_iter=9, seed=3).solve(problem_of(loss, fit_intercept=fit_intercept))
        for loss in (band, PlainBand(band.C1, band.C2, band.D))
    )
    np.testing.assert_allclose(python.coef, compiled.coef, atol=1e-12)
    assert python.objective == pytest.approx(compiled.objective, rel=1e-12)


@pytest.mark.parametrize("solver", [DualCD, SVRG])
def test_an_error_of_a_loss_ends_the_solve(solver):
    class Failing(PlainBand):
        def terms(self, shortfall):
            if shortfall.size == 1:
                raise ZeroDivisionError("no such piece")
            return super().terms(shortfall)

    problem = problem_of(Failing(8.0, 2.0, 0.2), fit_intercept=False)
    with pytest.raises(ZeroDivisionError, match="no such piece"):
        solver(tol=1e-9, max_iter=20).solve(problem)
