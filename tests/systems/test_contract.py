"""The contract of systems: every backend says what plain numpy says, at every loss.

The table is in `tests.systems.backends`. A backend that is added there has to keep all of it.
"""

import numpy as np
import pytest
import scipy.sparse as sp

from optimargin.designs import FeatureDesign, GramDesign
from optimargin.designs.base import FeatureSpaceDesign
from optimargin.held_out.search_designs import PlainFeatures
from optimargin.problems import AdditiveProblem
from optimargin.solvers import Newton
from optimargin.systems import (
    Folds,
    IndefiniteError,
    OutlivedError,
    SampleSystem,
    make_system,
    system_of,
)
from tests.cases import LOSSES, labels_target, two_classes
from tests.python_losses import HuberLoss, LogisticLoss, PseudoHuberLoss
from tests.systems.backends import (
    COMPILED,
    FOLDS,
    LOSS_OF,
    N_SAMPLES,
    SYSTEMS,
    Compiled,
    cell_of,
    cells,
    compiled_cells,
    solution_of,
)

every_backend = pytest.mark.parametrize("backend", SYSTEMS)
with_and_without_intercept = pytest.mark.parametrize("fit_intercept", [True, False])
of_systems = pytest.mark.parametrize("cell", cells(), ids=str)
of_everything = pytest.mark.parametrize("cell", cells() + compiled_cells(), ids=str)
in_double_precision = pytest.mark.parametrize(
    "cell", [cell for cell in cells() + compiled_cells() if cell.digits < 1e-6], ids=str
)

not_quadratic = pytest.mark.parametrize(
    "loss", [HuberLoss(64.0), LogisticLoss(64.0), PseudoHuberLoss(64.0)], ids=str
)


def solve_plainly(Z, curvature, aim, fit_intercept):
    """Return decision values on Z, w and b of the bordered system of the active set."""
    active = np.flatnonzero(curvature)
    n, n_outputs = active.size, aim.shape[1]
    if n == 0:
        return np.zeros_like(aim), np.zeros((Z.shape[1], n_outputs)), np.zeros(n_outputs)
    matrix, right = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n_outputs))
    matrix[:n, :n] = Z[active] @ Z[active].T + np.diag(1 / curvature[active])
    matrix[:n, n] = matrix[n, :n] = fit_intercept
    matrix[n, n] = not fit_intercept
    right[:n] = aim[active]
    found = np.linalg.solve(matrix, right)
    w, b = Z[active].T @ found[:n], found[n]
    return Z @ w + b, w, b


def without(cell, rows, share=1.0):
    """Return the plain solution without (a share of) some samples, their weights kept."""
    curvature = cell.curvature.copy()
    curvature[rows] *= 1 - share
    return solve_plainly(cell.made.Z, curvature, cell.aim, cell.fit_intercept)


def features_of(design, Z, coef):
    """Return the coefficients of features."""
    return coef if isinstance(design, FeatureSpaceDesign) else Z.T @ coef


def check(found, expected, digits):
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=0, atol=digits * scale)


def smooth(values):
    """Return a smooth function of values, and its derivatives."""
    phase = np.arange(values.size).reshape(values.shape)
    return float(np.sin(values + phase).sum()), np.cos(values + phase)


# ---- Solutions ---------------------------------------------------------------------------------


@of_everything
def test_solutions_are_those_of_a_bordered_system(cell):
    solved, made = cell.solved(), cell.made
    decision, w, b = solve_plainly(made.Z, cell.curvature, cell.aim, cell.fit_intercept)
    check(solved.decision, decision, cell.digits)
    check(solved.intercept, b, cell.digits)
    check(features_of(made.design, made.Z, solved.coef), w, cell.digits)
    check(solved.predict(cell.test()).decision, made.new @ w + b, cell.digits)


@of_everything
def test_solutions_are_those_of_the_loss(cell):
    solved = cell.solved()
    for k, point in enumerate(cell.points):
        check(solved.decision[:, k], point.decision + point.intercept, cell.digits)


