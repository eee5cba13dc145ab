"""Newton's own promises: few steps, an exact end, and no fear of bad conditioning."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.preprocessing import StandardScaler

from optimargin import LinearODMClassifier, ODMClassifier
from optimargin.designs import FeatureDesign, GramDesign
from optimargin.losses import BandLoss
from optimargin.solvers import Newton
from tests import cases
from tests.cases import DESIGNS, LOSSES, make_design, two_classes
from tests.python_losses import PlainBand
from tests.random_problems import RandomProblem
from tests.sampling import pairwise

pytestmark = pytest.mark.numbers

every_problem = pytest.mark.parametrize(
    ("loss", "design", "fit_intercept"), pairwise(LOSSES, list(DESIGNS), [True, False]), ids=str
)
every_design = pytest.mark.parametrize("design", DESIGNS)
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])


def make_problem(loss, design, fit_intercept, n_samples=50):
    X, y = two_classes(n_samples, 4)
    return cases.make_problem(loss, make_design(design, X)[0], y, fit_intercept=fit_intercept)


@every_problem
def test_newton_ends_exactly_in_a_few_steps(loss, design, fit_intercept):
    solution = Newton(tol=1e-6, max_iter=100).solve(make_problem(loss, design, fit_intercept))
    assert 1 <= solution.n_iter <= 12
    assert solution.dual_gap <= 1e-13


@every_problem
def test_newton_started_at_its_solution_takes_one_step(loss, design, fit_intercept):
    problem = make_problem(loss, design, fit_intercept)
    first = Newton(tol=1e-6, max_iter=100).solve(problem)
    again = Newton(tol=1e-6, max_iter=100).solve(problem, first.coef, first.intercept)
    assert again.n_iter == 1
    assert again.objective == pytest.approx(first.objective, rel=1e-13)


@every_design
@with_and_without_intercept
def test_newton_started_far_away_finds_the_same_solution(design, fit_intercept):
    problem = make_problem(LOSSES[1], design, fit_intercept)
    near = Newton(tol=1e-10, max_iter=100).solve(problem)
    far = Newton(tol=1e-10, max_iter=100).solve(
        problem, np.full(problem.design.n_coef, 50.0), 30.0 if fit_intercept else 0.0
    )
    assert far.objective == pytest.approx(near.objective, rel=1e-10)


def test_newton_stops_after_max_iter_steps():
    problem = make_problem(BandLoss(1e4, 1e3, 0.1), "dense", True)
    assert Newton(tol=1e-14, max_iter=1).solve(problem).n_iter == 1


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_real_data_take_few_steps(fit_intercept):
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    for C1 in (1.0, 64.0, 1024.0):
        for model in (LinearODMClassifier(C1), ODMClassifier(C1, solver="newton")):
            model.set_params(fit_intercept=fit_intercept).fit(X, y)
            assert model.n_iter_ <= 12
            assert model.dual_gap_ <= 1e-12


# Found by random search: near-interpolating or contradictory rows, columns of very different
# scale, and penalties far apart make the active set of one step undo that of the step before.
HARD = [
    RandomProblem(464378, 65, 48, 0.5, False, False, True, "none", 2, None, 0.0, True, None),
    RandomProblem(974757, 14, 52, 0.0, False, False, True, "wide", 7, 0, 0.0, False, None),
    RandomProblem(626204, 17, 50, 0.5, False, False, True, "none", -3, 11, 0.0, True, None),
    RandomProblem(358909, 23, 25, 0.5, True, False, True, "uniform", -4, 14, 0.5, True, None),
    RandomProblem(493969, 28, 54, 0.5, True, True, True, "uniform", -4, 14, 0.0, True, None),
    RandomProblem(521935, 8, 58, 3.0, True, True, True, "counts", 14, 14, 0.5, True, None),
    RandomProblem(764835, 31, 38, 3.0, False, False, True, "counts", 14, None, 0.5, False, None),
    RandomProblem(1, 7, 2, 0.0, False, False, True, "none", 0, None, 0.0, True, None),
    RandomProblem(864264, 2, 16, 3.0, False, False, True, "counts", 14, 7, 0.0, True, None),
]


@pytest.mark.parametrize("problem", HARD, ids=lambda p: str(p.seed))
def test_badly_scaled_data_are_solved_without_hundreds_of_steps(problem):
    X, y, weight = problem.data()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = problem.model().fit(X, y, sample_weight=weight)
    assert model.dual_gap_ <= 1e-6
    assert model.n_iter_ <= 60


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_columns_of_very_different_scale_do_not_need_scaling(fit_intercept):
    X, y = make_classification(300, 6, n_informative=4, flip_y=0.1, random_state=0)
    X = X * 10.0 ** np.arange(-3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LinearODMClassifier(fit_intercept=fit_intercept).fit(X, y)
    assert model.dual_gap_ <= 1e-9


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_low_rank_gram_matrix_is_solved_in_the_space_of_its_factor(fit_intercept, monkeypatch):
    X, y = two_classes(300, 4)

    def solve():
        design = GramDesign(X @ X.T)
        problem = cases.make_problem(LOSSES[1], design, y, fit_intercept=fit_intercept)
        return Newton(tol=1e-8, max_iter=50).solve(problem)

    started = solve()
    assert started.n_iter <= 2
    monkeypatch.setattr("optimargin.designs.gram._LOW_RANK_FROM", 10**9)
    cold = solve()
    assert started.objective == pytest.approx(cold.objective, rel=1e-9)


@pytest.mark.parametrize("make_loss", [PlainBand, BandLoss], ids=["plain", "band"])
@pytest.mark.parametrize("shape", [(20_000, 40), (60, 200)], ids=["tall", "wide"])
def test_any_loss_is_minimised_on_sparse_data_of_any_shape(make_loss, shape):
    X, y = two_classes(*shape)
    X = sp.csr_array(np.where(np.abs(X) > 1.5, X, 0.0))
    problem, dense = (
        cases.make_problem(loss(8.0, 2.0, 0.2), FeatureDesign(rows), y, fit_intercept=True)
        for loss, rows in ((make_loss, X), (BandLoss, X.toarray()))
    )
    found = Newton(tol=1e-9, max_iter=100).solve(problem)
    expected = Newton(tol=1e-9, max_iter=100).solve(dense)
    assert found.objective == pytest.approx(expected.objective, rel=1e-8)
