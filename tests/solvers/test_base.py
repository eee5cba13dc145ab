"""What all solvers share: what they refuse, and how they are watched."""

import numpy as np
import pytest

from optimargin.designs import FeatureDesign, GramDesign, SampleSpaceDesign
from optimargin.losses import BandLoss
from optimargin.objectives import LDM
from optimargin.problems import AdditiveProblem
from optimargin.solvers import (
    LDM_SOLVERS,
    SOLVERS,
    SVRG,
    ChunkedNewton,
    InteriorPoint,
    Newton,
    NewtonCG,
    Solver,
    UnsuitableProblemError,
)
from tests.cases import labels_target, make_problem, two_classes

pytestmark = [pytest.mark.quick, pytest.mark.numbers]

every_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
every_feature_solver = pytest.mark.parametrize(
    "solver",
    [pytest.param(s, id=name) for name, s in SOLVERS.items() if s.works_with(FeatureDesign)],
)
every_ldm_solver = pytest.mark.parametrize("solver", LDM_SOLVERS.values(), ids=LDM_SOLVERS)


def additive_problem(design=FeatureDesign, n_samples=30, *, fit_intercept=True):
    X, y = two_classes(n_samples, 3)
    made = FeatureDesign(X) if design is FeatureDesign else GramDesign(X @ X.T)
    return make_problem(BandLoss(8.0, 2.0, 0.2), made, y, fit_intercept=fit_intercept)


def ldm_problem(n_samples=30):
    X, y = two_classes(n_samples, 3)
    return LDM(0.1, 0.1, 10.0).problem(FeatureDesign(X), labels_target(y), fit_intercept=True)


@every_solver
def test_a_problem_of_another_kind_is_refused_in_words(solver):
    with pytest.raises(UnsuitableProblemError) as refused:
        solver(tol=1e-6, max_iter=10).solve(ldm_problem())
    assert str(refused.value) == (
        f"{solver.__name__} takes problems of type AdditiveProblem, not LDMProblem."
    )


@every_ldm_solver
def test_a_problem_with_a_loss_is_refused_by_the_solvers_of_the_ldm(solver):
    with pytest.raises(UnsuitableProblemError, match="LDMProblem, not AdditiveProblem"):
        solver(tol=1e-6, max_iter=10).solve(additive_problem())


def test_a_problem_in_memory_is_refused_by_the_solver_of_chunks():
    with pytest.raises(UnsuitableProblemError, match="ChunkedProblem, not AdditiveProblem"):
        ChunkedNewton(tol=1e-6, max_iter=10).solve(additive_problem())


def test_a_design_of_another_kind_is_refused_in_words():
    with pytest.raises(UnsuitableProblemError) as refused:
        SVRG(tol=1e-6, max_iter=10).solve(additive_problem(GramDesign))
    assert str(refused.value) == "SVRG takes designs of type FeatureSpaceDesign, not GramDesign."
    assert not SVRG.works_with(GramDesign)
    assert SVRG.works_with(FeatureDesign)


def test_several_kinds_of_designs_are_all_named():
    class Picky(Newton):
        design_type = (SampleSpaceDesign, int)

    with pytest.raises(
        UnsuitableProblemError, match="designs of type SampleSpaceDesign or int, not Feature"
    ):
        Picky(tol=1e-6, max_iter=10).solve(additive_problem())
    Picky(tol=1e-6, max_iter=10).check(additive_problem(GramDesign))


def test_nothing_is_computed_before_a_problem_is_refused():
    class Untouchable:
        design = None

    for solver in (*SOLVERS.values(), *LDM_SOLVERS.values()):
        with pytest.raises(UnsuitableProblemError, match="not Untouchable"):
            solver(tol=1e-6, max_iter=10).solve(Untouchable())


def test_a_new_solver_has_to_say_how_it_solves():
    with pytest.raises(TypeError, match="_solve"):
        Solver(tol=1e-6, max_iter=10)


@every_feature_solver
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_iterations_are_announced_at_their_begin_and_end(solver, fit_intercept):
    events = []

    def begin():
        events.append("begin")
        return lambda: bool(events.append("end"))

    problem = additive_problem(fit_intercept=fit_intercept)
    watched = solver(tol=1e-9, max_iter=500, on_iteration=begin).solve(problem)
    alone = solver(tol=1e-9, max_iter=500).solve(problem)
    assert events == ["begin", "end"] * (len(events) // 2)
    assert len(events) >= 2
    np.testing.assert_array_equal(watched.coef, alone.coef)


@every_feature_solver
def test_a_listener_can_end_a_solve(solver):
    n_ended = 0

    def begin():
        def end():
            nonlocal n_ended
            n_ended += 1
            return n_ended == 2

        return end

    problem = additive_problem()
    stopped = solver(tol=0.0, max_iter=100, on_iteration=begin).solve(problem)
    assert n_ended <= 2
    best = Newton(tol=1e-12, max_iter=100).solve(problem).objective
    certified = stopped.dual_gap * max(stopped.objective, 1e-3)
    assert stopped.objective - best <= certified + 1e-12 * best


@pytest.mark.parametrize("solver", [Newton, NewtonCG, InteriorPoint])
def test_an_iteration_that_fails_is_ended_all_the_same(solver, monkeypatch):
    problem = ldm_problem() if solver is InteriorPoint else additive_problem()
    ended = []
    point, calls = type(problem).point, []

    def failing(self, *args, **kwargs):
        calls.append(None)
        if len(calls) > 1:
            raise FloatingPointError
        return point(self, *args, **kwargs)

    monkeypatch.setattr(type(problem), "point", failing)
    watched = solver(tol=1e-12, max_iter=50, on_iteration=lambda: lambda: ended.append(None))
    with pytest.raises(FloatingPointError):
        watched.solve(problem)
    assert len(ended) >= 1


@every_feature_solver
def test_a_start_at_the_solution_is_certified_there(solver):
    problem = additive_problem()
    best = Newton(tol=1e-14, max_iter=100).solve(problem)
    again = solver(tol=1e-7, max_iter=200).solve(problem, best.coef, best.intercept)
    assert again.dual_gap <= 1e-7
    assert again.objective == pytest.approx(best.objective, rel=1e-9)
    assert again.n_iter <= 3


def test_the_pulls_of_a_solution_are_its_kernel_coefficients():
    problem = additive_problem()
    assert isinstance(problem, AdditiveProblem)
    best = Newton(tol=1e-14, max_iter=100).solve(problem)
    np.testing.assert_allclose(problem.design.represent(best.pull), best.coef, atol=1e-10)
    assert best.pull.sum() == pytest.approx(0.0, abs=1e-12)