@of_systems
def test_a_step_solves_the_newton_system(cell):
    check_steps(cell, cell.problem_of(cell.targets[-1], cell.made.design))


@every_backend
@with_and_without_intercept
@not_quadratic
def test_a_step_solves_the_newton_system_of_any_loss(backend, fit_intercept, loss):
    """Also where samples of no curvature pull, as far residuals of Huber's loss do."""
    cell = cell_of(backend, "python", fit_intercept, "uneven")
    design, target = cell.made.design, cell.targets[0]
    check_steps(cell, AdditiveProblem(loss, design, target, fit_intercept=fit_intercept))


def check_steps(cell, problem):
    made = cell.made
    rng = np.random.default_rng(1)
    Z = np.column_stack([made.Z, np.full(N_SAMPLES, float(cell.fit_intercept))])
    system = cell.of.system_over(made.design, fit_intercept=cell.fit_intercept)
    stiffness = 0.1 * cell.targets[0].weight
    for coef in (None, rng.normal(size=made.design.n_coef)):
        point = problem.point(coef, 0.2 * cell.fit_intercept)
        # Newton holds on to the curvature of samples that are at a kink.
        for curvature in (point.curvature, np.maximum(point.curvature, stiffness)):
            coef_step, intercept_step = system.step(point, curvature)
            found = np.append(features_of(made.design, made.Z, coef_step), intercept_step)
            hessian = (Z.T * curvature) @ Z + np.eye(len(found))
            hessian[-1, -1] -= cell.fit_intercept and curvature.any()
            gradient = np.append(features_of(made.design, made.Z, point.coef), 0.0)
            gradient -= Z.T @ point.pull
            check(found, np.linalg.solve(hessian, -gradient), 10 * cell.digits)


@of_systems
def test_a_system_that_moves_is_a_new_one(cell):
    """Few samples change sides, or many, or all of them leave."""
    made = cell.made
    rng = np.random.default_rng(2)
    few, many = cell.curvature.copy(), rng.uniform(0.1, 3.0, N_SAMPLES)
    few[:2] = 0.7, 0.0
    some = np.where(rng.random(N_SAMPLES) < 0.3, many, 0.0)
    system = cell.of.system_over(made.design, fit_intercept=cell.fit_intercept)
    aims = cell.aim, rng.normal(size=cell.aim.shape)
    for curvature in (cell.curvature, few, many, np.zeros(N_SAMPLES), some, few, cell.curvature):
        for aim in aims:
            number = system.number
            moved = system.move(curvature.copy(), aim.copy())
            assert moved is system
            assert system.number == number + 1
            decision, w, b = solve_plainly(made.Z, curvature, aim, cell.fit_intercept)
            check(system.decision, decision, cell.digits)
            check(system.intercept, b, cell.digits)
            check(features_of(made.design, made.Z, system.coef), w, cell.digits)
            np.testing.assert_array_equal(system.active, np.flatnonzero(curvature))
            check(system.left_out(), left_out_plainly(cell, curvature, aim), cell.digits)
            values = system.folds(FOLDS).decision
            for repeat, rows in list(FOLDS.models())[::3]:
                reduced = curvature.copy()
                reduced[rows] = 0.0
                if reduced.any():
                    expected = solve_plainly(made.Z, reduced, aim, cell.fit_intercept)[0][rows]
                    check(values[repeat, rows], expected, cell.digits)


def left_out_plainly(cell, curvature, aim, share=None):
    """Return the value of each sample for the model without (a share of) it."""
    share = np.ones(N_SAMPLES) if share is None else share
    out = solve_plainly(cell.made.Z, curvature, aim, cell.fit_intercept)[0]
    for i in np.flatnonzero(curvature):
        reduced = curvature.copy()
        reduced[i] *= 1 - share[i]
        if reduced.any() or not cell.fit_intercept:
            out[i] = solve_plainly(cell.made.Z, reduced, aim, cell.fit_intercept)[0][i]
    return out


# ---- Samples left out --------------------------------------------------------------------------


@of_everything
@pytest.mark.parametrize("shares", ["all", "some"])
def test_values_without_each_sample_are_those_of_models_without_it(cell, shares):
    share = None if shares == "all" else np.random.default_rng(3).uniform(0.1, 1.0, N_SAMPLES)
    expected = left_out_plainly(cell, cell.curvature, cell.aim, share)
    check(cell.solved().left_out(share), expected, cell.digits)


@of_everything
def test_values_without_each_fold_are_those_of_models_without_it(cell):
    """Of all samples of a fold, be they active or not, or of no weight."""
    solved = cell.solved()
    values = solved.folds(FOLDS).decision
    for repeat, rows in FOLDS.models():
        check(values[repeat, rows], without(cell, rows)[0][rows], cell.digits)
    others = Folds.stratified(np.zeros(N_SAMPLES, int), 3, 1, np.random.RandomState(1))
    values = solved.folds(others).decision
    for repeat, rows in others.models():
        check(values[repeat, rows], without(cell, rows)[0][rows], cell.digits)


@of_systems
def test_models_without_some_samples_are_those_of_plain_solutions(cell):
    made, system = cell.made, cell.solved()
    for rows in (np.array([3]), np.arange(0, N_SAMPLES, 3), np.array([], dtype=int)):
        _, w, b = without(cell, rows)
        coef, intercept = system.without(rows)
        check(features_of(made.design, made.Z, coef), w, cell.digits)
        check(intercept, b, cell.digits)


@of_systems
def test_influence_gives_every_model_without_a_sample_at_new_rows(cell):
    made, system = cell.made, cell.solved()
    new = made.coordinates(system.active)
    influence = system.influence(new)
    assert influence.shape == (len(made.new), system.active.size)
    whole = made.new @ features_of(made.design, made.Z, system.coef)
    check(influence @ cell.aim[system.active], whole + system.intercept, cell.digits)
    change, known = system.changes()
    assert known.all()
    for k in range(cell.aim.shape[1]):
        values = (whole + system.intercept)[:, k, None] - influence * change[:, k]
        for j, i in enumerate(system.active):
            _, w, b = without(cell, i)
            check(values[:, j], made.new @ w[:, k] + b[k], cell.digits)


@of_everything
def test_values_are_those_of_refits_where_the_active_set_holds(cell):
    """Of quadratic losses, everywhere."""
    solved = cell.solved()
    folds = solved.folds(FOLDS).decision
    for k, target in enumerate(cell.targets):
        for repeat, rows in list(FOLDS.models())[:3]:
            is_refit(cell, target, folds[repeat, rows, k], rows)
        n_held = 0
        for share in (1.0, 0.05):  # without little of a sample, most active sets hold
            left_out = solved.left_out(np.full(N_SAMPLES, share))[:, k]
            for i in np.flatnonzero(cell.curvature)[::3]:
                n_held += is_refit(cell, target, left_out[[i]], np.array([i]), share)
        assert n_held > 2


def is_refit(cell, target, values, rows, share=1.0):
    """Return whether the active set holds without samples; their values are those of a refit."""
    refit = solution_of(cell.problem_of(target).without(rows, share))
    kept = np.delete(np.arange(N_SAMPLES), rows)
    holds = np.array_equal(refit.curvature[kept], cell.curvature[kept])
    if share < 1:
        holds = holds and np.allclose(refit.curvature[rows], (1 - share) * cell.curvature[rows])
    if holds:
        check(values, (refit.decision + refit.intercept)[rows], cell.digits)
    else:
        assert cell.loss.constant_curvature is None
    return holds


DESIGNS = {
    "gram": lambda Z: GramDesign(Z @ Z.T),
    "dense": FeatureDesign,
    "csr": lambda Z: FeatureDesign(sp.csr_array(Z)),
    "wide-csr": lambda Z: FeatureDesign(sp.csr_array(np.pad(Z, [(0, 0), (0, 100)]))),
    "plain": PlainFeatures.of,
}


@pytest.mark.parametrize("name", [*DESIGNS, COMPILED])
@with_and_without_intercept
@pytest.mark.parametrize("loss", LOSSES[:2], ids=str)
def test_a_weight_is_a_repetition_of_samples_that_leave_one_at_a_time(name, fit_intercept, loss):
    X, y = two_classes(30, 3)
    count = np.random.default_rng(0).integers(1, 4, 30)
    rows = np.repeat(np.arange(30), count)

    def solved(Z, signs, weight):
        target = labels_target(signs, weight)
        if name == COMPILED:
            return Compiled(Z @ Z.T, [target], loss, fit_intercept)
        problem = AdditiveProblem(loss, DESIGNS[name](Z), target, fit_intercept=fit_intercept)
        return system_of(problem, solution_of(problem))

    once, repeated = solved(X, y, count), solved(X[rows], y[rows], np.ones(rows.size))
    check(once.decision[rows], repeated.decision, 1e-8)
    check(once.left_out(1 / count)[rows], repeated.left_out(), 1e-8)
    fold = np.arange(30, dtype=np.intc)[None] % 3
    values = [
        each.folds(Folds(f, 3)) for each, f in ((once, fold), (repeated, fold[:, rows].copy()))
    ]
    check(values[0].decision[:, rows], values[1].decision, 1e-8)
    slope = np.random.default_rng(1).normal(size=values[1].decision.shape)
    summed = np.zeros_like(values[0].decision)
    np.add.at(summed, (slice(None), rows), slope)
    by_aim = [each.derivatives(s).by_aim for each, s in zip(values, (summed, slope), strict=True)]
    of_repeated = np.zeros_like(by_aim[0])
    np.add.at(of_repeated, rows, by_aim[1])
    check(by_aim[0], of_repeated, 1e-8)


@of_systems
def test_support_vectors_alone_say_the_same_of_themselves_and_of_new_samples(cell):
    """A model file has no others: what it is asked comes from a system of these."""
    made, whole = cell.made, cell.solved()
    active = whole.active
    system = make_system(made.design.take(active), fit_intercept=cell.fit_intercept)
    system.move(cell.curvature[active], cell.aim[active])
    check(system.left_out(), whole.left_out()[active], cell.digits)
    new = made.coordinates(active)
    check(system.influence(new), whole.influence(new), cell.digits)


@every_backend
def test_backends_say_what_they_cost(backend):
    cell = cell_of(backend, "python", True, "uneven")
    system = cell.of.system_over(cell.made.design, fit_intercept=True)
    assert 0 < system.operations < np.inf
    assert 0 < system.n_bytes < np.inf


@pytest.mark.parametrize("shift", [0.5, 1e9])
def test_indefinite_matrices_fail_by_a_type_of_their_own(shift):
    cell = cell_of("gram", "python", True, "uneven")
    K = cell.made.design.K - shift * np.eye(N_SAMPLES)
    system = SampleSystem(GramDesign(K), fit_intercept=True)
    with pytest.raises(IndefiniteError, match="positive semi-definite"):
        system.move(100.0 * cell.curvature, cell.aim)


# ---- Where nothing is left ---------------------------------------------------------------------


@every_backend
@with_and_without_intercept
@pytest.mark.parametrize("active", [[], [5], [2, 5, 8]], ids=["none", "alone", "one fold"])
def test_what_leaves_no_model_behind_is_the_same_everywhere(backend, fit_intercept, active):
    """All active samples are in one fold: what remains of the model is its intercept."""
    curvature = np.zeros(N_SAMPLES)
    curvature[active] = np.array([1.0, 2.0, 0.5])[: len(active)]
    fold = np.arange(N_SAMPLES, dtype=np.intc)[None] % 3
    fold = np.where(fold == 2, 1, fold) if len(active) == 1 else fold
    cell = cell_of(backend, "three outputs", fit_intercept, "uneven")
    made, share = cell.made, np.full(N_SAMPLES, 0.5)
    system, plain = (
        made_of(design, fit_intercept=fit_intercept).move(curvature, cell.aim)
        for made_of, design in (
            (cell.of.system_over, made.design),
            (SampleSystem, GramDesign(made.Z @ made.Z.T)),
        )
    )
    for ask in (
        lambda each: each.decision,
        lambda each: each.left_out(),
        lambda each: each.left_out(share),
        lambda each: each.changes()[1],
        lambda each: each.folds(Folds(fold, 3)).decision,
        lambda each: each.without(np.array(active, dtype=int))[1],
        lambda each: each.folds(Folds(fold, 3)).derivatives(np.ones((1, *cell.aim.shape))).by_aim,
    ):
        found, expected = ask(system), ask(plain)
        assert np.isfinite(expected).all()
        check(found, expected, cell.digits)
    if active and fit_intercept:
        values = system.folds(Folds(fold, 3)).decision
        gone = fold[0] == fold[0, active[0]]
        check(values[0, gone], np.tile(system.intercept, (gone.sum(), 1)), cell.digits)
    if not fit_intercept:  # there is a model without any sample: zero
        check(system.left_out()[active[:1]] * (len(active) == 1), 0.0, cell.digits)
        check(system.without(np.array(active, dtype=int))[0], 0.0, cell.digits)


@with_and_without_intercept
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n_samples", [1, 2, 7])
def test_a_fold_of_all_samples_leaves_the_intercept_of_compiled_problems(
    fit_intercept, seed, n_samples
):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 3))
    target = labels_target(rng.choice([-1.0, 1.0], n_samples), rng.uniform(0.5, 2.0, n_samples))
    folds = Folds(np.zeros((1, n_samples), dtype=np.intc), 2)
    for loss in LOSSES:
        solved = Compiled(np.exp(X @ X.T / 3), [target], loss, fit_intercept)
        values = solved.folds(folds)
        expected = solved.intercept[0] if fit_intercept else 0.0
        check(values.decision, expected, 1e-8)
        adjoint = values.derivatives(np.ones((1, n_samples, 1)))
        assert np.isfinite(adjoint.by_aim).all()
        if n_samples == 1:
            check(solved.left_out()[0, 0], expected, 1e-8)


# ---- Derivatives -------------------------------------------------------------------------------

STEP = 1e-5


def check_adjoint(cell, ask, needs=()):
    """Compare an adjoint with central differences by aims, curvatures and kernel values.

    By these where they can be moved, among them those that are needed.
    """
    rng = np.random.default_rng(4)
    active = cell.curvature[:, None] > 0
    by_aim = rng.normal(size=cell.aim.shape) * active
    by_log = rng.normal(size=(N_SAMPLES, 1)) * active

    def difference(**change):
        ends = [
            smooth(ask({name: sign * STEP * by for name, by in change.items()}).decision)[0]
            for sign in (1, -1)
        ]
        return (ends[0] - ends[1]) / (2 * STEP)

    values = ask({})
    adjoint = values.derivatives(smooth(values.decision)[1])
    assert not adjoint.by_aim[~active[:, 0]].any()
    assert not adjoint.by_log_curvature[~active[:, 0]].any()
    found = [
        np.vdot(adjoint.by_aim, by_aim),
        np.vdot(adjoint.by_log_curvature, by_log * np.ones_like(by_aim)),
    ]
    expected = [difference(by_aim=by_aim), difference(by_log=by_log)]
    slopes = cell.made.slopes
    if slopes and set(needs) <= slopes.keys():
        found.append(sum(form.contract(slopes[form.of]) for form in adjoint.forms))
        expected.append(difference(move=1.0))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(found).max())


@in_double_precision
def test_adjoints_of_folds_are_those_of_finite_differences(cell):
    check_adjoint(cell, lambda change: cell.solved(**change).folds(FOLDS))


@in_double_precision
def test_adjoints_of_new_samples_are_those_of_finite_differences(cell):
    def ask(change):
        return cell.solved(**change).predict(cell.test(change.get("move", 0.0)))

    check_adjoint(cell, ask, needs=["test"])


@pytest.mark.parametrize("problem", LOSS_OF)
@pytest.mark.parametrize("ask", ["folds", "predict"])
def test_adjoints_of_single_precision_are_those_of_double(problem, ask):
    found = []
    for backend in ("plain-float32", "plain-float64"):
        cell = cell_of(backend, problem, True, "uneven")
        of = FOLDS if ask == "folds" else cell.test()
        values = getattr(cell.solved(), ask)(of)
        found.append(values.derivatives(smooth(values.decision)[1]))
    check(found[0].by_aim, found[1].by_aim, 2e-3)
    check(found[0].by_log_curvature, found[1].by_log_curvature, 2e-3)


@every_backend
def test_a_system_that_moved_refuses_to_differentiate_what_it_was(backend):
    cell = cell_of(backend, "python", True, "uneven")
    system = cell.solved()
    asked = [system.folds(FOLDS), system.predict(cell.test())]
    slopes = [np.ones_like(values.decision) for values in asked]
    before = [values.derivatives(s).by_aim for values, s in zip(asked, slopes, strict=True)]
    for values, slope, expected in zip(asked, slopes, before, strict=True):
        np.testing.assert_array_equal(values.derivatives(slope).by_aim, expected)
    system.move(0.5 * cell.curvature, cell.aim)
    for values, slope in zip(asked, slopes, strict=True):
        with pytest.raises(OutlivedError, match="moved"):
            values.derivatives(slope)


@every_backend
@pytest.mark.parametrize("asked", [False, True])
def test_a_step_from_elsewhere_spoils_no_answer(backend, asked):
    """Answers are refused or those of the move, whether they were asked for before or not."""
    cell = cell_of(backend, "python", True, "uneven")
    made, target = cell.made, cell.targets[0]
    rows = np.arange(0, N_SAMPLES, 3)

    def questions(system):
        values = system.folds(FOLDS) if asked else None
        return [
            lambda: system.folds(FOLDS).decision,
            lambda: (values or system.folds(FOLDS)).derivatives(np.ones((2, N_SAMPLES, 1))).by_aim,
            lambda: system.left_out(),
            lambda: system.without(rows)[0],
            lambda: system.predict(cell.test()).derivatives(np.ones((5, 1))).by_aim,
        ]

    expected = [ask() for ask in questions(cell.solved())]
    system = cell.solved()
    later = questions(system)
    point = cell.problem_of(target, made.design).point()
    system.step(point, point.curvature)
    for ask, before in zip(later, expected, strict=True):
        try:
            found = ask()
        except OutlivedError:
            continue
        check(found, before, cell.digits)


# ---- Losses that are not piecewise quadratic ---------------------------------------------------


@every_backend
@with_and_without_intercept
@not_quadratic
def test_newton_converges_for_losses_without_closed_form(backend, fit_intercept, loss):
    cell = cell_of(backend, "python", fit_intercept, "uneven")
    made, target = cell.made, cell.targets[0]
    problem = AdditiveProblem(loss, made.design, target, fit_intercept=fit_intercept)
    system = cell.of.system_over(made.design, fit_intercept=fit_intercept)
    tol = 1e-12 if cell.digits < 1e-6 else 1e-6
    solution = Newton(tol=tol, max_iter=50).solve_with(system, problem)
    assert solution.dual_gap <= tol
    plain = AdditiveProblem(loss, FeatureDesign(made.Z), target, fit_intercept=fit_intercept)
    best = Newton(tol=1e-12, max_iter=50).solve(plain)
    assert solution.objective == pytest.approx(best.objective, rel=1e-6)


@every_backend
@not_quadratic
def test_losses_without_closed_form_have_no_held_out_values(backend, loss):
    cell = cell_of(backend, "python", True, "uneven")
    problem = AdditiveProblem(loss, cell.made.design, cell.targets[0], fit_intercept=True)
    point = problem.point()
    with pytest.raises(TypeError, match="no closed form"):
        system_of(problem, point)
